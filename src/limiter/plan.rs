//! A request's plan: every quota of its route's policies, with the partition that it counts for.

use std::cell::RefCell;
use std::ops::Range;

use smallvec::SmallVec;

use super::context::Limiter;
use super::decided::{Admission, Decided, PolicyResult, QuotaPlace, RefusingQuota, ShownDecision};
use super::first_cost::{Reserve, cost};
use crate::cost::RequestNeed;
use crate::index::PolicyIndex;
use crate::limit::plan::{CheckMode, PlanPolicy};
use crate::limit::{AnchorDay, Check, CheckResult, Count, PartitionId, Plan, Verdict};
use crate::metrics::PolicyOutcome;
use crate::request::{Facts, Identified, LatestPartition};
use crate::snapshot::{AppliedPolicy, Grant, Policy, PolicyMode, PolicyQuota};

/// A plan, and for each of its checks what it belongs to.
#[derive(Debug, Default)]
pub(super) struct Planned<'s> {
    pub(super) checks: Plan<'s>,
    /// What must be read of the request's body to reserve by it.
    pub(super) needs: BodyNeeds,
    owners: SmallVec<[Owner; 4]>,
    /// The policies that block the client, each with the client's partition.
    pub(super) blocked: Vec<(PolicyIndex, PartitionId)>,
}

/// What must be read of a request's body before the request is decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyNeeds {
    /// What the enforcing policies need.
    pub enforced: RequestNeed,
    /// What all policies need; what only policies that never refuse need may be left unread.
    pub all: RequestNeed,
}

/// The policy and the quota that a check belongs to.
#[derive(Clone, Copy, Debug)]
struct Owner {
    /// Which of [`Decided::policies`] it belongs to.
    of: PlanPolicy,
    place: QuotaPlace,
    mode: PolicyMode,
}

impl<'l> Limiter<'l> {
    /// Plans a request; `planned` must be new.
    ///
    /// # Errors
    /// The admission that refuses the request before any quota is asked.
    pub(super) fn plan(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        latest: &RefCell<LatestPartition>,
        reserve: Option<Reserve<'_>>,
        planned: &mut Planned<'l>,
        decided: &mut Decided,
    ) -> Result<(), Admission> {
        let mut latest = latest.borrow_mut();
        for applied in policies {
            let (index, policy) = (applied.policy, &self.snapshot.policies[applied.policy]);
            let Some(mode) = policy.mode else { continue };
            let (key, partition) = (self.partition_key, &policy.partition);
            let identified = latest.partition_id(key, partition, policy.missing, facts);
            let decision = |outcome| PolicyResult::new(index, outcome);
            let partition_id = match identified {
                Identified::PartitionId(partition_id) => partition_id,
                Identified::Skip => {
                    decided.policies.push(decision(PolicyOutcome::Skipped));
                    continue;
                }
                Identified::Unidentified { choice } => {
                    let outcome = refusal(mode, PolicyOutcome::Unidentified);
                    decided.policies.push(decision(outcome));
                    if mode == PolicyMode::Enforce {
                        let policy = index;
                        return Err(Admission::Unidentified { policy, choice });
                    }
                    continue;
                }
            };
            self.note_client(index, partition_id, facts);
            let mut own = decision(PolicyOutcome::Admitted);
            let mut candidates = &*policy.candidates;
            if policy.has_overrides() {
                own.matched = policy.find_override(facts, partition_id);
                if let Some(matched) = own.matched {
                    candidates = &[];
                    let client = (facts, partition_id);
                    own.tier = decided.note_tier(self, policy, matched, client);
                }
            }
            let quotas = match policy.grant_of(own.matched) {
                Grant::Quotas(quotas) => (&**quotas, candidates),
                Grant::Unlimited => {
                    own.outcome = PolicyOutcome::Unlimited;
                    decided.policies.push(own);
                    continue;
                }
                Grant::Blocked => {
                    own.outcome = refusal(mode, PolicyOutcome::Blocked);
                    planned.blocked.push((index, partition_id));
                    decided.policies.push(own);
                    if mode == PolicyMode::Enforce {
                        return Err(Admission::Blocked { policy: index });
                    }
                    continue;
                }
            };
            let (cost, price_row) = cost(policy, applied, facts.headers, reserve)?;
            own.cost = cost;
            own.reserve(applied, price_row);
            let day = policy.own_day(own.matched, facts);
            planned.add(decided, own, (policy, applied), quotas, (partition_id, day));
            planned.spill(self, policy, (facts, partition_id));
        }
        Ok(())
    }
}

impl BodyNeeds {
    /// Adds what a policy of this mode needs.
    fn add(&mut self, applied: &AppliedPolicy, mode: PolicyMode) {
        let Some(cost) = &applied.body_cost else {
            return;
        };
        let need = cost.request_need();
        self.all = self.all.and(need);
        if mode == PolicyMode::Enforce {
            self.enforced = self.enforced.and(need);
        }
    }
}

impl<'s> Planned<'s> {
    /// Yields the checks with their place: which of [`Decided::policies`], and which of its quotas.
    pub(super) fn places(&self) -> impl Iterator<Item = (&Check<'s>, usize, QuotaPlace)> {
        let placed = |(check, owner): (_, &Owner)| (check, owner.of.into(), owner.place);
        self.checks.iter().zip(&self.owners).map(placed)
    }

    /// Says which quota of its policy a check is about.
    pub(super) fn place(&self, check: usize) -> QuotaPlace {
        self.owners[check].place
    }

    /// Yields the policies with quotas of their own: which of [`Decided::policies`], and the indices of their checks.
    pub(super) fn own_quotas(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut next = 0;
        let policies = self.owners.chunk_by(|one, other| one.of == other.of);
        policies.filter_map(move |owners| {
            let first = next;
            next += owners.len();
            // A policy's own quotas are its first checks.
            let own = owners.iter().take_while(|owner| owner.place.is_own());
            let own = first..first + own.count();
            (!own.is_empty()).then(|| (owners[0].of.into(), own))
        })
    }

    /// Adds the result of a policy and its checks: its quotas, its penalty, and its candidates.
    fn add(
        &mut self,
        decided: &mut Decided,
        own: PolicyResult,
        (policy, applied): (&'s Policy, &AppliedPolicy),
        (quotas, candidates): (&'s [PolicyQuota], &'s [PolicyQuota]),
        (partition_id, day): (PartitionId, Option<AnchorDay>),
    ) {
        let (of, cost) = (decided.next(), own.cost);
        decided.policies.push(own);
        let policy_mode = policy.mode.unwrap_or_default();
        self.needs.add(applied, policy_mode);
        let mode = match policy_mode {
            PolicyMode::Enforce => CheckMode::Enforce,
            PolicyMode::Shadow | PolicyMode::Mark => CheckMode::Shadow,
        };
        let real = (0..).zip(quotas);
        let real = real.map(|(index, quota)| (QuotaPlace::Own(index), quota, mode));
        let penalty = policy.penalty.as_deref().into_iter();
        let penalty = penalty.map(|penalty| (QuotaPlace::Penalty, penalty, mode));
        let tried = (0..).zip(candidates);
        let tried =
            tried.map(|(index, quota)| (QuotaPlace::Candidate(index), quota, CheckMode::Candidate));
        for (place, quota, mode) in real.chain(penalty).chain(tried) {
            self.owners.push(Owner {
                of,
                place,
                mode: policy_mode,
            });
            let (quota, series_id) = quota.of_day(day);
            self.checks.push(Check {
                quota,
                series_id,
                partition_id,
                cost: match place {
                    QuotaPlace::Penalty => 0,
                    _ => cost,
                },
                mode,
                policy: of,
                on_store_failure: policy.on_store_failure_of(quota),
                consistency: policy.consistency,
            });
        }
    }

    /// Lets credits take what the policy's only quota, which was added last, refuses, if the policy spills.
    fn spill(
        &mut self,
        limiter: &Limiter<'s>,
        policy: &Policy,
        (facts, partition_id): (&Facts<'_>, PartitionId),
    ) {
        let Some(of) = policy.spill.map(|of| &limiter.snapshot.policies[of]) else {
            return;
        };
        let credits = of.credits_of(facts, partition_id);
        let (Some(owner), Some(check), Some(credits)) =
            (self.owners.last(), self.checks.last(), credits)
        else {
            return;
        };
        let owner = Owner {
            place: QuotaPlace::Spill,
            ..*owner
        };
        self.checks.push(Check {
            quota: &credits.quota,
            series_id: credits.series_id,
            mode: CheckMode::Spill,
            on_store_failure: of.on_store_failure_of(&credits.quota),
            ..*check
        });
        self.owners.push(owner);
    }

    /// Notes what each policy did, and what its quotas tell the client.
    pub(super) fn note(&self, verdict: &Verdict, is_degraded: bool, decided: &mut Decided) {
        let mut is_punished = false;
        for ((owner, check), answer) in self.owners.iter().zip(&self.checks).zip(&verdict.answers) {
            let policy = &mut decided.policies[usize::from(owner.of)];
            let is_candidate = check.mode == CheckMode::Candidate;
            let is_spill = check.mode == CheckMode::Spill;
            if answer.decision.is_some_and(|decision| !decision.admit) && !is_spill {
                policy.is_candidate_refused |= is_candidate;
                decided.refusing.push(RefusingQuota {
                    of: owner.of,
                    place: owner.place,
                });
            }
            if is_candidate {
                continue;
            }
            if !is_spill {
                policy.outcome = outcome_after(policy.outcome, answer, owner.mode, is_degraded);
            }
            let Some(decision) = answer.decision else {
                decided.is_degraded |= policy.outcome == PolicyOutcome::Unanswered;
                continue;
            };
            // Without the store, a decision is about this node's share, which says nothing of the whole quota.
            let is_whole = verdict.admit && !is_degraded;
            policy.is_near_limit |= is_whole && check.quota.is_nearly_used_up(decision.remaining);
            match owner.place {
                QuotaPlace::Own(_) | QuotaPlace::Spill if owner.mode != PolicyMode::Shadow => {
                    decided.shown.push(ShownDecision {
                        of: owner.of,
                        place: owner.place,
                        series_id: check.series_id,
                        decision,
                    });
                }
                QuotaPlace::Penalty => {
                    policy.penalty = decision.reset;
                    is_punished |= !decision.admit;
                }
                _ => {}
            }
            decided.is_degraded |= policy.outcome == PolicyOutcome::Unanswered;
        }
        if is_punished {
            for shown in &mut decided.shown {
                let penalty = decided.policies[usize::from(shown.of)].penalty;
                shown.decision = shown.decision.while_punished(penalty);
            }
        }
        self.note_counted(verdict, decided);
    }

    /// Notes which policies counted the request: those that admitted it, if it was admitted, and those that
    /// count all requests.
    fn note_counted(&self, verdict: &Verdict, decided: &mut Decided) {
        for ((owner, check), answer) in self.owners.iter().zip(&self.checks).zip(&verdict.answers) {
            let policy = &mut decided.policies[usize::from(owner.of)];
            let is_real = check.mode != CheckMode::Candidate && answer.decision.is_some();
            let has_admitted = matches!(
                policy.outcome,
                PolicyOutcome::Admitted | PolicyOutcome::Unanswered
            );
            let counts = check.quota.count == Count::All || verdict.admit && has_admitted;
            policy.is_counted |= is_real && counts;
        }
        for policy in &mut decided.policies {
            // A request that another policy refuses is not billed.
            if policy.outcome == PolicyOutcome::Marked && !verdict.admit && !policy.is_counted {
                policy.cost = 0;
            }
        }
    }

    /// Notes that the store could not answer.
    pub(super) fn note_unanswered(&self, decided: &mut Decided) {
        for owner in &self.owners {
            decided.policies[usize::from(owner.of)].outcome = PolicyOutcome::Unanswered;
        }
        decided.is_degraded = true;
    }
}

/// Returns the outcome of a policy after one more answer of its quotas.
fn outcome_after(
    so_far: PolicyOutcome,
    answer: &CheckResult,
    mode: PolicyMode,
    is_degraded: bool,
) -> PolicyOutcome {
    match answer.decision {
        // If another quota of the policy refused or marked the request, that stays so.
        None if so_far != PolicyOutcome::Admitted => so_far,
        None if is_degraded => PolicyOutcome::Unanswered,
        None => PolicyOutcome::NotAsked,
        Some(decision) if decision.admit => so_far,
        Some(_) => refusal(mode, PolicyOutcome::Refused),
    }
}

/// Returns the outcome under a policy of this mode for a request that an enforced one refuses with `enforced`.
fn refusal(mode: PolicyMode, enforced: PolicyOutcome) -> PolicyOutcome {
    match mode {
        PolicyMode::Enforce => enforced,
        PolicyMode::Shadow => PolicyOutcome::ShadowRefused,
        PolicyMode::Mark => PolicyOutcome::Marked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;
    use crate::limit::{Decision, Retry};

    #[test]
    fn a_quota_that_was_not_asked_hides_no_refusal_and_no_mark() {
        let answer = |admit: Option<bool>| CheckResult {
            decision: admit.map(|admit| Decision {
                admit,
                remaining: 0,
                debt: 0,
                next: None,
                reset: Micros(0),
                retry: Retry::NOW,
                wait: Micros(0),
            }),
            charged: None,
        };
        let (yes, no, none) = (Some(true), Some(false), None);
        let (enforce, mark) = (PolicyMode::Enforce, PolicyMode::Mark);
        for (mode, is_degraded, answers, outcome) in [
            (enforce, true, [no, none], PolicyOutcome::Refused),
            (enforce, true, [none, no], PolicyOutcome::Refused),
            (mark, true, [no, none], PolicyOutcome::Marked),
            (enforce, true, [yes, none], PolicyOutcome::Unanswered),
            (enforce, false, [yes, none], PolicyOutcome::NotAsked),
            (enforce, false, [no, none], PolicyOutcome::Refused),
            (enforce, false, [yes, yes], PolicyOutcome::Admitted),
        ] {
            let found = answers.iter().fold(PolicyOutcome::Admitted, |so_far, one| {
                outcome_after(so_far, &answer(*one), mode, is_degraded)
            });
            assert_eq!(found, outcome, "{mode:?} {is_degraded} {answers:?}");
        }
    }
}
