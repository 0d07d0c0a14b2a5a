//! Quotas that gateways count by themselves and add up in Redis every second: few calls, a bound on the excess, and no
//! unit counted where it was not spent.

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Align, OldestBucket, Quota};
use tollgate::store::{Charge, StoreVerdict};

use crate::gate::calls;
use crate::lease_fleet::{CLIENT, Fleet, HASTY, PATIENT, daily, of_each_algorithm, with};
use crate::store_redis::{EVERYTHING, run, take_turns};
use crate::support::ratelimit::remaining;
use crate::support::redis::{Proxy, Server};
use crate::support::{Config, Process, START, eventually, get, start_skewed};

/// Time between two ticks of the gateways.
pub const STEP: Micros = Micros(100_000);
/// Interval at which gateways report their counts to Redis.
pub const INTERVAL: Micros = Micros::from_secs(1);
/// Longest time until all gateways know what one of them has counted.
pub const TWO_INTERVALS: Micros = Micros(2 * INTERVAL.0);
/// Time after which no gateway follows a silent client: two intervals, and the rest of a third one.
const SILENCE: Micros = Micros(3 * INTERVAL.0 + STEP.0);

/// Like [`with`], but each gateway is behind a proxy of its own, and Redis has little time for an answer.
pub fn with_proxies(count: usize, story: impl AsyncFnOnce(&Fleet<'_>, &[Proxy])) {
    let server = Server::start();
    let proxies: Vec<_> = (0..count).map(|_| Proxy::to(server.address())).collect();
    let ways: Vec<_> = proxies.iter().map(Proxy::address).collect();
    run(async {
        let fleet = Fleet::start(&server, &ways, HASTY).await;
        fleet.meet().await;
        story(&fleet, &proxies).await;
    });
}

/// Lets time pass in steps, while the gateways go on working.
pub async fn wait(fleet: &Fleet<'_>, time: Micros) {
    for _ in 0..time.0 / STEP.0 {
        fleet.clock.advance(STEP);
        fleet.tick().await;
    }
}

/// The same for gateways whose Redis may not answer; calls `each` after every step.
pub async fn wait_alone(fleet: &Fleet<'_>, time: Micros, mut each: impl AsyncFnMut()) {
    for _ in 0..time.0 / STEP.0 {
        fleet.clock.advance(STEP);
        for gateway in &fleet.gateways {
            gateway.session.tick();
        }
        take_turns().await;
        each().await;
    }
}

/// Returns daily quotas of every algorithm that can be synced.
pub fn windows(limit: u64) -> Vec<Quota> {
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

/// Returns quotas per ten seconds of every algorithm that can be synced, except calendars.
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
            // Calls of a gateway that follows no client.
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
            // All gateways know of the others' last units: 51 are spent.
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

/// Fails if a gateway admitted more than the exact law allows, apart from what others admitted in the last two
/// intervals.
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
    // How many requests each gateway gets at each step, how many right after it has reported, and every how many steps
    // the last gateway gets all of its requests at once.
    for (steady, burst, pause) in [(2, 0, 1), (1, 60, 1), (2, 0, 19), (2, 0, 24)] {
        with(3, async |fleet| {
            for quota in short_windows(200) {
                // The begin of such windows cannot be computed here.
                if quota.align == Align::Spread {
                    continue;
                }
                fleet.idle().await;
                let mut admitted = Vec::new();
                for step in 1..=250 {
                    fleet.clock.advance(STEP);
                    for (index, gateway) in fleet.gateways.iter().enumerate() {
                        let called = || if burst > 0 { calls(fleet.server) } else { 0 };
                        let before = called();
                        gateway.session.tick();
                        gateway.quiet().await;
                        let is_told = called() > before;
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
            // The client is followed as long as it sends requests now and then.
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

/// Two servers with one gateway each: one counts by itself, for the other Redis decides each request.
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
            // The begin of each bucket, the microseconds around it, and its middle.
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
                    // The charge is given back soon, or when its window may be over.
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
fn windows_are_those_of_redis_clock_whatever_the_gateway_takes_it_for() {
    const QUOTA: i64 = 1_000_000;
    let redis = Server::start();
    let config = |consistency: &str| {
        let lines = format!(
            "quota = '{QUOTA} per day'\nalgorithm = 'fixed-window'\npartition = ['route']\n{consistency}"
        );
        let config = Config::to("builtin:echo").policy("p", &lines);
        config.route("/counted", "policies = ['p']").with(&format!(
            "[log]\nformat = 'json'\n[store]\nurl = 'redis://{}'\ntimeout = '5s'",
            redis.address()
        ))
    };
    let exact = Process::start(&config(""));
    let mut asked = 0;
    let mut others = || {
        asked += 1;
        QUOTA - asked - remaining(&get(exact.public, "/counted", ""), "p")
    };
    assert_eq!(others(), 0);
    let mut expected = 0;
    for seconds in [3 * 86_400, -3 * 86_400] {
        let skewed = start_skewed(
            &config("consistency = 'synced'\nsync_interval = '100ms'"),
            seconds,
        );
        for _ in 0..20 {
            assert_eq!(get(skewed.public, "/counted", "").status, 200);
        }
        expected += 20;
        eventually("all is told", || (others() == expected).then_some(()));
    }
}

#[test]
fn workers_of_a_gateway_follow_a_client_together() {
    with(1, async |fleet| {
        let gateway = &fleet.gateways[0];
        let worker = gateway.bench.store.session();
        // Waits until the worker has a connection.
        while worker.directives(0).await.is_err() {
            tokio::time::sleep(Micros(1_000).into()).await;
        }
        for quota in windows(1_000) {
            let plan = [gateway.synced(&quota, CLIENT, 1)];
            assert_eq!(gateway.busy(1, &plan).await, 1);
            let before = calls(fleet.server);
            for _ in 0..50 {
                wait(fleet, STEP).await;
                worker.tick();
                gateway.quiet().await;
                for session in [&gateway.session, &worker] {
                    let StoreVerdict::Decided { verdict, .. } = session.decide(&plan).await else {
                        panic!("it is followed");
                    };
                    assert!(verdict.admit, "{quota:?}");
                }
            }
            // In addition to the calls of a gateway that follows no client.
            let made = calls(fleet.server) - before;
            assert!((4..=10).contains(&made), "{made} calls for {quota:?}");
            fleet.idle().await;
            assert_eq!(fleet.counted(&quota, CLIENT).await, 101, "{quota:?}");
        }
    });
}
