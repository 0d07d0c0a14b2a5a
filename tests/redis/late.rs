//! What happens to a decision whose answer came too late: its request was decided without it, but Redis may have
//! charged it all the same.

use std::time::Duration;

use futures_util::FutureExt;
use tollgate::clock::Micros;
use tollgate::limit::plan::OnStoreFailure::{self, Closed, Local, Open};
use tollgate::limit::plan::PlanPolicy;
use tollgate::limit::{Adjustment, Algorithm, Check, Count, PartitionId, Quota};
use tollgate::store::{Charge, SeriesRole, Session, StoreVerdict};

use crate::settling::{LEAKY, leave};
use crate::store_failure::{connected, over};
use crate::store_redis::{Bench, EVERYTHING, TEN, check, comes_to_be, decide, left, quota, run};
use crate::support::gateway::start_text;
use crate::support::ratelimit::remaining;
use crate::support::redis::{Cluster, Fault, Proxy, Server};
use crate::support::{eventually, get};

const FOUR_BACK: Adjustment = Adjustment::GiveBack(4);
const ALL: Quota = quota(10, Count::All);
/// A quota without an edge that a test could meet.
const LOG: Quota = Quota {
    algorithm: Algorithm::SlidingLog,
    window: Micros::from_secs(3_600),
    ..TEN
};

/// Time at which a charge is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The late answer is still on its way.
    Before,
    /// The late answer has come.
    After,
}
use When::{After, Before};

type Adjustments = &'static [(When, Adjustment)];

/// Makes Redis know the script for such a plan; otherwise, a call by the script's hash alone would not execute it.
async fn know_script(session: &Session, plan: &[Check<'_>]) {
    let mut plan = plan.to_vec();
    for check in &mut plan {
        check.partition_id = PartitionId::new(99);
    }
    while decide(session, &plan).await.2 {}
}

/// Returns a large cost together with a quota that counts every request.
fn large_and_counted() -> [Check<'static>; 2] {
    [
        Check {
            cost: 6,
            ..check(&TEN, 0, 2)
        },
        Check {
            policy: PlanPolicy(1),
            ..check(&ALL, 1, 2)
        },
    ]
}

/// Lets delayed answers arrive, and returns what is left of a plan once everything is settled.
async fn arrived(session: &Session, proxy: &Proxy, plan: &[Check<'_>]) -> Vec<u64> {
    proxy.set(Fault::None);
    // Answers come in order, so the late one comes before this.
    left(session, plan[0]).await;
    session.finish().await;
    let mut all = Vec::new();
    for check in plan {
        all.push(left(session, *check).await);
    }
    all
}

/// Has a request decided while the network is a black hole; the commands arrive once the fault is gone.
async fn try_decide_late(session: &Session, proxy: &Proxy, plan: &[Check<'_>]) -> StoreVerdict {
    proxy.set(Fault::BlackHole);
    session.decide(plan).await
}

/// The same for plans without closed policies; returns whether the request is admitted, and its charge.
async fn decide_late(session: &Session, proxy: &Proxy, plan: &[Check<'_>]) -> (bool, Charge) {
    proxy.set(Fault::BlackHole);
    let (verdict, charge, is_degraded) = decide(session, plan).await;
    assert!(is_degraded);
    (verdict.admit, charge)
}

#[test]
fn late_decision_is_settled_as_its_request_is() {
    let (_server, proxy, bench) = Bench::behind_proxy();
    run(async {
        let session = bench.store.session();
        while decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
        let cases: [(OnStoreFailure, Adjustments, u64); 12] = [
            (Local, &[], 4),
            (Local, &[(Before, EVERYTHING)], 10),
            (Local, &[(After, EVERYTHING)], 10),
            (Local, &[(Before, FOUR_BACK)], 8),
            (Local, &[(Before, FOUR_BACK), (After, EVERYTHING)], 10),
            (Local, &[(Before, FOUR_BACK), (Before, FOUR_BACK)], 10),
            (Local, &[(Before, Adjustment::Spend(3))], 1),
            (Local, &[(After, Adjustment::Spend(3))], 1),
            (Open, &[], 4),
            (Open, &[(Before, EVERYTHING)], 10),
            (Open, &[(After, EVERYTHING)], 10),
            (Closed, &[], 10),
        ];
        for (tag, (on_store_failure, adjustments, expected)) in (2..).zip(cases) {
            let case = format!("{on_store_failure:?}, {adjustments:?}");
            let plan = [Check {
                cost: 6,
                on_store_failure,
                ..check(&TEN, 0, tag)
            }];
            let mut charge = match try_decide_late(&session, &proxy, &plan).await {
                StoreVerdict::Decided {
                    verdict,
                    charge,
                    is_degraded,
                } => {
                    assert!(verdict.admit && is_degraded, "{case}");
                    assert!(charge.is_charged(PlanPolicy(0)), "{case}");
                    Some(charge)
                }
                StoreVerdict::Unavailable { .. } => None,
            };
            for when in [Before, After] {
                let adjustments = adjustments.iter().filter(|(at, _)| *at == when);
                for &(_, adjustment) in adjustments {
                    let charge = charge.as_mut().expect("it was admitted");
                    session.settle_later(charge, |_| adjustment);
                }
                if when == Before {
                    proxy.set(Fault::None);
                    // Answers come in order, so the late one comes before this.
                    left(&session, plan[0]).await;
                }
            }
            session.finish().await;
            assert_eq!(left(&session, plan[0]).await, expected, "{case}");
        }
    });
}

#[test]
fn late_decision_spends_nothing_for_a_request_that_was_refused_without_it() {
    let (server, proxy, bench) = Bench::behind_proxy();
    run(async {
        let session = bench.store.session();
        let plan = large_and_counted();
        know_script(&session, &plan).await;
        // The gateway's own counts have no room for another one; Redis forgets the first.
        assert!(decide_late(&session, &proxy, &plan).await.0);
        proxy.set(Fault::None);
        comes_to_be(&session, plan[0], 4).await;
        server.command(&["FLUSHDB"]);
        assert!(!decide_late(&session, &proxy, &plan).await.0);
        assert_eq!(arrived(&session, &proxy, &plan).await, [10, 10]);
    });
}

#[test]
fn late_refusal_keeps_what_is_counted_of_every_request() {
    let (_server, proxy, bench) = Bench::behind_proxy();
    run(async {
        let session = bench.store.session();
        let plan = large_and_counted();
        while decide(&session, &plan).await.2 {}
        let (is_admitted, mut charge) = decide_late(&session, &proxy, &plan).await;
        assert!(is_admitted, "this node has counted nothing yet");
        session.settle_later(&mut charge, |_| EVERYTHING);
        assert_eq!(arrived(&session, &proxy, &plan).await, [4, 8]);
    });
}

#[test]
fn place_of_a_client_that_leaves_stays_taken_also_where_the_answer_is_late() {
    let (_server, proxy, bench) = Bench::behind_proxy();
    run(async {
        let session = bench.store.session();
        let leaky = bench.series(SeriesRole::Real, &LEAKY);
        let plan = [
            Check {
                cost: 6,
                ..check(&LEAKY, leaky, 2)
            },
            Check {
                policy: PlanPolicy(1),
                cost: 6,
                ..check(&TEN, 1, 2)
            },
        ];
        know_script(&session, &plan).await;
        let (_, charge) = decide_late(&session, &proxy, &plan).await;
        session.settle_later(&mut charge.without_places(), |_| EVERYTHING);
        assert_eq!(arrived(&session, &proxy, &plan).await, [4, 10]);
    });
}

#[test]
fn answers_that_do_not_count_come_back_though_their_decisions_were_late() {
    for fallback in ["local", "open"] {
        let redis = Server::start();
        let proxy = Proxy::to(redis.address());
        let policy = format!(
            "quota = '5 per hour'\nalgorithm = 'fixed-window'\nrefund_on = [503]\n\
             on_store_failure = '{fallback}'"
        );
        let store = "breaker = { failures = 100, failure_ratio = 1.0 }";
        let config = over(proxy.address(), &policy, store).with(
            "[upstreams.busy]\nendpoints = ['builtin:status/503']\n\
             [[routes]]\npath = '/busy'\nupstream = 'busy'\npolicies = ['p']",
        );
        let running = start_text(&config.text().replace("'5s'", "'200ms'"));
        connected(&running);
        let ask = |path| get(running.public, path, "");
        assert_eq!(remaining(&ask("/"), "p"), 4);
        proxy.set(Fault::BlackHole);
        for _ in 0..3 {
            assert_eq!(ask("/busy").status, 503, "{fallback}");
        }
        proxy.set(Fault::None);
        eventually("all of it comes back", || {
            // A 503 that is not late shows Redis' count, and its charge comes back, too.
            let answer = ask("/busy");
            let is_counted = answer.field("ratelimit").is_some();
            (is_counted && remaining(&answer, "p") == 4).then_some(())
        });
    }
}

#[test]
fn cluster_too_far_away_for_look_and_charge_is_settled_as_the_request_is() {
    let mut cluster = Cluster::start(3, 0);
    cluster.put_behind_proxies();
    // Either the charge is late, or the peek; a late peek is never followed by its charge.
    let cases = [
        (310, Closed, None, 10),
        (310, Local, Some(EVERYTHING), 10),
        (310, Local, None, 9),
        (600, Closed, None, 10),
        (600, Local, None, 10),
    ];
    for (tags, (latency_ms, on_store_failure, adjustment, expected)) in (1..).zip(cases) {
        let case = format!("{latency_ms} ms, {on_store_failure:?}, {adjustment:?}");
        let bench = Bench::on_far_cluster(&cluster);
        run(async {
            let session = bench.store.session();
            let series_id = bench.series(SeriesRole::Real, &LOG);
            // More partitions than there are servers.
            let plan: Vec<_> = (1..=8)
                .map(|tag| Check {
                    on_store_failure,
                    ..check(&LOG, series_id, 100 * tags + tag)
                })
                .collect();
            know_script(&session, &plan).await;
            for check in &plan {
                // By now, every server has a connection.
                assert_eq!(left(&session, *check).await, 10);
            }
            for proxy in &cluster.proxies {
                let by = Duration::from_millis(latency_ms);
                proxy.set(Fault::Latency {
                    by,
                    jitter: Duration::ZERO,
                });
            }
            match session.decide(&plan).await {
                StoreVerdict::Decided {
                    verdict,
                    mut charge,
                    is_degraded,
                } => {
                    assert!(verdict.admit && is_degraded, "{case}");
                    if let Some(adjustment) = adjustment {
                        session.settle_later(&mut charge, |_| adjustment);
                    }
                }
                StoreVerdict::Unavailable { .. } => assert_eq!(on_store_failure, Closed, "{case}"),
            }
            let usage = bench.store.usage().redis.expect("it is Redis");
            assert!(usage.late > 0, "{case}");
            for proxy in &cluster.proxies {
                proxy.set(Fault::None);
            }
            for check in &plan {
                comes_to_be(&session, *check, expected).await;
            }
        });
    }
}

#[test]
fn end_of_a_worker_waits_for_late_answers_to_what_is_settled_and_for_no_others() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let (bench, witness) = (Bench::behind(&proxy), Bench::on(&server));
    run(async {
        let witness = witness.store.session();
        let cases = [
            (Closed, None, Some(10)),
            (Local, Some(EVERYTHING), Some(10)),
            (Local, Some(Adjustment::Spend(3)), Some(1)),
            (Local, None, None),
        ];
        for (tag, (on_store_failure, adjustment, expected)) in (2..).zip(cases) {
            let case = format!("{on_store_failure:?}, {adjustment:?}");
            proxy.set(Fault::None);
            let session = bench.store.session();
            while decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
            let plan = [Check {
                cost: 6,
                on_store_failure,
                ..check(&TEN, 0, tag)
            }];
            let outcome = try_decide_late(&session, &proxy, &plan).await;
            if let (StoreVerdict::Decided { mut charge, .. }, Some(adjustment)) =
                (outcome, adjustment)
            {
                session.settle_later(&mut charge, |_| adjustment);
            }
            let mut finishing = Box::pin(session.finish());
            let Some(expected) = expected else {
                assert_eq!(finishing.now_or_never(), Some(0), "{case}");
                continue;
            };
            assert!((&mut finishing).now_or_never().is_none(), "{case}");
            proxy.set(Fault::None);
            assert_eq!(finishing.await, 0, "{case}");
            drop(session);
            assert_eq!(left(&witness, plan[0]).await, expected, "{case}");
        }
    });
}

#[test]
fn server_whose_fastest_answer_took_over_half_the_timeout_is_told_of() {
    let (_server, proxy, bench) = Bench::behind_proxy();
    run(async {
        let session = bench.store.session();
        let plan = [check(&TEN, 0, 1)];
        know_script(&session, &plan).await;
        for (took_ms, is_far) in [(100, false), (151, true), (150, false)] {
            bench.clock.advance(Micros::from_secs(10));
            bench.store.sweep();
            let mut deciding = Box::pin(try_decide_late(&session, &proxy, &plan));
            leave(&mut deciding).await;
            bench.clock.advance(Micros(took_ms * 1_000));
            proxy.set(Fault::None);
            deciding.await;
            bench.clock.advance(Micros::from_secs(10));
            bench.store.sweep();
            let servers = bench.store.usage().redis.expect("it is Redis").servers;
            let found: Vec<_> = servers.iter().map(|server| server.is_far).collect();
            assert_eq!(found, [is_far], "{took_ms} ms");
        }
    });
}
