//! When a partition's quotas began afresh. A charge that was decided before gives nothing back
//! afterwards, or the client would have more than a whole quota.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::charge::SettledEntry;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, PartitionId};

/// The resets whose charges may still give something back.
#[derive(Debug, Default)]
pub(super) struct PartitionResets {
    /// Whether there are any, so that settling pays nothing while there are none.
    are_any: AtomicBool,
    at: Mutex<HashMap<(SeriesId, PartitionId), Timestamp>>,
}

impl PartitionResets {
    /// Notes that a partition's quota of a series began afresh at `at`, or later than a reset before.
    pub(super) fn note(&self, series_id: SeriesId, partition_id: PartitionId, at: Timestamp) {
        let mut resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        resets.insert((series_id, partition_id), at);
        self.are_any.store(true, Relaxed);
    }

    /// Forgets a reset, because no charge is left that was decided before it.
    pub(super) fn forget(&self, series_id: SeriesId, partition_id: PartitionId) {
        let mut resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        resets.remove(&(series_id, partition_id));
        self.are_any.store(!resets.is_empty(), Relaxed);
    }

    /// Whether what an entry gives back was charged before a reset.
    pub(super) fn forbid(&self, entry: &SettledEntry) -> bool {
        let gives_back = matches!(entry.adjustment, Adjustment::GiveBack(_));
        let phase = entry.quota.phase(entry.partition_id);
        let charged_at = entry.charged.at;
        gives_back && self.follow(entry.series_id, entry.partition_id, charged_at, phase)
    }

    /// Whether a partition's quota of a series was reset after a charge, whose time is later than the store's by
    /// `phase`.
    pub(super) fn follow(
        &self,
        series_id: SeriesId,
        partition_id: PartitionId,
        charged_at: Timestamp,
        phase: Micros,
    ) -> bool {
        if !self.are_any.load(Relaxed) {
            return false;
        }
        let resets = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let reset = resets.get(&(series_id, partition_id));
        reset.is_some_and(|at| charged_at <= *at + phase)
    }
}

/// When a reset is noted whose time is not known yet: later than any charge.
pub const RESET_NOT_YET: Timestamp = Timestamp(u64::MAX / 2);
