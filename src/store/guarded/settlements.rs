//! Settling what was charged: in this node's memory, and in Redis with one call per slot.
//!
//! Often it turns out where nothing can wait, such as in a drop, that a charge is to come back. So it
//! can be put into a queue, which a task of the worker works off. What cannot be sent waits there until
//! it can, or until the charge has aged out by itself. What was sent and got no answer is never sent
//! again: Redis may have executed it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::counters::Unanswered;
use super::remote::Remote;
use crate::clock::{Micros, Timestamp};
use crate::limit::{Algorithm, Quota};
use crate::store::charge::{Charge, ChargeEntry, Keeper};
use crate::store::redis::wire::{Settlement, SettlementStep};

/// Charges that are to come back, at most [`SETTLEMENTS_MAX`]. What does not fit stays spent.
#[derive(Debug, Default)]
pub(super) struct SettlementQueue {
    due: RefCell<VecDeque<Release>>,
    /// What could not be sent, until the next attempt.
    unsent: RefCell<Vec<Release>>,
    /// Whether some were taken and have no answer yet.
    is_sending: Cell<bool>,
    filled: Notify,
    /// Notified when all that was due has been sent and answered.
    emptied: Notify,
}

/// What is to come back from Redis.
#[derive(Debug)]
struct Release {
    entries: SmallVec<[ChargeEntry; 2]>,
    amount: u64,
}

impl SettlementQueue {
    /// Gives back up to `amount` units of every quota that was charged: at once in this node's memory,
    /// in Redis when it is the charge's turn.
    pub(super) fn release(&self, remote: &Remote, charge: Charge, amount: u64) {
        let (here, there) = split(charge);
        drop(remote.store().memory.release(here, amount));
        let is_charged = |entry: &ChargeEntry| entry.charged.is_some();
        let entries: SmallVec<_> = there.into_iter().filter(is_charged).collect();
        if entries.is_empty() {
            return;
        }
        if self.len() >= SETTLEMENTS_MAX {
            remote.counters().settlement_dropped();
            return;
        }
        self.due.borrow_mut().push_back(Release { entries, amount });
        self.filled.notify_one();
    }

    /// Works the queue off as long as the worker's session lives.
    pub(super) async fn attend(self: Rc<Self>, remote: Weak<Remote>) {
        let mut retry = interval(RETRY_EVERY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_waiting = !self.unsent.borrow().is_empty();
            tokio::select! {
                () = self.filled.notified() => {}
                _ = retry.tick(), if is_waiting => {
                    let unsent = self.unsent.take();
                    self.due.borrow_mut().extend(unsent);
                }
            }
            let Some(remote) = remote.upgrade() else {
                return;
            };
            self.work_off(&remote).await;
        }
    }

    /// Sends what is due. What cannot be sent and still counts is kept for the next attempt.
    async fn work_off(&self, remote: &Remote) {
        loop {
            let due = self.take();
            self.is_sending.set(!due.is_empty());
            if due.is_empty() {
                return self.emptied.notify_waiters();
            }
            let now = remote.store().clock.now();
            let unsent = join_all(due.into_iter().map(|due| due.send(remote))).await;
            for mut unsent in unsent
                .into_iter()
                .filter(|unsent| !unsent.entries.is_empty())
            {
                unsent.entries.retain(|entry| counts(entry, now));
                if unsent.entries.is_empty() {
                    remote.counters().settlement_dropped();
                } else {
                    self.unsent.borrow_mut().push(unsent);
                }
            }
        }
    }

    /// Waits until all that is due has been sent and answered, for at most `timeout`. What cannot be sent
    /// by then stays spent.
    pub(super) async fn finish(&self, timeout: Duration) {
        if self.is_sending.get() || !self.due.borrow().is_empty() {
            let _ = tokio::time::timeout(timeout, self.emptied.notified()).await;
        }
    }

    /// Takes the charges that are settled next, at the same time.
    fn take(&self) -> Vec<Release> {
        let mut due = self.due.borrow_mut();
        let count = due.len().min(SETTLED_TOGETHER_MAX);
        due.drain(..count).collect()
    }

    fn len(&self) -> usize {
        self.due.borrow().len() + self.unsent.borrow().len()
    }
}

impl Release {
    /// Tells Redis; returns what could not be sent.
    async fn send(mut self, remote: &Remote) -> Self {
        let settled = give_back(remote, &self.entries, self.amount).await;
        if settled.contains(&Settled::Unanswered) {
            remote.counters().settlement_dropped();
        }
        let mut settled = settled.into_iter();
        (self.entries).retain(|_| settled.next() == Some(Settled::Unsent));
        self
    }
}

/// Whether Redis knows of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// Nothing was executed.
    Unsent,
    /// It may have been executed: no answer came.
    Unanswered,
    /// It was answered.
    Answered,
}

/// Gives back up to `amount` units of every quota that was charged; returns what still stands.
///
/// What may have come back is not given back again.
pub(super) async fn release(remote: &Remote, charge: Charge, amount: u64) -> Charge {
    let (here, mut there) = split(charge);
    let mut charge = remote.store().memory.release(here, amount);
    let settled = give_back(remote, &there, amount).await;
    for (entry, settled) in there.iter_mut().zip(settled) {
        if let Some(charged) = entry.charged.as_mut()
            && settled != Settled::Unsent
        {
            charged.amount = charged.amount.saturating_sub(amount);
            entry.charged = entry.charged.filter(|charged| charged.amount > 0);
        }
    }
    charge.entries.extend(there);
    charge
}

/// Gives back up to `amount` of each entry that was charged, and forgets that it refused.
async fn give_back(remote: &Remote, entries: &[ChargeEntry], amount: u64) -> Vec<Settled> {
    let step = |entry: &ChargeEntry| {
        let charged = entry.charged?;
        let amount = amount.min(charged.amount);
        Some(SettlementStep::Release { charged, amount })
    };
    let settled = settle(remote, entries, step).await;
    let store = remote.store();
    for (entry, settled) in entries.iter().zip(&settled) {
        if *settled != Settled::Unsent {
            let now = store.clock.now();
            (store.refusals).given_back(entry.series_id, entry.partition_id, now);
        }
    }
    settled
}

/// Says whether a charge may still count, so that giving it back makes a difference.
fn counts(entry: &ChargeEntry, now: Timestamp) -> bool {
    let lifetime = lifetime(&entry.quota);
    (entry.charged).is_some_and(|charged| now < charged.at + lifetime)
}

/// Returns how long a charge counts at most: a window and a bucket, or until a bucket is full again.
fn lifetime(quota: &Quota) -> Micros {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            Micros(quota.capacity() * quota.interval_us())
        }
        Algorithm::SlidingWindow { buckets, .. } => {
            Micros(quota.window.0 + quota.window.0 / u64::from(buckets))
        }
        Algorithm::FixedWindow | Algorithm::SlidingLog => quota.window,
    }
}

/// Spends `amount` more in every quota of the plan, without asking.
///
/// If Redis cannot be told in time, the units are not counted.
pub(super) async fn spend(remote: &Remote, charge: &Charge, amount: u64) {
    if amount == 0 {
        return;
    }
    let entries = charge.entries.clone();
    let (here, there) = split(Charge { entries });
    remote.store().memory.spend(&here, amount);
    let step = |_: &ChargeEntry| Some(SettlementStep::Spend(amount));
    drop(settle(remote, &there, step).await);
}

/// Settles entries that are in Redis; those of one slot share a call.
async fn settle(
    remote: &Remote,
    entries: &[ChargeEntry],
    step: impl Fn(&ChargeEntry) -> Option<SettlementStep>,
) -> Vec<Settled> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut settled = vec![Settled::Unsent; entries.len()];
    for (index, entry) in entries.iter().enumerate() {
        if step(entry).is_none() {
            continue;
        }
        let is_of = |group: &&mut Vec<usize>| {
            !remote.is_cross_slot(entries[group[0]].partition_id, entry.partition_id)
        };
        match groups.iter_mut().find(is_of) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let calls = groups.iter().map(async |group| {
        let settlements = group.iter().filter_map(|&index| {
            let entry = &entries[index];
            Some(Settlement {
                quota: &entry.quota,
                series_id: entry.series_id,
                partition_id: entry.partition_id,
                step: step(entry)?,
            })
        });
        let settlements: SmallVec<[Settlement<'_>; 4]> = settlements.collect();
        remote.settle(&settlements).await
    });
    for (group, result) in groups.iter().zip(join_all(calls).await) {
        let outcome = match result {
            Ok(()) | Err(Unanswered::BadKey) => Settled::Answered,
            Err(Unanswered::Late | Unanswered::Disconnected) => Settled::Unanswered,
            Err(_) => Settled::Unsent,
        };
        for &index in group {
            settled[index] = outcome;
        }
    }
    settled
}

/// Splits a charge by who keeps it: this node's memory, and Redis.
fn split(charge: Charge) -> (Charge, SmallVec<[ChargeEntry; 2]>) {
    let is_here = |entry: &ChargeEntry| entry.keeper != Keeper::Redis;
    let (here, there) = charge.entries.into_iter().partition(is_here);
    (Charge { entries: here }, there)
}

/// Most charges of a worker that wait to be given back. While Redis answers, that is some tens of
/// milliseconds of work.
const SETTLEMENTS_MAX: usize = 4_096;
/// Most charges that are given back at the same time, so that decisions need not wait behind them.
const SETTLED_TOGETHER_MAX: usize = 64;
/// How often it is tried to send what could not be sent.
const RETRY_EVERY: Duration = Duration::from_millis(250);
