//! Checks of a plan that are known to refuse without asking Redis, and the verdict that they make.

use smallvec::SmallVec;

use crate::limit::{Check, CheckResult, Decision, Verdict};

/// Decisions of checks that are known to refuse, with the checks' places in the plan.
pub(in crate::store::guarded) type Recollection = SmallVec<[(usize, Decision); 2]>;

/// Refuses a plan because of these decisions. The other checks have no answer, because they were not asked.
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
