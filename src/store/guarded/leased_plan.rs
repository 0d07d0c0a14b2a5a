//! Plans with leased policies: held units pay for their leased checks, and the other checks are decided as usual.
//!
//! Held units pay for all leased checks of a plan, or for none.

use std::rc::Rc;
use std::time::Duration;

use super::cross_slot;
use super::leases::LeaseTerms;
use super::leasing::{Leasing, Supply};
use super::paid_checks::{PaidChecks, Payment};
use super::refusals::{Recalled, Recollection, counts_refused, refusal};
use crate::clock::monotonic;
use crate::limit::plan::CheckMode;
use crate::limit::{Check, Consistency, Verdict};
use crate::store::outcome::{PendingVerdict, StoreVerdict};

/// Says whether a plan has leased policies.
pub(super) fn has_leases(plan: &[Check<'_>]) -> bool {
    plan.iter()
        .any(|check| matches!(check.consistency, Consistency::Leased(_)))
}

impl Leasing {
    /// Decides a plan with leased policies; otherwise like [`Decider::begin`](super::decider::Decider::begin).
    pub(super) fn begin<'p>(
        self: &'p Rc<Self>,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        let terms = self.decider.remote.store().lease_terms();
        if let Some(paid) = self.pay(plan, &terms) {
            return self.begin_rest(paid, Duration::ZERO, outcome);
        }
        match self.decider.recall(plan, true) {
            Recalled::Refused(verdict) => *outcome = StoreVerdict::without_charge(verdict),
            Recalled::Due => {
                return Some(Box::pin(async {
                    let outcome = self.decider.decide_due(plan, Duration::ZERO).await;
                    self.note_decided(plan, &outcome);
                    outcome
                }));
            }
            Recalled::Nothing => {
                let Some(verdict) = self.refuse_scarce(plan, &terms) else {
                    return Some(Box::pin(self.decide_unpaid(plan, terms)));
                };
                *outcome = StoreVerdict::without_charge(verdict);
            }
        }
        None
    }

    /// Says whether enough units are held for any leased check of a plan, whatever Redis has refused.
    pub(super) fn holds_any(&self, plan: &[Check<'_>]) -> bool {
        let store = self.decider.remote.store();
        let terms = store.lease_terms();
        let mut leased = plan.iter().filter(|check| terms.leases(check));
        leased.any(|check| store.leases.holds(check, terms.now))
    }

    /// Pays for the leased checks of a plan with held units; none if it has no such checks, or too few units are held
    /// for one. If few units are left, buys the next ones.
    fn pay<'a, 's>(
        self: &'a Rc<Self>,
        plan: &'a [Check<'s>],
        terms: &LeaseTerms,
    ) -> Option<PaidChecks<'a, 's>> {
        let mut paid = PaidChecks::new(&self.decider, plan);
        let (leases, mut is_low) = (&self.decider.remote.store().leases, false);
        for (place, check) in plan.iter().enumerate() {
            if terms.leases(check) {
                let spent = leases.spend(check, terms.now)?;
                is_low |= spent.is_low;
                paid.pay(place, Payment::Leased(spent));
            }
        }
        if is_low {
            drop(self.buy(plan, terms));
        }
        (!paid.is_empty()).then_some(paid)
    }

    /// Decides the checks of a plan that are not paid, for a request that has already waited for `waited`; otherwise
    /// like [`Decider::begin`](super::decider::Decider::begin).
    fn begin_rest<'p>(
        self: &'p Rc<Self>,
        paid: PaidChecks<'p, 'p>,
        waited: Duration,
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        if paid.is_whole() {
            *outcome = paid.join(StoreVerdict::default());
            return None;
        }
        let rest = paid.rest();
        let is_due = match self.decider.recall(&rest, true) {
            Recalled::Refused(verdict) => {
                *outcome = paid.join(StoreVerdict::without_charge(verdict));
                return None;
            }
            Recalled::Due => true,
            Recalled::Nothing => false,
        };
        Some(Box::pin(async move {
            let decided = if is_due {
                self.decider.decide_due(&rest, waited).await
            } else {
                self.decider.decide(&rest, waited).await
            };
            paid.join(decided)
        }))
    }

    /// Decides a plan for which too few units are held: with units that are bought for it if its clients are busy,
    /// otherwise exactly, by Redis.
    async fn decide_unpaid<'p>(
        self: &'p Rc<Self>,
        plan: &'p [Check<'p>],
        terms: LeaseTerms,
    ) -> StoreVerdict {
        let began = monotonic();
        let bought = self.buy(plan, &terms);
        // If Redis is far away, the request does not wait for the purchase: it asks by itself meanwhile.
        let round_trips = if cross_slot::is_cross_slot(&self.decider.remote, plan) {
            2
        } else {
            1
        };
        let spare = self.decider.remote.time_to_spare(&plan[0], round_trips);
        let is_near = spare > self.decider.remote.round_trip(&plan[0]);
        if let Some(bought) = bought.filter(|_| is_near) {
            let _ = tokio::time::timeout(spare, bought).await;
            let terms = self.decider.remote.store().lease_terms();
            if let Some(paid) = self.pay(plan, &terms) {
                let mut outcome = StoreVerdict::default();
                return match self.begin_rest(paid, monotonic() - began, &mut outcome) {
                    Some(asked) => asked.await,
                    None => outcome,
                };
            }
            if let Some(verdict) = self.refuse_scarce(plan, &terms) {
                return StoreVerdict::without_charge(verdict);
            }
        }
        let outcome = self.decider.decide(plan, monotonic() - began).await;
        self.note_decided(plan, &outcome);
        outcome
    }

    /// Notes Redis' answers about clients whose units may be bought ahead.
    fn note_decided(&self, plan: &[Check<'_>], outcome: &StoreVerdict) {
        let StoreVerdict::Decided {
            verdict,
            is_degraded: false,
            ..
        } = outcome
        else {
            return;
        };
        let store = self.decider.remote.store();
        let terms = store.lease_terms();
        for (check, answer) in plan.iter().zip(&verdict.answers) {
            match (answer.decision, answer.charged) {
                (Some(decision), Some(_)) => store.leases.note(check, decision, &terms),
                (Some(decision), None) => store.leases.answered(check, decision, terms.now),
                (None, _) => {}
            }
        }
    }

    /// Refuses a plan of a busy client while its units are left to gather; none if they are not.
    fn refuse_scarce(&self, plan: &[Check<'_>], terms: &LeaseTerms) -> Option<Verdict> {
        if !terms.may_buy || plan.iter().any(counts_refused) {
            return None;
        }
        let leases = &self.decider.remote.store().leases;
        let mut scarce = Recollection::new();
        for (place, check) in plan.iter().enumerate() {
            if check.mode != CheckMode::Enforce || !terms.leases(check) {
                continue;
            }
            let missing = leases.missing(check, terms.now);
            if missing > 0
                && let Supply::Gathers(decision) = self.supply(check, missing, terms)
            {
                scarce.push((place, decision));
            }
        }
        if scarce.is_empty() {
            return None;
        }
        self.decider.remote.metrics().remembered();
        Some(refusal(plan, &scarce))
    }
}
