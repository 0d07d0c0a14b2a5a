//! What a decision in Redis costs without HTTP around it: CPU time of the worker and of Redis, and bytes per key.
//!
//! One worker's session asks for as many plans at once as share a call of the script, waits for all of them, and asks
//! again. This process is pinned to core 0, and a redis-server of its own, over a Unix socket, to core 1. Printed are
//! the CPU time of this thread and of the server per decision, which a busy machine hardly changes, and the decisions
//! per second that one core allows the server, by its CPU time.
//!
//! On a Cluster of three primaries, on the same core and over loopback, a plan has a call of its own, and one over two
//! partitions has two peeks and two charges. What that costs all servers is printed beside what it costs one server
//! that is reached in the same way.
//!
//! Units in flight are asked for and given back: printed are the calls per request (bar: 2), Redis' CPU time beside
//! that of a fixed window's decision, which takes one call, and the calls that announce again what a thousand clients
//! hold.
//!
//! A flood of refused requests, each with a different second partition, must cost Redis about one call a second.
//!
//! Bytes are those of Redis' own `MEMORY USAGE`: name, value and expiry of one key.
//!
//! No call may take long, whatever the log: Redis' own `SLOWLOG` times the hard steps one by one. A word after `--`
//! runs only that part (`-- log`, `-- in-flight`).
//!
//! Needs `redis-server` and `taskset`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod support;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Client, Connection};
use tokio::runtime::LocalRuntime;
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::plan::{OnStoreFailure, SeriesId};
use tollgate::limit::{Adjustment, Algorithm, Check, OldestBucket, PartitionId, Quota};
use tollgate::store::settings::{Address, Deployment, Location, RedisSettings};
use tollgate::store::{
    Charge, MemoryStore, Series, SeriesRole, Session, Settings, Store, StoreVerdict,
};

use support::servers::{Process, alone, pin_this_process, pinned};
use support::{cpu_ns, median, partition_id, runtime, until};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    pin_this_process(0);
    let server = Server::start(folder.path());
    for (section, print) in [
        ("log", print_long_logs as fn(&Server)),
        ("in-flight", print_in_flight),
    ] {
        if std::env::args().any(|word| word == section) {
            return print(&server);
        }
    }
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
    print_in_flight(&server);
    print_cluster(folder.path());
    print_flood(&server);
    println!("\nbytes per key: after one cost, and after one in each tenth of a window");
    for (name, algorithm) in algorithms() {
        let bytes = [1, 10].map(|costs| bytes_after(&server, algorithm, costs));
        println!("{name:>19} {:>6} {:>6}", bytes[0], bytes[1]);
    }
    for entries in [1_000, 10_000] {
        let bytes = bytes_after(&server, Algorithm::SlidingLog, entries) as f64;
        let per_entry = bytes / f64::from(entries);
        println!("sliding-log, {entries} entries: {per_entry:.1} bytes per entry (bar: 16)");
    }
    print_long_logs(&server);
}

/// Prints what a request costs that holds a unit and gives it back.
fn print_in_flight(server: &Server) {
    println!(
        "\nunits in flight: µs of CPU time per request, here and of Redis; calls per request (bar: 2); a window's in Redis"
    );
    let bench = |algorithm| Bench::new(server.deployment(), algorithm, 1 << 40, Clock::system());
    let (units, window) = (bench(Algorithm::InFlight), bench(Algorithm::FixedWindow));
    for batch in BATCHES {
        let rounds: Vec<[f64; 4]> = (0..ROUNDS)
            .map(|_| {
                let calls = server.calls();
                let (here, there) = units.round(&[server], 1, batch);
                let calls = (server.calls() - calls) as f64 / DECISIONS as f64;
                [here, there, calls, window.round(&[server], 1, batch).1]
            })
            .collect();
        let of = |figure: usize| median(rounds.iter().map(|round| round[figure]).collect());
        println!(
            "{:>19}{:>12.2}{:>8.2}{:>8.2}{:>8.2}",
            format!("{batch} at once"),
            of(0),
            of(1),
            of(2),
            of(3)
        );
    }
    let clock = Clock::manual(Timestamp(1_800_000_000_000_000));
    let bench = Bench::new(server.deployment(), Algorithm::InFlight, 9, clock.clone());
    bench.runtime.block_on(async {
        for client in 0..KEYS {
            assert_admitted(&bench.decide(&[partition_id(client as u64)]).await);
        }
        bench.session.tick();
        bench.session.finish().await;
        clock.advance(Micros::from_secs(6));
        let (calls, cpu) = (server.calls(), server.cpu());
        bench.session.tick();
        assert_eq!(bench.session.finish().await, 0);
        let (calls, cpu) = (server.calls() - calls, server.cpu().saturating_sub(cpu));
        println!("what {KEYS} clients hold is announced again in {calls} calls and {cpu:?} of Redis, every 5 s");
    });
}

/// Prints the longest calls on long logs.
fn print_long_logs(server: &Server) {
    println!("\nlongest call of a sliding-log, in µs of Redis' time (bar: 1,000), by what it does");
    print!("{:>10}", "entries");
    for (name, _) in LONG_LOG_STEPS {
        print!("{name:>18}");
    }
    println!();
    for entries in [1_000, 10_000, 100_000, 200_000, 1_000_000] {
        print_long_log(server, entries);
    }
}

/// A step on a long log, whose longest call is measured.
type LongLogStep = fn(&mut LongLog);

const LONG_LOG_STEPS: [(&str, LongLogStep); 6] = [
    ("one more", |log| drop(log.decide(1))),
    ("all is refused", |log| {
        drop(log.decide(log.bench.quota.limit));
    }),
    ("back, middle", |log| log.give_back()),
    ("half has aged", |log| {
        log.clock.advance(Micros(WINDOW.0 / 2));
        drop(log.decide(1));
    }),
    ("clock steps back", |log| {
        let now = log.clock.now().0;
        log.clock.set(Timestamp(now - 3 * WINDOW.0 / 2));
        drop(log.decide(1));
    }),
    ("all but one aged", |log| {
        log.clock.advance(Micros(WINDOW.0 - 1));
        drop(log.decide(1));
        log.clock.advance(Micros(WINDOW.0));
        drop(log.decide(1));
    }),
];

/// An entry of `SLOWLOG`: its number, when the call was, how long it took in µs, its words, and who made it.
type SlowCall = (u64, u64, u64, Vec<Vec<u8>>, Vec<u8>, Vec<u8>);

/// A log with charges from a whole window.
struct LongLog<'s> {
    server: &'s Server,
    bench: Bench,
    clock: Clock,
    charges: Vec<Charge>,
}

impl LongLog<'_> {
    fn decide(&self, cost: u64) -> StoreVerdict {
        let check = Check {
            cost,
            ..self.bench.check(partition_id(0))
        };
        (self.bench.runtime).block_on(self.bench.session.decide(&[check]))
    }

    /// Gives back charges from the middle of the log, one by one.
    fn give_back(&mut self) {
        let middle = self.charges.len() / 2;
        for mut charge in self.charges.drain(middle..middle + 8) {
            let session = &self.bench.session;
            session.settle_later(&mut charge, |_| Adjustment::GiveBack(u64::MAX));
            assert_eq!(self.bench.runtime.block_on(session.finish()), 0);
        }
    }

    /// Fills the log with this many entries of one and two units, in turns.
    fn fill(&mut self, entries: u64) {
        let step = Micros((WINDOW.0 / entries).max(1));
        for entry in 0..entries {
            self.clock.advance(step);
            let outcome = self.decide(1 + entry % 2);
            assert_admitted(&outcome);
            let is_kept = entry.abs_diff(entries / 2) < 16;
            if let StoreVerdict::Decided { charge, .. } = outcome
                && is_kept
            {
                self.charges.push(charge);
            }
        }
    }

    /// Returns the longest call of a script since the log of slow calls was reset, in µs.
    fn longest(&self) -> u64 {
        let mut connection = self.server.connect();
        let entries: Vec<SlowCall> = redis::cmd("SLOWLOG")
            .arg(&["GET", "1000"])
            .query(&mut connection)
            .expect("Redis is ours");
        let scripts = entries
            .iter()
            .filter(|entry| entry.3[0].starts_with(b"EVAL"));
        scripts.map(|entry| entry.2).max().unwrap_or(0)
    }

    fn begin(&self) {
        let mut connection = self.server.connect();
        for words in [
            &["CONFIG", "SET", "slowlog-log-slower-than", "0"][..],
            &["CONFIG", "SET", "slowlog-max-len", "1000"],
            &["SLOWLOG", "RESET"],
        ] {
            let _: () = redis::cmd(words[0])
                .arg(&words[1..])
                .query(&mut connection)
                .expect("Redis is ours");
        }
    }
}

/// Prints how long the hard steps take on a log of this many entries: the least of several tries, because pauses of the
/// machine are not Redis' work.
fn print_long_log(server: &Server, entries: u64) {
    print!("{entries:>10}");
    let tries = if entries > 100_000 { 1 } else { 3 };
    let mut longest = [u64::MAX; LONG_LOG_STEPS.len()];
    for _ in 0..tries {
        let _: () = redis::cmd("FLUSHALL")
            .query(&mut server.connect())
            .expect("Redis is ours");
        let clock = Clock::manual(Timestamp(1_800_000_000_000_000));
        let limit = 3 * entries / 2 + 1_000;
        let bench = Bench::new(
            server.deployment(),
            Algorithm::SlidingLog,
            limit,
            clock.clone(),
        );
        let mut log = LongLog {
            server,
            bench,
            clock,
            charges: Vec::new(),
        };
        log.fill(entries);
        for ((_, step), longest) in LONG_LOG_STEPS.iter().zip(&mut longest) {
            log.begin();
            step(&mut log);
            *longest = (*longest).min(log.longest());
        }
    }
    for longest in longest {
        print!("{longest:>18}");
    }
    println!();
}

/// Returns the CPU time per decision, of this thread and of Redis, in µs: medians of several rounds.
fn micros_per_decision(server: &Server, algorithm: Algorithm, batch: usize) -> (f64, f64) {
    let bench = Bench::new(server.deployment(), algorithm, 1 << 40, Clock::system());
    let rounds: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| bench.round(&[server], 1, batch))
        .collect();
    let of = |figure: fn(&(f64, f64)) -> f64| median(rounds.iter().map(figure).collect());
    (of(|round| round.0), of(|round| round.1))
}

/// Prints what a decision costs one server, and all primaries of a Cluster. They take turns, so that whatever else the
/// machine does affects all alike.
fn print_cluster(folder: &Path) {
    let alone = Server::start_on_port(folder, &[]);
    let primaries: Vec<Server> = (0..PRIMARIES)
        .map(|_| Server::start_on_port(folder, &["--cluster-enabled", "yes"]))
        .collect();
    share_slots(&primaries);
    let cluster = primaries.iter().map(Server::address).collect();
    println!(
        "\nµs of CPU time of Redis per decision of a sliding window, and how many times one server's"
    );
    println!(
        "{:>19}{:>16}{:>24}{:>24}",
        "ready at once", "one server", "one partition", "two partitions"
    );
    let sliding = algorithms()[2].1;
    let bench = |deployment| Bench::new(deployment, sliding, 1 << 40, Clock::system());
    let (one, all) = (
        bench(alone.deployment()),
        bench(Deployment::Cluster(cluster)),
    );
    let (alone, primaries) = (vec![&alone], primaries.iter().collect::<Vec<_>>());
    for batch in BATCHES {
        let rounds: Vec<[f64; 3]> = (0..CLUSTER_ROUNDS)
            .map(|_| {
                let shared = one.round(&alone, 1, batch).1;
                [
                    shared,
                    all.round(&primaries, 1, batch).1,
                    all.round(&primaries, 2, batch).1,
                ]
            })
            .collect();
        let of = |figure: usize| median(rounds.iter().map(|round| round[figure]).collect());
        let times = |figure: usize| {
            median(
                rounds
                    .iter()
                    .map(|round| round[figure] / round[0])
                    .collect(),
            )
        };
        print!("{batch:>19}{:>16.2}", of(0));
        println!(
            "{:>16.2} ({:.2}){:>17.2} ({:.2})",
            of(1),
            times(1),
            of(2),
            times(2)
        );
    }
}

/// Makes a Cluster of nodes, among which the slots are divided.
fn share_slots(nodes: &[Server]) {
    let ask = |node: &Server, words: &[String]| {
        redis::cmd("CLUSTER")
            .arg(words)
            .query::<String>(&mut node.connect())
            .expect("Redis is ours")
    };
    for (index, node) in nodes.iter().enumerate() {
        let [first, next] = [index, index + 1].map(|index| index * 16_384 / nodes.len());
        let words = [
            "ADDSLOTSRANGE".into(),
            first.to_string(),
            (next - 1).to_string(),
        ];
        ask(node, &words);
        let (port, bus) = (node.port.to_string(), (node.port + 1).to_string());
        ask(&nodes[0], &["MEET".into(), "127.0.0.1".into(), port, bus]);
    }
    let is_ready = |node: &Server| {
        let info = ask(node, &["INFO".into()]);
        info.contains("cluster_state:ok")
            && info.contains(&format!("cluster_known_nodes:{}", nodes.len()))
    };
    until(|| nodes.iter().all(is_ready).then_some(())).expect("the nodes find each other");
}

/// Prints what a flood of refused requests costs, each with a different second partition.
fn print_flood(server: &Server) {
    let deployment = server.deployment();
    let bench = Bench::new(deployment, Algorithm::SlidingLog, 1, Clock::system());
    let refused = partition_id(0);
    let decide = |varied| {
        let plan = [refused, partition_id(varied)];
        bench.runtime.block_on(bench.decide(&plan))
    };
    assert_admitted(&decide(1));
    let began = Instant::now();
    let (calls, cpu) = (server.calls(), cpu_ns().unwrap_or(0));
    let mut requests = 0;
    while began.elapsed() < FLOOD {
        requests += 1;
        let outcome = decide(requests + 1);
        assert!(matches!(outcome, StoreVerdict::Decided { verdict, .. } if !verdict.admit));
    }
    let cpu = cpu_ns().unwrap_or(0) - cpu;
    println!(
        "\nrefused, with another second partition each time: {} ns of CPU time here per request; \
         {:.1} calls of Redis a second for {:.0} requests a second",
        cpu / requests,
        (server.calls() - calls) as f64 / FLOOD.as_secs_f64(),
        requests as f64 / FLOOD.as_secs_f64(),
    );
}

/// Returns the bytes of a key after this many costs of 1, spread evenly over one window.
fn bytes_after(server: &Server, algorithm: Algorithm, costs: u32) -> u64 {
    let mut connection = server.connect();
    let _: () = redis::cmd("FLUSHALL")
        .query(&mut connection)
        .expect("Redis is ours");
    let clock = Clock::manual(Timestamp(1_800_000_000_000_000));
    let bench = Bench::new(server.deployment(), algorithm, 1 << 40, clock.clone());
    for _ in 0..costs {
        assert_admitted(&bench.runtime.block_on(bench.decide(&[partition_id(0)])));
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

fn assert_admitted(outcome: &StoreVerdict) {
    let is_admitted = matches!(
        outcome,
        StoreVerdict::Decided { verdict, is_degraded: false, .. } if verdict.admit
    );
    assert!(is_admitted, "decided in Redis, and admitted: {outcome:?}");
}

/// A worker's session with Redis, and one quota.
struct Bench {
    session: Session,
    quota: Quota,
    series_id: SeriesId,
    /// Declared last, because the session's connection lives on it.
    runtime: LocalRuntime,
}

impl Bench {
    fn new(deployment: Deployment, algorithm: Algorithm, limit: u64, clock: Clock) -> Self {
        let settings = Settings {
            location: Location::Redis(RedisSettings {
                prefix: Arc::from("bench"),
                ..RedisSettings::plain(deployment)
            }),
            timeout: Duration::from_secs(10),
            ..Settings::default()
        };
        let memory = Arc::new(MemoryStore::new(clock.clone(), 1 << 30));
        let store = Store::open(&settings, memory, clock, &[7; 32]);
        let quota = Quota::of(algorithm, limit, WINDOW);
        let series = Series::of(format!("limit-{limit}"), SeriesRole::Real, &quota);
        let series_id = store.series_id(&series);
        let runtime = runtime();
        let session = runtime.block_on(async { store.session() });
        Self {
            session,
            quota,
            series_id,
            runtime,
        }
    }

    /// Lets `batch` clients of this many partitions each ask at once, again and again; returns the CPU time per
    /// decision of this thread and of the servers, in µs.
    fn round(&self, servers: &[&Server], partitions: usize, batch: usize) -> (f64, f64) {
        let cpu = || servers.iter().map(|server| server.cpu()).sum::<Duration>();
        let before = (cpu_ns().unwrap_or(0), cpu());
        self.runtime.block_on(async {
            for turn in 0..DECISIONS / batch {
                let asked = (0..batch).map(async |index| {
                    let client = (turn * batch + index) % KEYS;
                    let ids: Vec<_> = (0..partitions)
                        .map(|partition| partition_id((client + KEYS * partition) as u64))
                        .collect();
                    self.decide(&ids).await
                });
                for outcome in join_all(asked).await {
                    assert_admitted(&outcome);
                    self.end(outcome);
                }
            }
            self.session.finish().await;
        });
        let there = cpu().saturating_sub(before.1);
        let here = cpu_ns().unwrap_or(0) - before.0;
        let per_decision = |micros: f64| micros / DECISIONS as f64;
        let there = per_decision(there.as_secs_f64() * 1e6);
        (per_decision(here as f64 / 1e3), there)
    }

    /// Returns a check of one unit.
    fn check(&self, partition_id: PartitionId) -> Check<'_> {
        Check {
            on_store_failure: OnStoreFailure::Closed,
            ..Check::of(&self.quota, self.series_id, partition_id)
        }
    }

    /// Gives back the units that a request holds, if it holds any.
    fn end(&self, outcome: StoreVerdict) {
        if let StoreVerdict::Decided { mut charge, .. } = outcome
            && let Some(mut held) = charge.take_held()
        {
            (self.session).settle_later(&mut held, |_| Adjustment::GiveBack(u64::MAX));
        }
    }

    async fn decide(&self, partition_ids: &[PartitionId]) -> StoreVerdict {
        let plan: Vec<_> = partition_ids.iter().map(|id| self.check(*id)).collect();
        self.session.decide(&plan).await
    }
}

/// A Redis that writes nothing to disk.
struct Server {
    process: Process,
    socket: PathBuf,
    /// The TCP port, or 0 if the server listens on its socket alone.
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::start_with(folder, 0, &[])
    }

    /// Starts a server that listens on a port too, with these options.
    fn start_on_port(folder: &Path, options: &[&str]) -> Self {
        // Two ports in a row: the second one is for the bus of a Cluster.
        let port = until(|| {
            let port = TcpListener::bind("127.0.0.1:0")
                .ok()?
                .local_addr()
                .ok()?
                .port();
            TcpListener::bind(("127.0.0.1", port.checked_add(1)?)).ok()?;
            Some(port)
        });
        Self::start_with(folder, port.expect("two free ports"), options)
    }

    fn start_with(folder: &Path, port: u16, options: &[&str]) -> Self {
        let (port_text, bus) = (port.to_string(), (port + 1).to_string());
        let socket = folder.join(format!("{port}.sock"));
        let mut command = pinned(1, "redis-server");
        command
            .args(["--port", &port_text, "--unixsocket"])
            .arg(&socket);
        command.args(["--save", "", "--appendonly", "no", "--cluster-port", &bus]);
        command.arg("--dir").arg(folder);
        command.args(["--cluster-config-file", &format!("{port}.nodes")]);
        let process = alone(command.args(options).stdout(Stdio::null()));
        let server = Self {
            process,
            socket,
            port,
        };
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

    fn address(&self) -> Address {
        Address {
            host: "127.0.0.1".into(),
            port: self.port,
        }
    }

    /// Returns how a gateway reaches the server: by its port, if it has one.
    fn deployment(&self) -> Deployment {
        match self.port {
            0 => Deployment::Unix(self.socket.clone()),
            _ => Deployment::Single(self.address()),
        }
    }

    /// Returns how many calls of scripts the server has executed.
    fn calls(&self) -> u64 {
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.connect())
            .expect("Redis is ours");
        let calls = |line: &str| {
            let (_, counts) = line.strip_prefix("cmdstat_eval")?.split_once("calls=")?;
            counts.split(',').next()?.parse::<u64>().ok()
        };
        stats.lines().filter_map(calls).sum()
    }

    fn cpu(&self) -> Duration {
        self.process.cpu()
    }
}

fn algorithms() -> [(&'static str, Algorithm); 7] {
    let sliding = |buckets| Algorithm::SlidingWindow {
        buckets,
        oldest: OldestBucket::Weighted,
    };
    [
        ("fixed-window", Algorithm::FixedWindow),
        ("calendar month", Algorithm::Calendar(support::month())),
        ("window, buckets = 1", sliding(1)),
        ("sliding-window", sliding(10)),
        ("sliding-log", Algorithm::SlidingLog),
        ("gcra", Algorithm::Gcra { burst: 1 << 40 }),
        ("leaky-bucket", Algorithm::LeakyBucket { queue: 1 << 40 }),
    ]
}

/// Numbers of plans that share a call.
const BATCHES: [usize; 3] = [1, 8, 32];
/// Decisions per round.
const DECISIONS: usize = 16_000;
const ROUNDS: usize = 3;
/// Rounds, each of which compares a Cluster with one server.
const CLUSTER_ROUNDS: usize = 7;
const PRIMARIES: usize = 3;
/// Clients that ask in turn.
const KEYS: usize = 1_000;
/// How long refused requests are sent.
const FLOOD: Duration = Duration::from_secs(5);
const WINDOW: Micros = Micros::from_secs(60);
