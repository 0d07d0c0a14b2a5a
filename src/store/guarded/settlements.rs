//! Settling what was charged: in this node's memory, and in Redis with one call per slot.
//!
//! Often it turns out where nothing can wait, such as in a drop, that a charge is to come back. So it
//! can be put into a queue, which a task of the worker works off.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::counters::Unanswered;
use super::remote::Remote;
use crate::store::charge::{Charge, ChargeEntry, Keeper};
use crate::store::redis::wire::{Settlement, SettlementStep};

/// Charges that are to come back, at most [`SETTLEMENTS_MAX`]. What does not fit stays spent.
#[derive(Debug, Default)]
pub(super) struct SettlementQueue {
    due: RefCell<VecDeque<(Charge, u64)>>,
    filled: Notify,
}

impl SettlementQueue {
    /// Gives back up to `amount` units of every quota that was charged: at once in this node's memory,
    /// in Redis when it is the charge's turn.
    pub(super) fn release(&self, remote: &Remote, charge: Charge, amount: u64) {
        let (here, there) = split(charge);
        drop(remote.store().memory.release(here, amount));
        if there.iter().all(|entry| entry.charged.is_none()) {
            return;
        }
        let mut due = self.due.borrow_mut();
        if due.len() >= SETTLEMENTS_MAX {
            remote.counters().settlement_dropped();
            return;
        }
        due.push_back((Charge { entries: there }, amount));
        self.filled.notify_one();
    }

    /// Works the queue off as long as the worker's session lives.
    pub(super) async fn attend(self: Rc<Self>, remote: Weak<Remote>) {
        loop {
            self.filled.notified().await;
            let Some(remote) = remote.upgrade() else {
                return;
            };
            loop {
                let due = self.take();
                if due.is_empty() {
                    break;
                }
                let releasing = due.into_iter();
                let releasing = releasing.map(|(charge, amount)| release(&remote, charge, amount));
                join_all(releasing).await;
            }
        }
    }

    /// Takes the charges that are settled next, at the same time.
    fn take(&self) -> Vec<(Charge, u64)> {
        let mut due = self.due.borrow_mut();
        let count = due.len().min(SETTLED_TOGETHER_MAX);
        due.drain(..count).collect()
    }
}

/// Whether Redis may know of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// Nothing was sent.
    Unsent,
    /// It was sent, whether or not an answer came.
    Sent,
}

/// Gives back up to `amount` units of every quota that was charged; returns what still stands.
///
/// What may have come back is not given back again.
pub(super) async fn release(remote: &Remote, charge: Charge, amount: u64) -> Charge {
    let (here, mut there) = split(charge);
    let mut charge = remote.store().memory.release(here, amount);
    let step = |entry: &ChargeEntry| {
        let charged = entry.charged?;
        let amount = amount.min(charged.amount);
        Some(SettlementStep::Release { charged, amount })
    };
    let settled = settle(remote, &there, step).await;
    for (entry, settled) in there.iter_mut().zip(settled) {
        let Some(charged) = entry
            .charged
            .as_mut()
            .filter(|_| settled != Settled::Unsent)
        else {
            continue;
        };
        charged.amount = charged.amount.saturating_sub(amount);
        entry.charged = entry.charged.filter(|charged| charged.amount > 0);
    }
    charge.entries.extend(there);
    charge
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
        if !matches!(result, Err(Unanswered::Unasked | Unanswered::Unsent)) {
            for &index in group {
                settled[index] = Settled::Sent;
            }
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
