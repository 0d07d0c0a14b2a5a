//! What holds for a CORS preflight of the policies of its route, which do not decide it.

use super::context::Limiter;
use super::decided::{Admission, Decided, PolicyResult};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, has_all};
use crate::snapshot::{AppliedPolicy, Grant, PolicyMode};

impl Limiter<'_> {
    /// Refuses a preflight whose client one of these policies blocks, as far as the policy can tell from the
    /// preflight who that is.
    pub fn refuse_blocked(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        decided: &mut Decided,
    ) -> Option<Admission> {
        let blocks = |applied: &&AppliedPolicy| {
            let policy = &self.snapshot.policies[applied.policy];
            policy.mode == Some(PolicyMode::Enforce)
                && has_all(&policy.partition, facts)
                && has_all(policy.overrides_by(), facts)
                && *policy.grant_of(policy.find_override(facts)) == Grant::Blocked
        };
        let policy = policies.iter().find(blocks)?.policy;
        let blocked = PolicyResult::new(policy, PolicyOutcome::Blocked);
        decided.policies.push(blocked);
        Some(Admission::Blocked { policy })
    }
}
