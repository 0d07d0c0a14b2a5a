//! A slot's table in one shard, whichever algorithm keeps it.

use super::partitions::Partitions;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::{Algorithm, Quota};

/// [`Partitions`] of one of the algorithms.
#[derive(Debug)]
pub(super) enum Table {
    FixedWindow(Partitions<FixedWindow>),
}

impl Table {
    /// Makes an empty table; it takes no memory before a partition joins.
    pub(super) fn new(quota: &Quota) -> Self {
        match quota.algorithm {
            _ => Self::FixedWindow(Partitions::new(*quota)),
        }
    }
}

/// Evaluates an expression with a table's partitions, compiled once per algorithm.
macro_rules! with_partitions {
    ($table:expr, $partitions:ident => $body:expr) => {
        match $table {
            $crate::store::memory::table::Table::FixedWindow($partitions) => $body,
        }
    };
}
pub(super) use with_partitions;
