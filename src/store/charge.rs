//! What a decision spent, and where: the only thing that can be settled or given back.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::limit::plan::{PlanPolicy, SeriesId};
use crate::limit::{Adjustment, Algorithm, Charged, Check, Decision, PartitionId, Quota};

/// What one plan spent in each of its quotas. If it is dropped, the units stay spent.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a dropped charge stays spent"]
pub struct Charge {
    /// One entry for each check of the plan that was counted.
    pub(super) entries: SmallVec<[ChargeEntry; 2]>,
    /// What a store that did not answer in time may have charged in addition.
    pub(super) late: Option<Rc<LateCharge>>,
}

/// What a store that did not answer in time charged for a plan that was decided without it. It is settled like the
/// request's own charge: adjustments are remembered, and applied when the answer comes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LateCharge(RefCell<LateParts>);

#[derive(Debug, Default, PartialEq, Eq)]
struct LateParts {
    /// Policies whose answers have not come yet.
    awaited: SmallVec<[PlanPolicy; 4]>,
    /// What was charged, according to the answers that have come.
    entries: SmallVec<[ChargeEntry; 2]>,
    /// Adjustments made so far of policies whose answers were awaited, in order.
    adjustments: SmallVec<[(PlanPolicy, Adjustment); 2]>,
    /// Whether places in leaky buckets stay spent.
    keeps_places: bool,
}

impl Charge {
    /// Returns what a client is told of a quota once its charge is adjusted.
    ///
    /// It is computed from the decision ([`Adjustment::adjusted`] says how exactly); the store is not asked
    /// again. A quota that cannot be settled is described as it was decided.
    #[must_use]
    pub fn adjusted(
        &self,
        series_id: SeriesId,
        decision: Decision,
        adjustment: Adjustment,
    ) -> Decision {
        let entry = (self.entries.iter()).find(|entry| entry.series_id == series_id);
        match entry.and_then(|entry| Some((entry.quota, entry.charged?))) {
            Some((quota, charged)) => adjustment.adjusted(decision, &quota, charged.amount),
            None => decision,
        }
    }

    /// Says whether a quota of this policy of the plan was charged, and can be settled.
    pub fn is_charged(&self, policy: PlanPolicy) -> bool {
        (self.entries.iter()).any(|entry| entry.is_charged_to(policy))
            || (self.late.as_ref()).is_some_and(|late| late.may_be_charged(policy))
    }

    /// Takes out the units in flight, which the request holds until it has been answered.
    pub fn take_held(&mut self) -> Option<Self> {
        if !self.entries.iter().any(ChargeEntry::is_held) {
            return None;
        }
        let (held, spent) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(ChargeEntry::is_held);
        self.entries = spent;
        Some(Self {
            entries: held,
            late: None,
        })
    }

    /// Leaves out units in flight, which are given back in another way.
    pub(super) fn without_units(mut self) -> Self {
        self.entries.retain(|entry| !entry.is_held());
        self
    }

    /// Leaves out what leaky buckets were charged: a client that leaves while it waits does not get its place back.
    pub fn without_places(mut self) -> Self {
        self.entries.retain(|entry| !entry.is_place());
        if let Some(late) = &self.late {
            late.keep_places();
        }
        self
    }

    /// Adjusts each quota that can be settled, as `adjustment` says for its policy. Returns what is to
    /// be done where, and keeps what is still spent.
    pub(super) fn settle(
        &mut self,
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
    ) -> SmallVec<[SettledEntry; 2]> {
        let mut settled = settle(&mut self.entries, &adjustment);
        if let Some(late) = &self.late {
            settled.extend(late.settle(adjustment));
        }
        settled
    }
}

fn settle(
    entries: &mut [ChargeEntry],
    adjustment: impl Fn(PlanPolicy) -> Adjustment,
) -> SmallVec<[SettledEntry; 2]> {
    (entries.iter_mut())
        .filter_map(|entry| entry.settle(adjustment(entry.policy)))
        .collect()
}

impl LateCharge {
    /// Notes that the answer to these checks is late.
    pub(super) fn wait_for(&self, plan: &[Check<'_>]) {
        let awaited = &mut self.0.borrow_mut().awaited;
        for check in plan {
            if !awaited.contains(&check.policy) {
                awaited.push(check.policy);
            }
        }
    }

    /// Notes what a late answer says was charged; returns what is to be done about it, because the request's charge may
    /// have been adjusted meanwhile.
    pub(super) fn answered(&self, charge: Charge) -> SmallVec<[SettledEntry; 2]> {
        let mut parts = self.0.borrow_mut();
        let mut entries = charge.entries;
        parts.awaited.retain(|policy| {
            let is_answered = |entry: &ChargeEntry| entry.policy == *policy;
            !entries.iter().any(is_answered)
        });
        if parts.keeps_places {
            entries.retain(|entry| !entry.is_place());
        }
        entries.retain(|entry| !entry.is_held());
        let mut settled = SmallVec::new();
        for &(policy, adjustment) in &parts.adjustments {
            let adjusted = |of| {
                if of == policy {
                    adjustment
                } else {
                    Adjustment::NONE
                }
            };
            settled.extend(settle(&mut entries, adjusted));
        }
        parts.entries.extend(entries);
        settled
    }

    /// Adjusts what late answers said was charged, and remembers the adjustment for those that are still to come.
    pub(super) fn settle(
        &self,
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
    ) -> SmallVec<[SettledEntry; 2]> {
        let mut parts = self.0.borrow_mut();
        let LateParts {
            awaited,
            entries,
            adjustments,
            ..
        } = &mut *parts;
        let adjusted = awaited.iter().map(|&policy| (policy, adjustment(policy)));
        adjustments.extend(adjusted.filter(|(_, adjustment)| *adjustment != Adjustment::NONE));
        settle(entries, adjustment)
    }

    /// Says whether adjustments are remembered for answers that are still to come.
    pub(super) fn is_adjusted(&self) -> bool {
        !self.0.borrow().adjustments.is_empty()
    }

    fn may_be_charged(&self, policy: PlanPolicy) -> bool {
        let parts = self.0.borrow();
        let mut entries = parts.entries.iter();
        parts.awaited.contains(&policy) || entries.any(|entry| entry.is_charged_to(policy))
    }

    fn keep_places(&self) {
        let mut parts = self.0.borrow_mut();
        parts.keeps_places = true;
        parts.entries.retain(|entry| !entry.is_place());
    }
}

/// What one quota was charged, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargeEntry {
    /// The quota as it was decided: only this node's share if it was charged here instead of in Redis.
    pub(super) quota: Quota,
    /// The policy of the plan that the quota belongs to.
    pub(super) policy: PlanPolicy,
    pub(super) series_id: SeriesId,
    /// The partition that was charged: the client's own or the overflow partition.
    pub(super) partition_id: PartitionId,
    /// What was charged and is still spent; none if it cannot be settled, because the plan or the quota refused.
    pub(super) charged: Option<Charged>,
    pub(super) keeper: Keeper,
}

/// A quota that was charged, and how it is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledEntry {
    pub(super) quota: Quota,
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
    /// The charge before the adjustment.
    pub(super) charged: Charged,
    /// The adjustment; it gives back no more than was still spent.
    pub(super) adjustment: Adjustment,
    pub(super) keeper: Keeper,
}

impl ChargeEntry {
    /// Describes what Redis charged for a check.
    pub(super) fn in_redis(check: &Check<'_>, charged: Option<Charged>) -> Self {
        Self {
            quota: *check.quota,
            policy: check.policy,
            series_id: check.series_id,
            partition_id: check.partition_id,
            charged,
            keeper: Keeper::Redis,
        }
    }

    /// Describes what this gateway counted for a check, or what Redis charged before the quota was followed.
    pub(super) fn followed(check: &Check<'_>, charged: Charged) -> Self {
        Self {
            keeper: Keeper::Followed,
            ..Self::in_redis(check, Some(charged))
        }
    }

    /// Whether a quota of this policy was charged, and can be settled.
    fn is_charged_to(&self, policy: PlanPolicy) -> bool {
        self.policy == policy && self.charged.is_some()
    }

    /// Whether a place in a leaky bucket was charged.
    fn is_place(&self) -> bool {
        matches!(self.quota.algorithm, Algorithm::LeakyBucket { .. })
    }

    /// Whether units in flight were charged. Their holder gives them back, whatever a late answer says.
    fn is_held(&self) -> bool {
        self.quota.is_in_flight()
    }

    /// Returns this adjustment of the entry's quota, regardless of what was charged.
    pub(super) fn adjusted_by(&self, adjustment: Adjustment) -> SettledEntry {
        SettledEntry {
            quota: self.quota,
            series_id: self.series_id,
            partition_id: self.partition_id,
            charged: Charged::plain(Timestamp(0), 0),
            adjustment,
            keeper: self.keeper,
        }
    }

    /// Adjusts what was charged; returns what is to be done, if anything.
    fn settle(&mut self, adjustment: Adjustment) -> Option<SettledEntry> {
        let charged = self.charged.as_mut()?;
        let stood = *charged;
        let adjustment = match adjustment {
            Adjustment::GiveBack(amount) => {
                let amount = amount.min(stood.amount);
                charged.amount -= amount;
                Adjustment::GiveBack(amount)
            }
            spend @ Adjustment::Spend(_) => spend,
        };
        if let Adjustment::GiveBack(0) | Adjustment::Spend(0) = adjustment {
            return None;
        }
        Some(SettledEntry {
            quota: self.quota,
            series_id: self.series_id,
            partition_id: self.partition_id,
            charged: stood,
            adjustment,
            keeper: self.keeper,
        })
    }
}

/// Where a charge is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The memory store.
    Memory,
    /// Redis.
    Redis,
    /// This gateway, which reports its counts to Redis.
    Followed,
}
