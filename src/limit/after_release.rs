//! What a client is told once units that its decision charged have come back. It is computed from the
//! decision, so that the store need not be asked again.

use super::gcra::Gcra;
use super::quota::{Algorithm, Decision, Quota};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// Returns what the decision would say if `amount` of its charge had come back at once; `amount` is at
/// most what it charged.
///
/// `remaining` and `next` are exact. `reset` is exact for fixed-window, gcra and leaky-bucket, and if
/// the quota is whole again. For sliding windows and logs it stays as it was, because a decision does
/// not say when the units before its own age out: it may be too long, and is never too short.
pub fn after_release(decision: Decision, quota: &Quota, amount: u64) -> Decision {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            let back_us = amount.saturating_mul(quota.interval_us());
            let gcra = Gcra::new(Timestamp(decision.reset.0.saturating_sub(back_us)));
            gcra.decision(quota, 0, Timestamp(0), decision.admit)
        }
        Algorithm::FixedWindow | Algorithm::SlidingWindow { .. } | Algorithm::SlidingLog => {
            let remaining = decision.remaining.saturating_add(amount).min(quota.limit);
            let is_whole = remaining == quota.limit;
            Decision {
                remaining,
                next: decision.next.filter(|_| !is_whole),
                reset: if is_whole { Micros(0) } else { decision.reset },
                wait: Micros(0),
                ..decision
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::fixed_window::FixedWindow;
    use crate::limit::sliding_log::SlidingLog;
    use crate::limit::sliding_window::SlidingWindow;
    use crate::limit::{Charged, Count, LeavingBucket};

    const START: Timestamp = Timestamp(1_700_006_400_000_000);

    fn algorithms() -> impl Strategy<Value = Algorithm> {
        let leaving = prop_oneof![
            Just(LeavingBucket::Weighted),
            Just(LeavingBucket::Whole),
            Just(LeavingBucket::Dropped),
        ];
        prop_oneof![
            Just(Algorithm::FixedWindow),
            (prop_oneof![Just(1_u32), Just(5), Just(10)], leaving)
                .prop_map(|(buckets, leaving)| Algorithm::SlidingWindow { buckets, leaving }),
            Just(Algorithm::SlidingLog),
            (1_u64..30).prop_map(|burst| Algorithm::Gcra { burst }),
            (0_u64..30).prop_map(|queue| Algorithm::LeakyBucket { queue }),
        ]
    }

    /// Charges each cost that fits at its time, and compares what is told after a release with what the
    /// released state says.
    fn run<S: State + Clone>(
        quota: &Quota,
        costs: &[(u64, u64, u64)],
    ) -> Result<(), TestCaseError> {
        let (mut state, mut now) = (S::default(), START);
        for &(wait_us, cost, amount) in costs {
            now = now + Micros(wait_us);
            let at = state.arrive(quota, now);
            if !state.admits(quota, cost, at) {
                continue;
            }
            state.charge(quota, cost, at);
            let decision = state.decision(quota, cost, at, true);
            let (charged, amount) = (Charged { at, amount: cost }, amount.min(cost));
            let mut released = state.clone();
            released.release(quota, charged, amount, at);
            let told = after_release(decision, quota, amount);
            let mut expected = released.decision(quota, 0, at, true);
            if matches!(
                quota.algorithm,
                Algorithm::SlidingWindow { .. } | Algorithm::SlidingLog
            ) && expected.reset > Micros(0)
            {
                prop_assert!(told.reset >= expected.reset);
                expected.reset = decision.reset;
            }
            prop_assert_eq!(told, expected);
        }
        Ok(())
    }

    proptest! {
        /// What is told without asking the store is what the store would say, but for a `reset` that may
        /// be too long.
        #[test]
        fn decision_after_a_release_is_what_the_state_says(
            algorithm in algorithms(),
            limit in 1_u64..30,
            costs in prop::collection::vec((0_u64..20_000_000, 0_u64..8, 0_u64..8), 1..60),
        ) {
            let quota = Quota {
                limit,
                window: Micros::from_secs(60),
                algorithm,
                count: Count::Admitted,
            };
            match algorithm {
                Algorithm::FixedWindow => run::<FixedWindow>(&quota, &costs)?,
                Algorithm::SlidingWindow { .. } => run::<SlidingWindow>(&quota, &costs)?,
                Algorithm::SlidingLog => run::<SlidingLog>(&quota, &costs)?,
                Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
                    run::<Gcra>(&quota, &costs)?;
                }
            }
        }
    }
}
