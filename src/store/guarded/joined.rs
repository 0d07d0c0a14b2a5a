//! Joins the parts of a plan that were decided separately, in Redis or in its place, all or nothing.
//!
//! If one part refuses, what the others spent is given back. Until then other requests may be refused too early, but
//! none is admitted that should be refused.

use smallvec::SmallVec;

use super::asks::PlanUnitRequests;
use super::followed::is_synced;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::Micros;
use crate::limit::plan::{CheckMode, RefusingPolicies};
use crate::limit::{Adjustment, Check, Count, Decision, Plan, Verdict};
use crate::store::charge::{Charge, ChargeEntry};
use crate::store::outcome::StoreVerdict;

/// Some checks of a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanPart<'s> {
    pub(super) checks: Plan<'s>,
    /// The places of these checks in the plan.
    pub(super) places: SmallVec<[usize; 4]>,
}

/// A plan whose parts are decided separately.
pub(super) struct JoinedPlan<'p, 's> {
    plan: &'p [Check<'s>],
    parts: Vec<DecidedPart>,
    /// Whether a part cannot be decided.
    is_unavailable: bool,
}

/// A part that was decided.
struct DecidedPart {
    places: SmallVec<[usize; 4]>,
    verdict: Verdict,
    charge: Charge,
    is_degraded: bool,
}

impl<'s> PlanPart<'s> {
    /// Returns a whole plan as one part.
    pub(super) fn whole(plan: &[Check<'s>]) -> Self {
        Self {
            checks: plan.iter().copied().collect(),
            places: (0..plan.len()).collect(),
        }
    }

    pub(super) fn push(&mut self, place: usize, check: Check<'s>) {
        self.places.push(place);
        self.checks.push(check);
    }
}

/// Makes the outcome of a plan that Redis decided as a whole.
pub(super) fn decided(plan: &[Check<'_>], verdict: Verdict) -> StoreVerdict {
    StoreVerdict::Decided {
        charge: charge(plan, &verdict),
        verdict,
        is_degraded: false,
    }
}

/// Returns what Redis charged for a plan.
pub(super) fn charge(plan: &[Check<'_>], verdict: &Verdict) -> Charge {
    let checks = plan.iter().zip(&verdict.answers);
    Charge {
        entries: checks
            .map(|(check, answer)| match answer.charged {
                Some(charged) if is_synced(check) => ChargeEntry::followed(check, charged),
                charged => ChargeEntry::in_redis(check, charged),
            })
            .collect(),
        late: None,
    }
}

impl<'p, 's> JoinedPlan<'p, 's> {
    pub(super) fn new(plan: &'p [Check<'s>]) -> Self {
        Self {
            plan,
            parts: Vec::new(),
            is_unavailable: false,
        }
    }

    /// Adds a part that Redis decided. Checks for which Redis has no memory are decided here.
    pub(super) fn add_redis(
        &mut self,
        remote: &Remote,
        part: PlanPart<'_>,
        verdict: Verdict,
        mut asks: PlanUnitRequests<'_>,
    ) {
        asks.answered(part.places.iter().copied(), &verdict.answers);
        let Verdict {
            admit,
            retry,
            wait,
            answers,
        } = verdict;
        let (mut there, mut here) = (PlanPart::default(), PlanPart::default());
        let mut kept = SmallVec::new();
        for ((&place, check), answer) in part.places.iter().zip(part.checks).zip(answers) {
            if answer.decision.is_some() {
                there.push(place, check);
                kept.push(answer);
            } else {
                here.push(place, check);
            }
        }
        let verdict = Verdict {
            admit,
            retry,
            wait,
            answers: kept,
        };
        self.parts.push(DecidedPart {
            charge: charge(&there.checks, &verdict),
            places: there.places,
            verdict,
            is_degraded: false,
        });
        if !here.checks.is_empty() {
            self.add_own(remote, here, asks);
        }
    }

    /// Adds a part that is decided here, in place of Redis.
    pub(super) fn add_own(
        &mut self,
        remote: &Remote,
        part: PlanPart<'_>,
        mut asks: PlanUnitRequests<'_>,
    ) {
        match remote.store().fallback().decide(&part.checks) {
            StoreVerdict::Decided {
                verdict,
                mut charge,
                ..
            } => {
                asks.answered_here(part.places.iter().copied(), &verdict, &mut charge);
                self.parts.push(DecidedPart {
                    places: part.places,
                    verdict,
                    charge,
                    is_degraded: true,
                });
            }
            StoreVerdict::Unavailable { .. } => self.is_unavailable = true,
        }
    }

    /// Returns what was decided of each check, by place.
    pub(super) fn decisions(&self) -> SmallVec<[Option<Decision>; 4]> {
        let mut decisions: SmallVec<_> = self.plan.iter().map(|_| None).collect();
        for part in &self.parts {
            for (&place, answer) in part.places.iter().zip(&part.verdict.answers) {
                decisions[place] = answer.decision;
            }
        }
        decisions
    }

    /// Returns the outcome of the whole plan. If it is not admitted, what its parts spent is given back.
    pub(super) fn finish(mut self, remote: &Remote, settlements: &SettlementQueue) -> StoreVerdict {
        if self.is_unavailable {
            for part in self.parts {
                settlements.give_back(remote, part.charge);
            }
            return unavailable(remote);
        }
        let admit = self.parts.iter().all(|part| part.verdict.admit);
        let decisions = self.decisions();
        let refusals = RefusingPolicies::of(self.plan, |index| fits(self.plan, &decisions, index));
        let mut joined = Verdict::unanswered(self.plan);
        joined.admit = admit;
        let (mut charge, mut is_any_degraded) = (Charge::default(), false);
        for part in &mut self.parts {
            if admit {
                joined.wait = joined.wait.max(part.verdict.wait);
            } else {
                part.undo(self.plan, refusals, remote, settlements);
            }
            joined.retry = joined.retry.max(part.verdict.retry);
            for (&place, answer) in part.places.iter().zip(&part.verdict.answers) {
                joined.answers[place] = *answer;
            }
            charge.entries.append(&mut part.charge.entries);
            is_any_degraded |= part.is_degraded;
        }
        StoreVerdict::Decided {
            verdict: joined,
            charge,
            is_degraded: is_any_degraded,
        }
    }
}

impl DecidedPart {
    /// Gives back what this part spent, because another part refuses.
    fn undo(
        &mut self,
        plan: &[Check<'_>],
        refusals: RefusingPolicies,
        remote: &Remote,
        settlements: &SettlementQueue,
    ) {
        self.verdict.admit = false;
        let (mut back, mut entries) = (Charge::default(), self.charge.entries.iter_mut());
        for (&place, answer) in self.places.iter().zip(&mut self.verdict.answers) {
            // A check that is not counted has neither a decision nor an entry.
            let Some(decision) = &mut answer.decision else {
                continue;
            };
            decision.wait = Micros(0);
            let (charged, entry) = (answer.charged.take(), entries.next());
            let (Some(charged), Some(entry)) = (charged, entry) else {
                continue;
            };
            if comes_back(&plan[place], refusals) {
                let all = Adjustment::GiveBack(charged.amount);
                *decision = all.adjusted(*decision, &entry.quota, charged.amount);
                back.entries.push(*entry);
            }
            entry.charged = None;
        }
        // Units that are held without Redis have entries after those of the answers.
        for entry in entries {
            back.entries.push(*entry);
            entry.charged = None;
        }
        settlements.give_back(remote, back);
    }
}

/// Says whether the cost of the check at `index` fits; a check that is not counted has no decision.
pub(super) fn fits(plan: &[Check<'_>], decisions: &[Option<Decision>], index: usize) -> bool {
    match decisions[index] {
        Some(decision) => decision.admit,
        // A check that is not counted takes nothing that another one refuses.
        None => plan[index].mode != CheckMode::Spill,
    }
}

/// Says whether what a quota was charged is given back if these policies refuse the plan.
fn comes_back(check: &Check<'_>, refusals: RefusingPolicies) -> bool {
    check.quota.count == Count::Admitted && !refusals.lets_count(check)
}

pub(super) fn unavailable(remote: &Remote) -> StoreVerdict {
    StoreVerdict::Unavailable {
        retry: remote.store().servers.cooldown(),
    }
}
