//! Tells Redis how many units in flight this gateway holds for each client: when its requests end, and every few
//! seconds.
//!
//! An announcement has the number as it is when it is sent, so it may be repeated, and one call covers the changes of
//! many requests. One that fails is repeated about a second later, by the worker that searches for missed ones then. If
//! none succeeds, Redis forgets the number when the gateway's lease ends.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::holdings::Holdings;
use super::owned_plan::ANY_UNITS;
use super::quota_key::QuotaKey;
use super::remote::{LOG_EVERY, Remote};
use crate::clock::Turn;
use crate::store::redis::CallError;
use crate::store::redis::wire::{Settlement, SettlementStep};

/// Clients whose numbers a worker is to announce.
#[derive(Debug, Default)]
pub(super) struct AnnouncementQueue {
    /// Clients whose numbers have changed, mostly because requests have ended; at most [`ANNOUNCEMENTS_MAX`].
    due: RefCell<HashSet<QuotaKey>>,
    /// Clients whose numbers have not been announced lately, or could not be.
    overdue: RefCell<Vec<QuotaKey>>,
    /// Batches that have no answer yet.
    sending: Cell<usize>,
    filled: Notify,
    /// Notified when a batch has been answered.
    answered: Notify,
    /// Limits how often a failed announcement is logged.
    log: Turn,
}

impl AnnouncementQueue {
    /// Queues a client's number to be announced at once; if the queue is full, it is announced once it is found
    /// overdue.
    pub(super) fn announce(&self, remote: &Remote, key: QuotaKey) {
        let mut due = self.due.borrow_mut();
        if due.len() < ANNOUNCEMENTS_MAX {
            due.insert(key);
            self.filled.notify_one();
        } else if !due.contains(&key) {
            let store = remote.store();
            store.holdings.missed(key, store.clock.now());
        }
    }

    /// Subtracts the units of an ended request from a client's number, and queues the number to be announced.
    pub(super) fn end(&self, remote: &Remote, key: QuotaKey, units: u64) {
        let store = remote.store();
        store.holdings.end(key, units, store.clock.now());
        self.announce(remote, key);
    }

    /// Queues overdue numbers to be announced. To be called several times a second.
    pub(super) fn renew(&self, remote: &Remote) {
        let store = remote.store();
        let mut overdue = self.overdue.borrow_mut();
        if overdue.is_empty() {
            *overdue = store.holdings.overdue(store.clock.now());
            if !overdue.is_empty() {
                self.filled.notify_one();
            }
        }
    }

    /// Announces what is queued, for as long as the worker's session lives.
    pub(super) async fn attend(self: Rc<Self>, remote: Weak<Remote>) {
        let mut sending = FuturesUnordered::new();
        loop {
            let has_room = sending.len() < BATCHES_MAX;
            tokio::select! {
                () = self.filled.notified(), if has_room => {}
                Some(()) = sending.next() => {}
            }
            let Some(remote) = remote.upgrade() else {
                return;
            };
            while sending.len() < BATCHES_MAX {
                let keys = self.take();
                if keys.is_empty() {
                    break;
                }
                let (queue, remote) = (&self, Rc::clone(&remote));
                sending.push(async move { queue.send(&remote, &keys).await });
            }
            self.sending.set(sending.len());
            self.answered.notify_waiters();
        }
    }

    /// Waits, for at most `timeout`, until all numbers are announced that this worker has queued or that any worker
    /// failed to announce; returns how many are left (of those being sent, how many batches).
    pub(super) async fn finish(&self, remote: &Remote, timeout: Duration) -> usize {
        let store = remote.store();
        let waiting = || self.due.borrow().len() + self.overdue.borrow().len() + self.sending.get();
        let missed = || store.holdings.all_missed(store.clock.now());
        let announced = async {
            loop {
                while waiting() > 0 {
                    self.answered.notified().await;
                }
                let missed = missed();
                if missed.is_empty() {
                    return;
                }
                *self.overdue.borrow_mut() = missed;
                self.filled.notify_one();
                sleep(RETRY_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(timeout, announced).await;
        waiting() + missed().len()
    }

    /// Announces these clients' numbers as they are now.
    async fn send(&self, remote: &Remote, keys: &[QuotaKey]) {
        let mut calls: Vec<Vec<QuotaKey>> = Vec::new();
        for key in keys {
            let is_of = |call: &&mut Vec<QuotaKey>| {
                !remote.is_cross_slot(call[0].partition_id, key.partition_id)
            };
            match calls.iter_mut().find(is_of) {
                Some(call) => call.push(*key),
                None => calls.push(vec![*key]),
            }
        }
        join_all(calls.iter().map(|call| self.call(remote, call))).await;
    }

    /// Announces, in one call, the numbers of clients that are in one slot.
    async fn call(&self, remote: &Remote, keys: &[QuotaKey]) {
        let store = remote.store();
        let holdings = &store.holdings;
        let (mut announcing, mut announcements) = (Vec::new(), Vec::new());
        for key in keys {
            if let Some((units, sequence)) = holdings.announce(*key, store.clock.now()) {
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
        let answers = remote.announce_units(&announcements).await;
        let now = store.clock.now();
        let Ok(answers) = answers else {
            for AnnouncedKey { key, .. } in &announcing {
                holdings.missed(*key, now);
            }
            return;
        };
        for (AnnouncedKey { key, .. }, answer) in announcing.iter().zip(answers) {
            match answer {
                Ok(reply) => {
                    holdings.note(*key, reply, now);
                    if reply.is_outdated {
                        // A newer request for units reached Redis first, on another connection.
                        self.announce(remote, *key);
                    }
                }
                Err(error) => {
                    self.log_failed(remote, &error);
                    holdings.missed(*key, now);
                }
            }
        }
    }

    /// Logs that a server could not take a number, at most once in [`LOG_EVERY`].
    fn log_failed(&self, remote: &Remote, error: &CallError) {
        if self.log.take(remote.store().clock.steady(), LOG_EVERY) {
            tracing::warn!(%error, "Redis could not record a client's units in flight");
        }
    }

    /// Takes the clients whose numbers are announced next; at most [`BATCH_MAX`].
    fn take(&self) -> Vec<QuotaKey> {
        let (mut due, mut overdue) = (self.due.borrow_mut(), self.overdue.borrow_mut());
        let mut next: Vec<QuotaKey> = due.iter().copied().take(BATCH_MAX).collect();
        for key in &next {
            due.remove(key);
        }
        let room = overdue.len().min(BATCH_MAX - next.len());
        let rest = overdue.len() - room;
        next.extend(overdue.drain(rest..));
        next
    }
}

/// A client whose announcement is under way; dropped when that is answered or given up.
struct AnnouncedKey<'h> {
    holdings: &'h Holdings,
    key: QuotaKey,
}

impl Drop for AnnouncedKey<'_> {
    fn drop(&mut self) {
        self.holdings.announced(self.key);
    }
}

/// Most clients in a worker's queue of changed numbers.
const ANNOUNCEMENTS_MAX: usize = 4_096;
/// Most clients in a batch, which is one call, or on a Cluster one call per client. A call for this many takes Redis
/// about 0.3 ms, so it delays decisions no longer than that.
const BATCH_MAX: usize = 64;
/// Most batches of a worker under way. Numbers that change meanwhile wait, and so take fewer calls.
const BATCHES_MAX: usize = 4;
/// How long a worker that ends waits before it tries again to announce what could not be announced.
const RETRY_EVERY: Duration = Duration::from_millis(50);
