//! The limiter: decides whether a request may spend its policies' quotas.
//!
//! [`Limiter::decide`] identifies the client, plans what its route's policies ask of the store,
//! lets the store decide, and returns the result: a [`Decided`]. It knows no socket, no log and no
//! response; its caller makes those of the result.

mod charge;
mod decided;

use std::cell::RefCell;

use smallvec::SmallVec;

pub use charge::OpenCharge;
pub use decided::{Admission, Decided, LimitInfo, tightest};

use crate::clock::Micros;
use crate::limit::plan::Mode;
use crate::limit::{Answer, Check, Plan, Verdict};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, Identified, LatestPartition};
use crate::snapshot::{Route, Snapshot};
use crate::store::{self, Session};

/// What decisions are made with.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'l> {
    /// The configuration in force.
    pub snapshot: &'l Snapshot,
    /// The key of partition ids.
    pub partition_key: &'l [u8; 32],
    /// The way to the counters.
    pub store: &'l Session,
}

/// A plan, and for each of its checks the policy and quota that it belongs to.
#[derive(Debug, Default)]
struct Planned<'s> {
    checks: Plan<'s>,
    /// Indices of policy and quota.
    owners: SmallVec<[(usize, usize); 4]>,
}

impl<'l> Limiter<'l> {
    /// Decides a request of `route`, and notes in `decided` what each policy did.
    ///
    /// `latest` remembers the partition of the connection's latest request.
    pub async fn decide(
        &self,
        route: &Route,
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        decided: &mut Decided,
    ) -> Admission {
        let planned = match self.plan(route, facts, latest, decided) {
            Ok(planned) if planned.checks.is_empty() => return Admission::NOW,
            Ok(planned) => planned,
            Err(policy) => return Admission::Unidentified { policy },
        };
        match self.store.decide(&planned.checks).await {
            store::Outcome::Unavailable { retry } => {
                for policy in planned.owners.chunk_by(|a, b| a.0 == b.0) {
                    decided
                        .outcomes
                        .push((policy[0].0, PolicyOutcome::Unanswered));
                }
                decided.is_degraded = true;
                Admission::Unavailable { retry }
            }
            store::Outcome::Decided {
                // Not moved: it is large.
                ref verdict,
                charge,
                is_degraded,
            } => {
                decided.is_degraded |= is_degraded;
                planned.note(verdict, is_degraded, decided);
                if !verdict.admit {
                    return Admission::Refused {
                        retry: verdict.retry,
                    };
                }
                // A held request may find no place, and then its charge is given back. Other
                // charges never are.
                if verdict.wait > Micros(0) {
                    decided.charge = Some(Box::new(OpenCharge::new(self.store, charge)));
                }
                Admission::Admitted { wait: verdict.wait }
            }
        }
    }

    /// Plans a request: every quota of its route's policies, with the partition that it counts for.
    ///
    /// # Errors
    /// The index of a policy that refuses requests without a part of its partition.
    fn plan(
        &self,
        route: &Route,
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        decided: &mut Decided,
    ) -> Result<Planned<'l>, usize> {
        let (mut planned, mut latest) = (Planned::default(), latest.borrow_mut());
        for (place, applied) in (0..).zip(&route.policies) {
            let policy = &self.snapshot.policies[applied.policy];
            let Some(mode) = policy.mode else { continue };
            let partition = &policy.partition;
            let identified =
                latest.partition_id(self.partition_key, partition, policy.missing, facts);
            let partition_id = match identified {
                Identified::PartitionId(partition_id) => partition_id,
                Identified::Skip => {
                    decided
                        .outcomes
                        .push((applied.policy, PolicyOutcome::Skipped));
                    continue;
                }
                Identified::Unidentified => {
                    decided
                        .outcomes
                        .push((applied.policy, PolicyOutcome::Unidentified));
                    return Err(applied.policy);
                }
            };
            decided.cost = decided.cost.max(Some(applied.cost));
            for (index, quota) in policy.grant.quotas().iter().enumerate() {
                planned.owners.push((applied.policy, index));
                planned.checks.push(Check {
                    policy: place,
                    quota: &quota.quota,
                    series_id: quota.series_id,
                    partition_id,
                    cost: applied.cost,
                    mode,
                    on_store_failure: policy.on_store_failure,
                });
            }
        }
        Ok(planned)
    }
}

impl Planned<'_> {
    /// Notes what each policy did, and what its quotas tell the client.
    fn note(&self, verdict: &Verdict, is_degraded: bool, decided: &mut Decided) {
        let mut answers = verdict.answers.iter().zip(&self.checks);
        for owners in self.owners.chunk_by(|a, b| a.0 == b.0) {
            let mut outcome = PolicyOutcome::Admitted;
            for (&(policy, quota), (answer, check)) in owners.iter().zip(&mut answers) {
                outcome = worse(outcome, answer, check.mode, is_degraded);
                if let (Some(decision), Mode::Enforce) = (answer.decision, check.mode) {
                    decided.note(policy, quota, decision);
                }
            }
            decided.is_degraded |= outcome == PolicyOutcome::Unanswered;
            decided.outcomes.push((owners[0].0, outcome));
        }
    }
}

/// Returns what a policy did, after one more of its answers.
fn worse(so_far: PolicyOutcome, answer: &Answer, mode: Mode, is_degraded: bool) -> PolicyOutcome {
    match (answer.decision, mode) {
        (None, _) if is_degraded => PolicyOutcome::Unanswered,
        (None, _) if so_far == PolicyOutcome::Admitted => PolicyOutcome::NotAsked,
        (None, _) => so_far,
        (Some(decision), _) if decision.admit => so_far,
        (Some(_), Mode::Enforce) => PolicyOutcome::Refused,
        (Some(_), Mode::Shadow | Mode::Candidate) => PolicyOutcome::ShadowRefused,
    }
}

impl Admission {
    /// Nothing refuses it and nothing holds it.
    const NOW: Self = Self::Admitted { wait: Micros(0) };
}
