//! The memory store decides in one atomic step, and settles what it decided.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate::clock::Micros;
use tollgate::limit::{Algorithm, Align, Check, OldestBucket, Quota};

use crate::in_memory::{Gateway, ROOMY, algorithms, check, partition_id, quota_of};

#[test]
fn plan_over_two_shards_never_charges_one_without_the_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (wide, narrow) = (quota_of(algorithm, 2_000), quota_of(algorithm, 700));
        let user = check(&wide, gateway.series_id("user", &wide), 1);
        let tenant = check(&narrow, gateway.series_id("tenant", &narrow), 2);
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
        let quota = quota_of(algorithm, 5);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        assert!(!gateway.admits(Check { cost: 6, ..check }));
        assert!(gateway.admits(Check { cost: 0, ..check }));
        assert_eq!(gateway.remaining(check), 5);
        assert_eq!(gateway.usage().partitions, 0, "{algorithm:?}");
    }
}

#[test]
fn peek_tells_what_a_request_would_be_answered_and_spends_nothing() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota_of(algorithm, 5);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        for left in (0..5).rev() {
            let looked = gateway.peek(&[check]);
            let (verdict, _) = gateway.decide(&[check]);
            assert_eq!(
                verdict.answers[0].decision,
                Some(looked[0]),
                "{algorithm:?}"
            );
            assert_eq!(looked[0].remaining, left, "{algorithm:?}");
        }
        assert!(!gateway.peek(&[check])[0].admit, "{algorithm:?}");
    }
}

/// After a reload, a policy may have costs that answers report: no client's count is lost, and from then on all units
/// that are given back do come back.
#[test]
fn bucket_keeps_its_counts_when_charges_begin_to_come_back() {
    const CLIENTS: u64 = 10_000;
    let gateway = Gateway::new(ROOMY);
    let settled = quota_of(Algorithm::Gcra { burst: 0 }, 10);
    let stays = Quota {
        can_come_back: false,
        ..settled
    };
    let series_id = gateway.series_id("p", &stays);
    let before = Check {
        cost: 4,
        ..check(&stays, series_id, 0)
    };
    let after = check(&settled, series_id, 0);
    let of = |client, check| Check {
        partition_id: partition_id(client),
        ..check
    };
    assert_eq!(gateway.flood(before, 0..CLIENTS), CLIENTS);
    for client in 0..CLIENTS {
        let (_, mut charge) = gateway.decide(&[of(client, after)]);
        gateway.clock.advance(Micros(1));
        gateway.release(&mut charge, 1);
    }
    for client in 0..CLIENTS {
        assert_eq!(gateway.remaining(of(client, after)), 6, "client {client}");
    }
}

#[test]
fn reset_makes_one_partition_whole_and_no_other() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota_of(algorithm, 1);
        let series_id = gateway.series_id("p", &quota);
        let (one, two) = (check(&quota, series_id, 1), check(&quota, series_id, 2));
        assert_eq!(gateway.flood(one, 1..3), 2);
        gateway.reset(one);
        assert_eq!(
            [one, two].map(|check| gateway.remaining(check)),
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
        let quota = quota_of(algorithm, 1);
        let [kept, dropped] = ["kept", "dropped"].map(|policy| gateway.series_id(policy, &quota));
        gateway.flood(check(&quota, kept, 0), 0..100);
        let alone = gateway.usage();
        gateway.flood(check(&quota, dropped, 0), 0..100);
        gateway.store.retain(&[kept]);
        assert_eq!(gateway.usage(), alone, "{algorithm:?}");
        assert_eq!(
            gateway.flood(check(&quota, kept, 0), 0..100),
            0,
            "{algorithm:?}"
        );
        assert_eq!(
            gateway.flood(check(&quota, dropped, 0), 0..100),
            100,
            "{algorithm:?}"
        );
    }
}

#[test]
fn changed_number_keeps_its_counters_and_a_changed_shape_starts_afresh() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let (before, after) = (quota_of(algorithm, 10), quota_of(algorithm, 12));
        let series_id = gateway.series_id("p", &before);
        assert_eq!(gateway.series_id("p", &after), series_id);
        assert!(gateway.admits(Check {
            cost: 10,
            ..check(&before, series_id, 1)
        }));
        let refused = Check {
            cost: 5,
            ..check(&after, series_id, 1)
        };
        assert!(!gateway.admits(refused), "{algorithm:?}");
        let shorter = Quota {
            window: Micros::from_secs(30),
            ..after
        };
        assert_ne!(gateway.series_id("p", &shorter), series_id);
    }
    let shapes = [OldestBucket::Weighted, OldestBucket::Whole].map(|oldest| {
        let buckets = 10;
        quota_of(Algorithm::SlidingWindow { buckets, oldest }, 10)
    });
    let gateway = Gateway::new(ROOMY);
    assert_ne!(
        gateway.series_id("p", &shapes[0]),
        gateway.series_id("p", &shapes[1])
    );
}

#[test]
fn state_of_spread_windows_is_kept_until_its_own_windows_have_ended() {
    for algorithm in &algorithms()[..2] {
        let mut resets = Vec::new();
        for key in 0..8 {
            let gateway = Gateway::new(ROOMY);
            let quota = Quota {
                align: Align::Spread,
                ..quota_of(*algorithm, 3)
            };
            let check = check(&quota, gateway.series_id("p", &quota), key);
            while gateway.admits(check) {}
            let reset = gateway.peek(&[check])[0].reset;
            gateway.clock.advance(Micros(reset.0 - 1));
            gateway.sweep();
            assert_eq!(gateway.usage().partitions, 1, "{algorithm:?}");
            gateway.clock.advance(Micros(1));
            gateway.sweep();
            assert_eq!(gateway.usage().partitions, 0, "{algorithm:?}");
            resets.push(reset);
        }
        resets.dedup();
        assert_eq!(resets.len(), 8, "{algorithm:?}: {resets:?}");
    }
}
