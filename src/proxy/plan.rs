//! Phases 2 to 4: whose quotas a request spends, what the store is asked, and what it says.

use smallvec::SmallVec;

use super::record::Exchange;
use super::refusal::Refusal;
use super::shared::Live;
use super::worker::Worker;
use crate::clock::Micros;
use crate::limit::plan::Mode;
use crate::limit::{Answer, Check, Plan, Verdict};
use crate::metrics::Outcome as PolicyOutcome;
use crate::request::{Facts, Identified, LatestPartition, redacted};
use crate::request::{Part, Partition};
use crate::snapshot::{Route, Snapshot};
use crate::store::{Charge, Outcome};

/// A plan, and which quota of which policy each of its checks is.
#[derive(Debug)]
pub(super) struct Planned<'s> {
    checks: Plan<'s>,
    /// Indices of policy and quota.
    owners: SmallVec<[(usize, usize); 4]>,
}

/// What an admitted request may do.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// How long it is held before it is forwarded.
    pub(super) wait: Micros,
    /// What it spent.
    pub(super) charge: Charge,
}

/// Makes the plan of a request: every quota of its route's policies, with the partition it is for.
///
/// # Errors
/// 401 if a policy refuses requests without a part of its partition.
pub(super) fn make<'s>(
    live: &Live,
    snapshot: &'s Snapshot,
    route: &Route,
    facts: &Facts<'_>,
    latest: &mut LatestPartition,
    exchange: &mut Exchange,
) -> Result<Planned<'s>, Refusal> {
    let mut planned = Planned {
        checks: Plan::new(),
        owners: SmallVec::new(),
    };
    for applied in &route.policies {
        let policy = &snapshot.policies[applied.policy];
        let Some(mode) = policy.mode else { continue };
        let partition_id = match latest.partition_id(
            &live.partition_key,
            &policy.partition,
            policy.missing,
            facts,
        ) {
            Identified::PartitionId(partition_id) => partition_id,
            Identified::Skip => {
                exchange.outcome(applied.policy, PolicyOutcome::Skipped);
                continue;
            }
            Identified::Unidentified => return Err(Refusal::unidentified()),
        };
        exchange.cost(applied.cost);
        if exchange.is_logged() && names_more_than_address(&policy.partition) {
            exchange.partition(redacted(
                &live.partition_key,
                &policy.partition,
                facts,
                snapshot.log.clients,
            ));
        }
        for (index, quota) in policy.quotas.iter().enumerate() {
            planned.owners.push((applied.policy, index));
            planned.checks.push(Check {
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

/// Lets the store decide a plan.
///
/// # Errors
/// 429 if an enforced quota refuses, 503 if the store cannot answer and a policy is `closed`.
pub(super) async fn decide(
    worker: &Worker,
    planned: &Planned<'_>,
    exchange: &mut Exchange,
) -> Result<Admitted, Refusal> {
    if planned.checks.is_empty() {
        return Ok(Admitted::default());
    }
    match worker.store.decide(&planned.checks).await {
        Outcome::Unavailable { retry } => {
            for policy in planned.owners.chunk_by(|a, b| a.0 == b.0) {
                exchange.outcome(policy[0].0, PolicyOutcome::Unanswered);
            }
            exchange.degraded();
            Err(Refusal::limiter_unavailable(retry))
        }
        Outcome::Decided {
            // Not moved: it is large.
            ref verdict,
            charge,
            is_degraded,
        } => {
            if is_degraded {
                exchange.degraded();
            }
            note(planned, verdict, exchange);
            if verdict.admit {
                return Ok(Admitted {
                    wait: verdict.wait,
                    charge,
                });
            }
            Err(Refusal::quota_exceeded(verdict.retry, exchange.violated()))
        }
    }
}

/// Gives back all that an admitted plan spent, for a request that goes no further after all; the
/// client is told what is left then.
pub(super) async fn give_back(
    worker: &Worker,
    planned: &Planned<'_>,
    charge: Charge,
    exchange: &mut Exchange,
) {
    drop(worker.store.release(charge, u64::MAX).await);
    let peeks: Plan<'_> = (planned.checks.iter())
        .map(|check| Check { cost: 0, ..*check })
        .collect();
    let decisions = worker.store.peek(&peeks).await;
    for (&(policy, quota), decision) in planned.owners.iter().zip(decisions) {
        exchange.decided_anew(policy, quota, decision);
    }
}

/// Notes what each policy did, and what its quotas tell the client.
fn note(planned: &Planned<'_>, verdict: &Verdict, exchange: &mut Exchange) {
    let mut answers = verdict.answers.iter().zip(&planned.checks);
    for owners in planned.owners.chunk_by(|a, b| a.0 == b.0) {
        let mut outcome = PolicyOutcome::Admitted;
        for (&(policy, quota), (answer, check)) in owners.iter().zip(&mut answers) {
            outcome = worse(outcome, answer, check.mode);
            if let (Some(decision), Mode::Enforce) = (answer.decision, check.mode) {
                exchange.decided(policy, quota, decision);
            }
        }
        if outcome == PolicyOutcome::Unanswered {
            exchange.degraded();
        }
        exchange.outcome(owners[0].0, outcome);
    }
}

/// Returns what a policy did, one more of its answers considered.
fn worse(so_far: PolicyOutcome, answer: &Answer, mode: Mode) -> PolicyOutcome {
    match (answer.decision, mode) {
        (None, _) => PolicyOutcome::Unanswered,
        (Some(decision), _) if decision.admit => so_far,
        (Some(_), Mode::Enforce) => PolicyOutcome::Refused,
        (Some(_), Mode::Shadow) => PolicyOutcome::ShadowRefused,
    }
}

/// Whether the log's `client` does not say it all.
fn names_more_than_address(partition: &Partition) -> bool {
    partition.0.iter().any(|choice| choice.0 != [Part::Ip])
}
