//! The memory store decides in one atomic step, and settles what it decided.

mod in_memory;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate::clock::Micros;
use tollgate::limit::plan::Mode;
use tollgate::limit::{Algorithm, Ask, Leaving, Quota, Retry};

use in_memory::{Gateway, ROOMY, algorithms, ask, quota};

#[test]
fn threads_on_one_key_are_admitted_exactly_the_quota() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1_000);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        admitted.fetch_add(gateway.admits(ask).into(), Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000, "{algorithm:?}");
    }
}

#[test]
fn plan_over_two_shards_never_charges_one_without_the_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (wide, narrow) = (quota(algorithm, 2_000), quota(algorithm, 700));
        let user = ask(&wide, gateway.slot("user", &wide), 1);
        let tenant = ask(&narrow, gateway.slot("tenant", &narrow), 2);
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for plan in [
                [user, tenant],
                [tenant, user],
                [user, tenant],
                [tenant, user],
            ] {
                let (gateway, admitted) = (&gateway, &admitted);
                scope.spawn(move || {
                    for _ in 0..500 {
                        admitted.fetch_add(gateway.decide(&plan).0.admit.into(), Relaxed);
                    }
                });
            }
        });
        let left = [gateway.remaining(user), gateway.remaining(tenant)];
        assert_eq!(
            (admitted.into_inner(), left),
            (700, [1_300, 0]),
            "{algorithm:?}"
        );
    }
}

#[test]
fn refused_or_looked_at_newcomer_takes_no_memory_for_its_state() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 5);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        assert!(!gateway.admits(Ask { cost: 6, ..ask }));
        assert!(gateway.admits(Ask { cost: 0, ..ask }));
        assert_eq!(gateway.remaining(ask), 5);
        assert_eq!(gateway.usage().partitions, 0, "{algorithm:?}");
    }
}

#[test]
fn look_tells_what_a_request_would_be_answered_and_spends_nothing() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 5);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        for left in (0..5).rev() {
            let looked = gateway.look(&[ask]);
            let (verdict, _) = gateway.decide(&[ask]);
            assert_eq!(
                verdict.answers[0].decision,
                Some(looked[0]),
                "{algorithm:?}"
            );
            assert_eq!(looked[0].remaining, left, "{algorithm:?}");
        }
        assert!(!gateway.look(&[ask])[0].admit, "{algorithm:?}");
    }
}

#[test]
fn charge_comes_back_once_and_in_parts() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 10);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let (_, charge) = gateway.decide(&[Ask { cost: 4, ..ask }]);
        let charge = gateway.release(charge, 1);
        assert_eq!(gateway.remaining(ask), 7, "{algorithm:?}");
        let charge = gateway.release(charge, 100);
        assert_eq!(gateway.remaining(ask), 10, "{algorithm:?}");
        let (_, _stays) = gateway.decide(&[Ask { cost: 5, ..ask }]);
        let _nothing = gateway.release(charge, 100);
        assert_eq!(gateway.remaining(ask), 5, "{algorithm:?}");
    }
}

#[test]
fn spend_reaches_every_quota_of_the_plan_shadow_ones_too() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (real, candidate) = (quota(algorithm, 10), quota(algorithm, 2));
        let real = ask(&real, gateway.slot("real", &real), 1);
        let shadow = Ask {
            mode: Mode::Shadow,
            ..ask(&candidate, gateway.slot("candidate", &candidate), 1)
        };
        let (_, charge) = gateway.decide(&[real, shadow]);
        gateway.spend(&charge, 3);
        let left = [gateway.remaining(real), gateway.remaining(shadow)];
        assert_eq!(left, [6, 0], "{algorithm:?}");
    }
}

#[test]
fn reset_makes_one_partition_whole_and_no_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1);
        let slot = gateway.slot("p", &quota);
        let (one, two) = (ask(&quota, slot, 1), ask(&quota, slot, 2));
        assert_eq!(gateway.flood(one, 1..3), 2);
        gateway.reset(one);
        assert_eq!(
            [one, two].map(|ask| gateway.remaining(ask)),
            [1, 0],
            "{algorithm:?}"
        );
        assert_eq!(gateway.usage().partitions, 1, "{algorithm:?}");
    }
}

#[test]
fn retain_keeps_live_series_and_drops_the_rest_with_their_memory() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 1);
        let [kept, dropped] = ["kept", "dropped"].map(|policy| gateway.slot(policy, &quota));
        gateway.flood(ask(&quota, kept, 0), 0..100);
        let alone = gateway.usage();
        gateway.flood(ask(&quota, dropped, 0), 0..100);
        gateway.store.retain(&[kept]);
        assert_eq!(gateway.usage(), alone, "{algorithm:?}");
        assert_eq!(
            gateway.flood(ask(&quota, kept, 0), 0..100),
            0,
            "{algorithm:?}"
        );
        assert_eq!(
            gateway.flood(ask(&quota, dropped, 0), 0..100),
            100,
            "{algorithm:?}"
        );
    }
}

#[test]
fn changed_number_keeps_its_counters_and_a_changed_shape_starts_afresh() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (before, after) = (quota(algorithm, 10), quota(algorithm, 12));
        let slot = gateway.slot("p", &before);
        assert_eq!(gateway.slot("p", &after), slot);
        assert!(gateway.admits(Ask {
            cost: 10,
            ..ask(&before, slot, 1)
        }));
        let refused = Ask {
            cost: 5,
            ..ask(&after, slot, 1)
        };
        assert!(!gateway.admits(refused), "{algorithm:?}");
        let shorter = Quota {
            window: Micros::from_secs(30),
            ..after
        };
        assert_ne!(gateway.slot("p", &shorter), slot);
    }
    let shapes = [Leaving::Weighted, Leaving::Whole].map(|leaving| {
        let buckets = 10;
        quota(Algorithm::SlidingWindow { buckets, leaving }, 10)
    });
    let gateway = Gateway::new(ROOMY);
    assert_ne!(gateway.slot("p", &shapes[0]), gateway.slot("p", &shapes[1]));
}

#[test]
fn refusal_says_when_and_the_store_keeps_its_word() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        while gateway.admits(ask) {}
        let Retry::After(retry) = gateway.decide(&[ask]).0.retry else {
            panic!("the cost fits one day");
        };
        gateway.clock.advance(Micros(retry.0 - 1));
        assert!(!gateway.admits(ask), "{algorithm:?}");
        gateway.clock.advance(Micros(1));
        gateway.sweep();
        assert!(gateway.admits(ask), "{algorithm:?}");
    }
}
