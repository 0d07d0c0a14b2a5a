//! Units that gateways buy ahead at one Redis: they take fewer calls, and exactly what was admitted is counted.

use futures_util::FutureExt;
use tollgate::clock::Micros;
use tollgate::limit::plan::{CheckMode, PlanPolicy};
use tollgate::limit::{Algorithm, Check, Quota};

use crate::gate::calls;
use crate::lease_fleet::{CLIENT, DAY, Fleet, HASTY, PATIENT, daily, of_each_algorithm, with};
use crate::store_redis::run;
use crate::support::START;
use crate::support::redis::{Fault, Proxy, Server};

#[test]
fn busy_client_takes_few_calls_once_the_fleet_was_seen_for_ten_seconds() {
    /// Most units that the gateway may hold.
    const HELD_MAX: u64 = 150;
    let (server, quota) = (Server::start(), daily(1_500));
    run(async {
        let fleet = Fleet::start(&server, &[server.address()], PATIENT).await;
        let gateway = &fleet.gateways[0];
        for client in [2, 3] {
            fleet.pass(Micros::from_secs(4)).await;
            let before = calls(&server);
            let plan = [gateway.leased(&quota, 10, client, 1)];
            assert_eq!(gateway.busy(100, &plan).await, 100);
            assert_eq!((calls(&server) - before, gateway.held()), (100, 0));
        }
        fleet.meet().await;
        let plan = [gateway.leased(&quota, 10, CLIENT, 1)];
        let (before, mut held_most) = (calls(&server), 0);
        for _ in 0..20 {
            assert_eq!(gateway.busy(50, &plan).await, 50);
            held_most = held_most.max(gateway.held());
            fleet.tick().await;
        }
        let asked = calls(&server) - before;
        assert!(
            held_most > HELD_MAX / 2 && held_most <= HELD_MAX,
            "{held_most}"
        );
        // Units are bought half of that at a time, and fewer at first; the gateway's announcements are calls, too.
        assert!(asked <= 2 * 1_000 / HELD_MAX + 40, "{asked} calls");
    });
}

#[test]
fn client_that_asks_seldom_takes_a_call_for_each_request() {
    with(1, async |fleet| {
        let (gateway, quota) = (&fleet.gateways[0], daily(1_500));
        let plan = [gateway.leased(&quota, 10, CLIENT, 1)];
        for turn in 1..=30 {
            fleet.pass(Micros::from_secs(1)).await;
            let before = calls(fleet.server);
            assert_eq!(gateway.busy(1, &plan).await, 1);
            assert_eq!(calls(fleet.server) - before, 1);
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!((counted, gateway.held()), (turn, 0));
        }
    });
}

#[test]
fn what_is_not_used_comes_back_of_every_algorithm() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        for quota in of_each_algorithm(1_000) {
            let plan = [gateway.leased(&quota, 20, CLIENT, 1)];
            assert_eq!(gateway.busy(333, &plan).await, 333, "{quota:?}");
            let held = gateway.held();
            assert!(held > 0, "{quota:?}");
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 333 + held, "{quota:?}");
            fleet.idle().await;
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 333, "{quota:?}");
        }
    });
}

#[test]
fn exactly_the_quota_is_admitted_whoever_holds_the_last_of_it() {
    with(3, async |fleet| {
        for quota in of_each_algorithm(300) {
            let (mut admitted, mut more) = (0, 1);
            while more > 0 {
                more = 0;
                // Refusals are remembered for a second, which is 200 turns.
                for turn in 0..300 {
                    let gateway = &fleet.gateways[turn % 3];
                    let plan = [gateway.leased(&quota, 30, CLIENT, 1)];
                    more += gateway.busy(1, &plan).await;
                    assert!(gateway.held() <= 30, "{quota:?}");
                }
                admitted += more;
                assert!(admitted <= quota.limit, "{admitted} of {quota:?}");
                fleet.idle().await;
                assert_eq!(fleet.counted(&quota, CLIENT).await, admitted, "{quota:?}");
            }
            assert_eq!(admitted, quota.limit, "{quota:?}");
        }
    });
}

#[test]
fn what_an_exact_quota_refuses_stays_held() {
    with(1, async |fleet| {
        let (gateway, quota, narrow) = (&fleet.gateways[0], daily(1_000), daily(3));
        let leased = gateway.leased(&quota, 10, CLIENT, 1);
        let exact = Check {
            policy: PlanPolicy(1),
            ..gateway.exact(&narrow, CLIENT + 1, 1)
        };
        assert_eq!(gateway.busy(100, &[leased]).await, 100);
        assert_eq!(gateway.busy(3, &[leased, exact]).await, 3);
        let (before, held) = (calls(fleet.server), gateway.held());
        assert!(held > 0);
        assert_eq!(gateway.busy(10, &[leased, exact]).await, 0);
        // The first refusal is remembered.
        assert_eq!((calls(fleet.server) - before, gateway.held()), (1, held));
        fleet.idle().await;
        assert_eq!(fleet.counted(&quota, CLIENT).await, 103);
        assert_eq!(fleet.counted(&narrow, CLIENT + 1).await, 3);
    });
}

#[test]
fn plan_that_leases_in_two_policies_has_units_of_both_or_of_none() {
    with(2, async |fleet| {
        let (wide, narrow) = (daily(1_000), of_each_algorithm(200)[5]);
        let mut admitted = 0;
        for turn in 0..400 {
            let gateway = &fleet.gateways[turn % 2];
            let second = Check {
                policy: PlanPolicy(1),
                ..gateway.leased(&narrow, 30, CLIENT, 1)
            };
            let plan = [gateway.leased(&wide, 20, CLIENT, 1), second];
            admitted += gateway.busy(1, &plan).await;
        }
        fleet.idle().await;
        assert!(admitted > 200 - 30 && admitted <= 200, "{admitted}");
        for quota in [wide, narrow] {
            assert_eq!(fleet.counted(&quota, CLIENT).await, admitted, "{quota:?}");
        }
    });
}

#[test]
fn what_was_bought_before_a_reset_is_neither_spent_nor_given_back() {
    with(2, async |fleet| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        for quota in of_each_algorithm(1_000) {
            let plan = [one.leased(&quota, 20, CLIENT, 1)];
            assert_eq!(one.busy(200, &plan).await, 200);
            assert!(one.held() > 0, "{quota:?}");
            let check = other.exact(&quota, CLIENT, 1);
            let series_ids = [check.series_id];
            let reset = other.session.reset(&series_ids, check.partition_id);
            let at = reset.await.expect("Redis answers");
            (one.bench.store).note_reset(plan[0].series_id, check.partition_id, at);
            assert_eq!(other.busy(300, &[check]).await, 300, "{quota:?}");
            assert_eq!(one.busy(1, &plan).await, 1, "{quota:?}");
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 301 + one.held(), "{quota:?}");
            fleet.idle().await;
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 301, "{quota:?}");
            fleet.clock.advance(Micros(1));
        }
    });
}

#[test]
fn what_was_bought_of_another_quota_is_not_spent_and_comes_back() {
    with(1, async |fleet| {
        let (gateway, old, new) = (&fleet.gateways[0], daily(1_000), daily(900));
        let plan = [gateway.leased(&old, 20, CLIENT, 1)];
        assert_eq!(gateway.busy(200, &plan).await, 200);
        let (before, held) = (calls(fleet.server), gateway.held());
        assert!(held > 0);
        let plan = [gateway.leased(&new, 20, CLIENT, 1)];
        assert_eq!(gateway.busy(1, &plan).await, 1);
        assert!(
            calls(fleet.server) > before,
            "it was paid from what was held"
        );
        fleet.idle().await;
        assert_eq!(fleet.counted(&new, CLIENT).await, 201);
    });
}

#[test]
fn units_of_a_window_end_with_it() {
    with(1, async |fleet| {
        let (gateway, quota) = (&fleet.gateways[0], daily(1_000));
        let plan = [gateway.leased(&quota, 20, CLIENT, 1)];
        fleet.clock.set(START + DAY - Micros::from_secs(20));
        fleet.meet().await;
        assert_eq!(gateway.busy(200, &plan).await, 200);
        let held = gateway.held();
        assert!(held > 0);
        fleet.clock.set(START + DAY);
        assert_eq!(gateway.busy(1, &plan).await, 1);
        let counted = fleet.counted(&quota, CLIENT).await;
        assert_eq!(counted, 1 + gateway.held());
        fleet.idle().await;
        assert_eq!(fleet.counted(&quota, CLIENT).await, 1);
    });
}

#[test]
fn gateway_that_ends_gives_back_all_and_buys_no_more() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        let quotas = of_each_algorithm(1_000);
        for quota in &quotas {
            let plan = [gateway.leased(quota, 20, CLIENT, 1)];
            assert_eq!(gateway.busy(100, &plan).await, 100);
        }
        assert!(gateway.held() > 0);
        assert_eq!(gateway.session.finish().await, 0);
        assert_eq!(gateway.held(), 0);
        for quota in &quotas {
            assert_eq!(fleet.counted(quota, CLIENT).await, 100, "{quota:?}");
            let plan = [gateway.leased(quota, 20, CLIENT, 1)];
            assert_eq!(gateway.busy(50, &plan).await, 50);
            assert_eq!(fleet.counted(quota, CLIENT).await, 150, "{quota:?}");
        }
        assert_eq!(gateway.held(), 0);
    });
}

#[test]
fn while_redis_is_away_what_is_held_is_spent_and_no_more() {
    let (server, quota) = (Server::start(), daily(1_000));
    let proxy = Proxy::to(server.address());
    run(async {
        let fleet = Fleet::start(&server, &[proxy.address()], HASTY).await;
        fleet.meet().await;
        let gateway = &fleet.gateways[0];
        let plan = [gateway.leased(&quota, 20, CLIENT, 1)];
        let mut admitted = gateway.busy(200, &plan).await;
        let held = gateway.held();
        assert!(held > 0);
        proxy.set(Fault::BlackHole);
        for _ in 0..held {
            let charge = gateway.ask(&plan).await;
            assert!(charge.expect("it is held").is_some());
            admitted += 1;
        }
        for _ in 0..3 {
            assert!(gateway.ask(&plan).await.is_err(), "nothing is held");
        }
        proxy.set(Fault::None);
        gateway.quiet().await;
        assert!(fleet.counted(&quota, CLIENT).await >= admitted);
        admitted += gateway.busy(100, &plan).await;
        assert!(fleet.counted(&quota, CLIENT).await >= admitted);
        fleet.idle().await;
        assert_eq!(fleet.counted(&quota, CLIENT).await, admitted);
    });
}

#[test]
fn units_that_come_back_after_others_were_bought_do_not_add_up_to_more_than_may_be_held() {
    /// Most units that the gateway may hold.
    const HELD_MAX: u64 = 30;
    with(1, async |fleet| {
        let (gateway, quota, other) = (&fleet.gateways[0], daily(1_000), daily(900));
        let leased = gateway.leased(&quota, 3, CLIENT, 1);
        let exact = Check {
            policy: PlanPolicy(1),
            ..gateway.exact(&other, CLIENT + 1, 1)
        };
        assert_eq!(gateway.busy(200, &[leased]).await, 200);
        let plan = [leased, exact];
        let mut waiting = Vec::new();
        for _ in 0..5 {
            for _ in 0..gateway.held() {
                let mut deciding = Box::pin(gateway.ask(&plan));
                assert!(
                    (&mut deciding).now_or_never().is_none(),
                    "the exact one is asked"
                );
                waiting.push(deciding);
            }
            gateway.quiet().await;
        }
        assert!(waiting.len() as u64 > 2 * HELD_MAX, "{}", waiting.len());
        // The clients of these requests leave.
        drop(waiting);
        assert!(gateway.held() <= HELD_MAX, "{}", gateway.held());
        fleet.idle().await;
        assert_eq!(fleet.counted(&quota, CLIENT).await, 200);
    });
}

#[test]
fn what_is_left_is_spent_even_if_the_next_purchase_does_not_fit() {
    with(3, async |fleet| {
        let gateway = &fleet.gateways[0];
        // A unit comes back every 10 ms, in which there are twenty requests.
        let bucket = Quota {
            limit: 100,
            window: Micros::from_secs(1),
            algorithm: Algorithm::Gcra { burst: 1_000 },
            ..daily(100)
        };
        for turn in 0..12 {
            let client = u128::from(turn);
            let spent = [gateway.exact(&bucket, client, 790 + turn)];
            assert_eq!(gateway.busy(1, &spent).await, 1);
            let plan = [gateway.leased(&bucket, 100, client, 1)];
            while gateway.ask(&plan).await.expect("an answer").is_some() {
                fleet.clock.advance(Micros(500));
                gateway.quiet().await;
            }
            // No more than the units that come back while others gather.
            let look = [gateway.exact(&bucket, client, 0)];
            let left = gateway.session.peek(&look).await[0].remaining;
            assert!(left <= 5, "{left}");
        }
    });
}

#[test]
fn policy_on_trial_is_charged_in_all_of_its_quotas_or_in_none() {
    with(1, async |fleet| {
        // Only one unit of the second quota could be held, so it is exact.
        let (gateway, wide) = (&fleet.gateways[0], daily(1_000));
        let narrow = Quota {
            algorithm: Algorithm::SlidingLog,
            ..daily(39)
        };
        let plan = [&wide, &narrow].map(|quota| Check {
            mode: CheckMode::Shadow,
            ..gateway.leased(quota, 5, CLIENT, 1)
        });
        assert_eq!(gateway.busy(100, &plan).await, 100);
        fleet.idle().await;
        for quota in [wide, narrow] {
            assert_eq!(
                fleet.counted(&quota, CLIENT).await,
                narrow.limit,
                "{quota:?}"
            );
        }
    });
}

#[test]
fn what_is_held_is_not_refused_before_a_body_is_read() {
    with(2, async |fleet| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        let quota = daily(1_000);
        assert_eq!(
            one.busy(200, &[one.leased(&quota, 20, CLIENT, 1)]).await,
            200
        );
        let held = one.held();
        assert!(held > 0);
        let left = 1_000 - fleet.counted(&quota, CLIENT).await;
        assert_eq!(other.busy(1, &[other.exact(&quota, CLIENT, left)]).await, 1);
        // This is more than what is held, so Redis refuses it, and that is remembered.
        let large = [one.leased(&quota, 20, CLIENT, held + 1)];
        assert_eq!(one.busy(1, &large).await, 0);
        let refuses = |plan: &[Check<'_>]| one.session.refuse_at_once(plan).is_some();
        assert!(!refuses(&[one.leased(&quota, 20, CLIENT, 1)]));
        assert!(refuses(&large));
        assert_eq!(
            one.busy(held, &[one.leased(&quota, 20, CLIENT, 1)]).await,
            held
        );
        assert!(refuses(&[one.leased(&quota, 20, CLIENT, 1)]));
    });
}
