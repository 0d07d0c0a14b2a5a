//! What the memory store costs: bytes per key, and nanoseconds per decision.
//!
//! Bytes are read twice: from the store's own accounts, and as resident memory, which includes the
//! allocator's rounding. Each number of keys has a process of its own, because allocators keep what
//! they were given. Nanoseconds are a thread's CPU time per decision if the kernel tells it, so
//! that a busy machine does not count; waiting for a lock does not count either.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod support;

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use std::{env, thread};

use futures_util::FutureExt;
use tollgate::clock::{Clock, Micros};
use tollgate::limit::partition_id::PartitionHasher;
use tollgate::limit::plan::{Mode, OnStoreFailure, SeriesId};
use tollgate::limit::{Algorithm, Align, Check, Count, LeavingBucket, PartitionId, Quota};
use tollgate::store::{MemoryStore, Outcome, Role, Series, Session, Shape, Store};

use support::{cpu_ns, resident_bytes, settle};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    match env::args().nth(1).and_then(|keys| keys.parse().ok()) {
        Some(keys) => bytes_per_key(keys),
        None => all(),
    }
}

fn all() {
    println!("bytes per key, one gcra quota");
    println!("{:>15} {:>9} {:>9}", "keys", "counted", "resident");
    for keys in [
        10_000, 100_000, 600_000, 900_000, 920_000, 1_000_000, 1_200_000,
    ] {
        let this = env::current_exe().expect("this program has a path");
        let status = Command::new(this).arg(keys.to_string()).status();
        assert!(status.expect("this program runs").success());
    }
    let partition_ids: Vec<PartitionId> = (0..1_000_000).map(partition_id).collect();
    println!("\nns per decision");
    println!(
        "{:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "hot key", "2 threads", "1M keys", "2 threads", "3 quotas", "2 threads"
    );
    for (name, algorithm) in algorithms() {
        let hot = Bench::new(algorithm, 1);
        let many = Bench::new(algorithm, 1);
        let plan = Bench::new(algorithm, 3);
        let session = many.store.session();
        for partition_id in &partition_ids {
            black_box(many.decide(&session, *partition_id));
        }
        println!(
            "{name:>15} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            hot.ns_per_decision(1, &partition_ids[..1]),
            hot.ns_per_decision(2, &partition_ids[..1]),
            many.ns_per_decision(1, &partition_ids),
            many.ns_per_decision(2, &partition_ids),
            plan.ns_per_decision(1, &partition_ids[..1_000]),
            plan.ns_per_decision(2, &partition_ids[..1_000]),
        );
    }
}

/// A store with a plan of one or more quotas.
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
                    limit: 100,
                    window: Micros::from_secs(60 * minutes),
                    algorithm,
                    count: Count::Admitted,
                    align: Align::Epoch,
                    series_reach: 0,
                };
                let series = Series {
                    policy: Arc::from("bench"),
                    role: Role::Real,
                    shape: Shape::of(&quota),
                    window: quota.window,
                };
                (quota, store.series_id(&series))
            })
            .collect();
        Self { store, quotas }
    }

    fn decide(&self, session: &Session, partition_id: PartitionId) -> Outcome {
        let plan: smallvec::SmallVec<[Check<'_>; 4]> = (self.quotas.iter())
            .map(|(quota, series_id)| Check {
                policy: 0,
                quota,
                series_id: *series_id,
                partition_id,
                cost: 1,
                mode: Mode::Enforce,
                on_store_failure: OnStoreFailure::Local,
            })
            .collect();
        let outcome = session.decide(&plan).now_or_never();
        outcome.expect("memory never waits")
    }

    fn ns_per_decision(&self, threads: usize, partition_ids: &[PartitionId]) -> f64 {
        let run = |first: usize| {
            let session = self.store.session();
            let started = Stopwatch::start();
            let mut index = first;
            for _ in 0..DECISIONS {
                black_box(self.decide(&session, partition_ids[index]));
                // A stride that is coprime with the number of keys visits them in no apparent
                // order.
                index = (index + 7_919) % partition_ids.len();
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
}

/// A thread's CPU time, or wall time if there is no /proc.
struct Stopwatch {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            cpu_ns: cpu_ns(),
            wall: Instant::now(),
        }
    }

    fn elapsed_ns(&self) -> f64 {
        match (self.cpu_ns, cpu_ns()) {
            (Some(start), Some(end)) => (end - start) as f64,
            _ => self.wall.elapsed().as_secs_f64() * 1e9,
        }
    }
}

fn bytes_per_key(keys: u64) {
    // What the process and its allocator need in any case is not counted for the keys.
    let warm_up = Bench::new(Algorithm::Gcra { burst: 100 }, 1);
    let session = warm_up.store.session();
    for key in 0..WARM_UP_KEYS {
        black_box(warm_up.decide(&session, partition_id(key)));
    }
    settle();
    let before = resident_bytes();
    let bench = Bench::new(Algorithm::Gcra { burst: 100 }, 1);
    let session = bench.store.session();
    for key in 0..keys {
        black_box(bench.decide(&session, partition_id(key)));
    }
    settle();
    let resident = resident_bytes().saturating_sub(before);
    let Store::Memory(memory) = &bench.store else {
        unreachable!("it was made so");
    };
    let counted = memory.usage().bytes;
    println!("{keys:>15} {:>9} {:>9}", counted / keys, resident / keys);
    drop(warm_up);
}

/// Keys that a store of its own has before resident memory is first read.
const WARM_UP_KEYS: u64 = 10_000;

fn partition_id(key: u64) -> PartitionId {
    let mut tagger = PartitionHasher::new(&[7; 32]);
    tagger.part("key", &key.to_le_bytes());
    tagger.finish()
}

fn algorithms() -> [(&'static str, Algorithm); 5] {
    [
        ("fixed-window", Algorithm::FixedWindow),
        (
            "sliding-window",
            Algorithm::SlidingWindow {
                buckets: 10,
                leaving: LeavingBucket::Weighted,
            },
        ),
        ("sliding-log", Algorithm::SlidingLog),
        ("gcra", Algorithm::Gcra { burst: 100 }),
        ("leaky-bucket", Algorithm::LeakyBucket { queue: 99 }),
    ]
}

/// Decisions per thread and measurement.
const DECISIONS: u32 = 2_000_000;
