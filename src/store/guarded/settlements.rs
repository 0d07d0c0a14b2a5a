//! Settles charges: in this node's memory at once, in Redis with few calls, several at a time.
//!
//! It often turns out where nothing can wait, such as in a drop, that a charge is to be given back or that more was
//! spent. So the charge is put into a queue, which a task of the worker processes. One that cannot be sent waits there
//! until it can, or until it has aged out. One that was sent and got no answer is never sent again: Redis may have
//! executed it.

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

/// Charges that Redis is to settle, at most [`SETTLEMENTS_MAX`]. Those that do not fit are not settled.
#[derive(Debug, Default)]
pub(super) struct SettlementQueue {
    due: RefCell<VecDeque<DueCharge>>,
    /// Charges that could not be sent, until the next attempt.
    unsent: RefCell<Vec<DueCharge>>,
    /// Charges that were taken and have no answer yet.
    sending: Cell<usize>,
    /// Replies for which no caller waits, until they come: the charge with which each is settled; none if what it
    /// charged is given back.
    late: RefCell<Slab<Option<Rc<LateCharge>>>>,
    /// Announcements of units in flight, which take the place of settlements.
    pub(super) announcements: Rc<AnnouncementQueue>,
    filled: Notify,
    /// Notified when all that was due has been sent and answered, and when a late reply has come.
    emptied: Notify,
    /// Limits how often a failed settlement is logged.
    log: Turn,
}

/// A reply for which no caller waits; dropped once it has come.
pub(super) struct LateReply {
    settlements: Weak<SettlementQueue>,
    /// Its index in the queue's `late`.
    place: usize,
}

/// What Redis is to settle of one charge.
#[derive(Debug)]
struct DueCharge {
    entries: SmallVec<[SettledEntry; 2]>,
    /// Since when the charge is due to be settled.
    since: Timestamp,
    /// What is counted as refunded once all entries are settled; nothing if one of them cannot be.
    refund: Refund,
}

impl SettlementQueue {
    /// Gives units back or spends more: at once in this node's memory, in Redis when the charge's turn comes. `refund`
    /// counts once all is done.
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
        entries.retain(|entry| !self.end_units(remote, entry) && !settle_followed(remote, entry));
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

    /// Gives units in flight back, if the entry is of such; says whether it is.
    fn end_units(&self, remote: &Remote, entry: &SettledEntry) -> bool {
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

    /// Notes that a late reply is to come. What it charged is settled with `charge`, or given back if there is none.
    pub(super) fn await_late(self: &Rc<Self>, charge: Option<&Rc<LateCharge>>) -> LateReply {
        LateReply {
            settlements: Rc::downgrade(self),
            place: self.late.borrow_mut().insert(charge.cloned()),
        }
    }

    /// Processes the queue for as long as the worker's session lives.
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

    /// Sends the charges that are due. Those that cannot be sent and still count are kept for the next attempt.
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

    /// Sends charges to Redis; returns those that could not be sent.
    async fn send(&self, remote: &Remote, mut due: Vec<DueCharge>) -> Vec<DueCharge> {
        for charge in &mut due {
            let entries = charge.entries.len();
            (charge.entries).retain(|entry| !remote.store().resets.forbids_give_back(entry));
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

    /// Logs that a server could not settle a charge, at most once in [`LOG_EVERY`].
    fn log_failed(&self, remote: &Remote, error: &CallError) {
        if self.log.take(remote.store().clock.steady(), LOG_EVERY) {
            tracing::warn!(%error, "Redis could not correct a charge: the original charge stays");
        }
    }

    /// Waits, for at most `timeout`, until all charges that are due, or that late replies may make due, have been sent
    /// and answered. Returns how many have not been settled by then; they stay as they are.
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

    /// Counts the late replies whose charges, if there are any, are due as soon as they come.
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

/// Settles the entries of one call.
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

/// Settles an entry in this gateway's own counts, if it still follows the quota; says whether Redis need not be asked.
fn settle_followed(remote: &Remote, entry: &SettledEntry) -> bool {
    let store = remote.store();
    let is_followed = entry.keeper == Keeper::Followed
        && (store.resets.forbids_give_back(entry)
            || store.followed.settle(entry, store.clock.steady()));
    if is_followed {
        forget_refusal(remote, entry);
    }
    is_followed
}

/// Forgets the refusals of a quota to which units may have come back.
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
/// Most entries that one call settles. Such a call takes Redis about 0.3 ms, so it delays decisions no longer than
/// that.
pub(super) const ENTRIES_PER_CALL_MAX: usize = 64;
/// How long the queue waits before it tries again to send what could not be sent.
const RETRY_EVERY: Duration = Duration::from_millis(250);
