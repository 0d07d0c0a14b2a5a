use proptest::prelude::*;

use super::*;
use crate::clock::{Clock, Timestamp};
use crate::limit::Adjustment;
use crate::limit::plan::SeriesId;
use crate::store::charge::Keeper;
use crate::store::series::{Series, SeriesRole};

const START: Timestamp = Timestamp(1_700_006_400_000_000);
const COOLDOWN: Micros = Micros::from_secs(2);

const fn quota(limit: u64, algorithm: Algorithm) -> Quota {
    Quota::of(algorithm, limit, Micros::from_secs(60))
}

const TEN: Quota = quota(10, Algorithm::FixedWindow);

fn store() -> MemoryStore {
    let store = MemoryStore::new(Clock::manual(START), 1 << 20);
    for name in ["a", "b", "c"] {
        store.series_id(&Series::of(name, SeriesRole::Real, &TEN));
    }
    store
}

fn fallback(memory: &MemoryStore, nodes: u32) -> Fallback<'_> {
    Fallback {
        memory,
        partition_key: &[3; 32],
        nodes,
        cooldown: COOLDOWN,
    }
}

fn check(series_id: u32, mode: CheckMode, on_store_failure: OnStoreFailure) -> Check<'static> {
    Check {
        mode,
        on_store_failure,
        ..Check::of(&TEN, SeriesId(series_id), PartitionId::new(7))
    }
}

fn local(series_id: u32) -> Check<'static> {
    check(series_id, CheckMode::Enforce, OnStoreFailure::Local)
}

fn free(check: Check<'_>) -> Check<'_> {
    Check { cost: 0, ..check }
}

fn decided(outcome: StoreVerdict) -> (Verdict, Charge) {
    match outcome {
        StoreVerdict::Decided {
            verdict,
            charge,
            is_degraded: true,
        } => (verdict, charge),
        other => panic!("no degraded answer: {other:?}"),
    }
}

#[test]
fn local_policy_has_this_nodes_share() {
    let store = store();
    let fallback = fallback(&store, 3);
    let admitted = (0..10).filter(|_| decided(fallback.decide(&[local(0)])).0.admit);
    assert_eq!(admitted.count(), 3);
}

#[test]
fn quota_smaller_than_the_fleet_leaves_each_node_one_unit() {
    let store = store();
    let fallback = fallback(&store, 100);
    assert!(decided(fallback.decide(&[local(0)])).0.admit);
    assert!(!decided(fallback.decide(&[local(0)])).0.admit);
}

#[test]
fn cost_beyond_the_share_but_not_the_quota_is_not_refused_for_good() {
    let store = store();
    let fallback = fallback(&store, 10);
    let retry = |cost| {
        let plan = [Check { cost, ..local(0) }];
        decided(fallback.decide(&plan)).0.retry
    };
    assert_eq!(retry(5), Retry::After(COOLDOWN));
    assert_eq!(retry(11), Retry::Never);
}

#[test]
fn open_policy_admits_uncounted_and_a_local_one_beside_it_still_refuses() {
    let store = store();
    let fallback = fallback(&store, 10);
    let open = check(1, CheckMode::Enforce, OnStoreFailure::Open);
    let (verdict, charge) = decided(fallback.decide(&[open]));
    assert!(verdict.admit && charge.entries.is_empty());
    assert_eq!(verdict.answers[..], [CheckResult::default()]);
    let plan = [open, local(0)];
    assert!(decided(fallback.decide(&plan)).0.admit);
    let (verdict, _) = decided(fallback.decide(&plan));
    assert!(!verdict.admit);
    assert_eq!(verdict.answers[0], CheckResult::default());
    assert!(verdict.answers[1].decision.is_some_and(|one| !one.admit));
}

#[test]
fn closed_policy_makes_the_plan_unavailable_unless_it_only_watches() {
    let store = store();
    let fallback = fallback(&store, 1);
    let closed = |mode| check(1, mode, OnStoreFailure::Closed);
    let refused = fallback.decide(&[local(0), closed(CheckMode::Enforce)]);
    assert!(matches!(
        refused,
        StoreVerdict::Unavailable { retry: COOLDOWN }
    ));
    let (verdict, charge) = decided(fallback.decide(&[local(0), closed(CheckMode::Shadow)]));
    assert!(verdict.admit);
    assert_eq!(
        charge.entries.len(),
        1,
        "what is unavailable charges nothing"
    );
    assert_eq!(verdict.answers[0].decision.expect("counted").remaining, 9);
    assert_eq!(verdict.answers[1], CheckResult::default());
}

#[test]
fn what_is_charged_here_comes_back_here() {
    let store = store();
    let fallback = fallback(&store, 1);
    let left = || fallback.peek(&[free(local(0))])[0].remaining;
    let (_, mut charge) = decided(fallback.decide(&[local(0)]));
    assert_ne!(charge.entries[0].keeper, Keeper::Redis);
    assert_eq!(left(), 9);
    store.settle(&charge.settle(|_| Adjustment::GiveBack(u64::MAX)));
    assert_eq!(left(), 10);
}

#[test]
fn partition_ids_are_not_those_that_clients_can_tell() {
    let store = store();
    let (one, other) = (fallback(&store, 1), [4; 32]);
    let other = Fallback {
        partition_key: &other,
        ..one
    };
    let partition_id = PartitionId::new(7);
    assert_ne!(one.partition_id(partition_id), partition_id);
    assert_ne!(
        one.partition_id(partition_id),
        other.partition_id(partition_id)
    );
    assert_eq!(
        one.partition_id(partition_id),
        one.partition_id(partition_id)
    );
}

#[test]
fn peek_says_what_is_left_here_and_that_what_is_not_counted_is_whole() {
    let store = store();
    let fallback = fallback(&store, 2);
    drop(fallback.decide(&[local(0)]));
    let open = check(1, CheckMode::Enforce, OnStoreFailure::Open);
    let plan = [open, local(0)].map(free);
    let peeks = fallback.peek(&plan);
    assert_eq!([peeks[0].remaining, peeks[1].remaining], [10, 4]);
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::FixedWindow),
        Just(Algorithm::SlidingLog),
        (1_u64..1_000).prop_map(|burst| Algorithm::Gcra { burst }),
        (0_u64..1_000).prop_map(|queue| Algorithm::LeakyBucket { queue }),
    ]
}

proptest! {
    /// The shares of all nodes are together at most one quota, or one unit for each node.
    #[test]
    fn shares_are_at_most_one_quota_together(
        algorithm in algorithms(),
        limit in 1_u64..100_000,
        nodes in 0_u32..2_000,
    ) {
        let whole = quota(limit, algorithm);
        let share = share(&whole, nodes);
        let all = u64::from(nodes.max(1));
        prop_assert!(share.limit * all <= limit.max(all));
        prop_assert!(share.capacity() * all <= whole.capacity().max(all));
        prop_assert!(share.limit >= 1 && share.capacity() >= 1);
        prop_assert_eq!(share.window, whole.window);
    }
}
