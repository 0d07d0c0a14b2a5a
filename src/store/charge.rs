//! What a decision spent, and where: the only thing that can be settled or given back.

use smallvec::SmallVec;

use crate::limit::plan::SeriesId;
use crate::limit::{Charged, PartitionId, Quota};

/// What one plan spent in each of its quotas. Dropped, the units stay spent.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a dropped charge stays spent"]
pub struct Charge {
    /// One entry per check of the plan that is counted, in order.
    pub(super) entries: SmallVec<[Entry; 2]>,
}

/// Where one quota was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The quota as it was decided: this node's share of it, if it was charged here in place of Redis.
    pub(super) quota: Quota,
    pub(super) series_id: SeriesId,
    /// The partition id that was charged: the partition's own, or the overflow partition's.
    pub(super) partition_id: PartitionId,
    /// What can still be given back, if anything.
    pub(super) charged: Option<Charged>,
    pub(super) place: Place,
}

/// Who keeps what was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The memory store, as it was since it was cleared so many times: what it was cleared of
    /// cannot be given back.
    Memory {
        /// How often it had been cleared.
        clearings: u32,
    },
    /// Redis.
    Redis,
}
