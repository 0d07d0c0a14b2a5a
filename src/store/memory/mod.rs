//! The memory store: counters in this process's memory, shared by its workers, within a bound.
//!
//! Partitions are spread by partition id over [`SHARDS`] shards, each behind its own lock; a plan locks the
//! shards it needs in index order and is decided in one step. Since all quotas of one partition
//! share its partition id, that is one lock for most plans. In a shard each series has its own hash table,
//! typed by algorithm, so a partition costs its 16-byte partition id, its state and a control byte.
//!
//! Nothing grows past `bytes_max`: when a table may not grow, idle state of that shard is dropped
//! first, and then newcomers do what their policy says, by default share one overflow partition
//! per series. Live state is never dropped to make room. Partitions that exist already are decided by
//! their own state, and an eighth of the bound is kept from newcomers for it to grow. When that is
//! used up too, a log or a window that would have to grow gets coarser instead
//! ([`State::charge_in_place`](crate::limit::State::charge_in_place)): its client may be refused for
//! longer, never admitted sooner. What the bound leaves out, and no client can make more of: heads of
//! tables (about a hundred bytes per shard and series in use, a word per series ever seen) and the
//! overflow partitions (one per series, a kilobyte at most). Tables double, so a full store is between
//! 7/16 and 7/8 full of partitions.

mod locked_shards;
mod memory_budget;
mod partitions;
mod shard;
mod table;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use self::locked_shards::{Full, LockedShards};
use self::memory_budget::MemoryBudget;
use self::partitions::{Purpose, Spot};
use self::shard::Shard;
use self::table::with_partitions;
use super::charge::Charge;
use super::outcome::Outcome;
use super::series::Series;
use super::usage::Usage;
use crate::clock::{Clock, Micros};
use crate::limit::plan::{self, OnStoreFailure, SeriesId};
use crate::limit::{Check, Decision, PartitionId};

/// Counters in this process's memory, shared by its workers.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    budget: MemoryBudget,
    /// Asks that found no room.
    overflowed: AtomicU64,
    /// [`SHARDS`] shards and the overflow shard.
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// The shard that the next sweep begins with.
    next_sweep: AtomicUsize,
    /// How often all states were dropped.
    clearings: AtomicU32,
    series_ids: Mutex<HashMap<Series, SeriesId>>,
}

impl MemoryStore {
    /// Makes an empty store that holds at most `bytes_max`.
    pub fn new(clock: Clock, bytes_max: u64) -> Self {
        Self {
            clock,
            budget: MemoryBudget::new(bytes_max),
            overflowed: AtomicU64::new(0),
            shards: (0..=OVERFLOW_SHARD)
                .map(|_| CachePadded::default())
                .collect(),
            next_sweep: AtomicUsize::new(0),
            clearings: AtomicU32::new(0),
            series_ids: Mutex::default(),
        }
    }

    /// Drops idle state and gives its memory back, [`SHARDS_PER_SWEEP`] shards at a time.
    ///
    /// Called every 100 ms it passes over the whole store in 3.3 s. A shard is locked for as long
    /// as it takes to look at its entries: some tens of microseconds at a million partitions.
    pub fn sweep(&self) {
        let first = self.next_sweep.fetch_add(SHARDS_PER_SWEEP, Relaxed);
        for index in first..first + SHARDS_PER_SWEEP {
            let mut shard = self.lock(index % self.shards.len());
            shard.sweep(self.clock.now(), &self.budget);
        }
    }

    /// Changes how many bytes the store may hold.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.budget.set_bytes_max(bytes_max);
    }

    /// Says what the store holds; locks each shard for an instant, so for scrapes, not requests.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage {
            bytes: self.budget.bytes(),
            overflowed: self.overflowed.load(Relaxed),
            coarsened: self.budget.coarsened(),
            ..Usage::default()
        };
        for index in 0..self.shards.len() {
            let shard = self.lock(index);
            usage.partitions += shard.partitions() as u64;
            usage.is_full |= shard.is_full();
        }
        usage
    }

    pub(super) fn decide(&self, plan: &[Check<'_>]) -> Outcome {
        let mut locked_shards =
            LockedShards::open(self, &plan.iter().map(|check| check.partition_id));
        if let Err(Full) = locked_shards.place(plan) {
            return Outcome::Unavailable {
                retry: RETRY_WHEN_FULL,
            };
        }
        let verdict = plan::decide(&mut locked_shards, plan);
        let charge = locked_shards.close(plan, &verdict.answers);
        Outcome::Decided {
            verdict,
            charge,
            is_degraded: false,
        }
    }

    /// Asks that have no room are answered as the overflow partition if their policy is `local`,
    /// else as a whole quota.
    pub(super) fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        plan.iter().map(|check| self.peek_one(check)).collect()
    }

    fn peek_one(&self, check: &Check<'_>) -> Decision {
        let mut partition_id = check.partition_id;
        let mut shard = self.lock(shard_of(partition_id));
        if check.on_store_failure == OnStoreFailure::Local
            && shard.find(check.series_id, partition_id).is_none()
            && !shard.has_room(check.series_id, check.quota, Purpose::Peek, &self.budget)
        {
            partition_id = OVERFLOW;
            shard = self.lock(OVERFLOW_SHARD);
        }
        let bucket = shard.find(check.series_id, partition_id);
        let table = shard.table_for(check.series_id, check.quota);
        let now = self.clock.now();
        with_partitions!(table, partitions => partitions.preview(Spot { partition_id, bucket }, check, now))
    }

    pub(super) fn release(&self, mut charge: Charge, amount: u64) -> Charge {
        let mut locked_shards =
            LockedShards::open(self, &charge.entries.iter().map(|entry| entry.partition_id));
        for entry in &mut charge.entries {
            locked_shards.release(entry, amount);
        }
        charge
    }

    pub(super) fn spend(&self, charge: &Charge, amount: u64) {
        if amount == 0 {
            return;
        }
        let mut locked_shards =
            LockedShards::open(self, &charge.entries.iter().map(|entry| entry.partition_id));
        for entry in &charge.entries {
            locked_shards.spend(entry, amount);
        }
    }

    pub(super) fn reset(&self, series_id: SeriesId, partition_id: PartitionId) {
        if let Some(table) = self.lock(shard_of(partition_id)).table(series_id) {
            with_partitions!(table, partitions => partitions.remove(partition_id, &self.budget));
        }
    }

    /// Returns the id of a series: the same as long as the store lives.
    ///
    /// Ids are dense and never given to another series, so a request that still holds an old
    /// snapshot cannot touch a new series' states.
    pub fn series_id(&self, series: &Series) -> SeriesId {
        let mut series_ids = self
            .series_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(series_id) = series_ids.get(series) {
            return *series_id;
        }
        let next = u32::try_from(series_ids.len()).expect("no process sees 2^32 series");
        series_ids.insert(series.clone(), SeriesId(next));
        SeriesId(next)
    }

    pub(super) fn retain(&self, live: &[SeriesId]) {
        let mut live = live.to_vec();
        live.sort_unstable();
        for index in 0..self.shards.len() {
            // The lock is let go before the tables are dropped.
            let taken = self.lock(index).take_all_but(&live, &self.budget);
            drop(taken);
        }
    }

    /// Drops every state. What was charged before cannot be given back any more.
    pub(super) fn clear(&self) {
        self.clearings.fetch_add(1, Relaxed);
        self.retain(&[]);
        // Nor what was charged meanwhile: it may be gone.
        self.clearings.fetch_add(1, Relaxed);
    }

    /// Returns every series that has an id, in their order.
    pub(super) fn series(&self) -> Vec<Series> {
        let series_ids = self
            .series_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut series: Vec<_> = series_ids
            .iter()
            .map(|(of, series_id)| (*series_id, of.clone()))
            .collect();
        series.sort_unstable_by_key(|(series_id, _)| *series_id);
        series.into_iter().map(|(_, of)| of).collect()
    }

    /// Locks a shard. A panic under the lock has ended one connection; what it left is sound,
    /// since every state is changed in place.
    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        (self.shards[index].lock()).unwrap_or_else(PoisonError::into_inner)
    }

    fn note_overflow(&self) {
        self.overflowed.fetch_add(1, Relaxed);
    }
}

/// Returns the index of the shard that keeps a partition id, from its highest bits, as tables use the lowest.
///
/// Shards are of unequal shares, from three quarters of the mean to three halves, evenly graded.
/// Tables double: equal shards would all do so at the same number of keys, and bytes per key would
/// swing by two. So some double at any time, and what they leave is what the next ones need.
///
/// With `u` in [0, 1) the index is `SHARDS * u * (4 - u) / 3`, whose slope falls from 4/3 to 2/3.
#[expect(clippy::cast_possible_truncation, reason = "sixteen bits fit")]
fn shard_of(partition_id: PartitionId) -> usize {
    const ONE: usize = 1 << 16;
    if partition_id == OVERFLOW {
        return OVERFLOW_SHARD;
    }
    let u = (partition_id.high() >> (u64::BITS - ONE.ilog2())) as usize;
    u * (4 * ONE - u) / (3 * ONE * ONE / SHARDS)
}

/// Parts that are locked apart. Enough to keep workers out of each other's way and to make a
/// growing table a matter of microseconds; few enough that a series' small tables cost little.
const SHARDS: usize = 256;
/// The shard of overflow partitions; the last, since it may be locked while others are held.
const OVERFLOW_SHARD: usize = SHARDS;
/// The partition id of each series' overflow partition. That a client's partition id is the same is as likely as
/// that two clients' partition ids are.
const OVERFLOW: PartitionId = PartitionId::new(u128::MAX);
/// Shards that one call of [`MemoryStore::sweep`] looks at.
const SHARDS_PER_SWEEP: usize = 8;
/// When to ask a full store again: idle state has been swept by then.
const RETRY_WHEN_FULL: Micros = Micros::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_shards_grade_from_three_quarters_of_the_mean_to_three_halves() {
        const MEAN: u128 = 256;
        const STEPS: u128 = SHARDS as u128 * MEAN;
        let mut shares = [0; SHARDS];
        for step in 0..STEPS {
            shares[shard_of(PartitionId::new(step << (u128::BITS - STEPS.ilog2())))] += 1;
        }
        let quarters = shares
            .chunks(SHARDS / 4)
            .map(|quarter| quarter.iter().sum());
        let quarters: Vec<u128> = quarters.collect();
        assert_eq!(
            (shares.iter().min(), shares.iter().max()),
            (Some(&192), Some(&382))
        );
        assert!(quarters.is_sorted(), "{quarters:?}");
    }

    #[test]
    fn overflow_tag_has_the_shard_that_is_locked_last() {
        assert_eq!(shard_of(OVERFLOW), SHARDS);
        assert_eq!(shard_of(PartitionId::new(u128::MAX - 1)), SHARDS - 1);
    }
}
