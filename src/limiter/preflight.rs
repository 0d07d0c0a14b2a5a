//! A CORS preflight is refused if its route's policies block its client, although they do not decide it otherwise.

use super::context::Limiter;
use super::decided::{Admission, Decided, PolicyResult};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, Identified, has_all, partition_id};
use crate::snapshot::{AppliedPolicy, Grant, PolicyMode};

impl Limiter<'_> {
    /// Refuses a preflight if one of these policies blocks its client, as far as the preflight tells the policy who the
    /// client is.
    pub fn refuse_blocked(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        decided: &mut Decided,
    ) -> Option<Admission> {
        let blocks = |applied: &&AppliedPolicy| {
            let policy = &self.snapshot.policies[applied.policy];
            if policy.mode != Some(PolicyMode::Enforce) || !has_all(&policy.partition, facts) {
                return false;
            }
            let (key, partition) = (self.partition_key, &policy.partition);
            let identified = partition_id(key, partition, policy.missing, facts);
            let Identified::PartitionId(partition_id) = identified else {
                return false;
            };
            let matched = policy.find_override(facts, partition_id);
            (matched.is_some() || has_all(policy.overrides_by(), facts))
                && *policy.grant_of(matched) == Grant::Blocked
        };
        let policy = policies.iter().find(blocks)?.policy;
        let blocked = PolicyResult::new(policy, PolicyOutcome::Blocked);
        decided.policies.push(blocked);
        Some(Admission::Blocked { policy })
    }
}
