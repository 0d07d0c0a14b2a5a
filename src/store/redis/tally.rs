//! What is counted of the way to Redis: per worker, summed when it is scraped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

use crate::clock::Micros;
use crate::store::usage::{ROUND_TRIP_BOUNDS_US, RedisUsage};

/// Why a decision was not Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Lost {
    /// No answer came in time.
    Late,
    /// The server said that it cannot, or the connection broke.
    Failed,
    /// The call could not be sent.
    Unsent,
    /// The server was not asked, as it fails.
    Unasked,
}

/// What one worker counts.
#[derive(Debug, Default)]
pub(super) struct Tally(CachePadded<Counters>);

#[derive(Debug, Default)]
struct Counters {
    answered: AtomicU64,
    remembered: AtomicU64,
    lost: [AtomicU64; 4],
    /// Connections that stand now, and all that were made.
    connections: AtomicU64,
    round_trips: [AtomicU64; ROUND_TRIP_BOUNDS_US.len() + 1],
    round_trips_us: AtomicU64,
}

impl Tally {
    /// Counts an answer of Redis that took so long.
    pub(super) fn answered(&self, took: Micros) {
        let bucket = ROUND_TRIP_BOUNDS_US.partition_point(|&bound_us| bound_us < took.0);
        add(&self.0.answered, 1);
        add(&self.0.round_trips[bucket], 1);
        add(&self.0.round_trips_us, took.0);
    }

    /// Counts an answer that was remembered.
    pub(super) fn remembered(&self) {
        add(&self.0.remembered, 1);
    }

    /// Counts a plan, or a part of one, that Redis did not decide.
    pub(super) fn lost(&self, lost: Lost) {
        add(&self.0.lost[lost as usize], 1);
    }

    /// Notes how many connections stand.
    pub(super) fn connected(&self, connections: u64) {
        self.0.connections.store(connections, Relaxed);
    }
}

impl RedisUsage {
    /// Sums what the workers counted.
    pub(super) fn of<'t>(tallies: impl Iterator<Item = &'t Tally>) -> Self {
        let mut usage = Self::default();
        for Tally(counters) in tallies {
            let [late, failed, unsent, unasked] = &counters.lost;
            usage.answered += counters.answered.load(Relaxed);
            usage.remembered += counters.remembered.load(Relaxed);
            usage.late += late.load(Relaxed);
            usage.failed += failed.load(Relaxed) + unsent.load(Relaxed);
            usage.unasked += unasked.load(Relaxed);
            usage.connections += counters.connections.load(Relaxed);
            usage.round_trips_us += counters.round_trips_us.load(Relaxed);
            for (sum, count) in usage.round_trips.iter_mut().zip(&counters.round_trips) {
                *sum += count.load(Relaxed);
            }
        }
        usage
    }
}

/// Counters have one writer: a load and a store, and no locked instruction.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}
