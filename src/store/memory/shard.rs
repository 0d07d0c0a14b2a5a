//! A shard: the tables of every series for one part of the partitions, behind one lock.

use super::memory_budget::MemoryBudget;
use super::partitions::Purpose;
use super::segments::HashBucket;
use super::table::{SeriesTable, with_partitions};
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Check, PartitionId, Quota};

/// One part of the partitions.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Tables, indexed by series id. Ids are dense; a series without a table here costs a word.
    tables: Vec<Option<Box<SeriesTable>>>,
    /// When the shard was last swept for lack of room.
    swept_for_room_at: Timestamp,
    /// Whether a newcomer has found no room since the last sweep.
    is_full: bool,
}

impl Shard {
    pub(super) fn table(&mut self, series_id: SeriesId) -> Option<&mut SeriesTable> {
        self.tables.get_mut(series_id.0 as usize)?.as_deref_mut()
    }

    /// Yields the tables of all series that have one.
    pub(super) fn tables(&self) -> impl Iterator<Item = (SeriesId, &SeriesTable)> {
        let tables = (0..).map(SeriesId).zip(&self.tables);
        tables.filter_map(|(series_id, table)| Some((series_id, table.as_deref()?)))
    }

    /// Returns the series' table, which is made if there is none.
    pub(super) fn table_for(&mut self, series_id: SeriesId, quota: &Quota) -> &mut SeriesTable {
        let index = series_id.0 as usize;
        if index >= self.tables.len() {
            self.tables.reserve_exact(index + 1 - self.tables.len());
            self.tables.resize_with(index + 1, || None);
        }
        self.tables[index].get_or_insert_with(|| Box::new(SeriesTable::new(quota)))
    }

    /// Returns the series' table if something can be given back to it; for a balance, makes it if there is none.
    pub(super) fn table_to_give_back(
        &mut self,
        series_id: SeriesId,
        quota: &Quota,
    ) -> Option<&mut SeriesTable> {
        if quota.is_balance() {
            return Some(self.table_for(series_id, quota));
        }
        self.table(series_id)
    }

    /// Finds the bucket of a partition.
    pub(super) fn find(
        &mut self,
        series_id: SeriesId,
        partition_id: PartitionId,
    ) -> Option<HashBucket> {
        with_partitions!(self.table(series_id)?, partitions => partitions.find(partition_id))
    }

    /// Makes room for the check's partition, if need be by dropping idle ones of any series. Returns
    /// whether there is room.
    ///
    /// A check of cost 0 takes no room, but is answered as if it did.
    pub(super) fn make_room(
        &mut self,
        check: &Check<'_>,
        now: Timestamp,
        budget: &MemoryBudget,
    ) -> bool {
        let purpose = match check.cost {
            0 => Purpose::Peek,
            _ => Purpose::Insert,
        };
        if self.has_room(
            check.series_id,
            check.quota,
            check.partition_id,
            purpose,
            budget,
        ) {
            return true;
        }
        // Without the pause a flood of new keys would cause a sweep per request.
        if now.since(self.swept_for_room_at) >= PRESSED_PAUSE {
            self.swept_for_room_at = now;
            self.sweep(now, budget);
            if self.has_room(
                check.series_id,
                check.quota,
                check.partition_id,
                purpose,
                budget,
            ) {
                return true;
            }
        }
        self.is_full = true;
        false
    }

    /// Says whether a newcomer has found no room since the last sweep.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Says whether one more partition of a series fits without a sweep.
    pub(super) fn has_room(
        &mut self,
        series_id: SeriesId,
        quota: &Quota,
        partition_id: PartitionId,
        purpose: Purpose,
        budget: &MemoryBudget,
    ) -> bool {
        with_partitions!(self.table_for(series_id, quota), partitions => partitions.has_room(partition_id, purpose, budget))
    }

    /// Drops state whose quota is whole again, and tables that are empty.
    pub(super) fn sweep(&mut self, now: Timestamp, budget: &MemoryBudget) {
        self.is_full = false;
        for place in &mut self.tables {
            let left = place.as_deref_mut().map(|table| {
                with_partitions!(table, partitions => {
                    partitions.sweep(now, budget);
                    partitions.len()
                })
            });
            if left == Some(0) {
                *place = None;
            }
        }
    }

    /// Takes out the tables of all series, except those in `live`, which is sorted, and those that hold units in
    /// flight: such units come back when their requests end, and the policy may be there again by then.
    ///
    /// The caller drops them after it has unlocked the shard: a table can hold many states.
    pub(super) fn take_all_but(
        &mut self,
        live: &[SeriesId],
        budget: &MemoryBudget,
    ) -> Vec<SeriesTable> {
        let mut taken = Vec::new();
        for (series_id, place) in (0..).map(SeriesId).zip(&mut self.tables) {
            if live.binary_search(&series_id).is_err()
                && let Some(table) = place.take_if(|table| !table.is_held())
            {
                let bytes = with_partitions!(&*table, partitions => partitions.budgeted_bytes());
                budget.note(bytes, 0);
                taken.push(*table);
            }
        }
        taken
    }

    /// Counts the partitions of all series.
    pub(super) fn partitions(&self) -> usize {
        (self.tables.iter().flatten())
            .map(|table| with_partitions!(&**table, partitions => partitions.len()))
            .sum()
    }
}

/// Least time between two sweeps of a shard for lack of room.
const PRESSED_PAUSE: Micros = Micros(100_000);
