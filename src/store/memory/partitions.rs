//! The partitions of one series in one shard: a hash table from partition id to the state of one
//! algorithm, and what it holds of the memory budget.

use super::memory_budget::MemoryBudget;
use super::placement::OVERFLOW;
use super::segments::{HashBucket, Segments};
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{Peek, Step};
use crate::limit::{Check, CheckResult, Decision, PartitionId, Quota, State};

/// The states of one series' partitions in one shard. The fields that each request reads come first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Partitions<S> {
    entries: Segments<S>,
    /// Bytes that the states hold outside of the table.
    heap_bytes: usize,
    /// Bytes that the budget counts for this table.
    budgeted_bytes: usize,
    /// The quota for which the table was made. Only its window and shape are read, which are the same
    /// for every quota of the series.
    quota: Quota,
}

/// Where a partition's state is, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) partition_id: PartitionId,
    /// The bucket in which it was found. A sweep or a growth moves entries: [`Partitions::refind`] finds them again.
    pub(super) bucket: Option<HashBucket>,
}

/// Whether a caller that asks for room is going to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It takes the room, so the table may grow.
    Insert,
    /// Only the answer matters.
    Peek,
}

/// How a charge gets the memory that a state needs for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It needs no memory, or the budget is told afterwards.
    None,
    /// The memory that it needs has been taken from the budget.
    Taken,
    /// There is no memory left: the state gets coarser.
    Barred,
}

impl<S: State + Clone> Partitions<S> {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            entries: Segments::new(),
            heap_bytes: 0,
            budgeted_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn budgeted_bytes(&self) -> usize {
        self.budgeted_bytes
    }

    /// Finds the bucket of a partition.
    pub(super) fn find(&self, partition_id: PartitionId) -> Option<HashBucket> {
        self.entries.find(partition_id)
    }

    /// Says whether one more partition fits, and grows the table for it if need be.
    pub(super) fn has_room(
        &mut self,
        partition_id: PartitionId,
        purpose: Purpose,
        budget: &MemoryBudget,
    ) -> bool {
        if purpose == Purpose::Insert {
            self.split_if_due(budget);
        }
        let Some(grown_bytes) = self.entries.growth_bytes(partition_id) else {
            // The states' heap may have filled the store while tables are half empty.
            return budget.fits_newcomer(0);
        };
        if purpose == Purpose::Peek {
            return budget.fits_newcomer(grown_bytes);
        }
        if !self.take_for_newcomer(grown_bytes, budget) {
            return false;
        }
        self.entries.grow(partition_id);
        self.settle(budget);
        true
    }

    /// Splits a segment if that is due and there is memory for it.
    fn split_if_due(&mut self, budget: &MemoryBudget) {
        if let Some(split_bytes) = self.entries.split_bytes()
            && self.take_for_newcomer(split_bytes, budget)
        {
            self.entries.split();
            self.settle(budget);
        }
    }

    fn take_for_newcomer(&mut self, bytes: usize, budget: &MemoryBudget) -> bool {
        let is_taken = budget.try_take_for_newcomer(bytes);
        if is_taken {
            self.budgeted_bytes += bytes;
        }
        is_taken
    }

    /// Peeks at a partition; `spot` is where it is now.
    pub(super) fn peek(
        &mut self,
        spot: Spot,
        check: &Check<'_>,
        now: Timestamp,
        budget: &MemoryBudget,
    ) -> Peek {
        let now = now + check.quota.phase(spot.partition_id);
        let peek = |state: &mut S| {
            let at = state.arrive(check.quota, now);
            let admit = state.admits(check.quota, check.cost, at);
            Peek { at, admit }
        };
        match spot.bucket {
            Some(bucket) => self.update(bucket, budget, peek),
            None => peek(&mut S::default()),
        }
    }

    /// Charges the cost or leaves it; a partition whose quota stays whole is not inserted. `spot` is where it is now.
    pub(super) fn commit(
        &mut self,
        spot: Spot,
        check: &Check<'_>,
        peek: Peek,
        step: Step,
        budget: &MemoryBudget,
    ) -> CheckResult {
        let commit = |state: &mut S, growth: Growth| {
            let charged = match (step, growth) {
                (Step::Leave, _) => None,
                (Step::Charge, Growth::Barred) => {
                    Some(state.charge_in_place(check.quota, check.cost, peek.at))
                }
                (Step::Charge, _) => Some(state.charge(check.quota, check.cost, peek.at)),
            };
            let decision = state.decision(check.quota, check.cost, peek.at, peek.admit);
            CheckResult {
                decision: Some(decision),
                charged,
            }
        };
        if let Some(bucket) = spot.bucket {
            let growth = match step {
                Step::Charge if check.cost > 0 => self.growth(bucket, check.quota, peek.at, budget),
                _ => Growth::None,
            };
            let answer = self.update(bucket, budget, |state| commit(state, growth));
            self.settle_growth(growth, budget);
            return answer;
        }
        let mut state = S::default();
        state.arrive(check.quota, peek.at);
        let answer = commit(&mut state, Growth::None);
        if step == Step::Charge && check.cost > 0 {
            self.insert(spot.partition_id, state, budget);
        }
        answer
    }

    /// Returns the answer that a request of the check's cost would get; changes nothing.
    pub(super) fn preview(&self, spot: Spot, check: &Check<'_>, now: Timestamp) -> Decision {
        let found = spot.bucket.and_then(|bucket| self.entries.get(bucket));
        let mut state = found.map_or_else(S::default, |(_, state)| state.clone());
        let at = state.arrive(check.quota, now + check.quota.phase(spot.partition_id));
        let admit = state.admits(check.quota, check.cost, at);
        let wait = if admit {
            let charged = state.charge(check.quota, check.cost, at);
            check.quota.wait(&charged)
        } else {
            Micros(0)
        };
        Decision {
            wait,
            ..state.decision(check.quota, check.cost, at, admit)
        }
    }

    /// Gives units back to a partition. If the partition is gone, its quota is whole already and stays so; only a
    /// balance then rises above its initial one, for which there is always room.
    pub(super) fn give_back(
        &mut self,
        partition_id: PartitionId,
        quota: &Quota,
        now: Timestamp,
        budget: &MemoryBudget,
        give_back: impl FnOnce(&mut S, Timestamp),
    ) {
        let now = now + quota.phase(partition_id);
        if let Some(bucket) = self.find(partition_id) {
            self.update(bucket, budget, |state| {
                let at = state.arrive(quota, now);
                give_back(state, at);
            });
        } else if quota.is_balance() {
            let mut state = S::default();
            let at = state.arrive(quota, now);
            give_back(&mut state, at);
            self.insert(partition_id, state, budget);
        }
    }

    pub(super) fn spend(
        &mut self,
        partition_id: PartitionId,
        quota: &Quota,
        amount: u64,
        now: Timestamp,
        budget: &MemoryBudget,
    ) {
        let now = now + quota.phase(partition_id);
        if let Some(bucket) = self.find(partition_id) {
            let at = self.update(bucket, budget, |state| state.arrive(quota, now));
            let growth = self.growth(bucket, quota, at, budget);
            self.update(bucket, budget, |state| match growth {
                Growth::Barred => {
                    state.charge_in_place(quota, amount, at);
                }
                Growth::None | Growth::Taken => state.spend(quota, amount, at),
            });
            self.settle_growth(growth, budget);
        } else {
            let mut state = S::default();
            let at = state.arrive(quota, now);
            state.spend(quota, amount, at);
            self.insert(partition_id, state, budget);
        }
    }

    /// Converts every state to another type, in a new table.
    pub(super) fn convert<T: State + Clone>(
        self,
        convert: impl Fn(S) -> T,
        budget: &MemoryBudget,
    ) -> Partitions<T> {
        budget.note(self.budgeted_bytes, 0);
        let mut converted = Partitions::new(self.quota);
        for (partition_id, state) in self.entries.into_entries() {
            if converted.entries.split_bytes().is_some() {
                converted.entries.split();
            }
            converted.insert(partition_id, convert(state), budget);
        }
        converted
    }

    /// Returns a copy of every state.
    pub(super) fn copied(&self) -> Vec<(PartitionId, S)> {
        self.entries.iter().cloned().collect()
    }

    /// Replaces a partition's state with the passed one, even if there is no room: the old process had it.
    pub(super) fn adopt(&mut self, partition_id: PartitionId, state: S, budget: &MemoryBudget) {
        // It splits no sooner than it must: a store that was full had no memory to split either.
        if self.entries.growth_bytes(partition_id).is_some() {
            self.split_if_due(budget);
        }
        self.remove(partition_id, budget);
        self.insert(partition_id, state, budget);
    }

    pub(super) fn remove(&mut self, partition_id: PartitionId, budget: &MemoryBudget) {
        if let Some(state) = self.entries.remove(partition_id) {
            self.settle_heap(state.heap_bytes(), 0, budget);
        }
    }

    /// Drops every state whose quota is whole again.
    pub(super) fn sweep(&mut self, now: Timestamp, budget: &MemoryBudget) {
        let (quota, mut heap_bytes) = (self.quota, 0);
        self.entries.retain(|partition_id, state| {
            let stays = !state.is_whole(&quota, now + quota.phase(partition_id));
            if stays {
                heap_bytes += state.heap_bytes();
            }
            stays
        });
        self.heap_bytes = heap_bytes;
        self.settle(budget);
    }

    /// Returns where a partition is now, which may have been inserted or moved since it was looked for.
    pub(super) fn refind(&self, spot: Spot) -> Spot {
        let partition_id = spot.partition_id;
        let is_there = |&bucket: &HashBucket| {
            (self.entries.get(bucket)).is_some_and(|(at, _)| *at == partition_id)
        };
        let bucket = (spot.bucket.filter(is_there)).or_else(|| self.find(partition_id));
        Spot {
            partition_id,
            bucket,
        }
    }

    /// Takes from the budget the memory that a charge at `at` needs for the state in a bucket, if any.
    fn growth(
        &mut self,
        bucket: HashBucket,
        quota: &Quota,
        at: Timestamp,
        budget: &MemoryBudget,
    ) -> Growth {
        let (partition_id, state) = self.entries.get(bucket).expect("it was found");
        // While the state grows, both its old and its new memory exist.
        let growth_bytes = state.growth_bytes(quota, at);
        if growth_bytes == 0
            || (*partition_id == OVERFLOW && growth_bytes <= OVERFLOW_STATE_BYTES_MAX)
        {
            return Growth::None;
        }
        if budget.try_take_for_known(growth_bytes) {
            self.budgeted_bytes += growth_bytes;
            return Growth::Taken;
        }
        budget.note_coarsened();
        Growth::Barred
    }

    /// Returns to the budget what was needed only during a growth.
    fn settle_growth(&mut self, growth: Growth, budget: &MemoryBudget) {
        if growth == Growth::Taken {
            self.settle(budget);
        }
    }

    /// Changes the state in a bucket, and tells the budget if its heap grew or shrank.
    fn update<R>(
        &mut self,
        bucket: HashBucket,
        budget: &MemoryBudget,
        change: impl FnOnce(&mut S) -> R,
    ) -> R {
        let (_, state) = (self.entries.get_mut(bucket)).expect("the bucket was found");
        let before = state.heap_bytes();
        let result = change(state);
        let after = state.heap_bytes();
        self.settle_heap(before, after, budget);
        result
    }

    fn insert(&mut self, partition_id: PartitionId, state: S, budget: &MemoryBudget) {
        self.heap_bytes += state.heap_bytes();
        self.entries.insert(partition_id, state);
        self.settle(budget);
    }

    fn settle_heap(&mut self, before: usize, after: usize, budget: &MemoryBudget) {
        if before != after {
            self.heap_bytes = self.heap_bytes + after - before;
            self.settle(budget);
        }
    }

    /// Tells the budget what the table and its states hold now.
    fn settle(&mut self, budget: &MemoryBudget) {
        let held_bytes = self.entries.allocated_bytes() + self.heap_bytes;
        if held_bytes != self.budgeted_bytes {
            budget.note(self.budgeted_bytes, held_bytes);
            self.budgeted_bytes = held_bytes;
        }
    }
}

/// Bytes that an overflow partition's state may take however full the store is: there is one per
/// series, and what all newcomers share should not be coarse. All buckets of a window fit.
const OVERFLOW_STATE_BYTES_MAX: usize = 1024;
