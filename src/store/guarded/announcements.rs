//! Telling Redis how many units in flight this gateway holds: when requests end, and all of it every few seconds.
//!
//! What is told is the number as it is when it is sent, so it may be told again, and one call tells what many requests
//! changed. What cannot be told is told again soon; what is never told ends with the gateway's lease.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::holdings::{HoldingKey, Holdings};
use super::owned_plan::ANY_UNITS;
use super::remote::Remote;
use crate::clock::{Micros, Timestamp};
use crate::store::redis::CallError;
use crate::store::redis::wire::{AnnouncementReply, Settlement, SettlementStep};

/// Whose numbers a worker is to announce: at most [`ANNOUNCEMENTS_MAX`], and those who hold any.
#[derive(Debug, Default)]
pub(super) struct AnnouncementQueue {
    due: RefCell<HashSet<HoldingKey>>,
    /// What could not be announced, until the next attempt.
    unsent: RefCell<HashSet<HoldingKey>>,
    /// How many batches have no answer yet.
    sending: Cell<usize>,
    filled: Notify,
    /// Notified when one has.
    answered: Notify,
    /// When the next announcement that a server cannot take is logged again.
    next_log: Cell<Timestamp>,
}

impl AnnouncementQueue {
    /// Has a client's number announced soon.
    ///
    /// If too many are due, it is not: it is announced with all others, or if it is 0, ends with the lease.
    pub(super) fn announce(&self, remote: &Remote, key: HoldingKey) {
        let mut due = self.due.borrow_mut();
        if due.len() < ANNOUNCEMENTS_MAX {
            due.insert(key);
            self.filled.notify_one();
        } else if !due.contains(&key) {
            remote.store().holdings.put_off(key);
            remote.counters().settlement_dropped();
        }
    }

    /// Takes units of an ended request out of a client's number, and has that announced.
    pub(super) fn end(&self, remote: &Remote, key: HoldingKey, units: u64) {
        remote.store().holdings.end(key, units);
        self.announce(remote, key);
    }

    /// Announces what is due as long as the worker's session lives.
    pub(super) async fn attend(self: Rc<Self>, remote: Weak<Remote>) {
        let mut sending = FuturesUnordered::new();
        let mut retry = interval(RETRY_EVERY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (is_waiting, has_room) = (
                !self.unsent.borrow().is_empty(),
                sending.len() < BATCHES_MAX,
            );
            tokio::select! {
                () = self.filled.notified(), if has_room => {}
                Some(failed) = sending.next() => self.unsent.borrow_mut().extend::<Vec<_>>(failed),
                _ = retry.tick(), if is_waiting => {
                    let unsent = self.unsent.take();
                    self.due.borrow_mut().extend(unsent);
                }
            }
            let Some(remote) = remote.upgrade() else {
                return;
            };
            while sending.len() < BATCHES_MAX && !self.due.borrow().is_empty() {
                let (queue, remote, keys) = (&self, Rc::clone(&remote), self.take());
                sending.push(async move { queue.send(&remote, &keys).await });
            }
            self.sending.set(sending.len());
            self.answered.notify_waiters();
        }
    }

    /// Has all that this gateway holds announced again.
    pub(super) fn renew(&self, remote: &Remote) {
        self.due.borrow_mut().extend(remote.store().holdings.keys());
        self.filled.notify_one();
    }

    /// Waits until all that is due has been announced; returns for how many clients it has not after `timeout`.
    pub(super) async fn finish(&self, timeout: Duration) -> usize {
        let left = || self.due.borrow().len() + self.unsent.borrow().len() + self.sending.get();
        let announced = async {
            while left() > 0 {
                self.answered.notified().await;
            }
        };
        let _ = tokio::time::timeout(timeout, announced).await;
        left()
    }

    /// Announces these clients' numbers as they are now; returns those that are to be announced again later.
    async fn send(&self, remote: &Remote, keys: &[HoldingKey]) -> Vec<HoldingKey> {
        let mut calls: Vec<Vec<HoldingKey>> = Vec::new();
        for key in keys {
            let is_of = |call: &&mut Vec<HoldingKey>| {
                call.len() < ENTRIES_PER_CALL_MAX
                    && !remote.is_cross_slot(call[0].partition_id, key.partition_id)
            };
            match calls.iter_mut().find(is_of) {
                Some(call) => call.push(*key),
                None => calls.push(vec![*key]),
            }
        }
        let failed = join_all(calls.iter().map(|call| self.call(remote, call))).await;
        failed.into_iter().flatten().collect()
    }

    /// Makes one call; returns what is to be announced again.
    async fn call(&self, remote: &Remote, keys: &[HoldingKey]) -> Vec<HoldingKey> {
        let holdings = &remote.store().holdings;
        let (mut announcing, mut announcements) = (Vec::new(), Vec::new());
        for key in keys {
            if let Some((units, sequence)) = holdings.announce(*key) {
                announcing.push(AnnouncedKey {
                    holdings,
                    key: *key,
                });
                announcements.push(Settlement {
                    quota: &ANY_UNITS,
                    series_id: key.series_id,
                    partition_id: key.partition_id,
                    step: SettlementStep::Announce {
                        gateway: holdings.gateway(),
                        units,
                        sequence,
                    },
                });
            }
        }
        let Ok(answers) = remote.announce_units(&announcements).await else {
            return announcing.iter().map(|announced| announced.key).collect();
        };
        let mut again = Vec::new();
        for (AnnouncedKey { key, .. }, answer) in announcing.iter().zip(answers) {
            match answer {
                Ok(AnnouncementReply { is_outdated, held }) => {
                    if let Some(held) = held {
                        holdings.note_held(*key, held);
                    }
                    if is_outdated {
                        // Newer asks were faster, on another connection.
                        self.announce(remote, *key);
                    }
                }
                Err(error) => {
                    self.log_failed(remote, &error);
                    if !error.is_of_the_plan() {
                        again.push(*key);
                    }
                }
            }
        }
        again
    }

    /// Says that a server could not take a number, at most once in [`LOG_EVERY`].
    fn log_failed(&self, remote: &Remote, error: &CallError) {
        let now = remote.store().clock.now();
        if now >= self.next_log.get() {
            self.next_log.set(now + LOG_EVERY);
            tracing::warn!(%error, "Redis cannot note how many units in flight a client's requests hold");
        }
    }

    /// Takes whose numbers are announced next.
    fn take(&self) -> Vec<HoldingKey> {
        let mut due = self.due.borrow_mut();
        let next: Vec<HoldingKey> = due.iter().copied().take(ANNOUNCED_TOGETHER_MAX).collect();
        for key in &next {
            due.remove(key);
        }
        next
    }
}

/// A client whose number is announced, until that is answered or given up.
struct AnnouncedKey<'h> {
    holdings: &'h Holdings,
    key: HoldingKey,
}

impl Drop for AnnouncedKey<'_> {
    fn drop(&mut self) {
        self.holdings.announced(self.key);
    }
}

/// Most clients of a worker whose numbers wait to be announced because requests end.
const ANNOUNCEMENTS_MAX: usize = 4_096;
/// Most batches of a worker that are announced at the same time. What ends meanwhile waits, and is fewer calls.
const BATCHES_MAX: usize = 8;
/// Most clients of a batch.
const ANNOUNCED_TOGETHER_MAX: usize = 256;
/// Most clients whose numbers one call announces. It takes Redis some 0.3 ms; decisions wait behind it no longer.
const ENTRIES_PER_CALL_MAX: usize = 64;
/// Least time between two lines about numbers that Redis cannot take.
const LOG_EVERY: Micros = Micros::from_secs(60);
/// How soon what could not be announced is announced again.
const RETRY_EVERY: Duration = Duration::from_millis(250);
