//! Decides plans: by what is remembered, or by Redis, and if Redis does not answer, as each policy says.

use std::rc::Rc;
use std::time::Duration;

use super::abandoned::LateAnswers;
use super::asks::{self, PlanUnitRequests};
use super::balances::EvictableBalances;
use super::call_metrics::Unanswered;
use super::cross_slot;
use super::joined::{JoinedPlan, PlanPart, decided, unavailable};
use super::refusals::Recalled;
use super::remote::Remote;
use super::settlements::{ENTRIES_PER_CALL_MAX, SettlementQueue};
use crate::limit::{Check, Verdict};
use crate::metrics::Refund;
use crate::store::charge::SettledEntry;
use crate::store::outcome::{PendingVerdict, StoreVerdict};

/// What a worker needs to decide plans.
#[derive(Debug)]
pub(super) struct Decider {
    pub(super) remote: Rc<Remote>,
    pub(super) settlements: Rc<SettlementQueue>,
}

impl Decider {
    /// Decides a plan. If Redis need not be asked, writes the outcome to `outcome`; otherwise returns the future that
    /// asks.
    pub(super) fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        match self.recall(plan, true) {
            Recalled::Refused(verdict) => {
                *outcome = StoreVerdict::without_charge(verdict);
                None
            }
            Recalled::Due => Some(Box::pin(self.decide_due(plan, Duration::ZERO))),
            Recalled::Nothing => Some(Box::pin(self.decide(plan, Duration::ZERO))),
        }
    }

    /// Returns what is remembered of a plan; `can_ask` says whether the caller can ask Redis if a refusal is due.
    pub(super) fn recall(&self, plan: &[Check<'_>], can_ask: bool) -> Recalled {
        let store = self.remote.store();
        let recalled = (store.refusals).recall(plan, can_ask, || store.clock.now());
        if let Recalled::Refused(_) = recalled {
            self.remote.metrics().remembered();
        }
        recalled
    }

    /// Decides a plan, all or nothing, whatever is remembered of it. The request has already waited for `waited`.
    pub(super) async fn decide(&self, plan: &[Check<'_>], waited: Duration) -> StoreVerdict {
        if let Some(evictable) = EvictableBalances::of(&self.remote, plan) {
            if evictable.are_needed(plan) {
                return unavailable(&self.remote);
            }
            let others = evictable.others(plan);
            let decided = if others.is_empty() {
                StoreVerdict::default()
            } else {
                Box::pin(self.decide(&others, waited)).await
            };
            return evictable.uncounted(decided);
        }
        // Boxed, so that plans in one slot need no room for it.
        let decide_cross_slot = || {
            Box::pin(cross_slot::decide(
                &self.remote,
                &self.settlements,
                plan,
                waited,
            ))
        };
        if cross_slot::is_cross_slot(&self.remote, plan) {
            return decide_cross_slot().await;
        }
        let mut timeout = self.remote.timeout().saturating_sub(waited);
        if asks::has_units(plan) {
            let announced = asks::wait_for_announcements(&self.remote, plan, 1);
            timeout = timeout.min(Box::pin(announced).await);
        }
        let sent = self.remote.store().clock.now();
        let late = LateAnswers::new(&self.remote, &self.settlements);
        let late_reader = |given_up| Some(late.reader(plan, sent, given_up, true));
        let mut asks = PlanUnitRequests::begin(&self.remote, &self.settlements, plan, 0..);
        let mut verdict = Verdict::default();
        let asked = (plan, asks.asking());
        let deciding = (self.remote).decide(asked, (sent, timeout), &late_reader, &mut verdict);
        match deciding.await {
            Ok(())
                if verdict
                    .answers
                    .iter()
                    .all(|answer| answer.decision.is_some()) =>
            {
                asks.answered(0.., &verdict.answers);
                decided(plan, verdict)
            }
            Ok(()) => self.join(plan, verdict, asks),
            Err(Unanswered::CrossSlot) => {
                asks.unanswered(Unanswered::CrossSlot);
                drop(asks);
                decide_cross_slot().await
            }
            Err(why) => {
                asks.unanswered(why);
                let mut outcome = self.remote.store().fallback().decide(plan);
                asks.decided_here(&mut outcome);
                late.join(outcome)
            }
        }
    }

    /// Decides here the checks for which a full Redis has no keys, and joins both answers.
    fn join(
        &self,
        plan: &[Check<'_>],
        verdict: Verdict,
        asks: PlanUnitRequests<'_>,
    ) -> StoreVerdict {
        let mut joined = JoinedPlan::new(plan);
        joined.add_redis(&self.remote, PlanPart::whole(plan), verdict, asks);
        joined.finish(&self.remote, &self.settlements)
    }

    /// Decides a plan that remembered refusals refuse, to find out whether they still hold; those that do not are
    /// forgotten.
    pub(super) async fn decide_due(&self, plan: &[Check<'_>], waited: Duration) -> StoreVerdict {
        let outcome = self.decide(plan, waited).await;
        if let StoreVerdict::Decided {
            verdict,
            is_degraded: false,
            ..
        } = &outcome
        {
            (self.remote.store().refusals).forget_admitted(plan, verdict);
        }
        outcome
    }

    /// Gives back units that were held ahead and not spent.
    pub(super) fn give_back_units(&self, entries: impl IntoIterator<Item = SettledEntry>) {
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let some = entries.by_ref().take(ENTRIES_PER_CALL_MAX).collect();
            (self.settlements).settle(&self.remote, some, Refund::default());
        }
    }
}
