//! What a decision spent, and where: the only thing that can be settled or given back.

use smallvec::SmallVec;

use crate::limit::after_release::after_release;
use crate::limit::plan::SeriesId;
use crate::limit::{Charged, Decision, PartitionId, Quota};

/// What one plan spent in each of its quotas. If it is dropped, the units stay spent.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a dropped charge stays spent"]
pub struct Charge {
    /// One entry per check of the plan that is counted.
    pub(super) entries: SmallVec<[ChargeEntry; 2]>,
}

impl Charge {
    /// Returns what a client is told of a quota if up to `amount` of its charge comes back.
    ///
    /// It is computed from the decision ([`after_release`] says how exactly); the store is not asked
    /// again. A quota that was not charged is described as it was decided.
    #[must_use]
    pub fn after_release(&self, series_id: SeriesId, decision: Decision, amount: u64) -> Decision {
        let entry = (self.entries.iter()).find(|entry| entry.series_id == series_id);
        match entry.and_then(|entry| Some((entry.quota, entry.charged?))) {
            Some((quota, charged)) => after_release(decision, &quota, amount.min(charged.amount)),
            None => decision,
        }
    }
}

/// Where one quota was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargeEntry {
    /// The quota as it was decided: only this node's share if it was charged here in place of Redis.
    pub(super) quota: Quota,
    pub(super) series_id: SeriesId,
    /// The partition that was charged: the client's own or the overflow partition.
    pub(super) partition_id: PartitionId,
    /// What can still be given back, if anything.
    pub(super) charged: Option<Charged>,
    pub(super) keeper: Keeper,
}

/// Who keeps what was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The memory store.
    Memory,
    /// Redis.
    Redis,
}
