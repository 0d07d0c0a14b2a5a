//! Counters of each worker's calls to Redis; summed for a scrape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::Micros;
use crate::metrics::{ROUND_TRIP_BOUNDS_US, RedisUsage};

/// Why Redis did not decide a plan, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// No answer came in time.
    Late,
    /// The server answered with an error: nothing was executed.
    Failed,
    /// The connection ended before the answer.
    Disconnected,
    /// The call could not be sent.
    Unsent,
    /// The server was not asked, because its breaker is not closed.
    Unasked,
    /// The server is well, but a key of the plan holds a value that no script of this version wrote.
    BadKey,
    /// The server does not decide several partitions in one call, and has executed nothing.
    CrossSlot,
}

/// Counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(super) struct CallMetrics {
    answered: AtomicU64,
    remembered: AtomicU64,
    leased: AtomicU64,
    synced: AtomicU64,
    unanswered: [AtomicU64; 7],
    out_of_memory: AtomicU64,
    settlements_dropped: AtomicU64,
    round_trips: [AtomicU64; ROUND_TRIP_BOUNDS_US.len() + 1],
    round_trips_us: AtomicU64,
}

impl CallMetrics {
    /// Counts an answer of Redis and how long it took.
    pub(super) fn answered(&self, took: Micros) {
        let bucket = ROUND_TRIP_BOUNDS_US.partition_point(|&bound_us| bound_us < took.0);
        add(&self.answered, 1);
        add(&self.round_trips[bucket], 1);
        add(&self.round_trips_us, took.0);
    }

    /// Counts a plan that a remembered refusal answered.
    pub(super) fn remembered(&self) {
        add(&self.remembered, 1);
    }

    /// Counts a plan, or a part of one, that was paid with units held ahead.
    pub(super) fn leased(&self) {
        add(&self.leased, 1);
    }

    /// Counts a plan, or a part of one, that this gateway's own counts decided.
    pub(super) fn synced(&self) {
        add(&self.synced, 1);
    }

    /// Counts a plan, or a part of one, that Redis did not decide.
    pub(super) fn unanswered(&self, why: Unanswered) {
        add(&self.unanswered[why as usize], 1);
    }

    /// Counts a call that the server had no memory for.
    pub(super) fn out_of_memory(&self) {
        add(&self.out_of_memory, 1);
    }

    /// Counts a charge that stays as it is, or may, because its settlement was dropped, failed, or got no answer.
    pub(super) fn settlement_dropped(&self) {
        add(&self.settlements_dropped, 1);
    }

    /// Adds this worker's counts to those of other workers.
    pub(super) fn add_to(&self, usage: &mut RedisUsage) {
        // After a `CROSSSLOT` the plan is decided in parts, and these are counted instead.
        let [late, failed, disconnected, unsent, unasked, bad_key, _] = &self.unanswered;
        usage.answered += self.answered.load(Relaxed);
        usage.remembered += self.remembered.load(Relaxed);
        usage.leased += self.leased.load(Relaxed);
        usage.synced += self.synced.load(Relaxed);
        usage.late += late.load(Relaxed);
        for failed in [failed, disconnected, bad_key] {
            usage.failed += failed.load(Relaxed);
        }
        usage.unsent += unsent.load(Relaxed);
        usage.unasked += unasked.load(Relaxed);
        usage.out_of_memory += self.out_of_memory.load(Relaxed);
        usage.settlements_dropped += self.settlements_dropped.load(Relaxed);
        usage.round_trips_us += self.round_trips_us.load(Relaxed);
        for (sum, count) in usage.round_trips.iter_mut().zip(&self.round_trips) {
            *sum += count.load(Relaxed);
        }
    }
}

/// Adds to a counter. It has one writer, so a load and a store suffice, without a locked instruction.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}
