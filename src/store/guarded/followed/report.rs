//! Reports to Redis of one quota's counts, and the answers.

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::limit::{AnyState, PartitionId, Quota};
use crate::store::guarded::quota_key::QuotaKey;
use crate::store::redis::wire::{Settlement, SettlementStep};

/// A report to Redis of what was counted of one quota.
#[derive(Debug)]
pub(in crate::store::guarded) struct CountReport {
    pub(super) key: QuotaKey,
    pub(super) quota: Quota,
    /// Steps of the report; Redis answers the last one with the state after all of them.
    pub(super) steps: SmallVec<[SettlementStep; 2]>,
    /// When the report began, by the steady clock.
    pub(in crate::store::guarded) asked: Timestamp,
}

/// The state of one quota, as Redis returned it.
#[derive(Debug)]
pub(in crate::store::guarded) struct SeenState {
    pub(super) state: AnyState,
    /// When Redis read the state, by its clock.
    pub(super) time: Timestamp,
    /// When Redis was asked, by the steady clock.
    pub(super) asked: Timestamp,
    /// When the answer came, by the steady clock.
    pub(super) received: Timestamp,
}

/// The outcome of a report.
#[derive(Debug)]
pub(in crate::store::guarded) enum ReportOutcome {
    /// Redis has counted it, and returned the state.
    Counted(SeenState),
    /// Redis has not counted it.
    Uncounted,
    /// Redis may have counted it.
    Unknown,
}

impl CountReport {
    /// Returns the partition whose quota is reported.
    pub(in crate::store::guarded) fn partition_id(&self) -> PartitionId {
        self.key.partition_id
    }

    /// Yields the report's steps as entries of a settle call.
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
    /// Takes the state that Redis returned at `time` of its clock, with when it was `asked` and the answer `received`;
    /// none if it is not the state of a window.
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
