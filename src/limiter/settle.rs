//! What becomes of a charge once it is known how the request ended: costs that the answer tells,
//! answers that do not count, requests that never reached an upstream.
//!
//! The store is told through [`Session::settle_later`], which never waits. What the client is told is
//! computed from the decision.

use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use typed_index_collections::TiSlice;

use super::decided::{Decided, PolicyResult};
use crate::cost::{MissingCost, Numbers, Settled};
use crate::index::PolicyIndex;
use crate::limit::Adjustment;
use crate::limit::plan::PlanPolicy;
use crate::metrics::{PolicyMetrics, PolicyOutcome, Refund, WorkerIndex};
use crate::request::only_line;
use crate::snapshot::{CostSource, Policy, Route, Snapshot, UpstreamFault};
use crate::store::Session;

/// How a request was answered.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFacts<'a> {
    /// The status.
    pub status: StatusCode,
    /// What kept the upstream from answering, if the gateway answers in its place.
    pub fault: UpstreamFault,
    /// The upstream's header fields; none if the gateway answers.
    pub headers: Option<&'a HeaderMap>,
}

/// Where charges are settled, and where units that come back are counted.
#[derive(Clone, Copy, Debug)]
pub struct Settler<'a> {
    /// The session that settles the charges.
    pub store: &'a Session,
    /// The metrics of each policy of the snapshot.
    pub metrics: &'a TiSlice<PolicyIndex, PolicyMetrics>,
    /// The worker that counts.
    pub worker: WorkerIndex,
}

impl Decided {
    /// Settles the charge of a request that is answered, as far as the head of the answer says, and changes
    /// what the client is told accordingly.
    pub fn settle(
        &mut self,
        snapshot: &Snapshot,
        settler: &Settler<'_>,
        answer: &ResponseFacts<'_>,
    ) {
        let settles = |one: &PolicyResult| snapshot.policies[one.policy].is_settled_by_head();
        let Some(charge) = &self.charge else {
            return;
        };
        if !self.policies.iter().any(settles) {
            return;
        }
        let mut adjustments = SmallVec::<[Adjustment; 4]>::new();
        for (index, decision) in PlanPolicy::all().zip(&mut self.policies) {
            let policy = &snapshot.policies[decision.policy];
            // A marked request was not charged, but is billed by what it costs.
            let is_billed = decision.outcome == PolicyOutcome::Marked;
            adjustments.push(if charge.is_charged(index) || is_billed {
                decision.settle(policy, answer)
            } else {
                Adjustment::NONE
            });
        }
        if adjustments.iter().any(|one| *one != Adjustment::NONE) {
            let refund = self.refund(settler, &adjustments);
            let adjustment = |of| adjustments[usize::from(of)];
            self.adjust(settler.store, adjustment, refund);
        }
    }

    /// Settles what was reserved for a request of `route` whose answer has ended, by `numbers` and the `end` of that
    /// answer.
    pub fn settle_bodies(
        &mut self,
        route: &Route,
        settler: &Settler<'_>,
        numbers: &Numbers,
        end: Result<(), MissingCost>,
    ) {
        let Some(mut charge) = self.charge.take() else {
            return;
        };
        let mut adjustments = SmallVec::<[Adjustment; 4]>::new();
        for (index, decision) in PlanPolicy::all().zip(&mut self.policies) {
            let is_billed = decision.outcome == PolicyOutcome::Marked;
            adjustments.push(if charge.is_charged(index) || is_billed {
                decision.settle_body(route, numbers, end)
            } else {
                Adjustment::NONE
            });
        }
        let refund = self.refund(settler, &adjustments);
        let adjustment = |of| adjustments[usize::from(of)];
        (settler.store).refund_later(&mut charge, adjustment, refund);
    }

    /// Gives back what a request spent that is refused because too many requests are being delayed already.
    pub fn give_back(&mut self, store: &Session) {
        for decision in &mut self.policies {
            decision.cost = 0;
        }
        let all = |_| Adjustment::GiveBack(u64::MAX);
        self.adjust(store, all, Refund::default());
        self.charge = None;
    }

    /// Gives back what a request spent that never reached an upstream, because its client left. The place in
    /// a leaky bucket stays taken.
    pub fn abandon(&mut self, store: &Session) {
        if let Some(charge) = self.charge.take() {
            let mut charge = charge.without_places();
            for (index, decision) in PlanPolicy::all().zip(&mut self.policies) {
                if charge.is_charged(index) {
                    decision.cost = 0;
                }
            }
            let all = |_| Adjustment::GiveBack(u64::MAX);
            store.settle_later(&mut charge, all);
        }
    }

    /// Adjusts the charge, and what the client is told. The charge keeps what is still spent.
    fn adjust(
        &mut self,
        store: &Session,
        adjustment: impl Fn(PlanPolicy) -> Adjustment,
        refund: Refund,
    ) {
        let Some(charge) = &mut self.charge else {
            return;
        };
        for shown in &mut self.shown {
            shown.decision = charge.adjusted(shown.series_id, shown.decision, adjustment(shown.of));
        }
        store.refund_later(charge, adjustment, refund);
    }

    /// Returns the units that come back to the policies that admitted.
    fn refund(&self, settler: &Settler<'_>, adjustments: &[Adjustment]) -> Refund {
        let mut refund = Refund::default();
        for (decision, adjustment) in self.policies.iter().zip(adjustments) {
            if let Adjustment::GiveBack(units @ 1..) = *adjustment
                && decision.outcome == PolicyOutcome::Admitted
            {
                refund.add(&settler.metrics[decision.policy], settler.worker, units);
            }
        }
        refund
    }
}

impl PolicyResult {
    /// Returns how this policy's reservation is adjusted, if it made one, and notes what it was settled to.
    fn settle_body(
        &mut self,
        route: &Route,
        numbers: &Numbers,
        end: Result<(), MissingCost>,
    ) -> Adjustment {
        let mut applied = route.policies.iter();
        let applied = applied.find(|applied| applied.policy == self.policy);
        let cost = applied.and_then(|applied| applied.body_cost.as_ref());
        let Some((cost, reservation)) = cost.zip(self.reservation.as_mut()) else {
            return Adjustment::NONE;
        };
        if reservation.is_given_back {
            reservation.settled = Some(Settled::default());
            return Adjustment::NONE;
        }
        let settled = cost.settle(numbers, reservation.units, reservation.price_row, end);
        reservation.settled = Some(settled);
        let reserved = std::mem::replace(&mut self.cost, settled.units);
        self.adjustment(reserved)
    }

    /// Returns the adjustment that turns the charged units into the cost.
    fn adjustment(&self, charged: u64) -> Adjustment {
        if self.cost > charged {
            Adjustment::Spend(self.cost - charged)
        } else {
            Adjustment::GiveBack(charged - self.cost)
        }
    }

    /// Returns how this policy's charge is adjusted to the answer, and notes the cost.
    fn settle(&mut self, policy: &Policy, answer: &ResponseFacts<'_>) -> Adjustment {
        let charged = self.cost;
        let counted = policy.counted_answers.as_ref();
        self.cost = if counted.is_none_or(|of| of.counts(answer.status, answer.fault)) {
            let reported = answer
                .headers
                .and_then(|headers| self.reported_by(policy, headers));
            reported.unwrap_or(charged)
        } else {
            if let Some(reservation) = &mut self.reservation {
                reservation.is_given_back = true;
            }
            0
        };
        self.adjustment(charged)
    }

    /// Reads the cost that the upstream reports, if the policy takes it from a response header.
    fn reported_by(&mut self, policy: &Policy, headers: &HeaderMap) -> Option<u64> {
        let reported = policy
            .reported_cost
            .as_ref()?
            .header_of(CostSource::Response)?;
        let value = only_line(headers, &reported.header);
        let cost = value.and_then(|value| reported.read(value.as_bytes()));
        self.is_cost_header_missing = cost.is_none();
        cost
    }
}
