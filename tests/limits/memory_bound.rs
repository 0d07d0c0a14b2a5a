//! The memory store keeps its bound, and never drops live state for it.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::{CheckMode, OnStoreFailure};
use tollgate::limit::sliding_log::SlidingLog;
use tollgate::limit::sliding_window::SlidingWindow;
use tollgate::limit::{Algorithm, Check, OldestBucket, PartitionId, Quota, State};
use tollgate::metrics::Usage;
use tollgate::store::{Charge, StoreVerdict};

use crate::in_memory::{Gateway, ROOMY, WINDOW, algorithms, check, partition_id, quota_of};

/// A bound that a few thousand keys reach.
const TIGHT: u64 = 96 << 10;
/// Most bytes that a series' overflow partition takes beyond the bound: a small table and a kilobyte.
const OVERFLOW_BYTES_MAX: u64 = 2 << 10;

#[test]
fn refused_client_stays_refused_while_new_keys_flood_a_full_store() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(TIGHT);
        let quota = quota_of(algorithm, 3);
        let series_id = gateway.series_id("p", &quota);
        let victim = check(&quota, series_id, 1);
        assert_eq!(gateway.flood(victim, 1..2), 1);
        while gateway.admits(victim) {}
        for step in 0..20 {
            gateway.clock.advance(Micros(110_000));
            gateway.flood(victim, 1_000 * step + 10..1_000 * (step + 1));
            gateway.memory().sweep();
            // gcra and leaky-bucket give units back as time passes; the others only when the window has passed.
            if !matches!(
                algorithm,
                Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. }
            ) {
                assert!(!gateway.admits(victim), "{algorithm:?}");
            }
        }
        assert!(!gateway.admits(victim), "{algorithm:?}");
        let usage = gateway.usage();
        assert!(
            usage.bytes <= TIGHT + OVERFLOW_BYTES_MAX,
            "{algorithm:?}: {usage:?}"
        );
        assert!(usage.overflowed > 0, "{algorithm:?}: {usage:?}");
        assert!(usage.is_full, "{algorithm:?}: {usage:?}");
    }
}

#[test]
fn newcomers_of_a_full_store_share_one_quota() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota_of(algorithm, 3);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        assert_eq!(gateway.flood(check, 0..100), 3, "{algorithm:?}");
        assert_eq!(gateway.remaining(check), 0, "{algorithm:?}");
        assert_eq!(gateway.usage().overflowed, 100, "{algorithm:?}");
        let (other, other_quota) = (gateway.series_id("q", &quota), quota);
        let other = Check {
            series_id: other,
            quota: &other_quota,
            ..check
        };
        assert_eq!(
            gateway.flood(other, 0..100),
            3,
            "each series id has its own"
        );
    }
}

#[test]
fn charge_of_the_overflow_partition_comes_back_to_it() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(0);
        let quota = quota_of(algorithm, 3);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        let (_, mut charge) = gateway.decide(&[Check { cost: 3, ..check }]);
        assert_eq!(gateway.flood(check, 2..10), 0, "{algorithm:?}");
        gateway.release(&mut charge, 2);
        assert_eq!(gateway.flood(check, 2..10), 2, "{algorithm:?}");
    }
}

#[test]
fn open_policy_of_a_full_store_admits_uncounted() {
    let gateway = Gateway::new(0);
    let quota = quota_of(Algorithm::FixedWindow, 1);
    let open = Check {
        on_store_failure: OnStoreFailure::Open,
        ..check(&quota, gateway.series_id("p", &quota), 1)
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
    let quota = quota_of(Algorithm::FixedWindow, 1);
    let local = check(&quota, gateway.series_id("local", &quota), 1);
    let closed = Check {
        on_store_failure: OnStoreFailure::Closed,
        ..check(&quota, gateway.series_id("closed", &quota), 1)
    };
    let outcome = gateway.outcome(&[local, closed]);
    assert!(
        matches!(outcome, StoreVerdict::Unavailable { .. }),
        "{outcome:?}"
    );
    assert_eq!(gateway.remaining(local), 1);
    for mode in [CheckMode::Shadow, CheckMode::Candidate] {
        let check = Check { mode, ..closed };
        assert!(gateway.admits(check), "{mode:?} never refuses");
    }
}

#[test]
fn full_shard_makes_room_from_idle_state_by_itself() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(8 << 10);
        let quota = quota_of(algorithm, 3);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        // Partition ids without their high bits all fall into one shard.
        let one_shard = |key| Check {
            partition_id: PartitionId::new(u128::from(partition_id(key).low())),
            ..check
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
fn known_client_is_decided_exactly_while_newcomers_fill_the_store() {
    // The algorithms whose state grows.
    let [_, window, log, ..] = algorithms();
    for algorithm in [window, log] {
        let quota = quota_of(algorithm, 100);
        let decisions = |bytes_max: u64, newcomers: u64| -> (Vec<bool>, Usage) {
            let gateway = Gateway::new(bytes_max);
            let client = check(&quota, gateway.series_id("p", &quota), 1);
            assert!(gateway.admits(client), "it is known from now on");
            // Three requests every two seconds, where its quota has five every three.
            let steps = (0..120).map(|step| {
                gateway.flood(client, 10 + step * newcomers..10 + (step + 1) * newcomers);
                gateway.clock.advance(Micros(WINDOW.0 / 90));
                gateway.admits(client)
            });
            (steps.collect(), gateway.usage())
        };
        let (exact, _) = decisions(ROOMY, 0);
        let (beside_flood, usage) = decisions(TIGHT, 100);
        assert_eq!(beside_flood, exact, "{algorithm:?}");
        assert!(usage.overflowed > 0 && usage.coarsened == 0, "{usage:?}");
    }
}

/// The bound holds however much existing clients spend, and so do the laws of their quotas.
#[test]
fn existing_client_of_a_full_store_gets_a_coarser_log_and_no_more_than_its_quota() {
    const LIMIT: u64 = 5_000;
    const STEP: Micros = Micros(WINDOW.0 / LIMIT / 2);
    let cases = algorithms().map(|algorithm| [(algorithm, 0, LIMIT), (algorithm, 512, 3 * LIMIT)]);
    for (algorithm, spare_bytes, least) in cases.into_iter().flatten() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota_of(algorithm, LIMIT);
        let client = check(&quota, gateway.series_id("p", &quota), 1);
        assert!(gateway.admits(client), "{algorithm:?}");
        let bytes_max = gateway.usage().bytes + spare_bytes;
        gateway.memory().set_bytes_max(bytes_max);
        // Twice as fast as the quota, so that it is always used up.
        let mut admitted = Vec::new();
        for _ in 0..4 * 2 * LIMIT {
            gateway.clock.advance(STEP);
            if gateway.admits(client) {
                admitted.push(gateway.clock.now());
            }
        }
        let usage = gateway.usage();
        let case = format!("{algorithm:?} with {spare_bytes} spare: {usage:?}");
        assert!(usage.bytes <= bytes_max, "{case}");
        if matches!(
            algorithm,
            Algorithm::SlidingLog | Algorithm::SlidingWindow { .. }
        ) {
            // The window's own law holds for nine tenths of a window: it leaves out one of ten buckets.
            let stretch = Micros(WINDOW.0 / 10 * 9);
            for run in admitted.windows(usize::try_from(LIMIT).expect("it fits") + 1) {
                assert!(run[run.len() - 1].since(run[0]) >= stretch, "{case}");
            }
        }
        // A coarser state refuses more, but not everything.
        assert!(admitted.len() as u64 >= least, "{case}: {}", admitted.len());
    }
}

proptest! {
    /// A state that may not grow never admits what the exact one refuses, and takes no memory.
    #[test]
    fn coarser_states_never_admit_sooner(
        limit in 1..60_u64,
        steps in vec((0..40_u64, 0..5_u64, any::<bool>()), 1..200),
    ) {
        for algorithm in [
            Algorithm::SlidingLog,
            Algorithm::SlidingWindow { buckets: 10, oldest: OldestBucket::Weighted },
            Algorithm::SlidingWindow { buckets: 60, oldest: OldestBucket::Whole },
            Algorithm::SlidingWindow { buckets: 3, oldest: OldestBucket::Dropped },
        ] {
            let quota = quota_of(algorithm, limit);
            if algorithm == Algorithm::SlidingLog {
                check_coarser::<SlidingLog>(&quota, &steps)?;
            } else {
                check_coarser::<SlidingWindow>(&quota, &steps)?;
            }
        }
    }
}

/// Takes an exact state, and one that may not always grow, through the same requests: `steps` are
/// gaps in tenths of a second, costs, and whether there is memory.
fn check_coarser<S: State>(quota: &Quota, steps: &[(u64, u64, bool)]) -> Result<(), TestCaseError> {
    let (mut exact, mut coarse) = (S::default(), S::default());
    let mut now = Timestamp(1_700_000_040 * 1_000_000);
    for &(gap, cost, has_memory) in steps {
        now = now + Micros(gap * 100_000);
        let at = exact.arrive(quota, now);
        prop_assert_eq!(coarse.arrive(quota, now), at);
        if !coarse.admits(quota, cost, at) {
            continue;
        }
        prop_assert!(
            exact.admits(quota, cost, at),
            "{:?} at {:?}",
            quota.algorithm,
            at
        );
        exact.charge(quota, cost, at);
        let heap_bytes = coarse.heap_bytes();
        if has_memory {
            coarse.charge(quota, cost, at);
        } else {
            coarse.charge_in_place(quota, cost, at);
            prop_assert!(coarse.heap_bytes() <= heap_bytes, "{:?}", quota.algorithm);
        }
    }
    Ok(())
}

#[test]
fn idle_state_gives_its_memory_back() {
    for algorithm in algorithms() {
        let gateway = Gateway::new(ROOMY);
        let quota = quota_of(algorithm, 3);
        let check = check(&quota, gateway.series_id("p", &quota), 1);
        gateway.flood(check, 0..5_000);
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
    let quota = quota_of(Algorithm::FixedWindow, 3);
    let check = check(&quota, gateway.series_id("p", &quota), 1);
    gateway.flood(check, 0..50_000);
    let held = gateway.usage();
    gateway.clock.advance(WINDOW);
    gateway.flood(check, 0..5_000);
    gateway.sweep();
    let left = gateway.usage();
    assert_eq!(left.partitions, 5_000);
    assert!(left.bytes * 4 < held.bytes, "{left:?} of {held:?}");
}
