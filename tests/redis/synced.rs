//! Quotas that gateways count by themselves and add up in Redis every second: few calls, a bound on what is admitted
//! too much, and no unit that is counted where it was not spent.

use tollgate::clock::Micros;
use tollgate::limit::plan::{CheckMode, OnStoreFailure, PlanPolicy};
use tollgate::limit::{Adjustment, Algorithm, Align, Check, Consistency, OldestBucket, Quota};
use tollgate::store::{Charge, StoreVerdict};

use crate::gate::calls;
use crate::lease_fleet::{DAY, Fleet, Gateway, HASTY, PATIENT, daily, of_each_algorithm};
use crate::store_redis::{EVERYTHING, TURNS, run};
use crate::support::redis::{Fault, Proxy, Server};
use crate::support::{Config, PATIENCE, Process, START, eventually, get, ratelimit, start_skewed};

/// The client of a story.
const CLIENT: u128 = 1;
/// How often gateways look whether something is to be done.
const STEP: Micros = Micros(100_000);
/// How often they tell Redis what they counted.
const INTERVAL: Micros = Micros::from_secs(1);
/// Longest until all know what one has counted.
const TWO_INTERVALS: Micros = Micros(2 * INTERVAL.0);
/// After it nobody follows a client that is silent: two intervals, and what is left of a third.
const SILENCE: Micros = Micros(3 * INTERVAL.0 + STEP.0);

/// Tells a story to so many gateways, which know of each other.
fn with(count: usize, story: impl AsyncFnOnce(&Fleet<'_>)) {
    let server = Server::start();
    run(async {
        let fleet = Fleet::start(&server, &vec![server.address(); count], PATIENT).await;
        fleet.meet().await;
        story(&fleet).await;
    });
}

/// The same, each behind a proxy of its own; Redis has not long for an answer.
fn with_proxies(count: usize, story: impl AsyncFnOnce(&Fleet<'_>, &[Proxy])) {
    let server = Server::start();
    let proxies: Vec<_> = (0..count).map(|_| Proxy::to(server.address())).collect();
    let ways: Vec<_> = proxies.iter().map(Proxy::address).collect();
    run(async {
        let fleet = Fleet::start(&server, &ways, HASTY).await;
        fleet.meet().await;
        story(&fleet, &proxies).await;
    });
}

/// Lets time pass in steps, in which the gateways go on.
async fn wait(fleet: &Fleet<'_>, time: Micros) {
    for _ in 0..time.0 / STEP.0 {
        fleet.clock.advance(STEP);
        fleet.tick().await;
    }
}

/// The same, of gateways that Redis may not answer.
async fn wait_alone(fleet: &Fleet<'_>, time: Micros, mut each: impl AsyncFnMut()) {
    for _ in 0..time.0 / STEP.0 {
        fleet.clock.advance(STEP);
        for gateway in &fleet.gateways {
            gateway.session.tick();
        }
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        each().await;
    }
}

/// Returns quotas per day of every algorithm that can be synced.
fn windows(limit: u64) -> Vec<Quota> {
    let mut quotas = of_each_algorithm(limit);
    quotas.retain(|quota| {
        !matches!(
            quota.algorithm,
            Algorithm::SlidingLog | Algorithm::Gcra { .. }
        )
    });
    quotas.retain(|quota| quota.align != Align::First);
    assert_eq!(quotas.len(), 5);
    quotas
}

/// Returns quotas per ten seconds of every algorithm that can be synced and is no calendar's.
fn short_windows(limit: u64) -> [Quota; 5] {
    let fixed = Quota {
        window: Micros::from_secs(10),
        ..daily(limit)
    };
    let spread = Quota {
        align: Align::Spread,
        ..fixed
    };
    let sliding = |oldest| Quota {
        algorithm: Algorithm::SlidingWindow {
            buckets: 10,
            oldest,
        },
        ..fixed
    };
    let [weighted, whole, dropped] = [
        OldestBucket::Weighted,
        OldestBucket::Whole,
        OldestBucket::Dropped,
    ]
    .map(sliding);
    [fixed, spread, weighted, whole, dropped]
}

/// Asks until it is refused, at one moment; returns how many were admitted.
async fn spend_all(gateway: &Gateway, plan: &[Check<'_>]) -> u64 {
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
fn first_request_of_a_client_takes_a_call_and_many_busy_clients_take_one_per_interval() {
    const CLIENTS: u128 = 50;
    for quota in windows(1_000) {
        with(1, async |fleet| {
            let gateway = &fleet.gateways[0];
            let asked = async || {
                for client in 0..CLIENTS {
                    let plan = [gateway.synced(&quota, client, 1)];
                    assert!(gateway.ask(&plan).await.expect("an answer").is_some());
                }
            };
            let before = calls(fleet.server);
            // What a gateway has to say that follows nobody.
            wait(fleet, Micros::from_secs(10)).await;
            let idle = calls(fleet.server) - before;
            let before = calls(fleet.server);
            asked().await;
            assert_eq!(calls(fleet.server) - before, 50, "{quota:?}");
            for _ in 0..3 {
                asked().await;
            }
            assert_eq!(calls(fleet.server) - before, 50, "{quota:?}");
            assert_eq!(gateway.bench.redis().quotas_followed, 50);
            let before = calls(fleet.server);
            for _ in 0..100 {
                wait(fleet, STEP).await;
                asked().await;
            }
            let reports = calls(fleet.server) - before - idle;
            assert!((9..=11).contains(&reports), "{reports} calls for {quota:?}");
            wait(fleet, INTERVAL).await;
            for client in [0, CLIENTS - 1] {
                assert_eq!(fleet.counted(&quota, client).await, 104, "{quota:?}");
            }
        });
    }
}

#[test]
fn gateways_hear_of_each_other_within_two_intervals() {
    with(3, async |fleet| {
        let [one, other, third] = &fleet.gateways[..] else {
            panic!("there are three");
        };
        for quota in windows(100) {
            for gateway in [one, other, third] {
                let plan = [gateway.synced(&quota, CLIENT, 1)];
                assert_eq!(gateway.busy(1, &plan).await, 1);
            }
            assert_eq!(one.busy(39, &[one.synced(&quota, CLIENT, 1)]).await, 39);
            assert_eq!(third.busy(9, &[third.synced(&quota, CLIENT, 1)]).await, 9);
            wait(fleet, TWO_INTERVALS).await;
            // Of the others' last units everybody has heard: 51 are spent.
            let asked = calls(fleet.server);
            assert_eq!(other.busy(1, &[other.synced(&quota, CLIENT, 50)]).await, 0);
            assert_eq!(other.busy(1, &[other.synced(&quota, CLIENT, 49)]).await, 1);
            assert_eq!(other.busy(1, &[other.synced(&quota, CLIENT, 1)]).await, 0);
            assert_eq!(calls(fleet.server), asked, "{quota:?}");
            fleet.idle().await;
            assert_eq!(fleet.counted(&quota, CLIENT).await, 100, "{quota:?}");
        }
    });
}

/// Fails if a gateway admitted more than the exact law allows besides what the others admitted in two intervals.
fn assert_law(quota: &Quota, admitted: &[(u64, usize)]) {
    let window = quota.window.0;
    for (at, &(time, gateway)) in admitted.iter().enumerate() {
        let begin = match quota.algorithm {
            Algorithm::SlidingWindow {
                oldest: OldestBucket::Whole,
                ..
            } => time - window + 1,
            Algorithm::SlidingWindow { buckets, .. } => {
                time - (window - window / u64::from(buckets)) + 1
            }
            _ => time / window * window,
        };
        let known = admitted[..=at].iter().filter(|&&(when, by)| {
            let is_heard = when + TWO_INTERVALS.0 + STEP.0 <= time;
            when >= begin && (by == gateway || is_heard)
        });
        let known = known.count();
        assert!(
            known as u64 <= quota.limit,
            "{known} known at {time} of {quota:?}"
        );
    }
}

#[test]
fn no_more_is_admitted_than_the_others_admit_in_two_intervals_beside_the_quota() {
    // How many a gateway asks at each step, how many right after it has told what it counted, and at which steps the
    // last one asks as many at once.
    for (steady, burst, pause) in [(2, 0, 1), (1, 60, 1), (2, 0, 19), (2, 0, 24)] {
        with(3, async |fleet| {
            for quota in short_windows(200) {
                // Windows that begin anywhere cannot be told here.
                if quota.align == Align::Spread {
                    continue;
                }
                fleet.idle().await;
                let mut admitted = Vec::new();
                for step in 1..=250 {
                    fleet.clock.advance(STEP);
                    for (index, gateway) in fleet.gateways.iter().enumerate() {
                        let before = calls(fleet.server);
                        gateway.session.tick();
                        gateway.quiet().await;
                        let is_told = calls(fleet.server) > before;
                        let now = fleet.clock.now().0;
                        let plan = [gateway.synced(&quota, CLIENT, 1)];
                        let due = match index {
                            2 if step % pause != 0 => 0,
                            2 => steady * pause,
                            _ => steady,
                        };
                        for _ in 0..due + if is_told { burst } else { 0 } {
                            let charge = gateway.ask(&plan).await.expect("an answer");
                            admitted.extend(charge.map(|_| (now, index)));
                        }
                    }
                }
                let count = admitted.len() as u64;
                assert!(count >= 2 * quota.limit, "{count} admitted of {quota:?}");
                assert_law(&quota, &admitted);
            }
        });
    }
}

#[test]
fn silent_client_is_followed_no_more_and_its_next_request_is_decided_exactly() {
    with(2, async |fleet| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        for quota in windows(10) {
            let plan = [one.synced(&quota, CLIENT, 1)];
            assert_eq!(one.busy(3, &plan).await, 3);
            // It is followed as long as it asks now and then.
            for _ in 0..3 {
                wait(fleet, Micros(INTERVAL.0 * 3 / 2)).await;
                let before = calls(fleet.server);
                assert_eq!(one.busy(1, &plan).await, 1);
                assert_eq!(calls(fleet.server), before, "{quota:?}");
            }
            wait(fleet, SILENCE).await;
            assert_eq!(other.busy(1, &[other.exact(&quota, CLIENT, 4)]).await, 1);
            let before = calls(fleet.server);
            assert_eq!(one.busy(1, &plan).await, 0, "{quota:?}");
            assert_eq!(calls(fleet.server) - before, 1, "{quota:?}");
            wait(fleet, SILENCE).await;
            assert_eq!(one.bench.redis().quotas_followed, 0, "{quota:?}");
        }
    });
}

/// Two servers with a gateway each: at one it counts by itself, at the other Redis decides each request.
#[test]
fn lone_gateway_decides_as_redis_would_and_counts_in_the_same_windows_and_buckets() {
    let servers = [Server::start(), Server::start()];
    run(async {
        for quota in short_windows(40) {
            let mut fleets = Vec::new();
            for server in &servers {
                server.command(&["FLUSHALL"]);
                fleets.push(Fleet::start(server, &[server.address()], PATIENT).await);
            }
            let mut charges: Vec<Charge> = Vec::new();
            // A bucket's begin, the microseconds around it, and its middle.
            let times = (4..44_u64).flat_map(|half| [-1_i64, 0, 1].map(|us| (half * 500_000, us)));
            for (number, (time, us)) in (0_u64..).zip(times) {
                let mut said = Vec::new();
                for fleet in &fleets {
                    (fleet.clock).set(START + Micros(time.saturating_add_signed(us)));
                    fleet.tick().await;
                    let gateway = &fleet.gateways[0];
                    let check = if said.is_empty() {
                        gateway.synced(&quota, CLIENT, 1)
                    } else {
                        gateway.exact(&quota, CLIENT, 1)
                    };
                    let plan = [check];
                    let StoreVerdict::Decided {
                        verdict, charge, ..
                    } = gateway.session.decide(&plan).await
                    else {
                        panic!("Redis answers");
                    };
                    charges.push(charge);
                    // What it cost comes back soon, or when its window may be over.
                    let age = 2 * if number % 10 == 4 { 3 } else { 23 };
                    if number % 5 == 4 && charges.len() > age {
                        let earlier = charges.len() - 1 - age;
                        (gateway.session).settle_later(&mut charges[earlier], |_| EVERYTHING);
                        gateway.quiet().await;
                    }
                    said.push((verdict.retry, verdict.answers[0].decision));
                }
                assert_eq!(
                    said[0], said[1],
                    "{number}: {us} us past {time} of {quota:?}"
                );
            }
            for time in (23_000_000..34_000_000).step_by(250_000) {
                let mut counted = Vec::new();
                for fleet in &fleets {
                    fleet.clock.set(START + Micros(time));
                    fleet.tick().await;
                    counted.push(fleet.counted(&quota, CLIENT).await);
                }
                assert_eq!(counted[0], counted[1], "at {time} of {quota:?}");
            }
        }
    });
}

#[test]
fn unit_of_the_last_moment_of_a_window_is_never_counted_in_the_next_one() {
    // What is told later of each of two charges, whether the next window has begun then, and what that one has of it.
    for (told, is_late, more) in [
        (Adjustment::NONE, false, 0),
        (Adjustment::GiveBack(2), false, 0),
        (Adjustment::GiveBack(2), true, 0),
        (Adjustment::Spend(2), false, 0),
        // It counts as spent now.
        (Adjustment::Spend(2), true, 4),
    ] {
        with(2, async |fleet| {
            let [one, other] = &fleet.gateways[..] else {
                panic!("there are two");
            };
            let times = [(1, 0), (1, 1), (150_000, 2_500_000), (900_000, 5_000_000)];
            for (client, (before, after)) in (CLIENT..).zip(times) {
                for (day, quota) in (1..).zip(&windows(100)[..2]) {
                    let edge = START + Micros(DAY.0 * (2 * client as u64 + day));
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
                        // What the first one cost is told to Redis at once.
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
        // Before it was reported, while it is, after it was, and after the client is followed no more.
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
        // Which gateway resets, and how long after the last request.
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
            // What the other policy is, whether the synced one comes first, and how often both are asked before.
            for (kind, is_first, before) in
                (0..3).flat_map(|kind| [(kind, true, 0), (kind, false, 2)])
            {
                client += 1;
                // Of 300 units 150 may be held ahead.
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
                // The rest refuses the fifth unit.
                for cost in [2, 3, 1, 2, 1, 1, 1] {
                    admitted += ask(cost).await;
                }
                let counted_alone = [gateway.synced(&quota, client, 1)];
                let rest = spend_all(gateway, &counted_alone).await;
                assert!((2..=4).contains(&admitted), "{seen}");
                assert_eq!(admitted + rest, 10, "{seen}");
                // Now the synced one refuses, and the other is not charged.
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
            // More than one call can tell.
            for client in 0..150 {
                let plan = [one.synced(&quota, client, 7)];
                for _ in 0..2 {
                    assert!(one.ask(&plan).await.expect("an answer").is_some());
                }
            }
            assert_eq!(one.session.finish().await, 0);
            for client in [0, 1, 75, 149] {
                let counted = fleet.counted(&quota, client).await;
                assert_eq!(counted, 14, "{client} {quota:?}");
            }
            // What comes later is told too, and by nobody twice.
            assert_eq!(one.busy(1, &[one.synced(&quota, 0, 6)]).await, 1);
            assert_eq!(one.session.finish().await, 0);
            assert_eq!(fleet.counted(&quota, 0).await, 20, "{quota:?}");
            assert_eq!(other.busy(1, &[other.synced(&quota, 0, 80)]).await, 1);
            fleet.idle().await;
            assert_eq!(fleet.counted(&quota, 0).await, 100, "{quota:?}");
        }
    });
}
