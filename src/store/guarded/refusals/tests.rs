use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;
use crate::limit::plan::OnStoreFailure;
use crate::limit::{Algorithm, LeavingBucket};
use crate::store::memory::MemoryStore;
use crate::store::outcome::Outcome;
use crate::store::series::Series;

const START: Timestamp = Timestamp(1_700_006_400_000_000);
const CAP: Micros = Micros::from_secs(1);
const PARTITION: PartitionId = PartitionId::new(7);

const fn quota(limit: u64, seconds: u64) -> Quota {
    Quota {
        limit,
        window: Micros::from_secs(seconds),
        algorithm: Algorithm::FixedWindow,
        count: Count::Admitted,
    }
}

const QUOTA: Quota = quota(5, 10);

fn check(quota: &Quota, cost: u64) -> Check<'_> {
    Check {
        quota,
        series_id: SeriesId(0),
        partition_id: PARTITION,
        cost,
        mode: Mode::Enforce,
        on_store_failure: OnStoreFailure::Local,
    }
}

fn decision(retry: Retry) -> Decision {
    Decision {
        admit: retry == Retry::NOW,
        remaining: 0,
        next: Some(Micros(900_000)),
        reset: Micros(5_000_000),
        retry,
        wait: Micros(0),
    }
}

fn refused(retries: &[Retry]) -> Verdict {
    let answer = |retry: &Retry| Answer {
        decision: Some(decision(*retry)),
        charged: None,
    };
    Verdict {
        admit: false,
        retry: *retries.iter().max().expect("one"),
        wait: Micros(0),
        answers: retries.iter().map(answer).collect(),
    }
}

fn after(us: u64) -> Retry {
    Retry::After(Micros(us))
}

const AT_ONCE: Interval = Interval {
    sent: START,
    received: START,
};

fn find(refusals: &Refusals, plan: &[Check<'_>], after: Micros) -> Option<Verdict> {
    refusals.find(plan, || START + after)
}

#[test]
fn refusal_is_shown_as_it_was_counted_down() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    refusals.remember(&plan, &refused(&[after(5_000_000)]), AT_ONCE, CAP);
    let mut expected = refused(&[after(4_600_000)]);
    expected.answers[0].decision = Some(Decision {
        next: Some(Micros(500_000)),
        reset: Micros(4_600_000),
        ..decision(after(4_600_000))
    });
    assert_eq!(find(&refusals, &plan, Micros(400_000)), Some(expected));
}

#[test]
fn refusal_is_forgotten_at_the_cap_or_before_its_retry() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    refusals.remember(&plan, &refused(&[after(5_000_000)]), AT_ONCE, CAP);
    assert!(find(&refusals, &plan, Micros(CAP.0 - 1)).is_some());
    assert!(find(&refusals, &plan, CAP).is_none());
    let refusals = Refusals::new();
    refusals.remember(&plan, &refused(&[after(500_000)]), AT_ONCE, CAP);
    assert!(find(&refusals, &plan, Micros(496_000)).is_some());
    assert!(find(&refusals, &plan, Micros(500_000)).is_none());
}

#[test]
fn retry_counts_from_when_the_plan_was_sent() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    let asked = Interval {
        sent: START,
        received: START + Micros(40_000),
    };
    refusals.remember(&plan, &refused(&[after(50_000)]), asked, CAP);
    assert!(find(&refusals, &plan, Micros(45_000)).is_some());
    assert!(find(&refusals, &plan, Micros(50_000)).is_none());
}

#[test]
fn never_is_remembered_up_to_the_cap() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 9)];
    refusals.remember(&plan, &refused(&[Retry::Never]), AT_ONCE, CAP);
    let found = find(&refusals, &plan, Micros(CAP.0 - 1)).expect("it is remembered");
    assert_eq!(found.retry, Retry::Never);
    assert!(find(&refusals, &plan, CAP).is_none());
}

#[test]
fn higher_cost_is_refused_too_and_a_lower_one_is_asked_for() {
    let refusals = Refusals::new();
    let remembered = [check(&QUOTA, 3)];
    refusals.remember(&remembered, &refused(&[after(5_000_000)]), AT_ONCE, CAP);
    let retry = |cost| find(&refusals, &[check(&QUOTA, cost)], Micros(0)).map(|found| found.retry);
    assert_eq!(retry(2), None);
    assert_eq!(retry(4), Some(after(5_000_000)));
    assert_eq!(retry(6), Some(Retry::Never), "more than it can ever hold");
}

#[test]
fn another_partition_series_quota_or_mode_is_asked_for() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    refusals.remember(&plan, &refused(&[after(5_000_000)]), AT_ONCE, CAP);
    let changed = quota(6, 10);
    let others = [
        Check {
            partition_id: PartitionId::new(8),
            ..plan[0]
        },
        Check {
            series_id: SeriesId(1),
            ..plan[0]
        },
        Check {
            quota: &changed,
            ..plan[0]
        },
        Check {
            mode: Mode::Shadow,
            ..plan[0]
        },
    ];
    for other in others {
        assert_eq!(find(&refusals, &[other], Micros(0)), None, "{other:?}");
    }
    assert_eq!(find(&refusals, &[plan[0], plan[0]], Micros(0)), None);
}

#[test]
fn quota_that_counts_refused_requests_is_asked_every_time() {
    let refusals = Refusals::new();
    let all = Quota {
        count: Count::All,
        ..QUOTA
    };
    let plan = [
        check(&QUOTA, 1),
        Check {
            series_id: SeriesId(1),
            ..check(&all, 1)
        },
    ];
    let verdict = refused(&[after(5_000_000), Retry::NOW]);
    refusals.remember(&plan, &verdict, AT_ONCE, CAP);
    assert_eq!(refusals.len(), 0);
    // Nor if it came to do so by a reload.
    let before = [
        plan[0],
        Check {
            quota: &QUOTA,
            ..plan[1]
        },
    ];
    refusals.remember(&before, &verdict, AT_ONCE, CAP);
    assert!(find(&refusals, &before, Micros(0)).is_some());
    assert_eq!(find(&refusals, &plan, Micros(0)), None);
}

#[test]
fn nothing_is_remembered_when_it_is_off() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    refusals.remember(&plan, &refused(&[after(5_000_000)]), AT_ONCE, Micros(0));
    assert_eq!(refusals.len(), 0);
}

#[test]
fn reset_partition_is_forgotten_and_others_are_not() {
    let refusals = Refusals::new();
    let plan = [check(&QUOTA, 1)];
    let other = [Check {
        partition_id: PartitionId::new(8),
        ..plan[0]
    }];
    for plan in [&plan, &other] {
        refusals.remember(plan, &refused(&[after(5_000_000)]), AT_ONCE, CAP);
    }
    refusals.forget(SeriesId(0), PARTITION);
    assert_eq!(find(&refusals, &plan, Micros(0)), None);
    assert!(find(&refusals, &other, Micros(0)).is_some());
}

#[test]
fn flood_of_refused_clients_is_remembered_within_the_bound() {
    let refusals = Refusals::new();
    let verdict = refused(&[after(5_000_000)]);
    for client in 0..u128::try_from(CHECKS_MAX + 1_000).expect("a few") {
        let plan = [Check {
            partition_id: PartitionId::new(client),
            ..check(&QUOTA, 1)
        }];
        refusals.remember(&plan, &verdict, AT_ONCE, CAP);
    }
    assert_eq!(refusals.len(), CHECKS_MAX as u64);
    for _ in 0..SHARDS / SHARDS_PER_SWEEP {
        refusals.sweep(START + CAP);
    }
    assert_eq!((refusals.len(), refusals.checks.load(Relaxed)), (0, 0));
}

/// A store of its own behind the remembered refusals.
struct Guarded {
    store: MemoryStore,
    refusals: Refusals,
    clock: Clock,
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let sliding = (
        1_u32..=10,
        prop::sample::select(
            &[
                LeavingBucket::Weighted,
                LeavingBucket::Whole,
                LeavingBucket::Dropped,
            ][..],
        ),
    )
        .prop_filter("divides the window", |(buckets, _)| {
            60_000_000 % buckets == 0
        })
        .prop_map(|(buckets, leaving)| Algorithm::SlidingWindow { buckets, leaving });
    prop_oneof![
        Just(Algorithm::FixedWindow),
        sliding,
        Just(Algorithm::SlidingLog),
        (1_u64..8).prop_map(|burst| Algorithm::Gcra { burst }),
        (0_u64..8).prop_map(|queue| Algorithm::LeakyBucket { queue }),
    ]
}

fn quotas() -> impl Strategy<Value = Vec<(Quota, Mode)>> {
    let mode = prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow)];
    let one =
        (algorithms(), 1_u64..8, 1_u64..4, mode).prop_map(|(algorithm, limit, minutes, mode)| {
            let quota = Quota {
                limit,
                window: Micros::from_secs(minutes * 60),
                algorithm,
                count: Count::Admitted,
            };
            (quota, mode)
        });
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What is refused from memory is refused by the store at that instant, whatever was asked in
    /// between, of this plan or of others that share its quotas.
    #[test]
    fn nothing_is_refused_that_the_store_would_admit(
        quotas in quotas(),
        steps in prop::collection::vec((0_u64..40_000_000, 0_u64..10, 0_usize..4, 0_u64..1_000), 1..80),
        cap in prop_oneof![Just(CAP), Just(Micros::from_secs(100))],
    ) {
        let clock = Clock::manual(START);
        let guarded = Guarded {
            store: MemoryStore::new(clock.clone(), 1 << 20),
            refusals: Refusals::new(),
            clock,
        };
        let series_ids: Vec<SeriesId> = quotas.iter().enumerate().map(|(index, (quota, _))| {
            guarded.store.series_id(&Series {
                policy: Arc::from(format!("p{index}")),
                shape: quota.algorithm.into(),
                window: quota.window,
            })
        }).collect();
        for (wait_us, cost, skipped, latency_us) in steps {
            guarded.clock.advance(Micros(wait_us));
            // A plan of all quotas but one, or of all.
            let plan: Vec<Check<'_>> = quotas.iter().zip(&series_ids).enumerate()
                .filter(|(index, _)| *index != skipped || quotas.len() == 1)
                .map(|(_, ((quota, mode), series_id))| Check {
                    series_id: *series_id, mode: *mode, ..check(quota, cost)
                })
                .collect();
            let sent = guarded.clock.now();
            if guarded.refusals.find(&plan, || sent).is_some() {
                let peeks = guarded.store.peek(&plan);
                let refuses = |(check, peek): (&Check<'_>, &Decision)| {
                    check.mode == Mode::Enforce && !peek.admit
                };
                prop_assert!(plan.iter().zip(&peeks).any(refuses), "{peeks:?}");
                continue;
            }
            guarded.clock.advance(Micros(latency_us));
            let Outcome::Decided { verdict, .. } = guarded.store.decide(&plan) else {
                panic!("a local policy is always answered");
            };
            guarded.clock.advance(Micros(latency_us));
            let received = guarded.clock.now();
            guarded.refusals.remember(&plan, &verdict, Interval { sent, received }, cap);
        }
    }
}
