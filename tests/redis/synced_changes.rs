//! Synced quotas whose costs are reported later, whose numbers or policies change, or that are one of several in a
//! plan: gateways count exactly what Redis would have counted.

use tollgate::clock::Micros;
use tollgate::limit::plan::{CheckMode, PlanPolicy};
use tollgate::limit::{Adjustment, Algorithm, Check, Quota};
use tollgate::store::Charge;

use crate::lease_fleet::{CLIENT, DAY, Gateway, daily, with};
use crate::support::START;
use crate::synced::{INTERVAL, TWO_INTERVALS, wait, windows};

/// Sends requests at one moment until one is refused; returns how many were admitted.
pub async fn spend_all(gateway: &Gateway, plan: &[Check<'_>]) -> u64 {
    let mut admitted = 0;
    while gateway.ask(plan).await.expect("it is followed").is_some() {
        admitted += 1;
        assert!(admitted < 10_000, "admits without bound");
    }
    admitted
}

fn second(check: Check<'_>) -> Check<'_> {
    Check {
        policy: PlanPolicy(1),
        ..check
    }
}

#[test]
fn unit_of_the_last_moment_of_a_window_is_never_counted_in_the_next_one() {
    // The later adjustment of each of two charges, whether the next window has begun by then, and how many units count
    // there.
    for (told, is_late, more) in [
        (Adjustment::NONE, false, 0),
        (Adjustment::GiveBack(2), false, 0),
        (Adjustment::GiveBack(2), true, 0),
        (Adjustment::Spend(2), false, 0),
        // These units count as spent now.
        (Adjustment::Spend(2), true, 4),
    ] {
        with(2, async |fleet| {
            let [one, other] = &fleet.gateways[..] else {
                panic!("there are two");
            };
            let times = [(1, 0), (1, 1), (150_000, 2_500_000), (900_000, 5_000_000)];
            for (turn, (before, after)) in (0..).zip(times) {
                let client = CLIENT + u128::from(turn);
                for (day, quota) in (1..).zip(&windows(100)[..2]) {
                    let edge = START + Micros(DAY.0 * (2 * turn + day));
                    fleet.clock.set(edge - Micros(before));
                    let plan = [one.synced(quota, client, 5)];
                    let mut charges = Vec::new();
                    for _ in 0..2 {
                        let charge = one.ask(&plan).await.expect("an answer");
                        charges.push(charge.expect("it is admitted"));
                    }
                    let settle_all = |charges: &mut [Charge]| {
                        for charge in charges {
                            one.session.settle_later(charge, |_| told);
                        }
                    };
                    if !is_late {
                        settle_all(&mut charges);
                        // The first request's cost is reported to Redis at once.
                        one.quiet().await;
                    }
                    fleet.clock.set(edge + Micros(after));
                    if is_late {
                        settle_all(&mut charges);
                    }
                    fleet.tick().await;
                    let seen = format!("{told:?} {is_late} from -{before} to {after} of {quota:?}");
                    for (gateway, cost) in [(one, 3), (other, 4)] {
                        let plan = [gateway.synced(quota, client, cost)];
                        assert_eq!(gateway.busy(1, &plan).await, 1, "{seen}");
                    }
                    fleet.idle().await;
                    let counted = fleet.counted(quota, client).await;
                    assert_eq!(counted, 7 + more, "{seen}");
                }
            }
        });
    }
}

#[test]
fn cost_told_later_is_counted_whenever_it_is_told() {
    with(2, async |fleet| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        let mut client = CLIENT;
        // Before the charge was reported, during the report, after it, and when the client is no longer followed.
        for (passed, is_under_way) in [(0, false), (1_000, true), (1_500, false), (5_000, false)] {
            for (told, left) in [(Adjustment::GiveBack(2), 94), (Adjustment::Spend(2), 86)] {
                for quota in windows(100) {
                    client += 1;
                    let plan = [one.synced(&quota, client, 5)];
                    let mut charges = Vec::new();
                    for _ in 0..2 {
                        let charge = one.ask(&plan).await.expect("an answer");
                        charges.push(charge.expect("it is admitted"));
                    }
                    if is_under_way {
                        fleet.clock.advance(Micros(passed * 1_000));
                        one.session.tick();
                    } else {
                        wait(fleet, Micros(passed * 1_000)).await;
                    }
                    for charge in &mut charges {
                        one.session.settle_later(charge, |_| told);
                    }
                    let seen = format!("{told:?} after {passed} ms of {quota:?}");
                    wait(fleet, TWO_INTERVALS).await;
                    let counted = fleet.counted(&quota, client).await;
                    assert_eq!(counted, 100 - left, "{seen}");
                    for (gateway, cost, admitted) in [
                        (one, left + 1, 0),
                        (one, left - 1, 1),
                        (other, 1, 1),
                        (other, 1, 0),
                    ] {
                        let plan = [gateway.synced(&quota, client, cost)];
                        assert_eq!(gateway.busy(1, &plan).await, admitted, "{cost} {seen}");
                        wait(fleet, INTERVAL).await;
                    }
                }
            }
        }
    });
}

#[test]
fn node_knows_at_once_what_it_was_told_of_a_cost() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        for quota in windows(100) {
            let large = [gateway.synced(&quota, CLIENT, 50)];
            assert_eq!(gateway.busy(1, &large).await, 1);
            let charge = gateway.ask(&large).await.expect("an answer");
            let mut charge = charge.expect("it is admitted");
            let plan = [gateway.synced(&quota, CLIENT, 1)];
            assert_eq!(spend_all(gateway, &plan).await, 0);
            (gateway.session).settle_later(&mut charge, |_| Adjustment::GiveBack(20));
            assert_eq!(spend_all(gateway, &plan).await, 20, "{quota:?}");
            (gateway.session).settle_later(&mut charge, |_| Adjustment::GiveBack(20));
            (gateway.session).settle_later(&mut charge, |_| Adjustment::Spend(15));
            assert_eq!(spend_all(gateway, &plan).await, 5, "{quota:?}");
            fleet.idle().await;
            assert_eq!(fleet.counted(&quota, CLIENT).await, 100, "{quota:?}");
        }
    });
}

#[test]
fn reset_at_one_gateway_makes_the_quota_whole_at_all() {
    with(2, async |fleet| {
        let mut client = CLIENT;
        // Index of the gateway that resets, and how long after the last request it does so, in milliseconds.
        for (resets, passed) in [
            (0, 0),
            (1, 0),
            (0, 1_500),
            (1, 1_500),
            (0, 1_900),
            (1, 5_000),
        ] {
            for quota in windows(100) {
                client += 1;
                for gateway in &fleet.gateways {
                    let plan = [gateway.synced(&quota, client, 1)];
                    assert_eq!(gateway.busy(50, &plan).await, 50);
                }
                wait(fleet, Micros(passed * 1_000)).await;
                fleet.clock.advance(Micros(1));
                let check = fleet.gateways[resets].exact(&quota, client, 1);
                let series_ids = [check.series_id];
                let resetting = &fleet.gateways[resets].session;
                let reset = resetting.reset(&series_ids, check.partition_id);
                let at = reset.await.expect("Redis answers");
                let other = &fleet.gateways[1 - resets];
                let series_id = other.exact(&quota, client, 1).series_id;
                (other.bench.store).note_reset(series_id, check.partition_id, at);
                fleet.clock.advance(Micros(1));
                let seen = format!("at {resets} after {passed} ms of {quota:?}");
                for gateway in &fleet.gateways {
                    let plan = [gateway.synced(&quota, client, 50)];
                    assert_eq!(gateway.busy(1, &plan).await, 1, "{seen}");
                }
                wait(fleet, TWO_INTERVALS).await;
                let counted = fleet.counted(&quota, client).await;
                assert_eq!(counted, 100, "{seen}");
                for gateway in &fleet.gateways {
                    let plan = [gateway.synced(&quota, client, 1)];
                    assert_eq!(gateway.busy(1, &plan).await, 0, "{seen}");
                }
            }
        }
    });
}

#[test]
fn changed_number_keeps_the_counts() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        let mut client = CLIENT;
        for (number, passed) in [(20, 0), (20, 1_500), (20, 5_000), (5, 0), (5, 1_500)] {
            for (old, new) in windows(10).into_iter().zip(windows(number)) {
                client += 1;
                assert_eq!(gateway.busy(8, &[gateway.synced(&old, client, 1)]).await, 8);
                wait(fleet, Micros(passed * 1_000)).await;
                let plan = [gateway.synced(&new, client, 1)];
                let more = number.saturating_sub(8);
                assert_eq!(gateway.busy(20, &plan).await, more, "{passed} {new:?}");
                fleet.idle().await;
                let counted = fleet.counted(&new, client).await;
                assert_eq!(counted, 8 + more, "{passed} {new:?}");
            }
        }
    });
}

#[test]
fn plan_is_charged_in_all_of_its_policies_or_in_none() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        let mut client = CLIENT;
        for quota in windows(10) {
            // The kind of the other policy, whether the synced one comes first, and how many requests come before.
            for (kind, is_first, before) in
                (0..3).flat_map(|kind| [(kind, true, 0), (kind, false, 2)])
            {
                client += 1;
                // Up to 150 of the 300 units may be held ahead.
                let (narrow, leased) = (daily(4), daily(300));
                let ask = async |cost: u64| {
                    let (synced, spare) = (gateway.synced(&quota, client, 1), u128::MAX - client);
                    let other = match kind {
                        0 => gateway.exact(&narrow, spare, cost),
                        1 => gateway.leased(&leased, 50, spare, 75 * cost),
                        _ => gateway.synced(&narrow, spare, cost),
                    };
                    let plan = if is_first {
                        [synced, second(other)]
                    } else {
                        [other, second(synced)]
                    };
                    gateway.busy(1, &plan).await
                };
                let seen = format!("{kind} {is_first} {quota:?}");
                for _ in 0..before {
                    assert_eq!(ask(1).await, 1, "{seen}");
                    wait(fleet, INTERVAL).await;
                }
                let mut admitted = before;
                // The other policy refuses the fifth unit.
                for cost in [2, 3, 1, 2, 1, 1, 1] {
                    admitted += ask(cost).await;
                }
                let counted_alone = [gateway.synced(&quota, client, 1)];
                let rest = spend_all(gateway, &counted_alone).await;
                assert!((2..=4).contains(&admitted), "{seen}");
                assert_eq!(admitted + rest, 10, "{seen}");
                // Now the synced policy refuses, so the other one is not charged.
                fleet.idle().await;
                let (other, spent) = match kind {
                    1 => (&leased, 300),
                    _ => (&narrow, 4),
                };
                assert_eq!(
                    fleet.counted(other, u128::MAX - client).await,
                    spent,
                    "{seen}"
                );
                assert_eq!(fleet.counted(&quota, client).await, 10, "{seen}");
            }
        }
    });
}

#[test]
fn policy_that_refuses_by_what_the_node_counts_leaves_the_others_unchanged() {
    with(1, async |fleet| {
        let (gateway, wide) = (&fleet.gateways[0], daily(1_000));
        for quota in windows(10) {
            let synced = gateway.synced(&quota, CLIENT, 1);
            let others = [
                gateway.exact(&wide, CLIENT + 1, 1),
                gateway.leased(&wide, 20, CLIENT + 2, 1),
                gateway.synced(&wide, CLIENT + 3, 1),
            ];
            for (client, other) in (CLIENT + 1..).zip(others) {
                let before = fleet.counted(&wide, client).await;
                let refusing = [
                    synced,
                    Check {
                        policy: PlanPolicy(1),
                        ..other
                    },
                ];
                let admitted = gateway.busy(15, &refusing).await;
                fleet.idle().await;
                let counted = fleet.counted(&wide, client).await;
                assert_eq!(counted - before, admitted, "{quota:?}");
            }
            assert_eq!(fleet.counted(&quota, CLIENT).await, 10, "{quota:?}");
        }
    });
}

#[test]
fn policy_on_trial_never_refuses_and_is_charged_in_all_of_its_quotas_or_in_none() {
    with(2, async |fleet| {
        for quota in windows(10) {
            let narrow = Quota {
                algorithm: Algorithm::SlidingLog,
                ..daily(4)
            };
            for (client, is_pair) in [(CLIENT, false), (CLIENT + 1, true)] {
                for turn in 0..60 {
                    let gateway = &fleet.gateways[turn / 30];
                    let on_trial = |check| Check {
                        mode: CheckMode::Shadow,
                        ..check
                    };
                    let own = on_trial(gateway.synced(&quota, client, 1));
                    let exact = on_trial(gateway.exact(&narrow, client, 1));
                    let both = [own, exact];
                    let plan = if is_pair { &both[..] } else { &both[..1] };
                    assert_eq!(gateway.busy(1, plan).await, 1, "{quota:?}");
                    if turn == 29 {
                        wait(fleet, TWO_INTERVALS).await;
                    }
                }
                fleet.idle().await;
                let counted = fleet.counted(&quota, client).await;
                assert_eq!(counted, if is_pair { 4 } else { 10 }, "{is_pair} {quota:?}");
            }
            fleet.server.command(&["FLUSHALL"]);
        }
    });
}

#[test]
fn gateway_that_ends_tells_all_it_counted() {
    with(2, async |fleet| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        for quota in windows(100) {
            // More than fits into one call.
            for client in 0..150 {
                let plan = [one.synced(&quota, client, 7)];
                for _ in 0..2 {
                    assert!(one.ask(&plan).await.expect("an answer").is_some());
                }
            }
            assert_eq!(
                one.session.finish().await + one.session.report_all().await,
                0
            );
            for client in [0, 1, 75, 149] {
                let counted = fleet.counted(&quota, client).await;
                assert_eq!(counted, 14, "{client} {quota:?}");
            }
            // Later charges are reported, too, and nothing is reported twice.
            assert_eq!(one.busy(1, &[one.synced(&quota, 0, 6)]).await, 1);
            assert_eq!(
                one.session.finish().await + one.session.report_all().await,
                0
            );
            assert_eq!(fleet.counted(&quota, 0).await, 20, "{quota:?}");
            assert_eq!(other.busy(1, &[other.synced(&quota, 0, 80)]).await, 1);
            fleet.idle().await;
            assert_eq!(fleet.counted(&quota, 0).await, 100, "{quota:?}");
        }
    });
}
