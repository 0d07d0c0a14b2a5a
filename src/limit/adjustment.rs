//! What is done to a charge once the answer is known, and what a client is then told of a quota. The
//! latter is computed from the decision, so that the store need not be asked again.

use super::gcra;
use super::quota::{Algorithm, Decision, OldestBucket, Quota};
use crate::clock::{Micros, Timestamp};

/// What becomes of the units that a policy's quotas were charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Up to this many come back.
    GiveBack(u64),
    /// This many more are spent, whether they fit or not.
    Spend(u64),
}

impl Adjustment {
    /// The charge stays as it is.
    pub const NONE: Self = Self::GiveBack(0);

    /// Returns what the decision would say if its charge of `charged` units had been adjusted at once.
    ///
    /// `remaining` is exact. `next` and `reset` are never too short, and are exact for gcra and
    /// leaky-bucket. For other algorithms they may be too long, because a decision does not say when the
    /// units before its own age out, nor when the window or bucket of a whole quota ends.
    pub fn adjusted(self, decision: Decision, quota: &Quota, charged: u64) -> Decision {
        match self {
            Self::GiveBack(amount) => after_release(decision, quota, amount.min(charged)),
            Self::Spend(0) => decision,
            Self::Spend(amount) => after_spend(decision, quota, charged, amount),
        }
    }
}

/// Returns what the decision would say if `amount` of its charge had come back at once; `amount` is at
/// most what it charged.
///
/// `remaining` and `next` are exact. `reset` is exact for fixed-window, gcra and leaky-bucket, and if
/// the quota is whole again. For sliding windows and logs it stays as it was.
fn after_release(decision: Decision, quota: &Quota, amount: u64) -> Decision {
    match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            let back_us = amount.saturating_mul(quota.interval_us());
            let debt_us = decision.reset.0.saturating_sub(back_us);
            of_debt(decision, quota, debt_us)
        }
        Algorithm::Credits { .. } => Decision {
            remaining: (decision.remaining + amount).saturating_sub(decision.debt),
            debt: decision.debt.saturating_sub(amount),
            ..decision
        },
        Algorithm::Penalty { .. } => decision,
        Algorithm::FixedWindow
        | Algorithm::Calendar(_)
        | Algorithm::SlidingWindow { .. }
        | Algorithm::SlidingLog
        | Algorithm::InFlight => {
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

/// Returns what the decision, which charged `charged`, would say if `amount` more had been spent at once.
fn after_spend(decision: Decision, quota: &Quota, charged: u64, amount: u64) -> Decision {
    if let Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } = quota.algorithm {
        let more_us = amount.saturating_mul(quota.interval_us());
        let debt_us = decision.reset.0.saturating_add(more_us);
        // Another quota that shares the states may have moved `tat` further ahead.
        let debt_max_us = (2 * quota.burst_us()).max(decision.reset.0);
        return of_debt(decision, quota, debt_us.min(debt_max_us));
    }
    if quota.is_balance() {
        return Decision {
            remaining: decision.remaining.saturating_sub(amount),
            debt: decision.debt + amount.saturating_sub(decision.remaining),
            ..decision
        };
    }
    let reset = reset_after_spend(decision, quota, charged);
    Decision {
        remaining: decision.remaining.saturating_sub(amount),
        // While all units fit, the first one ages out at the same time as before.
        next: (decision.next.filter(|_| amount <= decision.remaining)).or(Some(reset)),
        reset,
        wait: Micros(0),
        ..decision
    }
}

/// Returns the longest time until units that are spent now have aged out.
fn reset_after_spend(decision: Decision, quota: &Quota, charged: u64) -> Micros {
    let (buckets, oldest) = match quota.algorithm {
        Algorithm::SlidingWindow { buckets, oldest } => (u64::from(buckets), oldest),
        // All units of a window age out at its end, and those that are logged now age out last.
        Algorithm::FixedWindow | Algorithm::Calendar(_) if decision.reset > Micros(0) => {
            return decision.reset;
        }
        Algorithm::Calendar(_) => return quota.counts_for(),
        _ => return quota.window,
    };
    let width_us = quota.window.0 / buckets;
    // If nothing was charged, it is unknown how old the bucket is that units would be charged to.
    let longest_us = match oldest {
        OldestBucket::Dropped => quota.window.0,
        OldestBucket::Weighted | OldestBucket::Whole => quota.window.0 + width_us,
    };
    let longer_us = match oldest {
        _ if charged == 0 => longest_us,
        // The more units a bucket has, the later its last one leaves.
        OldestBucket::Weighted => decision.reset.0 + width_us.div_ceil(charged) - 1,
        OldestBucket::Whole | OldestBucket::Dropped => decision.reset.0,
    };
    Micros(longer_us.min(longest_us))
}

/// Describes a bucket that is full again after this time.
fn of_debt(decision: Decision, quota: &Quota, debt_us: u64) -> Decision {
    gcra::decision(Timestamp(debt_us), quota, 0, Timestamp(0), decision.admit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::{AnyState, Calendar, OldestBucket};

    const START: Timestamp = Timestamp(1_700_006_400_000_000);

    fn algorithms() -> impl Strategy<Value = Algorithm> {
        let oldest = prop_oneof![
            Just(OldestBucket::Weighted),
            Just(OldestBucket::Whole),
            Just(OldestBucket::Dropped),
        ];
        prop_oneof![
            Just(Algorithm::FixedWindow),
            Just(Algorithm::Calendar(Calendar::of_days())),
            (prop_oneof![Just(1_u32), Just(5), Just(10)], oldest)
                .prop_map(|(buckets, oldest)| Algorithm::SlidingWindow { buckets, oldest }),
            Just(Algorithm::SlidingLog),
            (1_u64..30).prop_map(|burst| Algorithm::Gcra { burst }),
            (0_u64..30).prop_map(|queue| Algorithm::LeakyBucket { queue }),
            (0_u64..100).prop_map(|initial| Algorithm::Credits { initial }),
        ]
    }

    /// Charges each cost that fits at its time, and compares the adjusted decision after a release and after a spend
    /// with the decision of a state in which that was done.
    fn run(quota: &Quota, costs: &[(u64, u64, u64)]) -> Result<(), TestCaseError> {
        let (mut state, mut now) = (AnyState::new(quota), START);
        for &(wait_us, cost, amount) in costs {
            now = now + Micros(wait_us);
            let at = state.arrive(quota, now);
            if !state.admits(quota, cost, at) {
                continue;
            }
            let charged = state.charge(quota, cost, at);
            let decision = state.decision(quota, cost, at, true);
            let mut released = state.clone();
            released.release(quota, charged, amount.min(cost), at);
            let adjusted = Adjustment::GiveBack(amount).adjusted(decision, quota, cost);
            after_release_is_right(
                quota,
                decision,
                adjusted,
                released.decision(quota, 0, at, true),
            )?;
            let mut spent = state.clone();
            spent.spend(quota, amount, at);
            let adjusted = Adjustment::Spend(amount).adjusted(decision, quota, cost);
            let expected = spent.decision(quota, 0, at, true);
            if amount > 0 {
                after_spend_is_right(quota, (decision, cost, amount), adjusted, expected)?;
            }
        }
        Ok(())
    }

    fn after_release_is_right(
        quota: &Quota,
        decision: Decision,
        adjusted: Decision,
        mut expected: Decision,
    ) -> Result<(), TestCaseError> {
        if matches!(
            quota.algorithm,
            Algorithm::SlidingWindow { .. } | Algorithm::SlidingLog
        ) && expected.reset > Micros(0)
        {
            prop_assert!(adjusted.reset >= expected.reset);
            expected.reset = decision.reset;
        }
        prop_assert_eq!(adjusted, expected);
        Ok(())
    }

    /// A decision, the units that it charged, and the units that were spent after it.
    type Spent = (Decision, u64, u64);

    fn after_spend_is_right(
        quota: &Quota,
        (decision, cost, amount): Spent,
        adjusted: Decision,
        mut expected: Decision,
    ) -> Result<(), TestCaseError> {
        prop_assert!(adjusted.next >= expected.next && adjusted.reset >= expected.reset);
        let (is_next_exact, is_reset_exact) = match quota.algorithm {
            Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Credits { .. }
            | Algorithm::InFlight
            | Algorithm::Penalty { .. } => (true, true),
            Algorithm::FixedWindow | Algorithm::Calendar(_) => {
                (decision.next.is_some(), decision.next.is_some())
            }
            Algorithm::SlidingLog => (amount <= decision.remaining, true),
            Algorithm::SlidingWindow { oldest, .. } => {
                let fits = amount <= decision.remaining && decision.next.is_some();
                (fits, oldest != OldestBucket::Weighted && cost > 0)
            }
        };
        if !is_next_exact {
            expected.next = adjusted.next;
        }
        if !is_reset_exact {
            expected.reset = adjusted.reset;
        }
        prop_assert_eq!(adjusted, expected);
        Ok(())
    }

    proptest! {
        /// What is computed without asking the store is what the store would say, except for times that may be too
        /// long.
        #[test]
        fn an_adjusted_decision_is_what_the_state_says_and_never_too_soon(
            algorithm in algorithms(),
            limit in 1_u64..30,
            costs in prop::collection::vec((0_u64..20_000_000, 0_u64..8, 0_u64..40), 1..60),
        ) {
            let quota = Quota::of(algorithm, limit, Micros::from_secs(60));
            run(&quota, &costs)?;
        }
    }
}
