//! Reports clients whose use of a quota reaches a threshold of its policy: an event, a count for metrics, and the latest
//! ones for the admin port.
//!
//! A client that stays at a threshold is not reported again until its quota could be whole, as far as is remembered.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Clock, Micros, Timestamp};
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::limiter::{ReachedThreshold, ThresholdObserver};
use crate::logging::NAMES_CLIENTS;
use crate::metrics::Metrics;
use crate::snapshot::Threshold;

/// The notifications of a process.
#[derive(Debug)]
pub(crate) struct Notifications {
    clock: Clock,
    metrics: Arc<Metrics>,
    state: Mutex<NotificationState>,
}

/// The report that a client's use of a quota has reached a threshold.
#[derive(Clone, Debug)]
pub(crate) struct Notification {
    pub(crate) at: Timestamp,
    pub(crate) threshold: Threshold,
    /// The policy's name.
    pub(crate) policy: Arc<str>,
    /// The quota, as the log names it.
    pub(crate) quota: Box<str>,
    pub(crate) client: PartitionId,
    /// How the client is shown.
    pub(crate) name: Box<str>,
    /// Units of the quota that are left.
    pub(crate) remaining: u64,
    /// Units that the quota can hold.
    pub(crate) limit: u64,
}

#[derive(Debug, Default)]
struct NotificationState {
    /// Until when a client is not reported again. When `young` is full, it becomes `old`, and what was old is forgotten.
    young: ReachedClients,
    old: ReachedClients,
    /// The latest notifications, the oldest first.
    latest: VecDeque<Arc<Notification>>,
    /// The second of the latest notification, and how many there were in it.
    lines: (u64, u32),
}

type ReachedClients = HashMap<(SeriesId, PartitionId, Threshold), Timestamp>;

impl Notifications {
    /// Begins with no notifications.
    pub(crate) fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            clock,
            metrics,
            state: Mutex::default(),
        }
    }

    /// Returns the latest notifications, the newest first.
    pub(crate) fn latest(&self) -> Vec<Arc<Notification>> {
        self.lock().latest.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, NotificationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThresholdObserver for Notifications {
    fn reached(&self, reached: &ReachedThreshold<'_>) {
        let (now, check) = (self.clock.now(), reached.check);
        let key = (check.series_id, check.partition_id, reached.threshold);
        // For units in flight, a decision does not say when all will be free.
        let until = now + reached.decision.reset.max(AGAIN_AFTER_MIN);
        if !self.lock().is_news(key, now, until) {
            return;
        }
        let policy = &reached.policy.name;
        self.metrics.notified(policy, reached.threshold.percent());
        let notification = Arc::new(Notification {
            at: now,
            threshold: reached.threshold,
            policy: Arc::clone(policy),
            quota: reached.quota.log_name.clone(),
            client: check.partition_id,
            name: reached.name.to_string().into(),
            remaining: reached.decision.remaining,
            limit: check.quota.capacity(),
        });
        if self.lock().keep(&notification) {
            notification.log();
        }
    }
}

impl NotificationState {
    /// Says whether it is news at `now` that a client has reached a threshold; until `until`, it no longer is.
    fn is_news(
        &mut self,
        key: (SeriesId, PartitionId, Threshold),
        now: Timestamp,
        until: Timestamp,
    ) -> bool {
        let known = self.old.remove(&key).max(self.young.insert(key, until));
        if self.young.len() >= CLIENTS_MAX / 2 {
            self.old = mem::take(&mut self.young);
        }
        known.is_none_or(|until| until <= now)
    }

    /// Keeps a notification as one of the latest; says whether a line may be written about it.
    fn keep(&mut self, notification: &Arc<Notification>) -> bool {
        self.latest.push_back(Arc::clone(notification));
        if self.latest.len() > LATEST_MAX {
            self.latest.pop_front();
        }
        let second = notification.at.0 / 1_000_000;
        let (last, lines) = &mut self.lines;
        if mem::replace(last, second) != second {
            *lines = 0;
        }
        *lines += 1;
        *lines <= LINES_PER_SECOND
    }
}

impl Notification {
    fn log(&self) {
        tracing::info!(
            target: NAMES_CLIENTS,
            policy = &*self.policy,
            quota = &*self.quota,
            client = &*self.name,
            threshold_percent = self.threshold.percent(),
            remaining = self.remaining,
            limit = self.limit,
            "a client has reached a threshold of its quota"
        );
    }
}

/// Most combinations of client, quota and threshold that are remembered.
const CLIENTS_MAX: usize = 20_000;
/// Least time until a client is reported again.
const AGAIN_AFTER_MIN: Micros = Micros::from_secs(60);
/// Most notifications that are kept for the admin port.
const LATEST_MAX: usize = 100;
/// Most lines in a second; further notifications are counted and kept, but not logged.
const LINES_PER_SECOND: u32 = 100;
