//! The memory store keeps its bound, and never drops live state for it.

mod in_memory;

use tollgate::clock::Micros;
use tollgate::limit::plan::{Mode, OnStoreFailure};
use tollgate::limit::{Algorithm, Ask, Tag};
use tollgate::store::{Charge, Outcome, Usage};

use in_memory::{Gateway, ROOMY, WINDOW, algorithms, ask, quota, tag};

/// A bound that a few thousand keys reach.
const TIGHT: u64 = 96 << 10;

#[test]
fn refused_client_stays_refused_while_new_keys_flood_a_full_store() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(TIGHT);
        let quota = quota(algorithm, 3);
        let slot = gateway.slot("p", &quota);
        let victim = ask(&quota, slot, 1);
        assert_eq!(gateway.flood(victim, 1..2), 1);
        while gateway.admits(victim) {}
        for step in 0..20 {
            gateway.clock.advance(Micros(110_000));
            gateway.flood(victim, 1_000 * step + 10..1_000 * (step + 1));
            gateway.memory().sweep();
            // gcra and leaky-bucket give units back as they go; the rest wait for the window.
            if !matches!(
                algorithm,
                Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. }
            ) {
                assert!(!gateway.admits(victim), "{algorithm:?}");
            }
        }
        assert!(!gateway.admits(victim), "{algorithm:?}");
        let usage = gateway.usage();
        // Each shard may have let one newcomer's heap pass before it saw the store full.
        assert!(usage.bytes <= TIGHT + 1_024, "{algorithm:?}: {usage:?}");
        assert!(usage.overflowed > 0, "{algorithm:?}: {usage:?}");
    }
}

#[test]
fn newcomers_of_a_full_store_share_one_quota() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        assert_eq!(gateway.flood(ask, 0..100), 3, "{algorithm:?}");
        assert_eq!(gateway.remaining(ask), 0, "{algorithm:?}");
        assert_eq!(gateway.usage().overflowed, 100, "{algorithm:?}");
        let (other, other_quota) = (gateway.slot("q", &quota), quota);
        let other = Ask {
            slot: other,
            quota: &other_quota,
            ..ask
        };
        assert_eq!(gateway.flood(other, 0..100), 3, "each slot has its own");
    }
}

#[test]
fn charge_of_the_overflow_partition_comes_back_to_it() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        let (_, charge) = gateway.decide(&[Ask { cost: 3, ..ask }]);
        assert_eq!(gateway.flood(ask, 2..10), 0, "{algorithm:?}");
        let _rest = gateway.release(charge, 2);
        assert_eq!(gateway.flood(ask, 2..10), 2, "{algorithm:?}");
    }
}

#[test]
fn open_policy_of_a_full_store_admits_uncounted() {
    let gateway = Gateway::new(0);
    let quota = quota(Algorithm::FixedWindow, 1);
    let open = Ask {
        on_store_failure: OnStoreFailure::Open,
        ..ask(&quota, gateway.slot("p", &quota), 1)
    };
    for _ in 0..3 {
        let (verdict, charge) = gateway.decide(&[open]);
        assert!(verdict.admit);
        assert_eq!(verdict.answers[0].decision, None);
        assert_eq!(charge, Charge::default());
    }
    assert_eq!(gateway.usage().partitions, 0);
}

#[test]
fn closed_policy_of_a_full_store_is_unavailable_and_charges_nobody() {
    let gateway = Gateway::new(0);
    let quota = quota(Algorithm::FixedWindow, 1);
    let local = ask(&quota, gateway.slot("local", &quota), 1);
    let closed = Ask {
        on_store_failure: OnStoreFailure::Closed,
        ..ask(&quota, gateway.slot("closed", &quota), 1)
    };
    let outcome = gateway.outcome(&[local, closed]);
    assert!(
        matches!(outcome, Outcome::Unavailable { .. }),
        "{outcome:?}"
    );
    assert_eq!(gateway.remaining(local), 1);
    let shadow = Ask {
        mode: Mode::Shadow,
        ..closed
    };
    assert!(gateway.admits(shadow), "a shadow quota never refuses");
}

#[test]
fn full_shard_makes_room_from_idle_state_by_itself() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(8 << 10);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        // Tags without their high bits all fall into one shard.
        let one_shard = |key| Ask {
            tag: Tag::new(u128::from(tag(key).low())),
            ..ask
        };
        let is_admitted = |key: &u64| gateway.admits(one_shard(*key));
        let clients = (0..1_000).filter(is_admitted).count() as u64;
        let full = gateway.usage();
        gateway.clock.advance(Micros(2 * WINDOW.0));
        let newcomers = (1_000..1_000 + clients / 2).filter(is_admitted).count() as u64;
        let left = gateway.usage();
        assert_eq!(newcomers, clients / 2, "{algorithm:?}");
        assert_eq!(left.overflowed, full.overflowed, "{algorithm:?}");
        assert!(full.overflowed > 0, "{algorithm:?}: {full:?}");
    }
}

#[test]
fn idle_state_gives_its_memory_back() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota(algorithm, 3);
        let ask = ask(&quota, gateway.slot("p", &quota), 1);
        gateway.flood(ask, 0..5_000);
        let held = gateway.usage();
        gateway.sweep();
        assert_eq!(
            (gateway.usage(), held.partitions),
            (held, 5_000),
            "live state stays"
        );
        gateway.clock.advance(Micros(2 * WINDOW.0));
        gateway.sweep();
        assert_eq!(gateway.usage(), Usage::default(), "{algorithm:?}");
    }
}

#[test]
fn table_shrinks_around_the_few_that_are_left() {
    let gateway = Gateway::new(ROOMY);
    let quota = quota(Algorithm::FixedWindow, 3);
    let ask = ask(&quota, gateway.slot("p", &quota), 1);
    gateway.flood(ask, 0..50_000);
    let held = gateway.usage();
    gateway.clock.advance(WINDOW);
    gateway.flood(ask, 0..5_000);
    gateway.sweep();
    let left = gateway.usage();
    assert_eq!(left.partitions, 5_000);
    assert!(left.bytes * 4 < held.bytes, "{left:?} of {held:?}");
}
