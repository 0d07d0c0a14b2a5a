//! `notify`: finds out when a client's use of a quota reaches a threshold.
//!
//! A decision on an exact quota says what is left after the request, and so what was left before it: only the request
//! that reaches the threshold counts, whichever gateway decides it. For leased and synced quotas a gateway hears only
//! now and then what others spent, and where costs are reported later or refused requests count, a threshold may be
//! reached between two admitted requests: there each request at or above the threshold counts.

use std::ops::Range;

use super::context::Limiter;
use super::decided::PolicyResult;
use super::plan::Planned;
use super::reached::ReachedThreshold;
use crate::limit::{Check, Consistency, Count, Decision, Verdict};
use crate::request::{Facts, redacted};
use crate::snapshot::Threshold;

impl Limiter<'_> {
    /// Tells the observer which thresholds an admitted request reaches in a policy's own quotas, which are the checks
    /// `own` of the plan; `result` is what the policy did.
    pub(super) fn observe_thresholds(
        &self,
        (planned, own): (&Planned<'_>, Range<usize>),
        verdict: &Verdict,
        facts: &Facts<'_>,
        result: &PolicyResult,
    ) {
        let Some(observer) = self.thresholds else {
            return;
        };
        let policy = &self.snapshot.policies[result.policy];
        let reports_costs = policy.reported_cost.is_some() || result.reservation.is_some();
        for place in own {
            let (check, decision) = (&planned.checks[place], &verdict.answers[place].decision);
            let Some(decision) = decision.as_ref().filter(|decision| decision.admit) else {
                continue;
            };
            let is_counted_here = check.quota.count == Count::Admitted && !reports_costs;
            let is_exact = check.consistency == Consistency::Exact && is_counted_here;
            let reached = policy.notify.iter().filter(|threshold| {
                is_at(**threshold, check, decision)
                    && !(is_exact && was_at(**threshold, check, decision))
            });
            for threshold in reached {
                observer.reached(&ReachedThreshold {
                    threshold: *threshold,
                    policy,
                    quota: result.quota(self.snapshot, planned.place(place)),
                    check,
                    decision,
                    name: redacted(
                        self.digest_key,
                        &policy.partition,
                        facts,
                        self.snapshot.log.clients,
                    ),
                });
            }
        }
    }
}

/// Says whether a quota is used up to a threshold after a request.
fn is_at(threshold: Threshold, check: &Check<'_>, decision: &Decision) -> bool {
    used(check, decision) >= threshold.units_of(check.quota.capacity())
}

/// Says whether the quota was used up to the threshold already before the request.
fn was_at(threshold: Threshold, check: &Check<'_>, decision: &Decision) -> bool {
    let before = used(check, decision).saturating_sub(check.cost);
    before >= threshold.units_of(check.quota.capacity())
}

fn used(check: &Check<'_>, decision: &Decision) -> u64 {
    check.quota.capacity().saturating_sub(decision.remaining)
}
