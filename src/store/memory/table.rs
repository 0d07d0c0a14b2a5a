//! The table of a series in one shard, for whichever algorithm the series has.

use super::partitions::Partitions;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::gcra::Gcra;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{Algorithm, Quota};

/// [`Partitions`] of one of the algorithms.
#[derive(Debug)]
pub(super) enum SeriesTable {
    FixedWindow(Partitions<FixedWindow>),
    SlidingWindow(Partitions<SlidingWindow>),
    SlidingLog(Partitions<SlidingLog>),
    /// For both gcra and leaky-bucket, whose state is one time.
    Gcra(Partitions<Gcra>),
}

impl SeriesTable {
    /// Makes an empty table; it takes no memory before a partition joins.
    pub(super) fn new(quota: &Quota) -> Self {
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow(Partitions::new(*quota)),
            Algorithm::SlidingWindow { .. } => Self::SlidingWindow(Partitions::new(*quota)),
            Algorithm::SlidingLog => Self::SlidingLog(Partitions::new(*quota)),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
                Self::Gcra(Partitions::new(*quota))
            }
        }
    }
}

/// Evaluates an expression with a table's partitions, compiled once per algorithm.
macro_rules! with_partitions {
    ($table:expr, $partitions:ident => $body:expr) => {
        match $table {
            $crate::store::memory::table::SeriesTable::FixedWindow($partitions) => $body,
            $crate::store::memory::table::SeriesTable::SlidingWindow($partitions) => $body,
            $crate::store::memory::table::SeriesTable::SlidingLog($partitions) => $body,
            $crate::store::memory::table::SeriesTable::Gcra($partitions) => $body,
        }
    };
}
pub(super) use with_partitions;
