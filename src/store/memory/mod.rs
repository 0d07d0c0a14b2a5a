//! The memory store: counters in this process's memory, shared by its workers, within a bound.
//!
//! Partitions are spread over [`SHARDS`](placement::SHARDS) shards, each behind its own lock. A plan
//! locks the shards that it needs in index order and is decided in one step. All quotas of one
//! partition are in the same shard, so most plans take one lock. In a shard each series has its own
//! hash table, typed by algorithm; an entry costs the 16-byte partition id, its state and a control
//! byte. Tables grow in small steps ([`segments`]).
//!
//! The store holds at most `bytes_max`. When a table may not grow, idle state of its shard is dropped
//! first. If that is not enough, newcomers are decided as their policy says: by default they share one
//! overflow partition per series. Live state is never dropped to make room. Partitions that exist are
//! decided by their own state, and an eighth of the bound is kept from newcomers so that this state can
//! grow. When that is used up too, a log or a window gets coarser instead of growing
//! ([`State::charge_in_place`](crate::limit::State::charge_in_place)): its client may be refused for
//! longer, never admitted sooner.
//!
//! Only what no client can make more of may come on top of the bound: heads of tables (about a hundred bytes per shard
//! and series in use, a word per series ever seen) and the overflow partitions (one per series, a kilobyte at most).
//! Segments of tables double, so a full store is between 7/16 and 7/8 full of partitions.

mod known;
mod locked_shards;
mod memory_budget;
mod partitions;
mod placement;
mod segments;
mod shard;
mod shards;
mod table;
mod transfer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use self::known::decide_known;
use self::locked_shards::{Full, LockedShards, charge_entry};
use self::partitions::{Purpose, Spot};
use self::placement::{OVERFLOW, OVERFLOW_SHARD, shard_of};
use self::shards::Shards;
use self::table::with_partitions;
pub use self::transfer::{SeriesStates, VERSION as COUNTERS_VERSION};
use super::charge::{Charge, SettledEntry};
use super::directives::LocalDirectives;
use super::outcome::StoreVerdict;
use super::resets::PartitionResets;
use super::series::Series;
use crate::clock::{Clock, Micros, Timestamp};
use crate::limit::plan::{
    self, CheckMode, Ledger as _, OnStoreFailure, RefusingPolicies, SeriesId,
};
use crate::limit::{Adjustment, Check, Count, Decision, PartitionId, Verdict};
use crate::metrics::Usage;

/// Counters in this process's memory, shared by its workers.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Shards,
    /// The shard that the next sweep begins with.
    next_sweep: AtomicUsize,
    series_ids: Mutex<HashMap<Series, SeriesId>>,
    resets: PartitionResets,
    /// Directives of operators, if this is the whole store and not the fallback of another.
    pub(super) directives: LocalDirectives,
}

impl MemoryStore {
    /// Makes an empty store that holds at most `bytes_max`.
    pub fn new(clock: Clock, bytes_max: u64) -> Self {
        Self {
            shards: Shards::new(clock, bytes_max),
            next_sweep: AtomicUsize::new(0),
            series_ids: Mutex::default(),
            resets: PartitionResets::default(),
            directives: LocalDirectives::default(),
        }
    }

    /// Drops idle state and gives its memory back, [`SHARDS_PER_SWEEP`] shards at a time.
    ///
    /// If it is called every 100 ms, it passes over the whole store in 3.3 s. It locks a shard while it
    /// passes over its entries: for some tens of microseconds if there are a million partitions.
    pub fn sweep(&self) {
        let first = self.next_sweep.fetch_add(SHARDS_PER_SWEEP, Relaxed);
        for index in first..first + SHARDS_PER_SWEEP {
            let mut shard = self.shards.lock(index % self.shards.len());
            shard.sweep(self.shards.clock.now(), &self.shards.budget);
        }
    }

    /// Changes how many bytes the store may hold.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.shards.budget.set_bytes_max(bytes_max);
    }

    /// Returns what the store holds. It locks each shard for an instant, so it is for scrapes and not
    /// for requests.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage {
            bytes: self.shards.budget.bytes(),
            overflowed: self.shards.overflowed(),
            coarsened: self.shards.budget.coarsened(),
            ..Usage::default()
        };
        for index in 0..self.shards.len() {
            let shard = self.shards.lock(index);
            usage.partitions += shard.partitions() as u64;
            usage.is_full |= shard.is_full();
        }
        usage
    }

    pub(super) fn decide(&self, plan: &[Check<'_>]) -> StoreVerdict {
        let mut outcome = StoreVerdict::default();
        self.decide_into(plan, &mut outcome);
        outcome
    }

    /// Like [`decide`](Self::decide), but writes to `outcome`, which must be new, because an outcome is large.
    pub(super) fn decide_into(&self, plan: &[Check<'_>], outcome: &mut StoreVerdict) {
        if let StoreVerdict::Decided {
            verdict, charge, ..
        } = outcome
            && let Err(Full) = self.try_decide(plan, verdict, charge)
        {
            *outcome = StoreVerdict::Unavailable {
                retry: RETRY_WHEN_FULL,
            };
        }
    }

    fn try_decide(
        &self,
        plan: &[Check<'_>],
        verdict: &mut Verdict,
        charge: &mut Charge,
    ) -> Result<(), Full> {
        if let [check] = plan
            && decide_known(&self.shards, check, verdict)
        {
            let charged = verdict.answers[0].charged;
            charge
                .entries
                .push(charge_entry(check, check.partition_id, charged));
            return Ok(());
        }
        let mut locked_shards = LockedShards::new(&self.shards);
        locked_shards.lock(&plan.iter().map(|check| check.partition_id));
        locked_shards.place(plan)?;
        plan::decide(&mut locked_shards, plan, verdict);
        locked_shards.close(plan, &verdict.answers, charge);
        Ok(())
    }

    /// Refuses a plan that does not fit, and charges nothing; returns none if it may fit. Returns none, too, if a quota
    /// counts refused requests or the plan has candidates: they may be charged even then, so the cost must be known
    /// first.
    pub(super) fn refuse(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        let is_charged_if_refused = |check: &Check<'_>| {
            check.quota.count == Count::All || check.mode == CheckMode::Candidate
        };
        if plan.iter().any(is_charged_if_refused) {
            return None;
        }
        let mut locked_shards = LockedShards::new(&self.shards);
        locked_shards.lock(&plan.iter().map(|check| check.partition_id));
        locked_shards.place(plan).ok()?;
        let checks = plan.iter().enumerate();
        let does_fit = |(index, check)| locked_shards.peek(index, check).admit;
        let fits: SmallVec<[bool; 4]> = checks.map(does_fit).collect();
        if RefusingPolicies::of(plan, |index| fits[index]) == RefusingPolicies::None {
            return None;
        }
        let mut verdict = Verdict::default();
        plan::decide(&mut locked_shards, plan, &mut verdict);
        Some(StoreVerdict::without_charge(verdict))
    }

    /// Returns the answer that each check would get. If there is no room for its partition, that is the
    /// overflow partition's answer if the policy is `local`, and otherwise that of a whole quota.
    pub(super) fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
        plan.iter().map(|check| self.peek_one(check)).collect()
    }

    fn peek_one(&self, check: &Check<'_>) -> Decision {
        let mut partition_id = check.partition_id;
        let mut shard = self.shards.lock(shard_of(partition_id));
        if check.on_store_failure == OnStoreFailure::Local
            && shard.find(check.series_id, partition_id).is_none()
            && !shard.has_room(
                check.series_id,
                check.quota,
                partition_id,
                Purpose::Peek,
                &self.shards.budget,
            )
        {
            partition_id = OVERFLOW;
            shard = self.shards.lock(OVERFLOW_SHARD);
        }
        let bucket = shard.find(check.series_id, partition_id);
        let table = shard.table_for(check.series_id, check.quota);
        let now = self.shards.clock.now();
        with_partitions!(table, partitions => partitions.preview(Spot { partition_id, bucket }, check, now))
    }

    /// Gives back and spends as these entries say, in one step.
    pub(super) fn settle(&self, settled: &[SettledEntry]) {
        let partition_ids = settled.iter().map(|entry| entry.partition_id);
        let mut locked_shards = LockedShards::new(&self.shards);
        locked_shards.lock(&partition_ids);
        for entry in settled {
            // Resets are noted under the same locks.
            if self.resets.forbids_give_back(entry) {
                continue;
            }
            match entry.adjustment {
                Adjustment::GiveBack(amount) => locked_shards.release(entry, amount),
                Adjustment::Spend(amount) => locked_shards.spend(entry, amount),
            }
        }
    }

    /// Gives units back from the newest charges that count, or spends, as an operator ordered, in one step.
    pub(super) fn adjust(&self, checks: &[Check<'_>], adjustment: Adjustment) {
        let mut locked_shards = LockedShards::new(&self.shards);
        locked_shards.lock(&checks.iter().map(|check| check.partition_id));
        for check in checks {
            match adjustment {
                Adjustment::GiveBack(amount) => locked_shards.release_newest(check, amount),
                Adjustment::Spend(amount) => {
                    let entry = locked_shards::charge_entry(check, check.partition_id, None);
                    locked_shards.spend(&entry.adjusted_by(adjustment), amount);
                }
            }
        }
    }

    /// Makes one partition's quotas of these series whole again; returns the time of the reset. What was charged until
    /// then gives nothing back.
    pub(super) fn reset(&self, series_ids: &[SeriesId], partition_id: PartitionId) -> Timestamp {
        let mut shard = self.shards.lock(shard_of(partition_id));
        let now = self.shards.clock.now();
        for series_id in series_ids {
            self.resets.note(*series_id, partition_id, now);
            if let Some(table) = shard.table(*series_id) {
                with_partitions!(table, partitions => partitions.remove(partition_id, &self.shards.budget));
            }
        }
        now
    }

    /// Forgets when a partition's quota was reset, because no charge from before is left.
    pub(super) fn forget_reset(&self, series_id: SeriesId, partition_id: PartitionId) {
        self.resets.forget(series_id, partition_id);
    }

    /// Returns the id of a series, which stays the same as long as the store lives.
    ///
    /// Ids are dense and never given to another series, so a request with an old snapshot cannot touch
    /// the states of a new series.
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
            // The lock is released before the tables are dropped.
            let taken = self
                .shards
                .lock(index)
                .take_all_but(&live, &self.shards.budget);
            drop(taken);
        }
    }

    /// Returns every series that has an id, in the order of the ids.
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
}

/// Shards that one call of [`MemoryStore::sweep`] passes over.
const SHARDS_PER_SWEEP: usize = 8;
/// Time after which to try a full store again: idle state has been swept by then.
const RETRY_WHEN_FULL: Micros = Micros::from_secs(4);
