//! One quota of one client.

use crate::limit::plan::SeriesId;
use crate::limit::{Check, PartitionId};

/// Names one quota of one client: its series, and the client's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuotaKey {
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
}

impl QuotaKey {
    /// Returns the key of a check's quota.
    pub(super) fn of(check: &Check<'_>) -> Self {
        Self {
            series_id: check.series_id,
            partition_id: check.partition_id,
        }
    }
}
