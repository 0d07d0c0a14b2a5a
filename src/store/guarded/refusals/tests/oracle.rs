//! Compares refusals from memory with the states of a server.

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;
use crate::limit::plan::{RefusingPolicies, spills};
use crate::limit::{AnyState, Calendar, OldestBucket, Retry};

/// Longest latency, each way.
const LATENCY_US_MAX: u64 = 1_000;

/// A server behind the remembered refusals.
struct Guarded {
    states: Vec<AnyState>,
    refusals: Refusals,
    clock: Clock,
}

impl Guarded {
    fn state(&mut self, check: &Check<'_>) -> &mut AnyState {
        &mut self.states[check.series_id.0 as usize]
    }

    /// Returns the states of the checks that refuse; none for the others.
    fn peek(&mut self, plan: &[Check<'_>]) -> Vec<Option<RefusedState>> {
        let now = self.clock.now();
        let mut peek = |check: &Check<'_>| {
            let state = self.state(check);
            let at = state.arrive(check.quota, now);
            let admits = state.admits(check.quota, check.cost, at);
            let state = state.clone();
            (!admits).then_some(RefusedState { state, now, at })
        };
        plan.iter().map(&mut peek).collect()
    }

    fn charge(&mut self, plan: &[Check<'_>]) {
        let now = self.clock.now();
        for check in plan {
            let state = self.state(check);
            let at = state.arrive(check.quota, now);
            state.charge(check.quota, check.cost, at);
        }
    }
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let sliding = (
        1_u32..=10,
        prop::sample::select(
            &[
                OldestBucket::Weighted,
                OldestBucket::Whole,
                OldestBucket::Dropped,
            ][..],
        ),
    )
        .prop_filter("divides the window", |(buckets, _)| {
            60_000_000 % buckets == 0
        })
        .prop_map(|(buckets, oldest)| Algorithm::SlidingWindow { buckets, oldest });
    prop_oneof![
        Just(Algorithm::FixedWindow),
        Just(Algorithm::Calendar(Calendar::of_days())),
        sliding,
        Just(Algorithm::SlidingLog),
        (1_u64..8).prop_map(|burst| Algorithm::Gcra { burst }),
        (0_u64..8).prop_map(|queue| Algorithm::LeakyBucket { queue }),
        (0_u64..8).prop_map(|initial| Algorithm::Credits { initial }),
    ]
}

fn quotas() -> impl Strategy<Value = Vec<(Quota, CheckMode)>> {
    let mode = prop_oneof![
        4 => Just(CheckMode::Enforce),
        1 => Just(CheckMode::Shadow),
        2 => Just(CheckMode::Spill),
    ];
    let one =
        (algorithms(), 1_u64..8, 1_u64..4, mode).prop_map(|(algorithm, limit, minutes, mode)| {
            let quota = Quota::of(algorithm, limit, Micros::from_secs(minutes * 60));
            (quota, mode)
        });
    prop::collection::vec(one, 1..4)
}

/// Returns the quota of one of two tiers that share its states.
fn tier(quota: &Quota, is_larger: bool) -> Quota {
    let larger = Quota {
        limit: quota.limit + 3,
        ..*quota
    };
    if is_larger { larger } else { *quota }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What is refused from memory is refused by the store at that instant, whatever was asked in between, with this
    /// plan or with others that share its quotas.
    #[test]
    fn nothing_is_refused_that_the_store_would_admit(
        quotas in quotas(),
        steps in prop::collection::vec((0_u64..40_000_000, 0_u64..10, 0_usize..4, 0..LATENCY_US_MAX, any::<bool>()), 1..80),
        cap in prop_oneof![Just(CAP), Just(Micros::from_secs(100))],
    ) {
        let clock = Clock::manual(START);
        let mut guarded = Guarded {
            states: quotas.iter().map(|(quota, _)| AnyState::new(quota)).collect(),
            refusals: Refusals::new(),
            clock,
        };
        for (wait_us, cost, skipped, latency_us, is_larger) in steps {
            guarded.clock.advance(Micros(wait_us));
            // A plan of all quotas but one, or of all, of one tier or the other.
            let tier: Vec<_> = quotas.iter().map(|(quota, mode)| (tier(quota, is_larger), *mode)).collect();
            let mut plan: Vec<Check<'_>> = (0..).zip(&tier)
                .filter(|(index, _)| *index != skipped || quotas.len() == 1)
                .map(|(index, (quota, mode))| Check {
                    series_id: SeriesId(index.try_into().expect("a few")), mode: *mode, ..check(quota, cost)
                })
                .collect();
            for index in 0..plan.len() {
                let is_behind = index > 0 && plan[index - 1].mode == CheckMode::Enforce;
                if plan[index].mode == CheckMode::Spill && !is_behind {
                    plan[index].mode = CheckMode::Enforce;
                }
            }
            let sent = guarded.clock.now();
            let recalled = guarded.refusals.recall(&plan, true, || sent);
            if let Recalled::Refused(verdict) = recalled {
                let peeks = guarded.peek(&plan);
                for (index, ((check, answer), peek)) in plan.iter().zip(&verdict.answers).zip(&peeks).enumerate() {
                    let takes = spills(&plan, index, |index| peeks[index].is_none());
                    prop_assert!(answer.decision.is_none() || !takes, "{check:?} spills");
                    let Some(found) = answer.decision else { continue };
                    let Some(refused) = peek else {
                        prop_assert!(false, "{check:?} is admitted, and was told {found:?}");
                        continue;
                    };
                    // Charges since then only make it later. The remembered retry is counted from when the answer
                    // arrived.
                    let right = refused.state.decision(check.quota, cost, refused.at, false);
                    let latest = match right.retry {
                        Retry::After(retry) => Retry::After(Micros(retry.0 + LATENCY_US_MAX)),
                        Retry::Never => Retry::Never,
                    };
                    prop_assert!(found.retry <= latest, "{found:?} instead of {right:?}");
                }
                continue;
            }
            guarded.clock.advance(Micros(latency_us));
            let refused = guarded.peek(&plan);
            let fits = |index: usize| refused[index].is_none();
            if RefusingPolicies::of(&plan, fits) == RefusingPolicies::None {
                let is_charged =
                    |index: &usize| fits(*index) && (plan[*index].mode != CheckMode::Spill || !fits(*index - 1));
                let charged = (0..plan.len()).filter(is_charged);
                let charged: Vec<Check<'_>> = charged.map(|index| plan[index]).collect();
                guarded.charge(&charged);
            }
            guarded.clock.advance(Micros(latency_us));
            let received = guarded.clock.now();
            if let Recalled::Due = recalled {
                for (check, _) in plan.iter().zip(&refused).filter(|(_, refused)| refused.is_none()) {
                    drop(guarded.refusals.forget(check.series_id, check.partition_id));
                }
            }
            guarded.refusals.remember(&plan, refused, Interval { sent, received }, cap);
        }
    }
}
