//! All shards of the store, and what they share: the clock, the memory budget and the counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::memory_budget::MemoryBudget;
use super::placement::OVERFLOW_SHARD;
use super::shard::Shard;
use crate::clock::Clock;

/// The shards, each behind its own lock; the overflow shard is the last.
#[derive(Debug)]
pub(super) struct Shards {
    pub(super) clock: Clock,
    pub(super) budget: MemoryBudget,
    /// Checks that found no room.
    overflowed: AtomicU64,
    all: Box<[CachePadded<Mutex<Shard>>]>,
}

impl Shards {
    /// Makes empty shards that together hold at most `bytes_max`.
    pub(super) fn new(clock: Clock, bytes_max: u64) -> Self {
        Self {
            clock,
            budget: MemoryBudget::new(bytes_max),
            overflowed: AtomicU64::new(0),
            all: (0..=OVERFLOW_SHARD)
                .map(|_| CachePadded::default())
                .collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Locks a shard. If a thread panicked under the lock, its states are sound all the same, because
    /// each is changed in place.
    pub(super) fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        (self.all[index].lock()).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_overflow(&self) {
        self.overflowed.fetch_add(1, Relaxed);
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }
}
