//! Counters per worker, and series by name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use super::WorkerIndex;

/// One `T` per worker and one for the rest of the process; no two share a cache line.
#[derive(Debug)]
pub(super) struct Sharded<T>(Box<[CachePadded<T>]>);

/// Series by name. Bounded by the configurations whose snapshots are alive.
#[derive(Debug)]
pub(super) struct ByName<T>(Mutex<BTreeMap<Arc<str>, Arc<T>>>);

impl<T: Default> Sharded<T> {
    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Sharded<T> {
    /// Returns the worker's own. Indices come from the same `Metrics`, so they are in range.
    pub(super) fn of(&self, worker: WorkerIndex) -> &T {
        &self.0[worker.0]
    }

    /// Sums a counter over all shards.
    pub(super) fn sum(&self, counter: impl Fn(&T) -> &AtomicU64) -> u64 {
        self.0
            .iter()
            .map(|shard| counter(shard).load(Relaxed))
            .sum()
    }
}

impl<T> ByName<T> {
    pub(super) fn find_or_make(&self, name: &Arc<str>, make: impl FnOnce() -> T) -> Arc<T> {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = series
            .entry(Arc::clone(name))
            .or_insert_with(|| Arc::new(make()));
        Arc::clone(found)
    }

    /// Copies the handles out, so that nothing is locked while they are rendered.
    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = series.iter();
        all.map(|(name, one)| (Arc::clone(name), Arc::clone(one)))
            .collect()
    }

    /// Drops the series that only this map holds.
    pub(super) fn forget_unheld(&self) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|_, one| Arc::strong_count(one) > 1);
    }
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
