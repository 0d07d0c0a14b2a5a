//! Plans over a Redis Cluster of three primaries: a plan with one partition is one call, and one
//! with several charges all or none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::limit::plan::{CheckMode, OnStoreFailure, PlanPolicy, SeriesId};
use tollgate::limit::{
    Algorithm, Align, Check, Consistency, Count, Decision, OldestBucket, Overshoot, PartitionId,
    Quota, Retry, SyncInterval, Verdict,
};
use tollgate::store::redis::wire::KeyNames;
use tollgate::store::settings::{
    Address, BreakerSettings, Deployment, Location, RedisSettings, Settings,
};
use tollgate::store::{Charge, MemoryStore, Series, SeriesRole, Session, Store, StoreVerdict};

use crate::lease_fleet::calendar_days;
use crate::store_redis::{give_back, within_turns};
use crate::support::redis::{Cluster, Server};
use crate::support::{Draws, PATIENCE};

/// A store with a clock that tests move, and one worker's session on it.
struct Gateway {
    store: Store,
    session: Session,
    clock: Clock,
}

impl Gateway {
    fn new(location: Location) -> Self {
        Self::with(
            location,
            Settings {
                refusal_cache: Duration::ZERO,
                // Long enough for a busy machine to decide.
                timeout: Duration::from_secs(20),
                breaker: BreakerSettings {
                    failures: u32::MAX,
                    failure_ratio: 1.0,
                    ..Settings::default().breaker
                },
                ..Settings::default()
            },
        )
    }

    fn with(location: Location, settings: Settings) -> Self {
        // Away from the edges of all windows, so that nothing ages unless a test moves the clock.
        let clock = Clock::manual(Timestamp(1_700_000_040 * 1_000_000));
        let settings = Settings {
            location,
            ..settings
        };
        let memory = Arc::new(MemoryStore::new(clock.clone(), u64::MAX));
        let store = Store::open(&settings, memory, clock.clone(), &[7; 32]);
        Self {
            session: store.session(),
            store,
            clock,
        }
    }

    fn over(cluster: &Cluster) -> Self {
        Self::new(seeds(cluster))
    }

    /// Returns a check that charges one unit of a policy with that name.
    fn check<'q>(&self, policy: &str, quota: &'q Quota, partition_id: u128) -> Check<'q> {
        Check {
            on_store_failure: OnStoreFailure::Closed,
            ..Check::of(
                quota,
                self.store.series_id(&series(policy, quota)),
                PartitionId::new(partition_id),
            )
        }
    }

    async fn decide(&self, plan: &[Check<'_>]) -> (Verdict, Charge) {
        match self.session.decide(plan).await {
            StoreVerdict::Decided {
                verdict,
                charge,
                is_degraded: false,
            } => (verdict, charge),
            other => panic!("the Cluster did not decide: {other:?}"),
        }
    }

    /// Waits until peeking at a plan returns `expected`: units that a refused plan spent come back soon.
    async fn comes_to_say(&self, plan: &[Check<'_>], expected: &[Decision], what: &str) {
        let patience = Instant::now() + PATIENCE;
        loop {
            let peeks = self.session.peek(plan).await;
            if peeks[..] == *expected {
                return;
            }
            assert!(Instant::now() < patience, "{what}: {peeks:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn remaining(&self, plan: &[Check<'_>]) -> Vec<u64> {
        let peeks = self.session.peek(plan).await;
        peeks.iter().map(|peek| peek.remaining).collect()
    }
}

#[tokio::test(flavor = "local")]
async fn plan_over_several_servers_is_paid_of_what_is_held_ahead() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let quota = quota(100_000, HOUR);
    let leased = |policy, client| Check {
        policy: PlanPolicy(policy),
        consistency: Consistency::Leased(Overshoot(10_000)),
        ..gateway.check(&policy.to_string(), &quota, client)
    };
    let plan = [leased(0, 1), leased(1, 2), leased(2, 3), leased(3, 4)];
    let paid = || gateway.store.usage().redis.map_or(0, |redis| redis.leased);
    let (mut admitted, patience) = (0, Instant::now() + PATIENCE);
    while paid() < 200 {
        assert!(Instant::now() < patience, "{} of {admitted} paid", paid());
        // A gateway holds nothing ahead until it has seen the fleet for ten seconds, and little for rare clients.
        let step_us = if admitted < 12 { 1_000_000 } else { 20_000 };
        gateway.clock.advance(Micros(step_us));
        gateway.session.tick();
        let (verdict, charge) = gateway.decide(&plan).await;
        assert!(verdict.admit);
        drop(charge);
        admitted += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(gateway.session.finish().await, 0);
    assert_eq!(gateway.remaining(&plan).await, [100_000 - admitted; 4]);
}

#[tokio::test(flavor = "local")]
async fn plan_over_several_servers_is_counted_here_and_added_up_there() {
    let cluster = Cluster::start(3, 0);
    let [one, other] = [Gateway::over(&cluster), Gateway::over(&cluster)];
    let quota = quota(100, HOUR);
    let synced = |gateway: &Gateway, policy, client| Check {
        policy: PlanPolicy(policy),
        consistency: Consistency::Synced(SyncInterval(1_000)),
        ..gateway.check(&policy.to_string(), &quota, client)
    };
    let plan = |gateway| [1, 2, 3, 4].map(|n: u16| synced(gateway, n, n.into()));
    for gateway in [&one, &other] {
        for _ in 0..20 {
            let (verdict, charge) = gateway.decide(&plan(gateway)).await;
            assert!(verdict.admit);
            drop(charge);
        }
        let usage = gateway.store.usage().redis.expect("a store over Redis");
        assert_eq!((usage.synced, usage.quotas_followed), (19, 4));
        assert_eq!(gateway.session.report_all().await, 0);
    }
    assert_eq!(one.remaining(&plan(&one)).await, [60; 4]);
}

#[tokio::test(flavor = "local")]
async fn plan_over_one_partition_is_one_call() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let quotas = [quota(5, MINUTE), quota(50, HOUR)];
    let plan = [
        gateway.check("a", &quotas[0], 1),
        gateway.check("a", &quotas[1], 1),
        gateway.check("b", &quotas[0], 1),
    ];
    let (verdict, _) = gateway.decide(&plan).await;
    assert!(verdict.admit);
    assert_eq!(calls(&cluster), 1);
    assert_eq!(gateway.remaining(&plan).await, [4, 49, 4]);
}

#[tokio::test(flavor = "local")]
async fn plan_over_several_partitions_looks_at_each_and_then_charges_each() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let quota = quota(5, MINUTE);
    let plan: Vec<_> = (0..6)
        .map(|n| gateway.check(POLICIES[n % 2], &quota, n as u128 / 2))
        .collect();
    // After this, the primaries know the script.
    drop(gateway.decide(&plan).await);
    let before = calls(&cluster);
    let (verdict, mut charge) = gateway.decide(&plan).await;
    assert!(verdict.admit);
    assert_eq!(calls(&cluster), before + 6);
    assert_eq!(gateway.remaining(&plan).await, [3; 6]);
    give_back(&gateway.session, &mut charge, 1).await;
    assert_eq!(gateway.remaining(&plan).await, [4; 6]);
    give_back(&gateway.session, &mut charge, 1).await;
    assert_eq!(
        gateway.remaining(&plan).await,
        [4; 6],
        "nothing comes back twice"
    );
}

#[tokio::test(flavor = "local")]
async fn plan_that_a_look_refuses_charges_nobody_and_costs_a_look_at_each() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let (one, other) = (quota(1, MINUTE), quota(5, MINUTE));
    let refusing = gateway.check("full", &one, 1);
    drop(gateway.decide(&[refusing]).await);
    let plan = [
        refusing,
        gateway.check("other", &other, 2),
        gateway.check("other", &other, 3),
    ];
    let before = calls(&cluster);
    assert!(!gateway.decide(&plan).await.0.admit);
    assert_eq!(calls(&cluster), before + 3);
    assert_eq!(gateway.remaining(&plan[1..]).await, [5, 5]);
}

/// Wherever the decision is when its time is up: the charge is then decided by this gateway's own
/// counts, of which nothing is spent.
#[tokio::test(flavor = "local")]
async fn quota_that_refused_the_plan_is_refused_in_its_answer_even_if_the_charge_is_late() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let (all, other) = (counting_all(quota(1, HOUR)), quota(1_000, HOUR));
    for turns in 1..40 {
        let refusing = Check {
            on_store_failure: OnStoreFailure::Local,
            ..gateway.check("all", &all, turns as u128)
        };
        drop(gateway.decide(&[refusing]).await);
        let plan = [gateway.check("other", &other, 0), refusing];
        let mut deciding = Box::pin(gateway.decide(&plan));
        let decided = within_turns(turns, &mut deciding).await;
        gateway.clock.advance(Micros::from_secs(20));
        let (verdict, _) = match decided {
            Some(decided) => decided,
            None => deciding.await,
        };
        assert!(!verdict.admit);
        let decision = verdict.answers[1].decision.expect("it was decided");
        assert!(!decision.admit, "after {turns} turns: {decision:?}");
        assert_eq!(verdict.retry, decision.retry);
        assert_ne!(verdict.retry, Retry::NOW);
    }
}

/// The same requests, one after the other, are sent to a Cluster and to memory.
#[tokio::test(flavor = "local")]
async fn plans_over_several_partitions_are_answered_as_in_memory() {
    let cluster = Cluster::start(3, 0);
    let gateways = [Gateway::over(&cluster), Gateway::new(Location::Memory)];
    let mut quotas: Vec<Quota> = (algorithms().into_iter())
        .map(|algorithm| Quota {
            algorithm,
            ..quota(4, MINUTE)
        })
        .collect();
    quotas.push(counting_all(quota(6, MINUTE)));
    quotas.push(Quota {
        align: Align::First,
        ..quota(5, MINUTE)
    });
    let mut draws = Draws(1);
    for round in 0..400 {
        // No quota with the same partition twice in a plan.
        let mut checks = BTreeMap::new();
        for _ in 0..=draws.below(4) {
            let quota_and_tag = (draws.below(quotas.len()), draws.below(5));
            checks.insert(quota_and_tag, draws.below(3));
        }
        let is_shadow = draws.below(4) == 0;
        let mut verdicts = Vec::new();
        let mut left = None;
        // Memory first: Redis must come to the remaining units that memory has at once.
        for gateway in gateways.iter().rev() {
            let plan: Vec<Check<'_>> = (0..)
                .zip(&checks)
                .map(|(policy, (&(index, partition_id), &cost))| {
                    let name = format!("policy-{index}");
                    let check = gateway.check(&name, &quotas[index], partition_id);
                    let mode = match (is_shadow, index % 2) {
                        (true, 0) => CheckMode::Shadow,
                        _ => CheckMode::Enforce,
                    };
                    Check {
                        policy: PlanPolicy(policy),
                        cost,
                        mode,
                        ..check
                    }
                })
                .collect();
            let (verdict, mut charge) = gateway.decide(&plan).await;
            if !verdict.admit {
                // A refused plan has spent nothing that could be given back.
                give_back(&gateway.session, &mut charge, 1).await;
            }
            drop(charge);
            let peeks: Vec<_> = plan
                .iter()
                .map(|check| Check { cost: 0, ..*check })
                .collect();
            let what = format!("round {round}: {checks:?}");
            match &left {
                None => left = Some(gateway.session.peek(&peeks).await),
                Some(left) => gateway.comes_to_say(&peeks, left, &what).await,
            }
            verdicts.push(verdict);
        }
        let [memory, redis] = <[Verdict; 2]>::try_from(verdicts).expect("two gateways");
        assert_eq!(redis, memory, "round {round}: {checks:?}");
        let step = Micros(draws.below(3) * 1_234_567);
        for gateway in &gateways {
            gateway.clock.advance(step);
        }
    }
}

/// Exactly the common quota is admitted, and clients that it refuses have spent nothing of their own.
#[tokio::test(flavor = "local")]
async fn clients_of_one_common_quota_spend_what_it_admits_and_no_more() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let (own, common) = (quota(100, HOUR), quota(40, HOUR));
    let plans: Vec<_> = (0..200)
        .map(|n| {
            [
                gateway.check("own", &own, 1 + n % 10),
                gateway.check("common", &common, 77),
            ]
        })
        .collect();
    let decided = join_all(plans.iter().map(|plan| gateway.decide(plan))).await;
    let admitted = decided.iter().filter(|(verdict, _)| verdict.admit).count();
    assert_eq!(admitted, 40);
    let patience = Instant::now() + PATIENCE;
    loop {
        let mut spent = 0;
        for plan in &plans[..10] {
            spent += 100 - gateway.remaining(&plan[..1]).await[0];
        }
        if spent == 40 {
            return;
        }
        assert!(spent > 40, "more came back than was to: {spent}");
        assert!(Instant::now() < patience, "what was spent never came back");
    }
}

/// Wherever the decision is when its client leaves; otherwise, clients that are refused could spend
/// the quota that others share.
#[tokio::test(flavor = "local")]
async fn client_that_leaves_spends_nothing_of_a_plan_that_is_refused() {
    let cluster = Cluster::start(3, 0);
    let gateway = Gateway::over(&cluster);
    let (full, shared) = (quota(1, HOUR), quota(1_000, HOUR));
    let refusing = gateway.check("full", &full, 1);
    drop(gateway.decide(&[refusing]).await);
    let plan = [gateway.check("shared", &shared, 2), refusing];
    drop(gateway.decide(&plan).await);
    for turns in 1..100 {
        drop(within_turns(turns, Box::pin(gateway.session.decide(&plan))).await);
    }
    let patience = Instant::now() + PATIENCE;
    while gateway.remaining(&plan).await != [1_000, 0] {
        assert!(Instant::now() < patience, "what was spent never came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "local")]
async fn what_is_lost_with_a_primary_costs_the_other_partitions_nothing() {
    let cluster = Cluster::start_with(
        3,
        0,
        crate::support::redis::Encryption::None,
        &["cluster-require-full-coverage no"],
    );
    let gateway = Gateway::over(&cluster);
    let quota = quota(10, HOUR);
    let lost = cluster.nodes[0].port();
    let on = |is_lost| {
        let partition_id =
            (0..60).find(|partition_id| (primary_of(&cluster, *partition_id) == lost) == is_lost);
        partition_id.expect("some partition")
    };
    let plan = [
        gateway.check("a", &quota, on(false)),
        gateway.check("a", &quota, on(true)),
    ];
    drop(gateway.decide(&plan).await);
    cluster.nodes[0].kill();
    for _ in 0..3 {
        let outcome = gateway.session.decide(&plan).await;
        assert!(
            matches!(outcome, StoreVerdict::Unavailable { .. }),
            "{outcome:?}"
        );
    }
    assert_eq!(gateway.remaining(&plan[..1]).await, [9]);
}

/// The breaker of a replaced primary never closes, because nothing is sent to that primary any more.
#[tokio::test(flavor = "local")]
async fn own_counts_are_kept_when_a_replica_has_replaced_its_primary() {
    let cluster = Cluster::start(3, 1);
    let settings = Settings {
        timeout: Duration::from_secs(1),
        ..Settings::default()
    };
    let gateway = Gateway::with(seeds(&cluster), settings);
    let quota = quota(1_000, HOUR);
    let lost = cluster.nodes[0].port();
    let partition_id = (0..60).find(|partition_id| primary_of(&cluster, *partition_id) == lost);
    let plan = [Check {
        on_store_failure: OnStoreFailure::Local,
        ..gateway.check("a", &quota, partition_id.expect("some partition"))
    }];
    drop(gateway.decide(&plan).await);
    cluster.nodes[0].kill();
    let (mut was_degraded, mut decided) = (false, 0);
    let deadline = Instant::now() + PATIENCE * 3;
    loop {
        assert!(Instant::now() < deadline, "the replica never decides");
        let outcome = gateway.session.decide(&plan).await;
        let StoreVerdict::Decided { is_degraded, .. } = outcome else {
            panic!("neither here nor there: {outcome:?}");
        };
        gateway.store.sweep();
        gateway.session.tick();
        was_degraded |= is_degraded;
        if was_degraded {
            assert_eq!(gateway.store.usage().partitions, 1);
            // Long enough for everything that happens after Redis is well again.
            decided += u32::from(!is_degraded);
            if decided == 20 {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the port of the primary that keeps a partition.
fn primary_of(cluster: &Cluster, partition_id: u128) -> u16 {
    let names = KeyNames::new("tollgate");
    let quota = quota(1, MINUTE);
    names.note(SeriesId(0), &series("any", &quota));
    let key = names.key(SeriesId(0), PartitionId::new(partition_id));
    let key = String::from_utf8(key.into()).expect("text");
    cluster.primary_of(cluster.slot_of(&key)).port()
}

fn series(policy: &str, quota: &Quota) -> Series {
    Series::of(policy, SeriesRole::Real, quota)
}

/// Returns the location of the Cluster, with only the first node as a seed.
fn seeds(cluster: &Cluster) -> Location {
    let seed = cluster.nodes[0].address();
    let seeds = vec![Address {
        host: seed.ip().to_string().into(),
        port: seed.port(),
    }];
    Location::Redis(RedisSettings::plain(Deployment::Cluster(seeds)))
}

fn quota(limit: u64, window: Micros) -> Quota {
    Quota::of(Algorithm::FixedWindow, limit, window)
}

fn counting_all(quota: Quota) -> Quota {
    Quota {
        count: Count::All,
        ..quota
    }
}

/// Returns how many calls of scripts the Cluster has executed.
fn calls(cluster: &Cluster) -> u64 {
    let of = |node: &Server| node.calls("evalsha");
    cluster.nodes.iter().map(of).sum()
}

const MINUTE: Micros = Micros::from_secs(60);
const HOUR: Micros = Micros::from_secs(3_600);
const POLICIES: [&str; 2] = ["a", "b"];

fn algorithms() -> [Algorithm; 8] {
    let windows = |buckets, oldest| Algorithm::SlidingWindow { buckets, oldest };
    [
        Algorithm::FixedWindow,
        calendar_days(),
        windows(10, OldestBucket::Weighted),
        windows(1, OldestBucket::Whole),
        windows(300, OldestBucket::Weighted),
        Algorithm::SlidingLog,
        Algorithm::Gcra { burst: 3 },
        Algorithm::LeakyBucket { queue: 2 },
    ]
}
