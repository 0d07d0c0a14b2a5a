//! Checks of a plan that this gateway decides by itself, before Redis is asked about the others. If the others refuse
//! the plan, what was spent for it is put back.

use smallvec::SmallVec;

use super::decider::Decider;
use super::followed::CountedUnits;
use super::leases::SpentUnits;
use crate::limit::plan::{CheckMode, PlanPolicy};
use crate::limit::{Adjustment, Charged, Check, CheckResult, Decision, Plan, Verdict};
use crate::store::charge::{Charge, ChargeEntry};
use crate::store::outcome::StoreVerdict;

/// Checks that are paid here. Payments that are not kept when this is dropped are put back.
pub(super) struct PaidChecks<'a, 's> {
    decider: &'a Decider,
    plan: &'a [Check<'s>],
    parts: SmallVec<[PaidCheck; 2]>,
}

/// What a check is paid with.
#[derive(Clone, Copy)]
pub(super) enum Payment {
    /// Units that were held ahead.
    Leased(SpentUnits),
    /// Units of a synced quota, which this gateway counts.
    Counted(CountedUnits),
}

/// A check that is paid.
struct PaidCheck {
    place: usize,
    payment: Payment,
}

impl<'a, 's> PaidChecks<'a, 's> {
    /// Begins to pay for a plan.
    pub(super) fn new(decider: &'a Decider, plan: &'a [Check<'s>]) -> Self {
        Self {
            decider,
            plan,
            parts: SmallVec::new(),
        }
    }

    /// Pays for the next check, which is at `place`.
    pub(super) fn pay(&mut self, place: usize, payment: Payment) {
        self.parts.push(PaidCheck { place, payment });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Says whether all of the plan is paid.
    pub(super) fn is_whole(&self) -> bool {
        self.parts.len() == self.plan.len()
    }

    /// Returns the checks that are not paid.
    pub(super) fn rest(&self) -> Plan<'s> {
        let checks = self.plan.iter().enumerate();
        let rest = checks.filter(|(place, _)| !self.is_paid(*place));
        rest.map(|(_, check)| *check).collect()
    }

    fn is_paid(&self, place: usize) -> bool {
        self.parts.iter().any(|part| part.place == place)
    }

    /// Returns the outcome of the whole plan; `rest` is the outcome of the checks that are not paid.
    pub(super) fn join(mut self, rest: StoreVerdict) -> StoreVerdict {
        let (verdict, mut charge, is_degraded) = match rest {
            StoreVerdict::Decided {
                verdict,
                charge,
                is_degraded,
            } => (verdict, charge, is_degraded),
            unavailable @ StoreVerdict::Unavailable { .. } => return unavailable,
        };
        let is_degraded = is_degraded || self.parts.iter().any(PaidCheck::is_alone);
        let (mut parts, mut others) = (self.parts.iter(), verdict.answers.into_iter());
        let answers = (0..self.plan.len()).map(|place| {
            if self.is_paid(place) {
                parts.next().map(|part| self.answer(part, verdict.admit))
            } else {
                others.next()
            }
        });
        let mut verdict = Verdict {
            answers: answers.map(Option::unwrap_or_default).collect(),
            ..verdict
        };
        if verdict.admit {
            if self.parts.iter().any(PaidCheck::is_leased) {
                self.decider.remote.metrics().leased();
            }
            let refusing = self.refusing_trials(&verdict);
            for part in std::mem::take(&mut self.parts) {
                let (place, check) = (part.place, &self.plan[part.place]);
                if refusing.contains(&check.policy) {
                    verdict.answers[place] = self.answer(&part, false);
                    self.parts.push(part);
                } else {
                    charge.entries.extend(part.entry(check));
                }
            }
        }
        StoreVerdict::Decided {
            verdict,
            charge,
            is_degraded,
        }
    }

    /// Returns the policies on trial of which a quota refuses: none of their quotas are charged.
    fn refusing_trials(&self, verdict: &Verdict) -> SmallVec<[PlanPolicy; 2]> {
        let checks = self.plan.iter().zip(&verdict.answers);
        let refusing = checks.filter(|(check, answer)| {
            let refuses = answer.decision.is_some_and(|decision| !decision.admit);
            check.mode == CheckMode::Shadow && refuses
        });
        refusing.map(|(check, _)| check.policy).collect()
    }

    /// Returns the answer of a paid check. If the plan is refused, it is as if the units had been given back.
    fn answer(&self, part: &PaidCheck, admit: bool) -> CheckResult {
        let (decision, charged) = (part.decision(), part.charged());
        let decision = match charged {
            Some(charged) if !admit => {
                let all = Adjustment::GiveBack(charged.amount);
                all.adjusted(decision, self.plan[part.place].quota, charged.amount)
            }
            _ => decision,
        };
        CheckResult {
            decision: Some(decision),
            charged: charged.filter(|_| admit),
        }
    }

    fn put_back(&self, part: &PaidCheck) {
        let check = &self.plan[part.place];
        let Decider {
            remote,
            settlements,
        } = self.decider;
        match part.payment {
            Payment::Leased(spent) => {
                let (store, now) = (remote.store(), remote.store().clock.steady());
                let is_forgotten = |charged: &Charged| store.was_reset_since(check, charged);
                let back = (store.leases).put_back(check, &spent, now, is_forgotten);
                self.decider.give_back_units(back);
            }
            Payment::Counted(_) => settlements.give_back(
                remote,
                Charge {
                    entries: part.entry(check).into_iter().collect(),
                    late: None,
                },
            ),
        }
    }
}

impl Drop for PaidChecks<'_, '_> {
    fn drop(&mut self) {
        for part in &self.parts {
            self.put_back(part);
        }
    }
}

impl PaidCheck {
    fn decision(&self) -> Decision {
        match self.payment {
            Payment::Leased(spent) => spent.decision,
            Payment::Counted(counted) => counted.decision,
        }
    }

    /// Returns what was spent; none for a check on trial that refuses.
    fn charged(&self) -> Option<Charged> {
        match self.payment {
            Payment::Leased(spent) => Some(spent.charged),
            Payment::Counted(counted) => counted.charged,
        }
    }

    /// Returns the entry by which the payment is settled; none if nothing was spent.
    fn entry(&self, check: &Check<'_>) -> Option<ChargeEntry> {
        let charged = self.charged()?;
        Some(match self.payment {
            Payment::Leased(_) => ChargeEntry::in_redis(check, Some(charged)),
            Payment::Counted(_) => ChargeEntry::followed(check, charged),
        })
    }

    fn is_leased(&self) -> bool {
        matches!(self.payment, Payment::Leased(_))
    }

    /// Says whether the check was decided without the other gateways.
    fn is_alone(&self) -> bool {
        matches!(self.payment, Payment::Counted(counted) if counted.is_alone)
    }
}
