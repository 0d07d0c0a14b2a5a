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
use tokio::time::{MissedTickBehavior, interval, sleep};

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
    /// How many were taken and have no answer yet.
    under_way: Cell<usize>,
    filled: Notify,
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
            if due.is_empty() {
                return;
            }
            let now = remote.store().clock.now();
            self.under_way.set(due.len());
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
            self.under_way.set(0);
        }
    }

    /// Waits until all that is due has been sent and answered, for at most `patience`.
    pub(super) async fn finish(&self, timeout: Duration) {
        let finishing = async {
            while self.under_way.get() > 0 || !self.due.borrow().is_empty() {
                sleep(FINISH_EVERY).await;
            }
        };
        // What cannot be sent now stays spent.
        let _ = tokio::time::timeout(timeout, finishing).await;
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
        let settled = settle(remote, &self.entries, release_step(self.amount)).await;
        let mut settled = settled.into_iter();
        (self.entries).retain(|_| settled.next() == Some(Settled::Unsent));
        self
    }
}

/// Whether Redis may know of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// Nothing was executed.
    Unsent,
    /// It was sent, and was or may have been executed.
    Sent,
}

/// Gives back up to `amount` units of every quota that was charged; returns what still stands.
///
/// What may have come back is not given back again.
pub(super) async fn release(remote: &Remote, charge: Charge, amount: u64) -> Charge {
    let (here, mut there) = split(charge);
    let mut charge = remote.store().memory.release(here, amount);
    let settled = settle(remote, &there, release_step(amount)).await;
    for (entry, settled) in there.iter_mut().zip(settled) {
        if let Some(charged) = entry.charged.as_mut()
            && settled == Settled::Sent
        {
            charged.amount = charged.amount.saturating_sub(amount);
            entry.charged = entry.charged.filter(|charged| charged.amount > 0);
        }
    }
    charge.entries.extend(there);
    charge
}

/// Returns the step that gives back up to `amount` of an entry, if it was charged.
fn release_step(amount: u64) -> impl Fn(&ChargeEntry) -> Option<SettlementStep> {
    move |entry| {
        let charged = entry.charged?;
        let amount = amount.min(charged.amount);
        Some(SettlementStep::Release { charged, amount })
    }
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
        match result {
            Ok(()) | Err(Unanswered::BadKey) => {}
            Err(Unanswered::Late | Unanswered::Disconnected) => {
                remote.counters().settlement_dropped();
            }
            // Nothing was executed.
            Err(_) => continue,
        }
        for &index in group {
            let entry = &entries[index];
            settled[index] = Settled::Sent;
            // Units may have come back, so it may admit again.
            let now = remote.store().clock.now();
            (remote.store().refusals).given_back(entry.series_id, entry.partition_id, now);
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
/// How often a worker that ends looks whether its charges are given back.
const FINISH_EVERY: Duration = Duration::from_millis(1);
/// How often it is tried to send what could not be sent.
const RETRY_EVERY: Duration = Duration::from_millis(250);
