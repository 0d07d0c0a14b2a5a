//! What a decision in Redis costs without HTTP around it: CPU time here and there, and bytes per
//! key.
//!
//! One worker's session asks for as many plans at once as share a call of the script, waits for
//! all, and asks again. This process is pinned to core 0, and a redis-server of its own, over a
//! Unix socket, to core 1. It prints the CPU time of this thread and of the server per decision, so
//! a busy machine hardly counts. Decisions per second are what one core allows the server, by its
//! CPU time.
//!
//! Bytes are Redis' own `MEMORY USAGE`: name, value and expiry of one key.
//!
//! Needs `redis-server` and `taskset`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use redis::{Client, Connection};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::partition_id::PartitionHasher;
use tollgate::limit::plan::{Mode, OnStoreFailure, SeriesId};
use tollgate::limit::{Algorithm, Check, Count, LeavingBucket, PartitionId, Quota};
use tollgate::store::settings::{Deployment, Location, RedisSettings};
use tollgate::store::{MemoryStore, Outcome, Series, Session, Settings, Store};

use support::{cpu_ns, cpu_of, median, until};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    pin(std::process::id());
    let server = Server::start(folder.path());
    println!("µs of CPU time per decision: here, Redis; decisions per second of Redis");
    print!("{:>19}", "");
    for batch in BATCHES {
        print!("{:>32}", format!("{batch} per call"));
    }
    println!();
    for (name, algorithm) in algorithms() {
        print!("{name:>19}");
        for batch in BATCHES {
            let (here, there) = micros_per_decision(&server, algorithm, batch);
            print!("{here:>12.2}{there:>8.2}{:>12.0}", 1e6 / there);
        }
        println!();
    }
    println!(
        "\nns of CPU time per refusal that is remembered: {:.0}",
        ns_per_remembered(&server)
    );
    println!("\nbytes per key: after one cost, and after one in each tenth of a window");
    for (name, algorithm) in algorithms() {
        let bytes = [1, 10].map(|costs| bytes_after(&server, algorithm, costs));
        println!("{name:>19} {:>6} {:>6}", bytes[0], bytes[1]);
    }
    for entries in [1_000, 10_000] {
        let bytes = bytes_after(&server, Algorithm::SlidingLog, entries) as f64;
        let per_entry = bytes / f64::from(entries);
        println!("sliding-log, {entries} entries: {per_entry:.1} bytes per entry (bar: 12)");
    }
}

/// Returns CPU time per decision, of this thread and of Redis: medians of several rounds.
fn micros_per_decision(server: &Server, algorithm: Algorithm, batch: usize) -> (f64, f64) {
    let bench = Bench::new(server, algorithm, 1 << 40, Clock::system());
    let rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let before = (cpu_ns().unwrap_or(0), server.cpu());
            bench.runtime.block_on(async {
                for turn in 0..DECISIONS / batch {
                    let asked = (0..batch)
                        .map(|index| bench.decide(partition_id((turn * batch + index) % KEYS)));
                    for outcome in join_all(asked).await {
                        assert_admitted(&outcome);
                    }
                }
            });
            let there = server.cpu().saturating_sub(before.1);
            let here = cpu_ns().unwrap_or(0) - before.0;
            let per_decision = |micros: f64| micros / DECISIONS as f64;
            let there = per_decision(there.as_secs_f64() * 1e6);
            (per_decision(here as f64 / 1e3), there)
        })
        .collect();
    let of = |figure: fn(&(f64, f64)) -> f64| median(rounds.iter().map(figure).collect());
    (of(|round| round.0), of(|round| round.1))
}

/// Returns the CPU time per decision that a remembered refusal answers.
fn ns_per_remembered(server: &Server) -> f64 {
    let bench = Bench::new(server, Algorithm::FixedWindow, 1, Clock::system());
    let spent = partition_id(0);
    bench.runtime.block_on(bench.decide(spent));
    bench.runtime.block_on(bench.decide(spent));
    let before = cpu_ns().unwrap_or(0);
    for _ in 0..DECISIONS {
        let outcome = bench.decide(spent).now_or_never();
        let outcome = outcome.expect("what is remembered is not asked for");
        assert!(matches!(outcome, Outcome::Decided { verdict, .. } if !verdict.admit));
    }
    (cpu_ns().unwrap_or(0) - before) as f64 / DECISIONS as f64
}

/// Returns the bytes of a key after this many costs of 1, spread evenly over one window.
fn bytes_after(server: &Server, algorithm: Algorithm, costs: u32) -> u64 {
    let mut connection = server.connect();
    let _: () = redis::cmd("FLUSHALL")
        .query(&mut connection)
        .expect("Redis is ours");
    let clock = Clock::manual(Timestamp(1_800_000_000_000_000));
    let bench = Bench::new(server, algorithm, 1 << 40, clock.clone());
    for _ in 0..costs {
        assert_admitted(&bench.runtime.block_on(bench.decide(partition_id(0))));
        clock.advance(Micros(WINDOW.0 / u64::from(costs)));
    }
    let key: String = redis::cmd("RANDOMKEY")
        .query(&mut connection)
        .expect("there is one key");
    redis::cmd("MEMORY")
        .arg("USAGE")
        .arg(key)
        .arg("SAMPLES")
        .arg(0)
        .query(&mut connection)
        .expect("a number")
}

fn assert_admitted(outcome: &Outcome) {
    let is_admitted = matches!(
        outcome,
        Outcome::Decided { verdict, is_degraded: false, .. } if verdict.admit
    );
    assert!(is_admitted, "decided in Redis, and admitted: {outcome:?}");
}

/// A worker's session over Redis, and one quota.
struct Bench {
    session: Session,
    quota: Quota,
    series_id: SeriesId,
    /// Declared last, because the session's connection lives on it.
    runtime: LocalRuntime,
}

impl Bench {
    fn new(server: &Server, algorithm: Algorithm, limit: u64, clock: Clock) -> Self {
        let settings = Settings {
            location: Location::Redis(RedisSettings {
                deployment: Deployment::Unix(server.socket.clone()),
                database: 0,
                username: None,
                password: None,
                sentinel_username: None,
                sentinel_password: None,
                tls: None,
                prefix: Arc::from("bench"),
            }),
            timeout: Duration::from_secs(1),
            refusal_cache: Duration::from_mins(1),
            ..Settings::default()
        };
        let memory = Arc::new(MemoryStore::new(clock.clone(), 1 << 30));
        let store = Store::open(&settings, memory, clock, &[7; 32]);
        let quota = Quota {
            limit,
            window: WINDOW,
            algorithm,
            count: Count::Admitted,
        };
        let series_id = store.series_id(&Series {
            policy: Arc::from(format!("limit-{limit}")),
            shape: algorithm.into(),
            window: quota.window,
        });
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .expect("a runtime");
        let session = runtime.block_on(async { store.session() });
        Self {
            session,
            quota,
            series_id,
            runtime,
        }
    }

    async fn decide(&self, partition_id: PartitionId) -> Outcome {
        let check = Check {
            quota: &self.quota,
            series_id: self.series_id,
            partition_id,
            cost: 1,
            mode: Mode::Enforce,
            on_store_failure: OnStoreFailure::Closed,
        };
        self.session.decide(&[check]).await
    }
}

/// A Redis that writes nothing to disk.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("redis.sock");
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "redis-server", "--port", "0", "--unixsocket"]);
        command
            .arg(&socket)
            .args(["--save", "", "--appendonly", "no"]);
        let process = command.stdout(Stdio::null()).spawn();
        let process = process.expect("taskset and redis-server are installed");
        let server = Self { process, socket };
        until(|| Client::open(server.url()).ok()?.get_connection().ok()).expect("Redis listens");
        server
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    fn connect(&self) -> Connection {
        let client = Client::open(self.url()).expect("a path");
        client.get_connection().expect("Redis listens")
    }

    fn cpu(&self) -> Duration {
        // taskset replaces itself with what it starts.
        cpu_of(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Keeps this process off the server's core.
fn pin(process: u32) {
    let mut command = Command::new("taskset");
    command
        .args(["-cp", "0", &process.to_string()])
        .stdout(Stdio::null());
    assert!(command.status().expect("taskset is installed").success());
}

fn partition_id(key: usize) -> PartitionId {
    let mut tagger = PartitionHasher::new(&[7; 32]);
    tagger.part("key", &key.to_le_bytes());
    tagger.finish()
}

fn algorithms() -> [(&'static str, Algorithm); 6] {
    let sliding = |buckets| Algorithm::SlidingWindow {
        buckets,
        leaving: LeavingBucket::Weighted,
    };
    [
        ("fixed-window", Algorithm::FixedWindow),
        ("window, buckets = 1", sliding(1)),
        ("sliding-window", sliding(10)),
        ("sliding-log", Algorithm::SlidingLog),
        ("gcra", Algorithm::Gcra { burst: 1 << 40 }),
        ("leaky-bucket", Algorithm::LeakyBucket { queue: 1 << 40 }),
    ]
}

/// Plans that share a call.
const BATCHES: [usize; 3] = [1, 8, 32];
/// Decisions per round.
const DECISIONS: usize = 16_000;
const ROUNDS: usize = 3;
/// Clients that ask in turn.
const KEYS: usize = 1_000;
const WINDOW: Micros = Micros::from_secs(60);
