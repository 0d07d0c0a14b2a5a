//! What happens to charges in Redis later: they are settled by policy and in few calls, and given back if the client
//! left before its request was sent on. Also candidates, which are counted in addition.

use std::future::Future;
use std::time::Duration;

use tollgate::limit::plan::{CheckMode, PlanPolicy};
use tollgate::limit::{Adjustment, Algorithm, Check, Count, Quota};
use tollgate::metrics::RedisUsage;
use tollgate::store::{Series, SeriesRole, Session};

use crate::gate::calls;
use crate::store_redis::{
    Bench, EVERYTHING, ONE, TEN, TURNS, check, comes_to_be, comes_to_be_in_redis, decide, left,
    quota, run, within_turns,
};
use crate::support::PATIENCE;
use crate::support::redis::{Cluster, Fault, Proxy, Server};

const HUNDRED: Quota = quota(100, Count::Admitted);
pub const LEAKY: Quota = Quota {
    algorithm: Algorithm::LeakyBucket { queue: 9 },
    ..TEN
};

impl Bench {
    /// Registers one more series, and returns its number.
    pub fn series(&self, role: SeriesRole, quota: &Quota) -> u32 {
        let series = Series::of("more", role, quota);
        self.store.series_id(&series).0
    }

    pub fn redis(&self) -> RedisUsage {
        *self.store.usage().redis.expect("it is Redis")
    }
}

/// Returns the check as part of another policy of the plan.
fn of_policy(policy: u16, check: Check<'_>) -> Check<'_> {
    Check {
        policy: PlanPolicy(policy),
        ..check
    }
}

/// Returns what is left of several quotas.
async fn all_left(session: &Session, plan: &[Check<'_>]) -> Vec<u64> {
    let plan: Vec<_> = plan
        .iter()
        .map(|check| Check { cost: 0, ..*check })
        .collect();
    let peeks = session.peek(&plan).await;
    peeks.iter().map(|peek| peek.remaining).collect()
}

/// Waits until `has_come` returns true; fails the test with `what` if it never does.
pub async fn comes_about(what: &str, has_come: impl Fn() -> bool) {
    let coming = async {
        while !has_come() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, coming).await;
    assert!(in_time.is_ok(), "{what}");
}

/// Polls a decision until its command has been written, and drops it.
pub async fn leave(deciding: impl Future + Unpin) {
    let decided = within_turns(TURNS, deciding).await;
    assert!(decided.is_none(), "nobody answers");
}

#[test]
fn each_policy_is_settled_by_its_own_amount() {
    let (_server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan: Vec<_> = [(0, 4), (1, 2), (2, 2)]
            .map(|(policy, cost)| Check {
                cost,
                ..of_policy(policy, check(&TEN, policy.into(), 1))
            })
            .to_vec();
        let (verdict, mut charge, _) = decide(&session, &plan).await;
        let adjustment = |PlanPolicy(policy)| match policy {
            0 => Adjustment::GiveBack(3),
            1 => Adjustment::Spend(5),
            _ => Adjustment::NONE,
        };
        let adjusted: Vec<_> = (plan.iter().zip(&verdict.answers))
            .map(|(check, answer)| {
                let decision = answer.decision.expect("it is counted");
                charge.adjusted(check.series_id, decision, adjustment(check.policy))
            })
            .collect();
        session.settle_later(&mut charge, adjustment);
        session.finish().await;
        assert_eq!(all_left(&session, &plan).await, [9, 3, 8]);
        let looks: Vec<_> = plan
            .iter()
            .map(|check| Check { cost: 0, ..*check })
            .collect();
        assert_eq!(adjusted, session.peek(&looks).await.to_vec());
    });
}

#[test]
fn what_is_due_at_one_moment_is_settled_in_one_call_for_64_quotas() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let mut charges = Vec::new();
        // The last charges do not fit into one call.
        for partition in 0..40 {
            let plan = [
                of_policy(0, check(&TEN, 0, partition)),
                of_policy(1, check(&TEN, 1, partition)),
            ];
            charges.push(decide(&session, &plan).await.1);
        }
        // After this, Redis knows the script.
        let mut first = charges.remove(0);
        session.settle_later(&mut first, |_| EVERYTHING);
        session.finish().await;
        let before = calls(&server);
        for charge in &mut charges {
            session.settle_later(charge, |PlanPolicy(policy)| match policy {
                0 => EVERYTHING,
                _ => Adjustment::Spend(2),
            });
        }
        session.finish().await;
        assert_eq!(calls(&server) - before, 2);
        for partition in 1..40 {
            let plan = [check(&TEN, 0, partition), check(&TEN, 1, partition)];
            assert_eq!(all_left(&session, &plan).await, [10, 7]);
        }
    });
}

/// If a key has a value that no script wrote, its charge stays and is counted; the others of the call are settled.
#[test]
fn charge_that_redis_cannot_settle_is_counted_and_keeps_no_other_from_it() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plans = [1, 2].map(|partition| [check(&TEN, 0, partition)]);
        let mut charges = Vec::new();
        for plan in &plans {
            charges.push(decide(&session, plan).await.1);
        }
        let keys = server.command(&["KEYS", "t:{*}:*"]);
        let spoilt = keys.list()[0].text();
        server.command(&["DEL", &spoilt]);
        server.command(&["RPUSH", &spoilt, "of another type"]);
        for charge in &mut charges {
            session.settle_later(charge, |_| EVERYTHING);
        }
        session.finish().await;
        assert_eq!(bench.redis().settlements_dropped, 1);
        let mut whole = 0;
        for plan in &plans {
            let (_, _, is_degraded) = decide(&session, &[Check { cost: 0, ..plan[0] }]).await;
            whole += u64::from(!is_degraded && left(&session, plan[0]).await == 10);
        }
        assert_eq!(whole, 1);
    });
}

#[test]
fn what_cannot_be_sent_waits_until_it_can_or_has_aged_out() {
    for (adjustment, left_then) in [(EVERYTHING, 10), (Adjustment::Spend(3), 6)] {
        let (_server, proxy, bench) = Bench::behind_proxy();
        run(async {
            let session = bench.store.session();
            let plan = [check(&TEN, 0, 1)];
            let settle_in_vain = async || {
                let (_, mut charge, is_degraded) = decide(&session, &plan).await;
                assert!(!is_degraded);
                proxy.set(Fault::Refuse);
                proxy.reset_all();
                while !decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
                session.settle_later(&mut charge, |_| adjustment);
            };
            settle_in_vain().await;
            proxy.set(Fault::None);
            comes_to_be_in_redis(&bench, &session, plan[0], left_then).await;
            let dropped = bench.redis().settlements_dropped;
            settle_in_vain().await;
            bench.clock.advance(TEN.window);
            comes_about("never dropped", || {
                bench.redis().settlements_dropped > dropped
            })
            .await;
            proxy.set(Fault::None);
            comes_to_be_in_redis(&bench, &session, plan[0], 10).await;
        });
    }
}

/// Either of these answers proves that nothing was settled.
#[test]
fn charge_is_settled_though_redis_says_too_late_that_it_lacks_script_or_memory() {
    for lacking in [
        &["SCRIPT", "FLUSH"][..],
        &["CONFIG", "SET", "maxmemory", "1"],
    ] {
        let server = Server::start();
        let proxy = Proxy::to(server.address());
        let bench = Bench::behind(&proxy);
        run(async {
            let session = bench.store.session();
            let plan = [check(&TEN, 0, 1)];
            while decide(&session, &[check(&TEN, 1, 1)]).await.2 {}
            let mut charge = decide(&session, &plan).await.1;
            server.command(lacking);
            proxy.set(Fault::BlackHole);
            session.settle_later(&mut charge, |_| EVERYTHING);
            // The settlement has been sent, and nobody waits for its answer any more.
            session.finish().await;
            proxy.set(Fault::None);
            comes_to_be_in_redis(&bench, &session, plan[0], 10).await;
        });
    }
}

#[test]
fn client_that_leaves_before_it_is_admitted_gets_all_back_but_its_place() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let leaky = check(&LEAKY, bench.series(SeriesRole::Real, &LEAKY), 1);
        let plan = [check(&TEN, 0, 1), of_policy(1, leaky)];
        assert!(decide(&session, &plan).await.0.admit);
        server.stop();
        leave(Box::pin(session.decide(&plan))).await;
        server.resume();
        comes_to_be(&session, plan[1], 8).await;
        session.finish().await;
        assert_eq!(left(&session, plan[0]).await, 9);
    });
}

#[test]
fn client_that_leaves_a_plan_over_several_servers_gets_it_back_once_it_is_charged() {
    let cluster = Cluster::start(3, 0);
    let bench = Bench::on_cluster(&cluster);
    run(async {
        let session = bench.store.session();
        let plan: Vec<Check<'_>> = (1..=8).map(|partition| check(&TEN, 0, partition)).collect();
        assert!(decide(&session, &plan).await.0.admit);
        let before = bench.redis().answered;
        cluster.nodes.iter().for_each(Server::stop);
        leave(Box::pin(session.decide(&plan))).await;
        cluster.nodes.iter().for_each(Server::resume);
        // Each part is peeked at, and charged.
        comes_about("never charged", || bench.redis().answered == before + 16).await;
        session.finish().await;
        for check in plan {
            comes_to_be(&session, check, 9).await;
        }
    });
}

/// A policy of one unit with a candidate of a hundred, and another policy; each has one partition.
fn tried(bench: &Bench, own: u128, other: u128) -> [Check<'static>; 3] {
    let candidate = bench.series(SeriesRole::Candidate, &HUNDRED);
    [
        check(&ONE, 0, own),
        Check {
            mode: CheckMode::Candidate,
            ..check(&HUNDRED, candidate, own)
        },
        of_policy(1, check(&TEN, 1, other)),
    ]
}

#[test]
fn candidate_counts_what_its_own_policy_refuses_and_nobody_else_does() {
    let (server, cluster) = (Server::start(), Cluster::start(3, 0));
    for (bench, other) in [
        (Bench::on(&server), 1),
        (Bench::on(&server), 2),
        (Bench::on_cluster(&cluster), 1),
        (Bench::on_cluster(&cluster), 2),
    ] {
        run(async {
            let session = bench.store.session();
            let own = 10 * other;
            let plan = tried(&bench, own, other);
            let mut candidate_left = Vec::new();
            for cost in [1, 1, 11, 1] {
                let asked = plan.map(|check| Check { cost, ..check });
                drop(decide(&session, &asked).await);
                candidate_left.push(left(&session, plan[1]).await);
            }
            // A request that both refuse would not have been admitted by the candidate, either.
            assert_eq!(candidate_left, [99, 98, 98, 97], "{other}");
            assert_eq!(left(&session, plan[2]).await, 9, "{other}");
            for check in plan {
                let reset = session.reset(&[check.series_id], check.partition_id).await;
                reset.expect("Redis answers");
            }
        });
    }
}

#[test]
fn refusal_by_a_policy_with_a_candidate_is_asked_for_each_time() {
    let (_server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan = tried(&bench, 1, 1);
        for _ in 0..5 {
            drop(decide(&session, &plan).await);
        }
        let usage = bench.redis();
        assert_eq!((usage.answered, usage.remembered), (5, 0));
        assert_eq!(left(&session, plan[1]).await, 95);
        // Without its candidate, the same policy's refusal is remembered.
        for _ in 0..5 {
            assert!(!decide(&session, &plan[..1]).await.0.admit);
        }
        assert_eq!(bench.redis().remembered, 4);
        // And if another policy is known to refuse, Redis need not be asked.
        let other = [Check {
            cost: 10,
            ..plan[2]
        }];
        drop(decide(&session, &other).await);
        drop(decide(&session, &other).await);
        let remembered = bench.redis().remembered;
        let costly = plan.map(|check| Check { cost: 10, ..check });
        assert!(!decide(&session, &costly).await.0.admit);
        assert_eq!(bench.redis().remembered, remembered + 1);
    });
}

/// A full server has no key for the candidate, so it is counted locally, apart from its policy.
#[test]
fn candidate_that_a_full_server_does_not_know_counts_here_by_the_same_rule() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan = tried(&bench, 1, 1);
        assert!(decide(&session, &plan).await.0.admit);
        let keys = server.command(&["KEYS", "*:c1:*"]);
        assert_eq!(keys.list().len(), 1, "the candidate's own key");
        server.command(&["DEL", &keys.list()[0].text()]);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let mut candidate_left = Vec::new();
        for cost in [1, 1, 11, 1] {
            let asked = plan.map(|check| Check { cost, ..check });
            let (verdict, _, is_degraded) = decide(&session, &asked).await;
            assert!(!verdict.admit && is_degraded);
            let candidate = verdict.answers[1].decision.expect("it is counted here");
            candidate_left.push(candidate.remaining);
        }
        assert_eq!(candidate_left, [99, 98, 98, 97]);
    });
}
