//! Plans whose partitions are in several slots of a Cluster, so that no single step can decide them.
//!
//! First all partitions are peeked at, in parallel. Only if every one admits are they charged, again in parallel; so a
//! request that is refused takes nothing from others, not even for a moment. If another request comes between peek and
//! charge, a charge may still refuse: then what the other parts spent is given back. Peek and charge share one
//! `timeout`; a part whose peek is late is not charged in Redis.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;

use super::abandoned::{AwaitedOutcome, LateAnswers};
use super::asks::{self, PlanUnitRequests};
use super::call_metrics::Unanswered;
use super::fallback::is_closed;
use super::joined::{JoinedPlan, PlanPart, fits, unavailable};
use super::owned_plan::OwnedPlan;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{CheckMode, OnStoreFailure, RefusingPolicies, is_punished, spills};
use crate::limit::{Check, CheckResult, Count, Decision, Verdict};
use crate::store::charge::Charge;
use crate::store::outcome::StoreVerdict;

/// A plan whose parts have been peeked at.
struct PeekedPlan<'p, 's> {
    plan: &'p [Check<'s>],
    parts: Vec<PeekedPart<'s>>,
    /// What each check would be answered, by its place in the plan; none for a check that is not counted.
    decisions: SmallVec<[Option<Decision>; 4]>,
    /// Whether Redis did not answer some check.
    is_degraded: bool,
    /// Whether Redis did not answer a check that cannot be decided without it.
    is_lost: bool,
}

/// A part of a plan, and whether Redis answered its peek: if not, the part is decided here.
type PeekedPart<'s> = (PlanPart<'s>, bool);

/// Says whether a plan's partitions are in several slots.
pub(super) fn is_cross_slot(remote: &Remote, plan: &[Check<'_>]) -> bool {
    plan.split_first().is_some_and(|(first, rest)| {
        (rest.iter()).any(|check| remote.is_cross_slot(first.partition_id, check.partition_id))
    })
}

/// Decides the parts of a plan, all or nothing.
///
/// `waited` is how long the request has waited already. A separate task decides, because it must go on if the client
/// leaves: only the answers say what the parts spent, and if one refuses, the others have to be given back.
pub(super) async fn decide(
    remote: &Rc<Remote>,
    settlements: &Rc<SettlementQueue>,
    plan: &[Check<'_>],
    waited: Duration,
) -> StoreVerdict {
    let owned = OwnedPlan::of(plan);
    let (own_remote, own_settlements) = (Rc::clone(remote), Rc::clone(settlements));
    let deciding =
        async move { decide_parts(&own_remote, &own_settlements, &owned.plan(), waited).await };
    let outcome = AwaitedOutcome::of(remote, settlements, deciding)
        .get()
        .await;
    outcome.unwrap_or_else(|| unavailable(remote))
}

/// Peeks at all parts, and charges them if all admit.
async fn decide_parts(
    remote: &Rc<Remote>,
    settlements: &Rc<SettlementQueue>,
    plan: &[Check<'_>],
    waited: Duration,
) -> StoreVerdict {
    let began = remote.store().clock.now();
    let began = Timestamp(began.0.saturating_sub(Micros::from(waited).0));
    let parts = parts(remote, plan);
    let is_lost = |part: &PlanPart<'_>| {
        part.checks.iter().any(is_closed) && remote.is_barred(part.checks[0].partition_id)
    };
    if parts.iter().any(is_lost) {
        // The plan cannot be decided, so the other parts need not be asked.
        return unavailable(remote);
    }
    let timeout = asks::wait_for_announcements(remote, plan, 2).await;
    let timeout = timeout.min(remaining(remote, began));
    let mut peeked = PeekedPlan::peek(remote, plan, parts, timeout).await;
    let timeout = remaining(remote, began);
    if peeked.is_lost {
        return unavailable(remote);
    }
    let refusals = peeked.refusals();
    if refusals != RefusingPolicies::None {
        (peeked.count_refused(remote, settlements, refusals, timeout)).await;
        return peeked.refuse();
    }
    let late = LateAnswers::new(remote, settlements);
    let parts = peeked.parts;
    let joined = charge(remote, settlements, plan, parts, timeout, Some(&late)).await;
    late.join(joined.finish(remote, settlements))
}

/// Charges parts of a plan in parallel; a part that Redis does not answer is decided here. `late` reads answers that
/// come after the deadline; without it, what they charged stays spent.
async fn charge<'p, 's>(
    remote: &Remote,
    settlements: &SettlementQueue,
    plan: &'p [Check<'s>],
    parts: Vec<PeekedPart<'s>>,
    timeout: Duration,
    late: Option<&LateAnswers<'_>>,
) -> JoinedPlan<'p, 's> {
    let sent = remote.store().clock.now();
    let charging = parts.iter().map(async |(part, is_answered)| {
        let late_reader =
            |given_up| late.map(|late| late.reader(&part.checks, sent, given_up, false));
        let places = part.places.iter().copied();
        let mut asks = PlanUnitRequests::begin(remote, settlements, &part.checks, places);
        let charged = if *is_answered {
            let asked = (&part.checks[..], asks.asking());
            remote.charge(asked, (sent, timeout), &late_reader).await
        } else {
            Err(Unanswered::Unsent)
        };
        let verdict = charged.map_err(|why| asks.unanswered(why)).ok();
        (verdict, asks)
    });
    let charged = join_all(charging).await;
    let mut joined = JoinedPlan::new(plan);
    for ((part, _), (verdict, asks)) in parts.into_iter().zip(charged) {
        match verdict {
            Some(verdict) => joined.add_redis(remote, part, verdict, asks),
            None => joined.add_own(remote, part, asks),
        }
    }
    joined
}

impl<'p, 's> PeekedPlan<'p, 's> {
    async fn peek(
        remote: &Rc<Remote>,
        plan: &'p [Check<'s>],
        parts: Vec<PlanPart<'s>>,
        timeout: Duration,
    ) -> Self {
        let peeks = parts.iter().map(|part| remote.peek(&part.checks, timeout));
        let peeks = join_all(peeks).await;
        let mut peeked = Self {
            plan,
            parts: Vec::with_capacity(parts.len()),
            decisions: plan.iter().map(|_| None).collect(),
            is_degraded: false,
            is_lost: false,
        };
        for (part, peeks) in parts.into_iter().zip(peeks) {
            let is_answered = peeks.is_ok();
            for (&place, peek) in part.places.iter().zip(peeks.into_iter().flatten()) {
                peeked.decisions[place] = peek;
            }
            peeked.parts.push((part, is_answered));
        }
        if peeked.decisions.iter().any(Option::is_none) {
            peeked.fill_in(remote);
        }
        peeked
    }

    /// Peeks in this node's own counts for the checks that Redis did not answer.
    fn fill_in(&mut self, remote: &Remote) {
        let own = remote.store().fallback().peek(self.plan);
        let decisions = self.decisions.iter_mut().zip(own).zip(self.plan);
        for ((decision, own), check) in decisions.filter(|((decision, _), _)| decision.is_none()) {
            self.is_degraded = true;
            self.is_lost |= is_closed(check);
            *decision = (check.on_store_failure == OnStoreFailure::Local).then_some(own);
        }
    }

    /// Says which policies refuse.
    fn refusals(&self) -> RefusingPolicies {
        RefusingPolicies::of(self.plan, |index| fits(self.plan, &self.decisions, index))
    }

    /// Charges what counts although the plan is refused: quotas that count refused requests, too, and candidates that
    /// count this one. Begins the penalties for the quotas that refuse.
    async fn count_refused(
        &mut self,
        remote: &Remote,
        settlements: &SettlementQueue,
        refusals: RefusingPolicies,
        timeout: Duration,
    ) {
        let counting = self.parts.iter().filter_map(|(part, is_answered)| {
            let mut counted = PlanPart::default();
            for (&place, check) in part.places.iter().zip(&part.checks) {
                if check.quota.is_penalty() {
                    let fits = |index| fits(self.plan, &self.decisions, index);
                    if is_punished(self.plan, place, fits) {
                        counted.push(place, Check { cost: 1, ..*check });
                    }
                } else if check.quota.count == Count::All || refusals.lets_count(check) {
                    counted.push(place, *check);
                }
            }
            (!counted.checks.is_empty()).then_some((counted, *is_answered))
        });
        let counting = counting.collect();
        let charged = charge(remote, settlements, self.plan, counting, timeout, None).await;
        for (decision, charged) in self.decisions.iter_mut().zip(charged.decisions()) {
            *decision = after_charge(*decision, charged);
        }
    }

    /// Returns the outcome of a refused plan. It has no charge, so nothing can be given back.
    fn refuse(self) -> StoreVerdict {
        let mut verdict = Verdict::unanswered(self.plan);
        verdict.admit = false;
        let fits = |index| fits(self.plan, &self.decisions, index);
        for (index, check) in self.plan.iter().enumerate() {
            let Some(mut decision) = self.decisions[index] else {
                continue;
            };
            if !decision.admit && spills(self.plan, index, fits) {
                decision = decision.spilled();
            }
            if check.mode == CheckMode::Enforce && !decision.admit {
                verdict.retry = verdict.retry.max(decision.retry);
            }
            verdict.answers[index] = CheckResult {
                decision: Some(Decision {
                    wait: Micros(0),
                    ..decision
                }),
                charged: None,
            };
        }
        StoreVerdict::Decided {
            verdict,
            charge: Charge::default(),
            is_degraded: self.is_degraded,
        }
    }
}

/// Returns what a refused plan reports of a check that may have been charged after the peek.
///
/// The plan is refused because of the peek. So a check that refused then is reported as refused, even if its charge
/// meets a new window, or is late and decided here.
fn after_charge(peeked: Option<Decision>, charged: Option<Decision>) -> Option<Decision> {
    match (peeked, charged) {
        (Some(peeked), Some(charged)) if !peeked.admit && charged.admit => Some(Decision {
            admit: false,
            retry: peeked.retry,
            ..charged
        }),
        _ => charged.or(peeked),
    }
}

/// Returns how much of its timeout is left to a decision that began at `began`.
fn remaining(remote: &Remote, began: Timestamp) -> Duration {
    let elapsed = Duration::from_micros(remote.store().clock.now().since(began).0);
    remote.store().settings().timeout.saturating_sub(elapsed)
}

/// Splits a plan by slot; each part is in the plan's order.
pub(super) fn parts<'s>(remote: &Remote, plan: &[Check<'s>]) -> Vec<PlanPart<'s>> {
    let mut parts: Vec<PlanPart<'s>> = Vec::new();
    for (place, check) in plan.iter().enumerate() {
        let is_of = |part: &&mut PlanPart<'_>| {
            !remote.is_cross_slot(part.checks[0].partition_id, check.partition_id)
        };
        if let Some(part) = parts.iter_mut().find(is_of) {
            part.push(place, *check);
        } else {
            let mut part = PlanPart::default();
            part.push(place, *check);
            parts.push(part);
        }
    }
    parts
}
