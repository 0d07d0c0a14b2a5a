//! What a decision spent, and where: the only thing that can be settled or given back.

use smallvec::SmallVec;

use crate::limit::plan::Slot;
use crate::limit::{Charged, Quota, Tag};

/// What one plan spent in each of its quotas. Dropped, the units stay spent.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a dropped charge stays spent"]
pub struct Charge {
    /// One entry per ask of the plan that is counted, in order.
    pub(super) entries: SmallVec<[Entry; 2]>,
}

/// Where one quota was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) quota: Quota,
    pub(super) slot: Slot,
    /// The tag that was charged: the partition's own, or the overflow partition's.
    pub(super) tag: Tag,
    /// What can still be given back, if anything.
    pub(super) charged: Option<Charged>,
}
