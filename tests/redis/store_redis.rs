//! Guarantees of a store on Redis: plans over several servers are all or nothing, charges come back
//! where they were charged, and what is lost stays spent.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tokio::runtime::{Builder, LocalOptions};
use tollgate::clock::{Clock, Micros};
use tollgate::limit::plan::{CHECKS_MAX, SeriesId};
use tollgate::limit::{Adjustment, Algorithm, Check, Count, PartitionId, Quota, Verdict};
use tollgate::store::settings::{Address, BreakerSettings, Deployment, Location, RedisSettings};
use tollgate::store::{
    Charge, MemoryStore, Series, SeriesRole, Session, Settings, Store, StoreVerdict,
};

use crate::support::redis::{Cluster, Proxy, Server};
use crate::support::{PATIENCE, START};

pub const fn quota(limit: u64, count: Count) -> Quota {
    Quota {
        count,
        ..Quota::of(Algorithm::FixedWindow, limit, Micros::from_secs(60))
    }
}

pub const TEN: Quota = quota(10, Count::Admitted);
pub const ONE: Quota = quota(1, Count::Admitted);
const ALL: Quota = quota(10, Count::All);
/// Gives back all of a charge.
pub const EVERYTHING: Adjustment = Adjustment::GiveBack(u64::MAX);
/// Turns of the runtime after which a plan has certainly been written to its server; it takes fewer than five.
pub const TURNS: usize = 20;

/// Runs a test on a runtime like a worker's.
pub fn run(test: impl Future<Output = ()>) {
    let mut runtime = Builder::new_current_thread();
    let runtime = (runtime.enable_all()).build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(test);
}

/// Yields for long enough that a plan has been written to its server.
pub async fn take_turns() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// Polls a future for at most that many turns of the runtime, and returns its output if there is any; then drops it.
pub async fn within_turns<F: Future + Unpin>(turns: usize, mut future: F) -> Option<F::Output> {
    for _ in 0..turns {
        let come = (&mut future).now_or_never();
        if come.is_some() {
            return come;
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Runs `count` random histories of up to 39 events, or as many as `$TOLLGATE_HISTORIES` says, and fails with the
/// shortest one that goes wrong. Each has its own clients, numbered from the number that it is given.
pub fn histories<E: Strategy>(
    count: u32,
    event: E,
    tell: impl Fn(u128, Vec<E::Value>) -> Result<(), TestCaseError>,
) {
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    let told = std::env::var("TOLLGATE_HISTORIES").ok();
    let count = told.map_or(count, |told| told.parse().expect("a number"));
    let events = prop::collection::vec(event, 1..40);
    let ran = TestRunner::new(ProptestConfig::with_cases(count)).run(&events, |events| {
        let client = u128::from(CLIENTS.fetch_add(1, Relaxed)) << 64;
        tell(client, events)
    });
    if let Err(difference) = ran {
        panic!("{difference}");
    }
}

/// Gives back up to `amount` of a charge, and waits until that is done.
pub async fn give_back(session: &Session, charge: &mut Charge, amount: u64) {
    session.settle_later(charge, |_| Adjustment::GiveBack(amount));
    session.finish().await;
}

/// Returns a secret that no other gateway has; gateways know each other by it.
fn secret() -> [u8; 32] {
    static GATEWAYS: AtomicU64 = AtomicU64::new(0);
    let mut secret = [9; 32];
    secret[..8].copy_from_slice(&GATEWAYS.fetch_add(1, Relaxed).to_le_bytes());
    secret
}

fn address(of: std::net::SocketAddr) -> Address {
    Address {
        host: of.ip().to_string().into(),
        port: of.port(),
    }
}

/// A store whose breaker opens at the third failure, with a clock, which is usually a manual one. Series are numbered
/// by policy.
pub struct Bench {
    pub store: Store,
    pub clock: Clock,
    settings: Settings,
    secret: [u8; 32],
}

impl Bench {
    fn over(deployment: Deployment, timeout: Duration) -> Self {
        Self::by_clock(deployment, timeout, Clock::manual(START))
    }

    fn by_clock(deployment: Deployment, timeout: Duration, clock: Clock) -> Self {
        let redis = RedisSettings {
            prefix: Arc::from("t"),
            ..RedisSettings::plain(deployment)
        };
        let settings = Settings {
            location: Location::Redis(redis),
            timeout,
            breaker: BreakerSettings {
                failures: 3,
                failure_ratio: 1.0,
                ..Settings::default().breaker
            },
            ..Settings::default()
        };
        Self::open(settings, clock, secret())
    }

    fn open(settings: Settings, clock: Clock, secret: [u8; 32]) -> Self {
        let memory = Arc::new(MemoryStore::new(clock.clone(), 1 << 20));
        let store = Store::open(&settings, memory, clock.clone(), &secret);
        for name in ["a", "b", "c"] {
            store.series_id(&Series::of(name, SeriesRole::Real, &TEN));
        }
        Self {
            store,
            clock,
            settings,
            secret,
        }
    }

    /// Returns the store of a process that takes over from this one.
    pub fn next_process(&self) -> Self {
        Self::open(self.settings.clone(), self.clock.clone(), self.secret)
    }

    /// Starts a server, and a store on it.
    pub fn start() -> (Server, Self) {
        let server = Server::start();
        let bench = Self::on(&server);
        (server, bench)
    }

    /// Starts a server, a proxy in front of it, and a store that gives it 300 ms for a decision.
    pub fn behind_proxy() -> (Server, Proxy, Self) {
        let server = Server::start();
        let proxy = Proxy::to(server.address());
        let bench = Self::behind(&proxy);
        (server, proxy, bench)
    }

    pub fn on(server: &Server) -> Self {
        let single = Deployment::Single(address(server.address()));
        Self::over(single, Duration::from_secs(5))
    }

    /// Opens a store that gives the proxy's server 300 ms for a decision.
    pub fn behind(proxy: &Proxy) -> Self {
        let single = Deployment::Single(address(proxy.address()));
        Self::over(single, Duration::from_millis(300))
    }

    /// Opens a store that gives the proxy's server `timeout` for a decision, and whose breaker never opens.
    pub fn tireless(proxy: &Proxy, timeout: Duration, clock: Clock) -> Self {
        Self::tireless_at(proxy.address(), timeout, clock)
    }

    /// The same for a server's address, or a proxy's.
    pub fn tireless_at(server: std::net::SocketAddr, timeout: Duration, clock: Clock) -> Self {
        let single = Deployment::Single(address(server));
        let bench = Self::by_clock(single, timeout, clock);
        let mut settings = bench.settings;
        settings.breaker.failures = u32::MAX;
        bench.store.reload(&settings);
        Self { settings, ..bench }
    }

    pub fn on_cluster(cluster: &Cluster) -> Self {
        let seeds = cluster.addresses().into_iter().map(address).collect();
        Self::over(Deployment::Cluster(seeds), Duration::from_secs(5))
    }

    /// Opens a store that gives a Cluster 500 ms for a decision, by the system's clock, because the time that is left
    /// is measured by it.
    pub fn on_far_cluster(cluster: &Cluster) -> Self {
        let seeds = cluster.addresses().into_iter().map(address).collect();
        let timeout = Duration::from_millis(500);
        Self::by_clock(Deployment::Cluster(seeds), timeout, Clock::system())
    }
}

pub fn check(quota: &Quota, series_id: u32, partition_id: u128) -> Check<'_> {
    Check::of(quota, SeriesId(series_id), PartitionId::new(partition_id))
}

pub async fn decide(session: &Session, plan: &[Check<'_>]) -> (Verdict, Charge, bool) {
    match session.decide(plan).await {
        StoreVerdict::Decided {
            verdict,
            charge,
            is_degraded,
        } => (verdict, charge, is_degraded),
        StoreVerdict::Unavailable { .. } => panic!("no policy is closed"),
    }
}

/// Returns what is left of a quota.
pub async fn left(session: &Session, check: Check<'_>) -> u64 {
    session.peek(&[Check { cost: 0, ..check }]).await[0].remaining
}

/// Waits until `expected` units of a quota are left.
pub async fn comes_to_be(session: &Session, check: Check<'_>, expected: u64) {
    let coming = async {
        while left(session, check).await != expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, coming).await;
    assert!(in_time.is_ok(), "never {expected} were left");
}

#[test]
fn quota_that_counts_refused_requests_stays_charged_when_another_server_refuses() {
    let cluster = Cluster::start(3, 0);
    let bench = Bench::on_cluster(&cluster);
    run(async {
        let session = bench.store.session();
        let narrow = check(&ONE, 1, 100);
        assert!(decide(&session, &[narrow]).await.0.admit);
        let mut plan: Vec<Check<'_>> = (1..=8)
            .map(|partition_id| check(&ALL, 0, partition_id))
            .collect();
        plan.push(narrow);
        for turn in 1..=2 {
            let (verdict, mut charge, _) = decide(&session, &plan).await;
            assert!(!verdict.admit);
            give_back(&session, &mut charge, u64::MAX).await;
            assert_eq!(left(&session, plan[0]).await, 10 - turn);
        }
    });
}

/// Like [`comes_to_be`], but according to Redis, once that is asked again.
pub async fn comes_to_be_in_redis(
    bench: &Bench,
    session: &Session,
    check: Check<'_>,
    expected: u64,
) {
    let asked = async {
        while decide(session, &[Check { cost: 0, ..check }]).await.2 {
            bench.store.sweep();
            session.tick();
            bench.clock.advance(Micros(100_000));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asked).await;
    in_time.expect("Redis decides again");
    comes_to_be(session, check, expected).await;
}

#[test]
fn what_was_charged_comes_back_once() {
    let (_server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan = [Check {
            cost: 4,
            ..check(&TEN, 0, 1)
        }];
        let (_, mut charge, _) = decide(&session, &plan).await;
        give_back(&session, &mut charge, 1).await;
        assert_eq!(left(&session, plan[0]).await, 7);
        give_back(&session, &mut charge, u64::MAX).await;
        assert_eq!(left(&session, plan[0]).await, 10);
        session.settle_later(&mut charge, |_| Adjustment::Spend(2));
        session.finish().await;
        give_back(&session, &mut charge, u64::MAX).await;
        assert_eq!(left(&session, plan[0]).await, 8, "a spend is no charge");
        let reset = session.reset(&[SeriesId(0)], PartitionId::new(1)).await;
        reset.expect("Redis answers");
        assert_eq!(left(&session, plan[0]).await, 10);
    });
}

#[test]
fn charges_that_find_no_room_to_wait_stay_spent_and_are_counted() {
    const WAITING_MAX: u64 = 4_096;
    let (_server, bench) = Bench::start();
    let wide = quota(10_000, Count::Admitted);
    run(async {
        let session = bench.store.session();
        let plan = [check(&wide, 0, 1)];
        let mut charges = Vec::new();
        for _ in 0..WAITING_MAX + 3 {
            charges.push(decide(&session, &plan).await.1);
        }
        for mut charge in charges {
            session.settle_later(&mut charge, |_| EVERYTHING);
        }
        let usage = bench.store.usage().redis.expect("it is Redis");
        assert_eq!(usage.settlements_dropped, 3);
        comes_to_be(&session, plan[0], 10_000 - 3).await;
    });
}

#[test]
fn key_that_is_taken_or_spoilt_degrades_its_partition_and_opens_no_breaker() {
    for taking in ["RPUSH", "SET"] {
        let (server, bench) = Bench::start();
        run(async {
            let session = bench.store.session();
            let (bad, good) = (check(&TEN, 0, 1), check(&TEN, 0, 2));
            assert!(!decide(&session, &[bad]).await.2);
            let keys = server.command(&["KEYS", "t:*fixed*"]);
            let key = keys.list()[0].text();
            server.command(&["DEL", &key]);
            server.command(&[taking, &key, "x"]);
            for _ in 0..10 {
                assert!(decide(&session, &[bad]).await.2, "{taking}");
            }
            assert!(!decide(&session, &[good]).await.2, "{taking}");
            let usage = bench.store.usage().redis.expect("it is Redis");
            assert_eq!((usage.failed, usage.unasked), (10, 0), "{taking}");
        });
    }
}

#[test]
fn largest_plan_that_a_file_may_ask_for_is_decided() {
    let (_server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan: Vec<Check<'_>> = (0..CHECKS_MAX as u128)
            .map(|partition_id| check(&ONE, 0, partition_id))
            .collect();
        let (verdict, _, is_degraded) = decide(&session, &plan).await;
        assert!(verdict.admit && !is_degraded);
        let (verdict, ..) = decide(&session, &plan[CHECKS_MAX - 1..]).await;
        assert!(!verdict.admit, "the last was charged too");
    });
}

#[test]
fn refusal_is_remembered_by_the_node_and_not_past_what_comes_back_here() {
    let (_server, bench) = Bench::start();
    run(async {
        let workers = [bench.store.session(), bench.store.session()];
        let plan = [check(&ONE, 0, 1)];
        assert!(decide(&workers[0], &plan).await.0.admit);
        let (first, ..) = decide(&workers[0], &plan).await;
        assert!(!first.admit);
        let (second, ..) = decide(&workers[1], &plan).await;
        assert_eq!(second, first, "by another worker");
        let usage = bench.store.usage().redis.expect("it is Redis");
        assert_eq!((usage.answered, usage.remembered), (2, 1));
        let reset = workers[1].reset(&[SeriesId(0)], PartitionId::new(1)).await;
        reset.expect("Redis answers");
        // A charge in the same microsecond as a reset could not be given back.
        bench.clock.advance(Micros(1));
        let (again, mut charge, _) = decide(&workers[0], &plan).await;
        assert!(again.admit);
        bench.clock.advance(Micros(1));
        assert!(!decide(&workers[0], &plan).await.0.admit);
        give_back(&workers[1], &mut charge, 1).await;
        assert!(decide(&workers[0], &plan).await.0.admit, "given back here");
    });
}

#[test]
fn answer_that_came_while_the_worker_stood_still_is_taken() {
    let server = Server::start();
    let timeout = Duration::from_secs(2);
    let bench = Bench::over(Deployment::Single(address(server.address())), timeout);
    run(async {
        let session = bench.store.session();
        let plan = [check(&TEN, 0, 1)];
        while decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
        server.stop();
        let stall = async {
            take_turns().await;
            // Now the worker stands still; the answer arrives in the meantime, and its time runs out.
            server.resume();
            server.command(&["PING"]);
            std::thread::sleep(timeout);
        };
        let ((_, _, is_degraded), ()) = tokio::join!(decide(&session, &plan), stall);
        assert!(!is_degraded);
    });
}
