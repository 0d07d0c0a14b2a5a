//! What is remembered of the checks of a plan, and how that refuses it.

use smallvec::SmallVec;

use crate::limit::{Check, CheckResult, Decision, Verdict};

/// What is remembered of the checks of a plan, by their places.
pub(in crate::store::guarded) type Recollection = SmallVec<[(usize, Decision); 2]>;

/// Refuses a plan because of what is remembered. Nothing is said of the other checks: they were not asked.
pub(in crate::store::guarded) fn refusal(plan: &[Check<'_>], refused: &Recollection) -> Verdict {
    let mut verdict = Verdict::unanswered(plan);
    verdict.admit = false;
    for &(place, decision) in refused {
        verdict.retry = verdict.retry.max(decision.retry);
        verdict.answers[place] = CheckResult {
            decision: Some(decision),
            charged: None,
        };
    }
    verdict
}
