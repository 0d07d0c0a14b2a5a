//! Plans whose partitions are in several slots of a Cluster.
//!
//! Each part is decided by itself, all at the same time. If one refuses, what the others spent is
//! given back. Until then other requests may be refused early; none is admitted late.

use std::rc::Rc;

use futures_util::future::join_all;
use smallvec::{SmallVec, smallvec};

use super::fallback::{UNCOUNTED, is_closed};
use super::owned_plan::OwnedPlan;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::Micros;
use crate::limit::after_release::after_release;
use crate::limit::{Check, Count, Plan, Retry, Verdict};
use crate::store::charge::{Charge, ChargeEntry};
use crate::store::outcome::Outcome;

/// The checks of a plan that are in one slot.
pub(super) struct PlanPart<'s> {
    pub(super) checks: Plan<'s>,
    /// The places of these checks in the plan.
    pub(super) places: SmallVec<[usize; 4]>,
}

/// A part that was decided.
struct DecidedPart<'p, 's> {
    part: &'p PlanPart<'s>,
    verdict: Verdict,
    charge: Charge,
    is_degraded: bool,
}

/// Says whether a plan is in several slots, so that no one step can decide it.
pub(super) fn is_cross_slot(remote: &Remote, plan: &[Check<'_>]) -> bool {
    plan.split_first().is_some_and(|(first, rest)| {
        (rest.iter()).any(|check| remote.is_cross_slot(first.partition_id, check.partition_id))
    })
}

/// Decides the parts of a plan, all or nothing.
///
/// A task of its own does it, because it must go on if the client leaves: only the answers say what
/// the parts spent, and if one refuses, the others have to come back.
pub(super) async fn decide(
    remote: &Rc<Remote>,
    settlements: &Rc<SettlementQueue>,
    plan: &[Check<'_>],
) -> Outcome {
    let owned = OwnedPlan::of(plan);
    let (own_remote, own_settlements) = (Rc::clone(remote), Rc::clone(settlements));
    let deciding = tokio::task::spawn_local(async move {
        decide_parts(&own_remote, &own_settlements, &owned.plan()).await
    });
    deciding.await.unwrap_or_else(|_| unavailable(remote))
}

/// Decides all parts at the same time, and joins their answers.
async fn decide_parts(
    remote: &Remote,
    settlements: &SettlementQueue,
    plan: &[Check<'_>],
) -> Outcome {
    let parts = parts(remote, plan);
    let is_lost = |part: &PlanPart<'_>| {
        part.checks.iter().any(is_closed) && remote.is_barred(&part.checks[0])
    };
    if parts.iter().any(is_lost) {
        // The plan is lost, so the other parts need not be charged.
        return unavailable(remote);
    }
    let now = remote.store().clock.now();
    let deciding = (parts.iter()).map(|part| remote.decide(&part.checks, now));
    let outcomes = join_all(deciding).await;
    let mut decided = Vec::with_capacity(parts.len());
    for (part, outcome) in parts.iter().zip(outcomes) {
        if let Outcome::Decided {
            verdict,
            charge,
            is_degraded,
        } = outcome
        {
            decided.push(DecidedPart {
                part,
                verdict,
                charge,
                is_degraded,
            });
        }
    }
    if decided.len() < parts.len() {
        for part in decided {
            settlements.release(remote, part.charge, u64::MAX);
        }
        return unavailable(remote);
    }
    if !decided.iter().all(|part| part.verdict.admit) {
        for part in &mut decided {
            part.undo(remote, settlements);
        }
    }
    join(plan, decided)
}

impl DecidedPart<'_, '_> {
    /// Gives back what this part spent, because another part refuses. A quota that counts refused
    /// requests stays charged.
    fn undo(&mut self, remote: &Remote, settlements: &SettlementQueue) {
        let was_admitted = std::mem::replace(&mut self.verdict.admit, false);
        let mut entries = self.charge.entries.iter();
        for answer in &mut self.verdict.answers {
            let charged = answer.charged.take();
            if let (Some(decision), Some(entry)) = (&mut answer.decision, entries.next()) {
                decision.wait = Micros(0);
                if let Some(charged) = charged.filter(|_| comes_back(entry)) {
                    *decision = after_release(*decision, &entry.quota, charged.amount);
                }
            }
        }
        if was_admitted {
            let entries = std::mem::take(&mut self.charge.entries);
            let (back, mut stays): (SmallVec<_>, SmallVec<_>) =
                entries.into_iter().partition(comes_back);
            settlements.release(remote, Charge { entries: back }, u64::MAX);
            stays.iter_mut().for_each(|entry| entry.charged = None);
            self.charge.entries = stays;
        }
    }
}

/// Says whether what a quota was charged comes back if the plan is refused.
fn comes_back(entry: &ChargeEntry) -> bool {
    entry.quota.count == Count::Admitted
}

/// Joins the answers of all parts in the plan's order.
fn join(plan: &[Check<'_>], parts: Vec<DecidedPart<'_, '_>>) -> Outcome {
    let admit = parts.iter().all(|part| part.verdict.admit);
    let mut joined = Verdict {
        admit,
        retry: Retry::NOW,
        wait: Micros(0),
        answers: plan.iter().map(|_| UNCOUNTED).collect(),
    };
    let (mut charge, mut is_any_degraded) = (Charge::default(), false);
    for decided in parts {
        joined.retry = joined.retry.max(decided.verdict.retry);
        joined.wait = joined.wait.max(decided.verdict.wait);
        for (&place, answer) in decided.part.places.iter().zip(decided.verdict.answers) {
            joined.answers[place] = answer;
        }
        charge.entries.extend(decided.charge.entries);
        is_any_degraded |= decided.is_degraded;
    }
    if !admit {
        joined.wait = Micros(0);
    }
    Outcome::Decided {
        verdict: joined,
        charge,
        is_degraded: is_any_degraded,
    }
}

/// Splits a plan by slot; each part is in the plan's order.
pub(super) fn parts<'s>(remote: &Remote, plan: &[Check<'s>]) -> Vec<PlanPart<'s>> {
    let mut parts: Vec<PlanPart<'s>> = Vec::new();
    for (place, check) in plan.iter().enumerate() {
        let is_of = |part: &&mut PlanPart<'_>| {
            !remote.is_cross_slot(part.checks[0].partition_id, check.partition_id)
        };
        match parts.iter_mut().find(is_of) {
            Some(part) => {
                part.checks.push(*check);
                part.places.push(place);
            }
            None => parts.push(PlanPart {
                checks: smallvec![*check],
                places: smallvec![place],
            }),
        }
    }
    parts
}

fn unavailable(remote: &Remote) -> Outcome {
    Outcome::Unavailable {
        retry: remote.store().cooldown(),
    }
}
