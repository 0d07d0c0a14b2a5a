//! Telling Redis how many units in flight this gateway holds: when requests end, and all of it every few seconds.
//!
//! What is told is the number as it is when it is sent, so it may be told again, and one call tells what many requests
//! changed. What cannot be told is told a second later, by whichever worker looks for it then; what is never told ends
//! with the gateway's lease.

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

/// Whose numbers a worker is to announce.
#[derive(Debug, Default)]
pub(super) struct AnnouncementQueue {
    /// Because requests have ended, at most [`ANNOUNCEMENTS_MAX`].
    due: RefCell<HashSet<QuotaKey>>,
    /// Because they have not been announced lately: no more than hold units, or were missed.
    overdue: RefCell<Vec<QuotaKey>>,
    /// How many batches have no answer yet.
    sending: Cell<usize>,
    filled: Notify,
    /// Notified when one has.
    answered: Notify,
    /// When an announcement that a server cannot take is logged again.
    log: Turn,
}

impl AnnouncementQueue {
    /// Has a client's number announced at once; if too many are, when it is overdue.
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

    /// Takes units of an ended request out of a client's number, and has that announced.
    pub(super) fn end(&self, remote: &Remote, key: QuotaKey, units: u64) {
        let store = remote.store();
        store.holdings.end(key, units, store.clock.now());
        self.announce(remote, key);
    }

    /// Has announced what is overdue. To be called several times a second.
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

    /// Announces what is to be announced as long as the worker's session lives.
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

    /// Waits until all has been announced that is to be, by whichever worker; returns for how many clients it has not
    /// after `timeout`.
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

    /// Makes one call.
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
                        // Newer asks were faster, on another connection.
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

    /// Says that a server could not take a number, at most once in [`LOG_EVERY`].
    fn log_failed(&self, remote: &Remote, error: &CallError) {
        if self.log.take(remote.store().clock.steady(), LOG_EVERY) {
            tracing::warn!(%error, "Redis cannot note how many units in flight a client's requests hold");
        }
    }

    /// Takes whose numbers are announced next.
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

/// A client whose number is announced, until that is answered or given up.
struct AnnouncedKey<'h> {
    holdings: &'h Holdings,
    key: QuotaKey,
}

impl Drop for AnnouncedKey<'_> {
    fn drop(&mut self) {
        self.holdings.announced(self.key);
    }
}

/// Most clients of a worker whose numbers wait to be announced because requests have ended.
const ANNOUNCEMENTS_MAX: usize = 4_096;
/// Most clients of a batch, which is one call; on a Cluster one for each client. A call of so many takes Redis some
/// 0.3 ms; decisions wait behind it no longer.
const BATCH_MAX: usize = 64;
/// Most batches of a worker under way. What ends meanwhile waits, and is fewer calls.
const BATCHES_MAX: usize = 4;
/// How often it is tried in the end to announce what could not be announced.
const RETRY_EVERY: Duration = Duration::from_millis(50);
