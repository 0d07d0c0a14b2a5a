//! Counters per worker, and series by name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;

/// Index of a worker, under which the worker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerIndex(pub(super) usize);

/// One `T` for each worker and one for the control thread, no two on one cache line. Clones share them.
#[derive(Debug)]
pub struct Sharded<T>(Arc<[CachePadded<T>]>);

/// Series by name. Their number is bounded by the configurations whose snapshots are alive.
#[derive(Debug)]
pub(super) struct ByName<T, N = Arc<str>>(Mutex<BTreeMap<N, T>>);

/// A series that several holders share.
pub(super) trait SharedSeries: Clone {
    /// Whether the series has other holders.
    fn has_other_holders(&self) -> bool;
}

impl<T> SharedSeries for Arc<T> {
    fn has_other_holders(&self) -> bool {
        Arc::strong_count(self) > 1
    }
}

impl<T> Clone for Sharded<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Sharded<T> {
    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Sharded<T> {
    /// Returns the `T` of a worker. Indices come from the same `Metrics`, so they are in range.
    pub fn of(&self, worker: WorkerIndex) -> &T {
        &self.0[worker.0]
    }

    /// Whether there are other clones, which hold the same values.
    pub(super) fn has_other_holders(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Yields the `T` of every thread.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|one| &**one)
    }

    /// Sums a counter over all shards.
    pub(super) fn sum(&self, counter: impl Fn(&T) -> &AtomicU64) -> u64 {
        self.0
            .iter()
            .map(|shard| counter(shard).load(Relaxed))
            .sum()
    }

    /// Returns how many of something there are now: those that began less those that ended. The ended ones are summed
    /// first, so that one that comes and goes meanwhile cannot make the result negative.
    pub(super) fn current(
        &self,
        began: impl Fn(&T) -> &AtomicU64,
        ended: impl Fn(&T) -> &AtomicU64,
    ) -> u64 {
        let ended = self.sum(ended);
        self.sum(began).saturating_sub(ended)
    }
}

impl<T: SharedSeries, N: Clone + Ord> ByName<T, N> {
    pub(super) fn find_or_make(&self, name: &N, make: impl FnOnce() -> T) -> T {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.entry(name.clone()).or_insert_with(make).clone()
    }

    /// Copies the handles out, so that nothing is locked while they are rendered.
    pub(super) fn all(&self) -> Vec<(N, T)> {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = series.iter();
        all.map(|(name, one)| (name.clone(), one.clone())).collect()
    }

    /// Drops the series that only this map holds.
    pub(super) fn forget_unheld(&self) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.retain(|_, one| one.has_other_holders());
    }
}

impl<T, N> Default for ByName<T, N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// Adds to a counter of the calling thread.
///
/// The counter has no other writer, so a load and a store suffice. An instruction that locks the cache line takes four
/// times as long.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}
