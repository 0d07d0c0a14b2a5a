//! The fast path of most plans: one check, whose partition has state already.
//!
//! It needs no lists of shards and places, which [`LockedShards`](super::locked_shards::LockedShards) keeps for other
//! plans.

use super::memory_budget::MemoryBudget;
use super::partitions::{Partitions, Spot};
use super::placement::shard_of;
use super::shards::Shards;
use super::table::with_partitions;
use crate::clock::Timestamp;
use crate::limit::plan::{self, Ledger, Peek, Step};
use crate::limit::{Check, CheckResult, State, Verdict};

/// Decides a plan of one check if its partition has state; returns whether it has.
pub(super) fn decide_known(all: &Shards, check: &Check<'_>, verdict: &mut Verdict) -> bool {
    let mut shard = all.lock(shard_of(check.partition_id));
    let now = all.clock.now();
    let Some(table) = shard.table(check.series_id) else {
        return false;
    };
    table.prepare_for_release(check.quota, now, &all.budget);
    with_partitions!(table, partitions => decide_in(partitions, check, now, &all.budget, verdict))
}

fn decide_in<S: State + Clone>(
    partitions: &mut Partitions<S>,
    check: &Check<'_>,
    now: Timestamp,
    budget: &MemoryBudget,
    verdict: &mut Verdict,
) -> bool {
    let partition_id = check.partition_id;
    let bucket = partitions.find(partition_id);
    if bucket.is_none() {
        return false;
    }
    let spot = Spot {
        partition_id,
        bucket,
    };
    let mut known = KnownState {
        partitions,
        spot,
        now,
        budget,
    };
    plan::decide(&mut known, std::slice::from_ref(check), verdict);
    true
}

/// A partition's state in a locked shard, where nothing moves it.
struct KnownState<'k, S> {
    partitions: &'k mut Partitions<S>,
    spot: Spot,
    now: Timestamp,
    budget: &'k MemoryBudget,
}

impl<S: State + Clone> Ledger for KnownState<'_, S> {
    fn peek(&mut self, _index: usize, check: &Check<'_>) -> Peek {
        (self.partitions).peek(self.spot, check, self.now, self.budget)
    }

    fn commit(&mut self, _index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult {
        (self.partitions).commit(self.spot, check, peek, step, self.budget)
    }
}
