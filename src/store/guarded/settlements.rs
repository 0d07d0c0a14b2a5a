//! Settling what was charged: in this node's memory at once, in Redis with few calls, side by side.
//!
//! Often it turns out where nothing can wait, such as in a drop, that a charge is to come back or that
//! more was spent. So it is put into a queue, which a task of the worker works off. What cannot be sent
//! waits there until it can, or until it has aged out by itself. What was sent and got no answer is
//! never sent again: Redis may have executed it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem;
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use slab::Slab;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::announcements::AnnouncementQueue;
use super::call_metrics::Unanswered;
use super::quota_key::QuotaKey;
use super::remote::{LOG_EVERY, Remote};
use crate::clock::{Timestamp, Turn};
use crate::limit::Adjustment;
use crate::metrics::Refund;
use crate::store::charge::{Charge, Keeper, LateCharge, SettledEntry};
use crate::store::redis::CallError;
use crate::store::redis::wire::{Settlement, SettlementStep};

/// Charges that Redis is to settle, at most [`SETTLEMENTS_MAX`]. What does not fit stays as it is.
#[derive(Debug, Default)]
pub(super) struct SettlementQueue {
    due: RefCell<VecDeque<DueCharge>>,
    /// What could not be sent, until the next attempt.
    unsent: RefCell<Vec<DueCharge>>,
    /// How many were taken and have no answer yet.
    sending: Cell<usize>,
    /// What replies that nobody waits for say was charged, until they come; none: it comes back.
    late: RefCell<Slab<Option<Rc<LateCharge>>>>,
    /// Of units in flight Redis is told otherwise.
    pub(super) announcements: Rc<AnnouncementQueue>,
    filled: Notify,
    /// Notified when all that was due has been sent and answered, and when a late reply has come.
    emptied: Notify,
    /// When a charge that cannot be settled is logged again.
    log: Turn,
}

/// A reply that nobody waits for has not come yet.
pub(super) struct LateReply {
    settlements: Weak<SettlementQueue>,
    /// Its place among those.
    place: usize,
}

/// What Redis is to settle of one charge.
#[derive(Debug)]
struct DueCharge {
    entries: SmallVec<[SettledEntry; 2]>,
    /// Since when it is due.
    since: Timestamp,
    /// What counts as given back when all of it is settled; nothing once a part cannot be.
    refund: Refund,
}

impl SettlementQueue {
    /// Gives back and spends: at once in this node's memory, in Redis when it is the charge's turn. `refund`
    /// counts when all is done.
    pub(super) fn settle(
        &self,
        remote: &Remote,
        settled: SmallVec<[SettledEntry; 2]>,
        refund: Refund,
    ) {
        let is_here = |entry: &SettledEntry| entry.keeper == Keeper::Memory;
        let (here, mut entries): (SmallVec<[_; 2]>, SmallVec<[SettledEntry; 2]>) =
            settled.into_iter().partition(is_here);
        if !here.is_empty() {
            remote.store().memory.settle(&here);
        }
        entries.retain(|entry| !self.ends(remote, entry) && !is_followed(remote, entry));
        if entries.is_empty() {
            return refund.count();
        }
        if self.len() >= SETTLEMENTS_MAX {
            remote.metrics().settlement_dropped();
            return;
        }
        let since = remote.store().clock.now();
        let due = DueCharge {
            entries,
            since,
            refund,
        };
        self.due.borrow_mut().push_back(due);
        self.filled.notify_one();
    }

    /// Gives units in flight back; says whether the entry is of such.
    fn ends(&self, remote: &Remote, entry: &SettledEntry) -> bool {
        if let (true, Adjustment::GiveBack(units)) = (entry.quota.is_in_flight(), entry.adjustment)
        {
            let key = QuotaKey {
                series_id: entry.series_id,
                partition_id: entry.partition_id,
            };
            self.announcements.end(remote, key, units);
        }
        entry.quota.is_in_flight()
    }

    /// Gives back all of a charge.
    pub(super) fn give_back(&self, remote: &Remote, mut charge: Charge) {
        let all = charge.settle(|_| Adjustment::GiveBack(u64::MAX));
        self.settle(remote, all, Refund::default());
    }

    /// Notes that a reply is to come: of a charge that is settled as its request is, or that comes back.
    pub(super) fn await_late(self: &Rc<Self>, charge: Option<&Rc<LateCharge>>) -> LateReply {
        LateReply {
            settlements: Rc::downgrade(self),
            place: self.late.borrow_mut().insert(charge.cloned()),
        }
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
            self.sending.set(due.len());
            if due.is_empty() {
                return self.emptied.notify_waiters();
            }
            let now = remote.store().clock.now();
            for mut unsent in self.send(remote, due).await {
                let waited = now.since(unsent.since);
                let entries = unsent.entries.len();
                (unsent.entries).retain(|entry| waited < entry.quota.counts_for());
                if unsent.entries.len() < entries {
                    unsent.refund = Refund::default();
                }
                if unsent.entries.is_empty() {
                    remote.metrics().settlement_dropped();
                } else {
                    self.unsent.borrow_mut().push(unsent);
                }
            }
        }
    }

    /// Tells Redis; returns what could not be sent.
    async fn send(&self, remote: &Remote, mut due: Vec<DueCharge>) -> Vec<DueCharge> {
        for charge in &mut due {
            let entries = charge.entries.len();
            (charge.entries).retain(|entry| !remote.store().resets.forbid(entry));
            if charge.entries.len() < entries {
                charge.refund = Refund::default();
            }
        }
        let calls = calls(remote, &due);
        let answers = join_all(calls.iter().map(|call| settle(remote, call))).await;
        let mut is_lost = vec![false; due.len()];
        let unsent = due.into_iter().map(|charge| DueCharge {
            entries: SmallVec::new(),
            ..charge
        });
        let mut unsent: Vec<DueCharge> = unsent.collect();
        for (call, answer) in calls.into_iter().zip(answers) {
            let is_lost_whole = matches!(
                answer,
                Err(Unanswered::Late | Unanswered::Disconnected | Unanswered::BadKey)
            );
            let is_sent = is_lost_whole || answer.is_ok();
            for (index, error) in answer.into_iter().flatten() {
                is_lost[call[index].0] = true;
                self.log_failed(remote, &error);
            }
            for (charge, entry) in call {
                is_lost[charge] |= is_lost_whole;
                if is_sent {
                    forget_refusal(remote, &entry);
                } else {
                    unsent[charge].entries.push(entry);
                }
            }
        }
        for (charge, is_lost) in unsent.iter_mut().zip(is_lost) {
            let refund = &mut charge.refund;
            if is_lost {
                remote.metrics().settlement_dropped();
                *refund = Refund::default();
            } else if charge.entries.is_empty() {
                mem::take(refund).count();
            }
        }
        unsent.retain(|charge| !charge.entries.is_empty());
        unsent
    }

    /// Says that a server could not settle a charge, at most once in [`LOG_EVERY`].
    fn log_failed(&self, remote: &Remote, error: &CallError) {
        if self.log.take(remote.store().clock.steady(), LOG_EVERY) {
            tracing::warn!(%error, "Redis cannot correct a charge, so the original charge stays");
        }
    }

    /// Waits until all that is due has been sent and answered, and all that late replies may add to it, for at
    /// most `timeout`. Returns how many charges have not been settled by then, and stay as they are.
    pub(super) async fn finish(&self, timeout: Duration) -> usize {
        let left = || self.len() + self.sending.get() + self.due_later();
        let settled = async {
            while left() > 0 {
                self.emptied.notified().await;
            }
        };
        let _ = tokio::time::timeout(timeout, settled).await;
        left()
    }

    /// Takes the charges that are settled next, at the same time.
    fn take(&self) -> Vec<DueCharge> {
        let mut due = self.due.borrow_mut();
        let count = due.len().min(SETTLED_TOGETHER_MAX);
        due.drain(..count).collect()
    }

    fn len(&self) -> usize {
        self.due.borrow().len() + self.unsent.borrow().len()
    }

    /// Counts the charges that are due as soon as their replies come, if they were charged.
    fn due_later(&self) -> usize {
        let late = self.late.borrow();
        let is_due = |charge: &Option<Rc<LateCharge>>| {
            (charge.as_ref()).is_none_or(|charge| charge.is_adjusted())
        };
        late.iter().filter(|(_, charge)| is_due(charge)).count()
    }
}

impl Drop for LateReply {
    fn drop(&mut self) {
        if let Some(settlements) = self.settlements.upgrade() {
            settlements.late.borrow_mut().remove(self.place);
            settlements.emptied.notify_waiters();
        }
    }
}

/// Entries that one call settles, each with the index of its charge.
type CallEntries = Vec<(usize, SettledEntry)>;

/// Groups entries by what one call can settle, in the order in which they are due.
fn calls(remote: &Remote, due: &[DueCharge]) -> Vec<CallEntries> {
    let mut calls: Vec<CallEntries> = Vec::new();
    let entries = due.iter().enumerate();
    for (charge, entry) in
        entries.flat_map(|(index, due)| due.entries.iter().map(move |entry| (index, *entry)))
    {
        let is_of = |call: &&mut CallEntries| {
            call.len() < ENTRIES_PER_CALL_MAX
                && !remote.is_cross_slot(call[0].1.partition_id, entry.partition_id)
        };
        match calls.iter_mut().find(is_of) {
            Some(call) => call.push((charge, entry)),
            None => calls.push(vec![(charge, entry)]),
        }
    }
    calls
}

/// Makes one call.
async fn settle(
    remote: &Remote,
    call: &CallEntries,
) -> Result<Vec<(usize, CallError)>, Unanswered> {
    let settlements: Vec<Settlement<'_>> =
        call.iter().map(|(_, entry)| settlement(entry)).collect();
    remote.settle(&settlements).await
}

fn settlement(entry: &SettledEntry) -> Settlement<'_> {
    let charged = entry.charged;
    Settlement {
        quota: &entry.quota,
        series_id: entry.series_id,
        partition_id: entry.partition_id,
        step: match entry.adjustment {
            Adjustment::GiveBack(amount) => SettlementStep::Release { charged, amount },
            Adjustment::Spend(amount) => SettlementStep::Spend(amount),
        },
    }
}

/// Settles what this gateway counted, if it still follows the quota; says whether nothing is left to do.
fn is_followed(remote: &Remote, entry: &SettledEntry) -> bool {
    let store = remote.store();
    let is_followed = entry.keeper == Keeper::Followed
        && (store.resets.forbid(entry) || store.followed.settle(entry, store.clock.steady()));
    if is_followed {
        forget_refusal(remote, entry);
    }
    is_followed
}

/// Forgets that a quota refused of which units may have come back.
fn forget_refusal(remote: &Remote, entry: &SettledEntry) {
    if let Adjustment::GiveBack(_) = entry.adjustment {
        let store = remote.store();
        let now = store.clock.now();
        (store.refusals).given_back(entry.series_id, entry.partition_id, now);
    }
}

/// Most charges of a worker that wait to be settled. While Redis answers, that is some tens of
/// milliseconds of work.
const SETTLEMENTS_MAX: usize = 4_096;
/// Most charges that are settled at the same time: 50,000 a second, if Redis takes 5 ms to answer.
const SETTLED_TOGETHER_MAX: usize = 256;
/// Most quotas that one call settles. It takes Redis some 0.3 ms; decisions wait behind it no longer.
pub(super) const ENTRIES_PER_CALL_MAX: usize = 64;
/// How often it is tried to send what could not be sent.
const RETRY_EVERY: Duration = Duration::from_millis(250);
