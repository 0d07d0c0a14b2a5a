//! The shards that one plan needs, locked together, and where in them each check is counted.
//!
//! Shards are locked in index order, so two plans never wait for each other in a circle. The
//! overflow shard has the highest index, so it may be locked late, when a partition turns out to have
//! no room.

use std::sync::MutexGuard;

use smallvec::SmallVec;

use super::partitions::{Purpose, Spot};
use super::placement::{OVERFLOW, OVERFLOW_SHARD, shard_of};
use super::shard::Shard;
use super::shards::Shards;
use super::table::with_partitions;
use crate::clock::Timestamp;
use crate::limit::plan::{CheckMode, Ledger, OnStoreFailure, Peek, SeriesId, Step};
use crate::limit::{Charged, Check, CheckResult, PartitionId, Quota, State as _};
use crate::store::charge::{Charge, ChargeEntry, Keeper, SettledEntry};

/// The locked shards of a plan that is being decided or settled.
#[derive(Debug)]
pub(super) struct LockedShards<'s> {
    all: &'s Shards,
    /// The locked shards, in index order.
    shards: SmallVec<[LockedShard<'s>; 2]>,
    /// Where each check of the plan is counted, in order; none if there is no room for its partition and
    /// the check must not refuse because of that.
    places: SmallVec<[Option<CheckPlace>; 4]>,
    /// Time read when the locks are held, so that no partition ever sees an earlier time than before.
    pub(super) now: Timestamp,
}

/// A locked shard.
#[derive(Debug)]
struct LockedShard<'s> {
    index: usize,
    shard: MutexGuard<'s, Shard>,
}

/// Where a check is counted.
#[derive(Clone, Copy, Debug)]
struct CheckPlace {
    /// Index of the partition's shard among the locked ones.
    held: usize,
    /// Where the state of the check's own partition is, or that of its series' overflow partition.
    spot: Spot,
}

/// There is no room for a partition of an enforced `closed` policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<'s> LockedShards<'s> {
    pub(super) fn new(all: &'s Shards) -> Self {
        Self {
            all,
            shards: SmallVec::new(),
            places: SmallVec::new(),
            now: Timestamp::default(),
        }
    }

    /// Locks the shards of all these partitions, and reads the clock.
    pub(super) fn lock(&mut self, partition_ids: &(impl Iterator<Item = PartitionId> + Clone)) {
        let mut next = partition_ids.clone().map(shard_of).min();
        while let Some(index) = next {
            self.shards.push(LockedShard {
                index,
                shard: self.all.lock(index),
            });
            // Plans are short, so searching for the next shard is cheaper than sorting them.
            next = (partition_ids.clone().map(shard_of))
                .filter(|other| *other > index)
                .min();
        }
        self.now = self.all.clock.now();
    }

    /// Finds where each check is counted, and makes room for partitions that are new.
    ///
    /// # Errors
    /// [`Full`] if a check cannot be counted and may not go uncounted; then the plan must not be decided.
    pub(super) fn place(&mut self, plan: &[Check<'_>]) -> Result<(), Full> {
        for check in plan {
            let place = self.place_one(check)?;
            self.places.push(place);
        }
        Ok(())
    }

    fn place_one(&mut self, check: &Check<'_>) -> Result<Option<CheckPlace>, Full> {
        let held = self.locked_index(check.partition_id);
        let shard = &mut self.shards[held].shard;
        if let Some(table) = shard.table(check.series_id) {
            table.prepare_for_release(check.quota, self.now, &self.all.budget);
        }
        let bucket = shard.find(check.series_id, check.partition_id);
        if bucket.is_some() || shard.make_room(check, self.now, &self.all.budget) {
            let partition_id = check.partition_id;
            let spot = Spot {
                partition_id,
                bucket,
            };
            return Ok(Some(CheckPlace { held, spot }));
        }
        // Newcomers without room share a quota, but must not share the penalty of one of them.
        if check.quota.is_penalty() {
            return Ok(None);
        }
        self.all.note_overflow();
        match (check.on_store_failure, check.mode) {
            (OnStoreFailure::Local, _) => {
                Ok(Some(self.place_in_overflow(check.series_id, check.quota)))
            }
            (OnStoreFailure::Closed, CheckMode::Enforce) => Err(Full),
            // A shadow quota or a candidate never refuses, even if there is no room.
            (OnStoreFailure::Open | OnStoreFailure::Closed, _) => Ok(None),
        }
    }

    /// Finds the series' overflow partition, for which there is always room.
    fn place_in_overflow(&mut self, series_id: SeriesId, quota: &Quota) -> CheckPlace {
        let held = self.locked_index(OVERFLOW);
        let shard = &mut self.shards[held].shard;
        shard.table_for(series_id, quota);
        let spot = Spot {
            partition_id: OVERFLOW,
            bucket: shard.find(series_id, OVERFLOW),
        };
        CheckPlace { held, spot }
    }

    /// Returns which of the locked shards has a partition; locks the overflow shard first if it is the one.
    fn locked_index(&mut self, partition_id: PartitionId) -> usize {
        let index = shard_of(partition_id);
        let held = (self.shards.iter()).position(|held| held.index == index);
        held.unwrap_or_else(|| {
            debug_assert_eq!(index, OVERFLOW_SHARD, "only the last may be locked late");
            self.shards.push(LockedShard {
                index,
                shard: self.all.lock(index),
            });
            self.shards.len() - 1
        })
    }

    /// Unlocks the shards, and notes what the decided plan spent and where.
    pub(super) fn close(
        &mut self,
        plan: &[Check<'_>],
        answers: &[CheckResult],
        charge: &mut Charge,
    ) {
        self.shards.clear();
        for ((check, answer), place) in plan.iter().zip(answers).zip(&self.places) {
            let Some(CheckPlace { spot, .. }) = place else {
                continue;
            };
            (charge.entries).push(charge_entry(check, spot.partition_id, answer.charged));
        }
    }

    /// Gives back `amount` units of an entry.
    pub(super) fn release(&mut self, entry: &SettledEntry, amount: u64) {
        let (now, held) = (self.now, self.locked_index(entry.partition_id));
        let shard = &mut self.shards[held].shard;
        if let Some(table) = shard.table_to_give_back(entry.series_id, &entry.quota) {
            let budget = &self.all.budget;
            with_partitions!(table, partitions => {
                partitions.give_back(entry.partition_id, &entry.quota, now, budget, |state, at| {
                    state.release(&entry.quota, entry.charged, amount, at);
                });
            });
        }
    }

    /// Gives back up to `amount` units of the newest charge of a check's partition, whoever made it.
    pub(super) fn release_newest(&mut self, check: &Check<'_>, amount: u64) {
        let (now, held) = (self.now, self.locked_index(check.partition_id));
        let shard = &mut self.shards[held].shard;
        if let Some(table) = shard.table_to_give_back(check.series_id, check.quota) {
            let budget = &self.all.budget;
            with_partitions!(table, partitions => {
                partitions.give_back(check.partition_id, check.quota, now, budget, |state, at| {
                    let newest = state.newest(check.quota, at);
                    state.release(check.quota, newest, amount.min(newest.amount), at);
                });
            });
        }
    }

    /// Spends `amount` where the entry was charged, or in the overflow partition if that partition is
    /// gone and there is no room for it.
    pub(super) fn spend(&mut self, entry: &SettledEntry, amount: u64) {
        let (now, budget) = (self.now, &self.all.budget);
        let mut partition_id = entry.partition_id;
        let mut held = self.locked_index(partition_id);
        let shard = &mut self.shards[held].shard;
        let has_place = partition_id == OVERFLOW
            || shard.find(entry.series_id, partition_id).is_some()
            || shard.has_room(
                entry.series_id,
                &entry.quota,
                partition_id,
                Purpose::Insert,
                budget,
            );
        if !has_place {
            self.all.note_overflow();
            partition_id = OVERFLOW;
            held = self.locked_index(partition_id);
        }
        let table = (self.shards[held].shard).table_for(entry.series_id, &entry.quota);
        with_partitions!(table, partitions => {
            partitions.spend(partition_id, &entry.quota, amount, now, budget);
        });
    }
}

impl Ledger for LockedShards<'_> {
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek {
        let (now, budget) = (self.now, &self.all.budget);
        let Some(CheckPlace { held, spot }) = self.places[index] else {
            return Peek {
                at: now,
                // A check that is not counted cannot take over what another one refuses.
                admit: check.mode != CheckMode::Spill,
            };
        };
        let table = (self.shards[held].shard).table_for(check.series_id, check.quota);
        with_partitions!(table, partitions => partitions.peek(partitions.refind(spot), check, now, budget))
    }

    fn commit(&mut self, index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult {
        let Some(CheckPlace { held, spot }) = self.places[index] else {
            return CheckResult::default();
        };
        let budget = &self.all.budget;
        let table = (self.shards[held].shard).table_for(check.series_id, check.quota);
        with_partitions!(table, partitions => partitions.commit(partitions.refind(spot), check, peek, step, budget))
    }
}

/// Says what a check spent, and in which partition.
pub(super) fn charge_entry(
    check: &Check<'_>,
    partition_id: PartitionId,
    charged: Option<Charged>,
) -> ChargeEntry {
    ChargeEntry {
        quota: *check.quota,
        policy: check.policy,
        series_id: check.series_id,
        partition_id,
        charged,
        keeper: Keeper::Memory,
    }
}
