//! What is reported to Redis of one quota, and what it says.

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::limit::{AnyState, PartitionId, Quota};
use crate::store::guarded::quota_key::QuotaKey;
use crate::store::redis::wire::{Settlement, SettlementStep};

/// What is reported to Redis of one quota.
#[derive(Debug)]
pub(in crate::store::guarded) struct CountReport {
    pub(super) key: QuotaKey,
    pub(super) quota: Quota,
    /// The last one is answered with the state after all.
    pub(super) steps: SmallVec<[SettlementStep; 2]>,
    /// When, by the steady clock.
    pub(in crate::store::guarded) asked: Timestamp,
}

/// What Redis said of one quota.
#[derive(Debug)]
pub(in crate::store::guarded) struct SeenState {
    pub(super) state: AnyState,
    /// When, by its clock.
    pub(super) time: Timestamp,
    /// When it was asked, and when the answer came, by the steady clock.
    pub(super) asked: Timestamp,
    pub(super) received: Timestamp,
}

/// What became of a report.
#[derive(Debug)]
pub(in crate::store::guarded) enum ReportOutcome {
    /// It has counted it, and said the state.
    Counted(SeenState),
    /// It has not counted it.
    Uncounted,
    /// It may have counted it.
    Unknown,
}

impl CountReport {
    /// Returns whose quota it is.
    pub(in crate::store::guarded) fn partition_id(&self) -> PartitionId {
        self.key.partition_id
    }

    /// Returns its entries.
    pub(in crate::store::guarded) fn settlements(&self) -> impl Iterator<Item = Settlement<'_>> {
        self.steps.iter().map(|step| Settlement {
            quota: &self.quota,
            series_id: self.key.series_id,
            partition_id: self.key.partition_id,
            step: *step,
        })
    }
}

impl SeenState {
    /// Takes what Redis said at `time` of its clock, when it was asked then; none if it is no window.
    pub(in crate::store::guarded) fn new(
        reply: AnyState,
        time: Timestamp,
        (asked, received): (Timestamp, Timestamp),
    ) -> Option<Self> {
        let is_window = matches!(
            reply,
            AnyState::FixedWindow(_) | AnyState::CalendarWindow(_) | AnyState::SlidingWindow(_)
        );
        is_window.then_some(Self {
            state: reply,
            time,
            asked,
            received,
        })
    }
}
