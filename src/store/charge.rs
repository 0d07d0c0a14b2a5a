//! What a decision spent, and where: the only thing that can be settled or given back.

use smallvec::SmallVec;

use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, Algorithm, Charged, Decision, PartitionId, Quota};

/// What one plan spent in each of its quotas. If it is dropped, the units stay spent.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a dropped charge stays spent"]
pub struct Charge {
    /// One entry per check of the plan that is counted.
    pub(super) entries: SmallVec<[ChargeEntry; 2]>,
}

impl Charge {
    /// Returns what a client is told of a quota once its charge is adjusted.
    ///
    /// It is computed from the decision ([`Adjustment::told`] says how exactly); the store is not asked
    /// again. A quota that cannot be settled is described as it was decided.
    #[must_use]
    pub fn told(
        &self,
        series_id: SeriesId,
        decision: Decision,
        adjustment: Adjustment,
    ) -> Decision {
        let entry = (self.entries.iter()).find(|entry| entry.series_id == series_id);
        match entry.and_then(|entry| Some((entry.quota, entry.charged?))) {
            Some((quota, charged)) => adjustment.told(decision, &quota, charged.amount),
            None => decision,
        }
    }

    /// Says whether a quota of this policy of the plan was charged, and can be settled.
    pub fn is_charged(&self, policy: u16) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.policy == policy && entry.charged.is_some())
    }

    /// Leaves out what leaky buckets were charged: whoever leaves while waiting keeps its place spent.
    pub fn without_places(mut self) -> Self {
        let is_place = |quota: &Quota| matches!(quota.algorithm, Algorithm::LeakyBucket { .. });
        self.entries.retain(|entry| !is_place(&entry.quota));
        self
    }

    /// Adjusts each quota that can be settled, of which `adjustment` is told the policy; returns what is
    /// to be done where, and notes what still stands.
    pub(super) fn settle(
        &mut self,
        adjustment: impl Fn(u16) -> Adjustment,
    ) -> SmallVec<[SettledEntry; 2]> {
        (self.entries.iter_mut())
            .filter_map(|entry| entry.settle(adjustment(entry.policy)))
            .collect()
    }
}

/// Where one quota was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargeEntry {
    /// The quota as it was decided: only this node's share if it was charged here in place of Redis.
    pub(super) quota: Quota,
    /// Which policy of the plan it belongs to.
    pub(super) policy: u16,
    pub(super) series_id: SeriesId,
    /// The partition that was charged: the client's own or the overflow partition.
    pub(super) partition_id: PartitionId,
    /// What was charged and still stands, if that can be settled: both verdict and quota admitted.
    pub(super) charged: Option<Charged>,
    pub(super) keeper: Keeper,
}

/// A quota, and what is to be done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledEntry {
    pub(super) quota: Quota,
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
    /// The charge as it stood before.
    pub(super) charged: Charged,
    /// What is to be done; a give-back is at most what stood.
    pub(super) adjustment: Adjustment,
    pub(super) keeper: Keeper,
}

impl ChargeEntry {
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

/// Who keeps what was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The memory store.
    Memory,
    /// Redis.
    Redis,
}
