//! One decision beside governor's keyed limiter: the same quota, the same keys of the same type.
//!
//! Of governor's two keyed stores, each with its default hasher, the faster one is the bar. All take turns, so that
//! whatever else the machine does affects them alike. In a gateway, a decision comes among other work, and so does one
//! here: the clock is read between any two, which keeps the processor from beginning the next before the last is over.
//! What that read costs is measured in the same way and subtracted.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time;

use governor::clock::DefaultClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::{DashMapStateStore, HashMapStateStore, KeyedStateStore};
use governor::{Quota, RateLimiter};
use tollgate::limit::PartitionId;

use super::support::median;
use super::{Bench, GCRA, LIMIT, LimitOne, ns_per};

impl<S: KeyedStateStore<PartitionId> + Sync> LimitOne
    for RateLimiter<PartitionId, S, DefaultClock, NoOpMiddleware<Instant>>
{
    fn limiter(&self) -> impl Fn(PartitionId) -> bool {
        |partition_id| self.check_key(&partition_id).is_ok()
    }
}

/// Measures and prints what a decision costs in each.
pub fn compare(partition_ids: &[PartitionId]) {
    let per_minute = NonZeroU32::new(LIMIT).expect("a quota is positive");
    let quota = Quota::per_minute(per_minute);
    let ours = Bench::new(GCRA, 1);
    let dashmap = RateLimiter::<_, DashMapStateStore<_>, _>::dashmap(quota);
    let hashmap = RateLimiter::<_, HashMapStateStore<_>, _>::hashmap(quota);
    println!(
        "\nns per decision beside governor, gcra, 1M keys, medians of {ROUNDS} rounds, bar 1.0"
    );
    println!(
        "{:>15} {:>9} {:>9} {:>9} {:>9}",
        "", "tollgate", "dashmap", "hashmap", "ratio"
    );
    for threads in [1, 2] {
        let (mut rounds, mut ratios) = ([const { Vec::new() }; 3], Vec::new());
        for round in 0..=ROUNDS {
            let nothing = ns_apart(&Nothing, threads, partition_ids);
            let ns = [
                ns_apart(&ours, threads, partition_ids) - nothing,
                ns_apart(&dashmap, threads, partition_ids) - nothing,
                ns_apart(&hashmap, threads, partition_ids) - nothing,
            ];
            // The first round only inserts the keys.
            if round > 0 {
                ratios.push(ns[0] / ns[1].min(ns[2]));
                for (all, ns) in rounds.iter_mut().zip(ns) {
                    all.push(ns);
                }
            }
        }
        let [ours, dashmap, hashmap] = rounds.map(median);
        println!(
            "{:>15} {ours:>9.1} {dashmap:>9.1} {hashmap:>9.1} {:>9.2}",
            format!("{threads} threads"),
            median(ratios)
        );
    }
}

/// Measures decisions with a read of the clock before each.
fn ns_apart(limit: &impl LimitOne, threads: usize, partition_ids: &[PartitionId]) -> f64 {
    let read_clock = || {
        black_box(time::Instant::now());
    };
    ns_per(limit, threads, partition_ids, read_clock)
}

/// A limiter that decides nothing, to measure what the measurement itself costs.
struct Nothing;

impl LimitOne for Nothing {
    fn limiter(&self) -> impl Fn(PartitionId) -> bool {
        |_| true
    }
}

type Instant = <DefaultClock as governor::clock::Clock>::Instant;

/// Rounds, in each of which every limiter has its turn.
const ROUNDS: usize = 7;
