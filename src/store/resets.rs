//! When partitions' quotas were reset. A charge that was decided before a reset gives nothing back after
//! it, or the client would have more than a whole quota.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::charge::SettledEntry;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, PartitionId};

/// Resets, each remembered as long as charges from before it may still be settled.
#[derive(Debug, Default)]
pub(super) struct PartitionResets {
    /// Whether any reset is noted, so that settling takes no lock while none is.
    has_any: AtomicBool,
    at: Mutex<HashMap<(SeriesId, PartitionId), Timestamp>>,
}

impl PartitionResets {
    /// Notes that a partition's quota of a series was reset at `at`; replaces an earlier reset.
    pub(super) fn note(&self, series_id: SeriesId, partition_id: PartitionId, at: Timestamp) {
        let mut resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        resets.insert((series_id, partition_id), at);
        self.has_any.store(true, Relaxed);
    }

    /// Forgets a reset, because no charge is left that was decided before it.
    pub(super) fn forget(&self, series_id: SeriesId, partition_id: PartitionId) {
        let mut resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        resets.remove(&(series_id, partition_id));
        self.has_any.store(!resets.is_empty(), Relaxed);
    }

    /// Whether an entry would give back units that were charged before a reset.
    pub(super) fn forbids_give_back(&self, entry: &SettledEntry) -> bool {
        let gives_back = matches!(entry.adjustment, Adjustment::GiveBack(_));
        let phase = entry.quota.phase(entry.partition_id);
        let charged_at = entry.charged.at;
        gives_back && self.was_reset_since(entry.series_id, entry.partition_id, charged_at, phase)
    }

    /// Whether a partition's quota of a series was reset after a charge, whose time is ahead of the store's by `phase`.
    pub(super) fn was_reset_since(
        &self,
        series_id: SeriesId,
        partition_id: PartitionId,
        charged_at: Timestamp,
        phase: Micros,
    ) -> bool {
        if !self.has_any.load(Relaxed) {
            return false;
        }
        let resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let reset = resets.get(&(series_id, partition_id));
        reset.is_some_and(|at| charged_at <= *at + phase)
    }
}

/// The time to note for a reset whose own time is not known yet: later than any charge.
pub const RESET_TIME_UNKNOWN: Timestamp = Timestamp(u64::MAX / 2);
