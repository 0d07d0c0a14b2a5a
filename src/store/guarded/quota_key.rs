//! One quota of one client.

use crate::limit::plan::SeriesId;
use crate::limit::{Check, PartitionId};

/// One quota of one client: of which series, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QuotaKey {
    pub(super) series_id: SeriesId,
    pub(super) partition_id: PartitionId,
}

impl QuotaKey {
    /// Returns what a check asks.
    pub(super) fn of(check: &Check<'_>) -> Self {
        Self {
            series_id: check.series_id,
            partition_id: check.partition_id,
        }
    }
}
