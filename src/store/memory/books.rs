//! The shards that one plan needs, locked together, and where in them each check is kept.
//!
//! Shards are locked in index order, so two plans never wait for each other in a circle. The
//! overflow shard has the highest index and may therefore be locked late, when a partition turns
//! out to have no room.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::partitions::{Purpose, Spot};
use super::shard::Shard;
use super::table::with_partitions;
use super::{MemoryStore, OVERFLOW, OVERFLOW_SHARD, shard_of};
use crate::clock::Timestamp;
use crate::limit::plan::{Ledger, Mode, OnStoreFailure, Peek, SeriesId, Step};
use crate::limit::{Answer, Check, Decision, PartitionId, Quota};
use crate::store::charge::{Charge, Entry, Place as Keeper};

/// What a plan holds of the store while it is decided, settled or given back.
#[derive(Debug)]
pub(super) struct Books<'s> {
    store: &'s MemoryStore,
    /// In index order.
    shards: SmallVec<[Held<'s>; 2]>,
    /// One per check, in order.
    places: SmallVec<[Place; 4]>,
    /// Read once the locks are held, so that no partition ever sees an earlier time than before.
    pub(super) now: Timestamp,
    /// Likewise: a clearing locks what it clears after it was counted.
    clearings: u32,
}

/// A locked shard.
#[derive(Debug)]
struct Held<'s> {
    index: usize,
    shard: MutexGuard<'s, Shard>,
}

/// Where a check is counted.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In its own partition, in the shard held at this index; the bucket if it has state.
    Own { held: usize, bucket: Option<usize> },
    /// In its series' overflow partition, likewise.
    Overflow { held: usize, bucket: Option<usize> },
    /// Nowhere: there is no room, and its policy is `open`.
    Uncounted,
}

/// There is no room for a partition of an enforced `closed` policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<'s> Books<'s> {
    /// Locks the shards of all `tags`.
    pub(super) fn open(
        store: &'s MemoryStore,
        partition_ids: &(impl Iterator<Item = PartitionId> + Clone),
    ) -> Self {
        let mut shards = SmallVec::new();
        let mut next = partition_ids.clone().map(shard_of).min();
        while let Some(index) = next {
            shards.push(Held {
                index,
                shard: store.lock(index),
            });
            // Plans are short: looking for the next is cheaper than sorting a list.
            next = (partition_ids.clone().map(shard_of))
                .filter(|other| *other > index)
                .min();
        }
        Self {
            store,
            shards,
            places: SmallVec::new(),
            now: store.clock.now(),
            clearings: store.clearings.load(Relaxed),
        }
    }

    /// Finds where each check is counted, and makes room for partitions that are new.
    ///
    /// # Errors
    /// [`Full`] if one cannot be and may not go uncounted; then nothing must be decided.
    pub(super) fn place(&mut self, plan: &[Check<'_>]) -> Result<(), Full> {
        for check in plan {
            let place = self.place_one(check)?;
            self.places.push(place);
        }
        Ok(())
    }

    fn place_one(&mut self, check: &Check<'_>) -> Result<Place, Full> {
        let held = self.held(check.partition_id);
        let shard = &mut self.shards[held].shard;
        let bucket = shard.find(check.series_id, check.partition_id);
        if bucket.is_some() || shard.make_room(check, self.now, &self.store.meter) {
            return Ok(Place::Own { held, bucket });
        }
        self.store.note_overflow();
        match (check.on_store_failure, check.mode) {
            (OnStoreFailure::Local, _) => Ok(self.place_in_overflow(check.series_id, check.quota)),
            // A shadow quota never refuses, not for want of room either.
            (OnStoreFailure::Open, _) | (_, Mode::Shadow) => Ok(Place::Uncounted),
            (OnStoreFailure::Closed, Mode::Enforce) => Err(Full),
        }
    }

    /// Finds the series' overflow partition. It asks for no room: there is one per series.
    fn place_in_overflow(&mut self, series_id: SeriesId, quota: &Quota) -> Place {
        let held = self.held(OVERFLOW);
        let shard = &mut self.shards[held].shard;
        shard.table_for(series_id, quota);
        let bucket = shard.find(series_id, OVERFLOW);
        Place::Overflow { held, bucket }
    }

    /// Returns which of the shards held is the partition id's; locks the overflow shard if it is that.
    fn held(&mut self, partition_id: PartitionId) -> usize {
        let index = shard_of(partition_id);
        let held = (self.shards.iter()).position(|held| held.index == index);
        held.unwrap_or_else(|| {
            debug_assert_eq!(index, OVERFLOW_SHARD, "only the last may be locked late");
            self.shards.push(Held {
                index,
                shard: self.store.lock(index),
            });
            self.shards.len() - 1
        })
    }

    /// Lets go of the shards, and notes what the decided plan spent and where.
    pub(super) fn close(&mut self, plan: &[Check<'_>], answers: &[Answer]) -> Charge {
        self.shards.clear();
        let clearings = self.clearings;
        let entries = (plan.iter().zip(answers).zip(&self.places))
            .filter_map(|((check, answer), place)| {
                let (_, spot) = place.spot(check)?;
                Some(Entry {
                    quota: *check.quota,
                    series_id: check.series_id,
                    partition_id: spot.partition_id,
                    charged: answer.charged,
                    place: Keeper::Memory { clearings },
                })
            })
            .collect();
        Charge { entries }
    }

    /// Gives back up to `amount` units of an entry, and notes that they no longer stand.
    pub(super) fn release(&mut self, entry: &mut Entry, amount: u64) {
        let Some(charged) = &mut entry.charged else {
            return;
        };
        let amount = amount.min(charged.amount);
        if (entry.place)
            != (Keeper::Memory {
                clearings: self.clearings,
            })
        {
            entry.charged = None;
            return;
        }
        let (now, held) = (self.now, self.held(entry.partition_id));
        if let Some(table) = self.shards[held].shard.table(entry.series_id) {
            let meter = &self.store.meter;
            with_partitions!(table, partitions => {
                partitions.release(entry.partition_id, &entry.quota, *charged, amount, now, meter);
            });
        }
        charged.amount -= amount;
        if charged.amount == 0 {
            entry.charged = None;
        }
    }

    /// Spends `amount` where the entry was charged; in the overflow partition if it is gone and
    /// there is no room to make it anew.
    pub(super) fn spend(&mut self, entry: &Entry, amount: u64) {
        let (now, meter) = (self.now, &self.store.meter);
        let mut partition_id = entry.partition_id;
        let mut held = self.held(partition_id);
        let shard = &mut self.shards[held].shard;
        let has_place = partition_id == OVERFLOW
            || shard.find(entry.series_id, partition_id).is_some()
            || shard.has_room(entry.series_id, &entry.quota, Purpose::Insert, meter);
        if !has_place {
            self.store.note_overflow();
            partition_id = OVERFLOW;
            held = self.held(partition_id);
        }
        let table = (self.shards[held].shard).table_for(entry.series_id, &entry.quota);
        with_partitions!(table, partitions => {
            partitions.spend(partition_id, &entry.quota, amount, now, meter);
        });
    }
}

impl Ledger for Books<'_> {
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek {
        let (now, meter) = (self.now, &self.store.meter);
        let Some((held, spot)) = self.places[index].spot(check) else {
            return Peek {
                at: now,
                admit: true,
            };
        };
        let table = (self.shards[held].shard).table_for(check.series_id, check.quota);
        with_partitions!(table, partitions => partitions.peek(spot, check, now, meter))
    }

    fn commit(
        &mut self,
        index: usize,
        check: &Check<'_>,
        peek: Peek,
        step: Step,
    ) -> Option<Decision> {
        let (held, spot) = self.places[index].spot(check)?;
        let meter = &self.store.meter;
        let table = (self.shards[held].shard).table_for(check.series_id, check.quota);
        Some(
            with_partitions!(table, partitions => partitions.commit(spot, check, peek, step, meter)),
        )
    }
}

impl Place {
    /// Returns which of the shards held the check is counted in, and where in it.
    fn spot(self, check: &Check<'_>) -> Option<(usize, Spot)> {
        let (held, partition_id, bucket) = match self {
            Self::Own { held, bucket } => (held, check.partition_id, bucket),
            Self::Overflow { held, bucket } => (held, OVERFLOW, bucket),
            Self::Uncounted => return None,
        };
        Some((
            held,
            Spot {
                partition_id,
                bucket,
            },
        ))
    }
}
