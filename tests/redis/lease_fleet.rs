//! Gateways that buy units ahead at one Redis, and how much Redis has counted of them.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use tollgate::clock::{Clock, Micros};
use tollgate::limit::plan::OnStoreFailure;
use tollgate::limit::{
    Algorithm, Align, Calendar, CalendarShape, CalendarUnit, Check, Consistency, OldestBucket,
    Overshoot, Quota, SyncInterval,
};
use tollgate::store::{Charge, Series, SeriesRole, Session, StoreVerdict};

use crate::store_redis::{Bench, EVERYTHING, TEN, check, histories, run, take_turns, within_turns};
use crate::support::redis::Server;
use crate::support::{PATIENCE, START};

/// A window that no test outlasts: a day begins at [`START`].
pub const DAY: Micros = Micros::from_secs(86_400);
/// Time between two requests of a busy client.
pub const GAP: Micros = Micros(5_000);
/// Time between two ticks in which a gateway checks what it holds.
pub const TICK: Micros = Micros(250_000);
/// Time that passes in ticks; of longer times, only the end does.
const SHORT: Micros = Micros(5_000_000);
/// Most times that a script is sent: by its hash, and with its text after NOSCRIPT.
const SENT_MAX: usize = 2;
/// Timeout of decisions in stories in which Redis answers.
pub const PATIENT: Duration = Duration::from_secs(5);
/// Timeout of decisions in stories in which Redis may not answer; longer than a busy machine stands still.
pub const HASTY: Duration = Duration::from_millis(150);

/// The client that stories are about.
pub const CLIENT: u128 = 1;

/// Runs `story` with `count` gateways that know of each other.
pub fn with(count: usize, story: impl AsyncFnOnce(&Fleet<'_>)) {
    let server = Server::start();
    run(async {
        let fleet = Fleet::start(&server, &vec![server.address(); count], PATIENT).await;
        fleet.meet().await;
        story(&fleet).await;
    });
}

/// Returns a quota of `limit` units per day.
pub const fn daily(limit: u64) -> Quota {
    Quota {
        limit,
        window: DAY,
        ..TEN
    }
}

/// Returns the algorithm of calendar days.
pub fn calendar_days() -> Algorithm {
    let shape = CalendarShape {
        unit: CalendarUnit::Day,
        time_zone: "UTC".into(),
        anchor_day: 1,
        anchor_minute: 0,
        is_own: false,
    };
    Algorithm::Calendar(Calendar::of(shape, TimeZone::UTC))
}

/// Returns quotas of every algorithm whose units can be bought ahead; no unit comes back while a test runs.
pub fn of_each_algorithm(limit: u64) -> Vec<Quota> {
    let buckets = |oldest| Algorithm::SlidingWindow {
        buckets: 24,
        oldest,
    };
    let algorithms = [
        Algorithm::FixedWindow,
        calendar_days(),
        buckets(OldestBucket::Weighted),
        buckets(OldestBucket::Whole),
        buckets(OldestBucket::Dropped),
        Algorithm::SlidingLog,
    ];
    let of = |algorithm| Quota {
        algorithm,
        ..daily(limit)
    };
    let first = Quota {
        align: Align::First,
        ..daily(limit)
    };
    // With this window, a unit takes a day to come back.
    let gcra = Quota {
        window: Micros(DAY.0 * limit),
        ..of(Algorithm::Gcra { burst: limit })
    };
    let others = [first, gcra].into_iter();
    algorithms.map(of).into_iter().chain(others).collect()
}

/// Runs random histories, each with one of these quotas. Fails unless the units that Redis has counted in the end are
/// within the bounds that `tell` returns with them. Two run at a time, because each waits often, and each of the two
/// has its own Redis.
pub fn tell_of_each<E: Strategy>(
    quotas: &[Quota],
    event: impl Fn() -> E + Sync,
    tell: impl AsyncFn(&Server, Quota, u128, Vec<E::Value>) -> (RangeInclusive<i64>, i64) + Sync,
) {
    let tell_half = || {
        let server = Server::start();
        histories(10, (0..quotas.len(), event()), |client, events| {
            // The first event chooses the quota.
            let quota = quotas[events[0].0];
            let events = events.into_iter().map(|(_, event)| event).collect();
            let mut ended = (0..=0, 0);
            run(async { ended = tell(&server, quota, client, events).await });
            let (spent, counted) = ended;
            prop_assert!(
                spent.contains(&counted),
                "{counted} counted, {spent:?} spent, {:?}",
                quota.algorithm
            );
            Ok(())
        });
    };
    thread::scope(|scope| {
        scope.spawn(tell_half);
        tell_half();
    });
}

/// A gateway with one worker.
pub struct Gateway {
    pub bench: Bench,
    pub session: Session,
}

impl Gateway {
    /// Must be called on the runtime that is to send the commands. The server has `timeout` for a decision.
    pub async fn start(server: SocketAddr, clock: &Clock, timeout: Duration) -> Self {
        Self::of(Bench::tireless_at(server, timeout, clock.clone())).await
    }

    /// Returns a process that takes over from this one, and does not know of other gateways yet.
    pub async fn next_process(&self) -> Self {
        Self::of(self.bench.next_process()).await
    }

    async fn of(bench: Bench) -> Self {
        let session = bench.store.session();
        let gateway = Self { bench, session };
        gateway.is_answered().await;
        gateway
    }

    /// Waits until the gateway has a connection, and answers to everything it has written on it.
    async fn is_answered(&self) {
        let asked = async {
            while self.session.directives(0).await.is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, asked).await;
        in_time.expect("Redis answers");
    }

    /// Returns a check that is exact, and refused if Redis does not answer.
    pub fn exact<'q>(&self, quota: &'q Quota, client: u128, cost: u64) -> Check<'q> {
        let series = Series::of("leased", SeriesRole::Real, quota);
        let series_id = self.bench.store.series_id(&series);
        Check {
            series_id,
            cost,
            on_store_failure: OnStoreFailure::Closed,
            ..check(quota, 0, client)
        }
    }

    /// Returns a check of which all gateways together may hold `percent` of the limit ahead.
    pub fn leased<'q>(&self, quota: &'q Quota, percent: u32, client: u128, cost: u64) -> Check<'q> {
        Check {
            consistency: Consistency::Leased(Overshoot(percent * 10_000)),
            ..self.exact(quota, client, cost)
        }
    }

    /// Returns a check that this gateway counts by itself and reports to Redis every second.
    pub fn synced<'q>(&self, quota: &'q Quota, client: u128, cost: u64) -> Check<'q> {
        Check {
            consistency: Consistency::Synced(SyncInterval::default()),
            ..self.exact(quota, client, cost)
        }
    }

    /// Decides a plan; returns its charge if it was admitted.
    ///
    /// # Errors
    /// If Redis does not answer in time.
    pub async fn ask(&self, plan: &[Check<'_>]) -> Result<Option<Charge>, ()> {
        match self.session.decide(plan).await {
            StoreVerdict::Decided {
                verdict, charge, ..
            } => Ok(Some(charge).filter(|_| verdict.admit)),
            StoreVerdict::Unavailable { .. } => Err(()),
        }
    }

    /// Has a client leave after `turns` turns of the runtime, before its answer has come or just with it.
    pub async fn leave(&self, turns: usize, plan: &[Check<'_>]) {
        let deciding = Box::pin(self.session.decide(plan));
        let decided = within_turns(turns, deciding).await;
        if let Some(StoreVerdict::Decided { mut charge, .. }) = decided {
            (self.session).settle_later(&mut charge, |_| EVERYTHING);
        }
    }

    /// Sends `times` requests, a moment after each other, and lets the background work finish after each. Returns how
    /// many were admitted.
    pub async fn busy(&self, times: u64, plan: &[Check<'_>]) -> u64 {
        let mut admitted = 0;
        for _ in 0..times {
            self.bench.clock.advance(GAP);
            let charge = self.ask(plan).await.expect("Redis answers in time");
            admitted += u64::from(charge.is_some());
            self.quiet().await;
        }
        admitted
    }

    /// Waits until all background calls have been answered.
    pub async fn quiet(&self) {
        let out_of_memory = || self.bench.redis().out_of_memory;
        take_turns().await;
        let before = out_of_memory();
        // Answers come in order, so the others come before these. These calls are not among those that tests count.
        let rounds = async || {
            for _ in 0..SENT_MAX {
                self.is_answered().await;
            }
        };
        rounds().await;
        if out_of_memory() > before {
            // A full server is sent another script.
            rounds().await;
        }
        take_turns().await;
    }

    /// Returns how many units the gateway holds ahead.
    pub fn held(&self) -> u64 {
        self.bench.redis().units_leased
    }
}

/// Gateways that share a server, and one more that only peeks.
pub struct Fleet<'s> {
    pub server: &'s Server,
    pub clock: Clock,
    pub gateways: Vec<Gateway>,
    witness: Gateway,
}

impl<'s> Fleet<'s> {
    /// Starts a gateway for each of these addresses of the server, which has `timeout` for a decision. Must be called
    /// on the runtime that is to send the commands.
    pub async fn start(server: &'s Server, ways: &[SocketAddr], timeout: Duration) -> Self {
        let clock = Clock::manual(START);
        let mut gateways = Vec::new();
        for way in ways {
            gateways.push(Gateway::start(*way, &clock, timeout).await);
        }
        Self {
            gateways,
            witness: Gateway::start(server.address(), &clock, PATIENT).await,
            clock,
            server,
        }
    }

    pub async fn tick(&self) {
        for gateway in &self.gateways {
            gateway.session.tick();
        }
        join_all(self.gateways.iter().map(Gateway::quiet)).await;
    }

    /// Lets time pass, while the gateways go on working.
    pub async fn pass(&self, time: Micros) {
        let mut left = time.0;
        while left > 0 {
            let step = if left > SHORT.0 {
                4 * TICK.0
            } else {
                left.min(TICK.0)
            };
            self.clock.advance(Micros(step));
            left -= step;
            self.tick().await;
        }
    }

    /// Lets all gateways learn of each other.
    pub async fn meet(&self) {
        self.tick().await;
        for _ in 0..3 {
            self.clock.advance(Micros::from_secs(5));
            self.tick().await;
        }
    }

    /// Waits until all gateways have given back the units that no client uses.
    pub async fn idle(&self) {
        self.pass(Micros::from_secs(4)).await;
        let held: Vec<_> = self.gateways.iter().map(Gateway::held).collect();
        assert_eq!(held, vec![0; held.len()], "held by who idles");
    }

    /// Returns how many units of a quota Redis has counted; for a bucket, at most its capacity.
    pub async fn counted(&self, quota: &Quota, client: u128) -> u64 {
        // The counts do not depend on the limit.
        let limit = match quota.algorithm {
            Algorithm::Gcra { .. } => quota.limit,
            _ => 1 << 40,
        };
        let wide = Quota { limit, ..*quota };
        let look = [self.witness.exact(&wide, client, 0)];
        let peeked = self.witness.session.peek_checks(&look).await.remove(0);
        assert!(!peeked.is_degraded, "Redis answers");
        limit - peeked.decision.remaining
    }
}
