//! Synced quotas while Redis is away, full, or has forgotten them: gateways go on with what they know and then with
//! their share, and report their counts when Redis is back.

use tollgate::clock::Micros;
use tollgate::limit::Check;
use tollgate::limit::plan::OnStoreFailure;

use crate::lease_fleet::{CLIENT, DAY, Fleet, HASTY, with};
use crate::settling::comes_about;
use crate::store_redis::{run, take_turns};
use crate::support::START;
use crate::support::redis::{Fault, Proxy, Server};
use crate::synced::{INTERVAL, STEP, TWO_INTERVALS, wait, wait_alone, windows, with_proxies};
use crate::synced_changes::spend_all;

/// How a gateway loses Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Commands are never answered; they may arrive later.
    Silence,
    /// There is no connection, so nothing can be sent.
    Disconnection,
}

impl Loss {
    const ALL: [Self; 2] = [Self::Silence, Self::Disconnection];

    async fn begin(self, proxy: &Proxy) {
        match self {
            Self::Silence => proxy.set(Fault::BlackHole),
            Self::Disconnection => {
                proxy.set(Fault::Refuse);
                proxy.reset_all();
                let closed = comes_about("never closed", || proxy.open() == 0);
                closed.await;
                take_turns().await;
            }
        }
    }
}

#[test]
fn without_redis_a_gateway_goes_on_and_from_the_second_missed_interval_on_has_its_share() {
    for loss in Loss::ALL {
        with_proxies(2, async |fleet, proxies| {
            let gateway = &fleet.gateways[0];
            for quota in [windows(1_000)[0], windows(1_000)[2]] {
                // How long Redis has been away, in milliseconds, and bounds on how many of the remaining 900 units are
                // admitted.
                for (client, (away, least, most)) in
                    (CLIENT..).zip([(0, 900, 900), (800, 900, 900), (3_100, 430, 480)])
                {
                    let plan = [gateway.synced(&quota, client, 1)];
                    assert_eq!(gateway.busy(100, &plan).await, 100);
                    wait(fleet, INTERVAL).await;
                    assert!(
                        gateway
                            .ask(&[gateway.synced(&quota, client, 0)])
                            .await
                            .is_ok()
                    );
                    wait(fleet, INTERVAL).await;
                    loss.begin(&proxies[0]).await;
                    let mut admitted = 0;
                    let asked = async || {
                        let charge = gateway.ask(&plan).await.expect("it is followed");
                        admitted += u64::from(charge.is_some());
                    };
                    wait_alone(fleet, Micros(away * 1_000), asked).await;
                    assert_eq!(admitted, away / 100, "it goes on");
                    admitted += spend_all(gateway, &plan).await;
                    let seen = format!("{loss:?} for {away} ms of {quota:?}");
                    assert!((least..=most).contains(&admitted), "{admitted} {seen}");
                    proxies[0].set(Fault::None);
                    gateway.quiet().await;
                    fleet.idle().await;
                    let (counted, spent) = (fleet.counted(&quota, client).await, 100 + admitted);
                    match loss {
                        Loss::Silence => assert!(
                            (spent..=spent + admitted).contains(&counted),
                            "{counted} {seen}"
                        ),
                        Loss::Disconnection => assert_eq!(counted, spent, "{seen}"),
                    }
                }
            }
        });
    }
}

#[test]
fn gateways_that_are_all_without_redis_admit_no_more_than_the_law_allows() {
    with_proxies(3, async |fleet, proxies| {
        // Only one quota of each kind, because each turn waits for connections.
        let quotas = [windows(900)[0], windows(900)[2]].into_iter();
        for (quota, is_at_once) in quotas.flat_map(|quota| [(quota, true), (quota, false)]) {
            let client = CLIENT + u128::from(is_at_once);
            for gateway in &fleet.gateways {
                let plan = [gateway.synced(&quota, client, 1)];
                assert_eq!(gateway.busy(100, &plan).await, 100);
            }
            wait(fleet, TWO_INTERVALS).await;
            for (gateway, proxy) in fleet.gateways.iter().zip(proxies) {
                assert!(
                    gateway
                        .ask(&[gateway.synced(&quota, client, 0)])
                        .await
                        .is_ok()
                );
                Loss::Disconnection.begin(proxy).await;
            }
            // For the first 36 steps, in which they miss two intervals, gateways admit one unit per step.
            let mut admitted = 0;
            for step in 0..60 {
                let few = if is_at_once || step > 35 { 900 } else { 1 };
                wait_alone(fleet, STEP, async || {
                    for gateway in &fleet.gateways {
                        let plan = [gateway.synced(&quota, client, 1)];
                        for _ in 0..few {
                            let charge = gateway.ask(&plan).await.expect("it is followed");
                            if charge.is_none() {
                                break;
                            }
                            admitted += 1;
                        }
                    }
                })
                .await;
            }
            if is_at_once {
                // No gateway had missed an interval.
                assert_eq!(admitted, 3 * 600, "{quota:?}");
            } else {
                assert!(
                    (590..=600 + 3 * 30).contains(&admitted),
                    "{admitted} of {quota:?}"
                );
            }
            for (gateway, proxy) in fleet.gateways.iter().zip(proxies) {
                proxy.set(Fault::None);
                gateway.quiet().await;
            }
            fleet.idle().await;
            assert_eq!(
                fleet.counted(&quota, client).await,
                300 + admitted,
                "{quota:?}"
            );
        }
    });
}

#[test]
fn what_could_not_be_told_is_told_once_redis_is_back_and_where_it_was_spent() {
    // How long before the end of a day Redis goes away, in milliseconds, and whether the client is silent in the
    // meantime.
    for (before, is_silent) in [
        (60_000, true),
        (60_000, false),
        (3_000, true),
        (3_000, false),
    ] {
        with_proxies(2, async |fleet, proxies| {
            let gateway = &fleet.gateways[0];
            for (day, quota) in (1..).zip(windows(10_000)) {
                let fixed = day <= 2;
                let edge = START + Micros(day * DAY.0);
                fleet.clock.set(edge - Micros(before * 1_000));
                let plan = [gateway.synced(&quota, CLIENT, 1)];
                for _ in 0..100 {
                    let charge = gateway.ask(&plan).await.expect("it is followed");
                    assert!(charge.is_some(), "{quota:?}");
                }
                Loss::Disconnection.begin(&proxies[0]).await;
                let (mut spent, mut of_today) = (100, 0);
                for step in 0..100 {
                    wait_alone(fleet, STEP, async || {}).await;
                    if step < 5 || !is_silent {
                        let charge = gateway.ask(&plan).await.expect("it is followed");
                        assert!(charge.is_some(), "{quota:?}");
                        spent += 1;
                        of_today += u64::from(fleet.clock.now() >= edge);
                    }
                }
                proxies[0].set(Fault::None);
                gateway.quiet().await;
                fleet.idle().await;
                let counted = fleet.counted(&quota, CLIENT).await;
                let is_next = fixed && fleet.clock.now() >= edge;
                let expected = if is_next { of_today } else { spent };
                assert_eq!(counted, expected, "{before} {is_silent} {quota:?}");
            }
        });
    }
}

#[test]
fn batch_whose_answer_is_lost_counts_twice_at_worst() {
    for (cut, which) in [(0, 0), (5, 2)] {
        with_proxies(2, async |fleet, proxies| {
            let [one, other] = &fleet.gateways[..] else {
                panic!("there are two");
            };
            let quota = windows(100)[which];
            // After this, Redis knows the script.
            let plan = [one.synced(&quota, CLIENT + 1, 1)];
            assert_eq!(one.busy(2, &plan).await, 2);
            fleet.idle().await;
            let plan = [one.synced(&quota, CLIENT, 1)];
            assert_eq!(one.busy(30, &plan).await, 30);
            for _ in 0..12 {
                proxies[0].set(Fault::None);
                one.quiet().await;
                proxies[0].set(Fault::Cut { after: cut });
                wait_alone(fleet, STEP, async || {}).await;
                // This comes after the report, if there is one.
                assert!(one.session.directives(0).await.is_err());
                if fleet.counted(&quota, CLIENT).await > 1 {
                    break;
                }
            }
            assert_eq!(fleet.counted(&quota, CLIENT).await, 30, "Redis is told");
            proxies[0].set(Fault::None);
            one.quiet().await;
            wait(fleet, TWO_INTERVALS).await;
            let counted = fleet.counted(&quota, CLIENT).await;
            assert!((30..=59).contains(&counted), "{counted} of {quota:?}");
            let mut admitted = 30;
            for gateway in [one, other, one] {
                admitted += spend_all(gateway, &[gateway.synced(&quota, CLIENT, 1)]).await;
                wait(fleet, TWO_INTERVALS).await;
            }
            assert!((71..=100).contains(&admitted), "{admitted} of {quota:?}");
            fleet.idle().await;
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 100, "{quota:?}");
        });
    }
}

#[test]
fn gateway_that_dies_loses_what_it_had_not_told_and_no_more() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    run(async {
        let ways = [server.address(), proxy.address()];
        let mut fleet = Fleet::start(&server, &ways, HASTY).await;
        fleet.meet().await;
        let quotas = windows(100);
        for quota in &quotas {
            for gateway in &fleet.gateways {
                let plan = [gateway.synced(quota, CLIENT, 1)];
                assert_eq!(gateway.busy(20, &plan).await, 20, "{quota:?}");
            }
        }
        wait(&fleet, TWO_INTERVALS).await;
        for (quota, gateway) in quotas
            .iter()
            .flat_map(|quota| fleet.gateways.iter().map(move |one| (quota, one)))
        {
            let charge = gateway.ask(&[gateway.synced(quota, CLIENT, 10)]).await;
            assert!(charge.expect("it is followed").is_some());
        }
        proxy.set(Fault::BlackHole);
        fleet.gateways.truncate(1);
        let survivor = &fleet.gateways[0];
        for quota in &quotas {
            // It has spent 30 itself, and knows of 20 that others have spent.
            let plan = [survivor.synced(quota, CLIENT, 1)];
            assert_eq!(spend_all(survivor, &plan).await, 50, "{quota:?}");
        }
        fleet.idle().await;
        for quota in &quotas {
            assert_eq!(fleet.counted(quota, CLIENT).await, 100, "{quota:?}");
        }
    });
}

#[test]
fn full_redis_that_has_no_key_of_a_client_lets_nobody_in_without_bound() {
    for (on_store_failure, share) in [(OnStoreFailure::Local, 50), (OnStoreFailure::Closed, 0)] {
        with(2, async |fleet| {
            fleet.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
            for quota in windows(100) {
                for gateway in &fleet.gateways {
                    let plan = [Check {
                        on_store_failure,
                        ..gateway.synced(&quota, CLIENT, 1)
                    }];
                    let mut admitted = 0;
                    for _ in 0..30 {
                        for _ in 0..4 {
                            let charge = gateway.ask(&plan).await;
                            admitted += u64::from(charge.is_ok_and(|charge| charge.is_some()));
                        }
                        wait(fleet, STEP).await;
                    }
                    assert_eq!(admitted, share, "{on_store_failure:?} {quota:?}");
                }
            }
        });
    }
}

#[test]
fn full_redis_counts_a_client_that_has_a_key_and_one_whose_key_is_gone_has_no_more_than_the_quota()
{
    for is_gone in [false, true] {
        for on_store_failure in [OnStoreFailure::Local, OnStoreFailure::Closed] {
            with(1, async |fleet| {
                let gateway = &fleet.gateways[0];
                for quota in windows(100) {
                    let plan = [Check {
                        on_store_failure,
                        ..gateway.synced(&quota, CLIENT, 1)
                    }];
                    assert_eq!(gateway.busy(10, &plan).await, 10);
                    wait(fleet, INTERVAL).await;
                    if is_gone {
                        fleet.server.command(&["FLUSHALL"]);
                    }
                    fleet.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                    let mut admitted = 10;
                    for _ in 0..60 {
                        for _ in 0..2 {
                            let charge = gateway.ask(&plan).await;
                            admitted += u64::from(charge.is_ok_and(|charge| charge.is_some()));
                        }
                        wait(fleet, STEP).await;
                    }
                    let seen = format!("{is_gone} {on_store_failure:?} {quota:?}");
                    if is_gone {
                        // The forgotten units, and the local share, may each admit one more quota.
                        assert!((100..=300).contains(&admitted), "{admitted} {seen}");
                    } else {
                        assert_eq!(admitted, 100, "{seen}");
                        assert_eq!(fleet.counted(&quota, CLIENT).await, 100, "{seen}");
                    }
                    fleet.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
                    fleet.idle().await;
                    let counted = fleet.counted(&quota, CLIENT).await;
                    assert!(counted <= 100, "{counted} {seen}");
                }
            });
        }
    }
}

/// A gateway has not reported all of its counts when it, or another one, resets the client.
fn reset_after(loss: Option<Loss>, is_own: bool) {
    with_proxies(2, async |fleet, proxies| {
        let [one, other] = &fleet.gateways[..] else {
            panic!("there are two");
        };
        for quota in windows(100) {
            let plan = [one.synced(&quota, CLIENT, 1)];
            assert_eq!(one.busy(30, &plan).await, 30);
            if let Some(loss) = loss {
                loss.begin(&proxies[0]).await;
                wait_alone(fleet, INTERVAL, async || {}).await;
            }
            fleet.clock.advance(Micros(1));
            let resetting = if is_own { one } else { other };
            let check = resetting.exact(&quota, CLIENT, 1);
            let series_ids = [check.series_id];
            let reset = resetting.session.reset(&series_ids, check.partition_id);
            let at = reset.await.expect("Redis answers");
            if !is_own {
                let series_id = one.exact(&quota, CLIENT, 1).series_id;
                (one.bench.store).note_reset(series_id, check.partition_id, at);
            }
            proxies[0].set(Fault::None);
            one.quiet().await;
            fleet.clock.advance(Micros(1));
            assert_eq!(one.busy(7, &plan).await, 7, "{quota:?}");
            fleet.idle().await;
            let counted = fleet.counted(&quota, CLIENT).await;
            assert_eq!(counted, 7, "{loss:?} {is_own} {quota:?}");
        }
    });
}

#[test]
fn reset_drops_what_was_counted_before_it_and_not_yet_told() {
    for (loss, is_own) in [
        (None, true),
        (None, false),
        (Some(Loss::Disconnection), false),
    ] {
        reset_after(loss, is_own);
    }
}
