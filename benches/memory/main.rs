//! What the memory store costs: bytes per key, pauses while it grows, and ns per decision, also beside governor's keyed
//! limiter.
//!
//! Bytes are read twice: from the store's own accounts, and as resident memory, which includes the allocator's
//! rounding. Each number of keys has a process of its own, because allocators keep the memory that they were given.
//! Nanoseconds are CPU time of a thread per decision if the kernel reports it, so that a busy machine does not count;
//! waiting for a lock does not count either.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod governor;
mod growth;
#[path = "../support/mod.rs"]
mod support;

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::{env, thread};

use tollgate::clock::{Clock, Micros};
use tollgate::limit::plan::SeriesId;
use tollgate::limit::{Algorithm, Check, OldestBucket, PartitionId, Plan, Quota};
use tollgate::metrics::Usage;
use tollgate::store::{MemoryStore, Series, SeriesRole, Session, Store, StoreVerdict};

use support::{Stopwatch, partition_id, resident_bytes, run_again, settle};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The name of a part runs it alone, and a number measures a store of that many keys; Cargo passes `--bench`.
fn main() {
    let parts: Vec<String> = env::args()
        .skip(1)
        .filter(|part| part != "--bench")
        .collect();
    match parts.first().map(String::as_str) {
        Some("growth") => growth::grow(),
        Some("governor") => governor::compare(&partition_ids()),
        Some("decisions") => decisions(&partition_ids()),
        Some(keys) => bytes_per_key(keys.parse().expect("a part or a number of keys")),
        None => all(),
    }
}

fn all() {
    println!("bytes per key, one gcra quota");
    println!("{:>15} {:>9} {:>9}", "keys", "counted", "resident");
    let keys = [
        10_000, 100_000, 600_000, 900_000, 920_000, 1_000_000, 1_200_000,
    ];
    let sizes = keys.map(|keys| keys.to_string());
    for part in sizes.iter().map(String::as_str).chain(["growth"]) {
        run_again(&[part]);
    }
    let partition_ids = partition_ids();
    decisions(&partition_ids);
    governor::compare(&partition_ids);
}

/// Returns the million keys of the measurements with that many.
fn partition_ids() -> Vec<PartitionId> {
    (0..1_000_000).map(partition_id).collect()
}

fn decisions(partition_ids: &[PartitionId]) {
    println!("\nns per decision");
    println!(
        "{:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "hot key", "2 threads", "1M keys", "2 threads", "3 quotas", "2 threads"
    );
    for (name, algorithm) in algorithms() {
        let hot = Bench::new(algorithm, 1);
        let many = Bench::new(algorithm, 1);
        let plan = Bench::new(algorithm, 3);
        ns_per_decision(&many, 1, partition_ids);
        println!(
            "{name:>15} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            ns_per_decision(&hot, 1, &partition_ids[..1]),
            ns_per_decision(&hot, 2, &partition_ids[..1]),
            ns_per_decision(&many, 1, partition_ids),
            ns_per_decision(&many, 2, partition_ids),
            ns_per_decision(&plan, 1, &partition_ids[..1_000]),
            ns_per_decision(&plan, 2, &partition_ids[..1_000]),
        );
    }
}

/// A store, and a plan of one or more quotas.
struct Bench {
    store: Store,
    quotas: Vec<(Quota, SeriesId)>,
}

impl Bench {
    fn new(algorithm: Algorithm, quotas: u64) -> Self {
        let store = Store::Memory(Arc::new(MemoryStore::new(Clock::system(), 1 << 40)));
        let quotas = (1..=quotas)
            .map(|minutes| {
                let quota = Quota {
                    can_come_back: false,
                    ..Quota::of(algorithm, LIMIT.into(), Micros::from_secs(60 * minutes))
                };
                let series = Series::of("bench", SeriesRole::Real, &quota);
                (quota, store.series_id(&series))
            })
            .collect();
        Self { store, quotas }
    }

    /// Decides one request, and returns whether it is admitted.
    fn decide(&self, session: &Session, partition_id: PartitionId) -> bool {
        let mut plan = Plan::new();
        for (quota, series_id) in &self.quotas {
            plan.push(Check::of(quota, *series_id, partition_id));
        }
        let decision = pin!(session.decide(&plan));
        match decision.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(StoreVerdict::Decided { ref verdict, .. }) => black_box(verdict).admit,
            _ => unreachable!("memory never waits, and there is room"),
        }
    }

    fn usage(&self) -> Usage {
        let Store::Memory(memory) = &self.store else {
            unreachable!("it was made so");
        };
        memory.usage()
    }
}

/// A limiter that decides one request of a client at a time.
trait LimitOne: Sync {
    /// Returns the function with which one thread decides.
    fn limiter(&self) -> impl Fn(PartitionId) -> bool;
}

impl LimitOne for Bench {
    fn limiter(&self) -> impl Fn(PartitionId) -> bool {
        let session = self.store.session();
        move |partition_id| self.decide(&session, partition_id)
    }
}

fn ns_per_decision(limit: &impl LimitOne, threads: usize, partition_ids: &[PartitionId]) -> f64 {
    ns_per(limit, threads, partition_ids, || ())
}

/// Measures decisions in ns, each of which comes after a call of `between`.
fn ns_per(
    limit: &impl LimitOne,
    threads: usize,
    partition_ids: &[PartitionId],
    between: impl Fn() + Sync,
) -> f64 {
    let run = |first: usize| {
        let decide = limit.limiter();
        let started = Stopwatch::start();
        let mut index = first;
        for _ in 0..DECISIONS {
            between();
            black_box(decide(partition_ids[index]));
            // The keys are digests, so they come in no order that a table could use.
            index = (index + 1) % partition_ids.len();
        }
        started.elapsed_ns()
    };
    let sum: f64 = thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread * partition_ids.len() / threads)))
            .collect();
        let elapsed = runs.into_iter().map(std::thread::ScopedJoinHandle::join);
        elapsed.map(|ns| ns.expect("a run does not panic")).sum()
    });
    sum / threads as f64 / f64::from(DECISIONS)
}

fn bytes_per_key(keys: u64) {
    let warm_up = warm_up();
    let before = resident_bytes();
    let bench = Bench::new(GCRA, 1);
    let decide = bench.limiter();
    for key in 0..keys {
        black_box(decide(partition_id(key)));
    }
    settle();
    let resident = resident_bytes().saturating_sub(before);
    let counted = bench.usage().bytes;
    println!("{keys:>15} {:>9} {:>9}", counted / keys, resident / keys);
    drop(warm_up);
}

/// Fills a store of its own, so that what the process and its allocator need in any case is not attributed to the keys
/// that come afterwards.
fn warm_up() -> Bench {
    let bench = Bench::new(GCRA, 1);
    for key in 0..WARM_UP_KEYS {
        black_box(bench.decide(&bench.store.session(), partition_id(key)));
    }
    settle();
    bench
}

/// Keys that are put into a store of their own before resident memory is first read.
const WARM_UP_KEYS: u64 = 10_000;

fn algorithms() -> [(&'static str, Algorithm); 6] {
    [
        ("fixed-window", Algorithm::FixedWindow),
        ("calendar month", Algorithm::Calendar(support::month())),
        (
            "sliding-window",
            Algorithm::SlidingWindow {
                buckets: 10,
                oldest: OldestBucket::Weighted,
            },
        ),
        ("sliding-log", Algorithm::SlidingLog),
        ("gcra", GCRA),
        (
            "leaky-bucket",
            Algorithm::LeakyBucket {
                queue: u64::from(LIMIT) - 1,
            },
        ),
    ]
}

/// Decisions per thread and measurement.
const DECISIONS: u32 = 2_000_000;
/// Units per window.
const LIMIT: u32 = 100;
const GCRA: Algorithm = Algorithm::Gcra {
    burst: LIMIT as u64,
};
