//! The short way of most plans: one check, whose partition has state already.
//!
//! It needs no list of shards and of places, which [`LockedShards`](super::locked_shards::LockedShards) keeps
//! for the others.

use super::partitions::Spot;
use super::placement::shard_of;
use super::shards::Shards;
use super::table::{SeriesTable, with_partitions};
use crate::clock::Timestamp;
use crate::limit::plan::{self, Ledger, Peek, Step};
use crate::limit::{Check, CheckResult, Verdict};

/// Decides a plan of one check if its partition has state; says whether it has.
pub(super) fn decide_known(all: &Shards, check: &Check<'_>, verdict: &mut Verdict) -> bool {
    let partition_id = check.partition_id;
    let mut shard = all.lock(shard_of(partition_id));
    let now = all.clock.now();
    let Some(table) = shard.table(check.series_id) else {
        return false;
    };
    table.prepare_for_release(check.quota, now, &all.budget);
    let bucket = with_partitions!(&mut *table, partitions => partitions.find(partition_id));
    if bucket.is_none() {
        return false;
    }
    let spot = Spot {
        partition_id,
        bucket,
    };
    let mut known = KnownState {
        all,
        table,
        spot,
        now,
    };
    plan::decide(&mut known, std::slice::from_ref(check), verdict);
    true
}

/// The partition's table, in a locked shard.
struct KnownState<'k> {
    all: &'k Shards,
    table: &'k mut SeriesTable,
    spot: Spot,
    now: Timestamp,
}

impl Ledger for KnownState<'_> {
    fn peek(&mut self, _index: usize, check: &Check<'_>) -> Peek {
        let budget = &self.all.budget;
        with_partitions!(&mut *self.table, partitions => partitions.peek(self.spot, check, self.now, budget))
    }

    fn commit(&mut self, _index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult {
        let budget = &self.all.budget;
        with_partitions!(&mut *self.table, partitions => partitions.commit(self.spot, check, peek, step, budget))
    }
}
