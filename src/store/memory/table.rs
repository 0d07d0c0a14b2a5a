//! The table of a series in one shard, for whichever algorithm the series has.

use super::memory_budget::MemoryBudget;
use super::partitions::Partitions;
use crate::clock::Timestamp;
use crate::limit::calendar_window::CalendarWindow;
use crate::limit::credits::Credits;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::gcra::{CompactGcra, Gcra};
use crate::limit::in_flight::InFlight;
use crate::limit::penalty::Penalty;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{Algorithm, Quota};

/// [`Partitions`] of one of the algorithms.
#[derive(Debug)]
pub(super) enum SeriesTable {
    FixedWindow(Partitions<FixedWindow>),
    CalendarWindow(Partitions<CalendarWindow>),
    SlidingWindow(Partitions<SlidingWindow>),
    SlidingLog(Partitions<SlidingLog>),
    /// For both gcra and leaky-bucket.
    Gcra(Partitions<Gcra>),
    /// For gcra and leaky-bucket, too, if no charge comes back.
    CompactGcra(Partitions<CompactGcra>),
    Credits(Partitions<Credits>),
    Penalty(Partitions<Penalty>),
    InFlight(Partitions<InFlight>),
}

impl SeriesTable {
    /// Makes an empty table, which takes no memory until a partition is inserted.
    pub(super) fn new(quota: &Quota) -> Self {
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow(Partitions::new(*quota)),
            Algorithm::Calendar(_) => Self::CalendarWindow(Partitions::new(*quota)),
            Algorithm::SlidingWindow { .. } => Self::SlidingWindow(Partitions::new(*quota)),
            Algorithm::SlidingLog => Self::SlidingLog(Partitions::new(*quota)),
            Algorithm::Credits { .. } => Self::Credits(Partitions::new(*quota)),
            Algorithm::Penalty { .. } => Self::Penalty(Partitions::new(*quota)),
            Algorithm::InFlight => Self::InFlight(Partitions::new(*quota)),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } if quota.can_come_back => {
                Self::Gcra(Partitions::new(*quota))
            }
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
                Self::CompactGcra(Partitions::new(*quota))
            }
        }
    }

    /// Gives each state what a release needs to know, if it lacks that. To be called before a charge under `quota`,
    /// because a reload may have let the policy's charges come back. Charges made before `now` give nothing back.
    #[inline]
    pub(super) fn prepare_for_release(
        &mut self,
        quota: &Quota,
        now: Timestamp,
        budget: &MemoryBudget,
    ) {
        if quota.can_come_back && matches!(self, Self::CompactGcra(_)) {
            self.widen(quota, now, budget);
        }
    }

    /// Says whether requests hold units that are counted here. Their policy may be gone.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::InFlight(held) if held.len() > 0)
    }

    #[cold]
    fn widen(&mut self, quota: &Quota, now: Timestamp, budget: &MemoryBudget) {
        if let Self::CompactGcra(compact) = self {
            let compact = std::mem::replace(compact, Partitions::new(*quota));
            *self = Self::Gcra(compact.convert(|state| Gcra::of_compact(state, now), budget));
        }
    }
}

/// Evaluates an expression with a table's partitions, compiled once per algorithm.
macro_rules! with_partitions {
    ($table:expr, $partitions:ident => $body:expr) => {
        match $table {
            $crate::store::memory::table::SeriesTable::FixedWindow($partitions) => $body,
            $crate::store::memory::table::SeriesTable::CalendarWindow($partitions) => $body,
            $crate::store::memory::table::SeriesTable::SlidingWindow($partitions) => $body,
            $crate::store::memory::table::SeriesTable::SlidingLog($partitions) => $body,
            $crate::store::memory::table::SeriesTable::Gcra($partitions) => $body,
            $crate::store::memory::table::SeriesTable::CompactGcra($partitions) => $body,
            $crate::store::memory::table::SeriesTable::Credits($partitions) => $body,
            $crate::store::memory::table::SeriesTable::Penalty($partitions) => $body,
            $crate::store::memory::table::SeriesTable::InFlight($partitions) => $body,
        }
    };
}
pub(super) use with_partitions;
