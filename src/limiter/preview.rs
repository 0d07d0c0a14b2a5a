//! What would be decided about a request that is only looked at: its plan as [`Limiter::decide`] makes it, and what the
//! store would answer. Nothing is spent.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::context::Limiter;
use super::decided::{Admission, Decided};
use super::first_cost::Reserve;
use super::plan::Planned;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{self, CheckMode, Ledger, OnStoreFailure, Peek, Step};
use crate::limit::{Check, CheckResult, Decision, PartitionId, Verdict};
use crate::request::Facts;
use crate::snapshot::{AppliedPolicy, PolicyQuota};
use crate::store::{Charge, PeekedCheck, Session, StoreVerdict};

/// A plan that is made to be looked at, and what would be decided about its request.
#[derive(Debug)]
pub struct Preview<'s> {
    planned: Planned<'s>,
    decided: Decided,
    refused: Option<Admission>,
}

/// A quota of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PreviewedQuota<'s> {
    /// Which of [`Decided::policies`] it belongs to.
    pub of: usize,
    /// The quota.
    pub quota: &'s PolicyQuota,
    /// Whether it is tried beside the policy's own quotas.
    pub is_candidate: bool,
    /// The partition that the quota is counted for.
    pub partition_id: PartitionId,
}

/// How many units a preview asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekedCost {
    /// None, so that the answer is what is left now.
    Nothing,
    /// Those that the request is charged when it is decided.
    Request,
}

impl<'l> Limiter<'l> {
    /// Plans a request to which these policies apply, in the same way as when it is decided. `reserve` is what is known
    /// of its body, on routes that read bodies.
    pub fn preview(
        &self,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
        reserve: Option<Reserve<'_>>,
    ) -> Preview<'l> {
        let (mut planned, mut decided) = (Planned::default(), Decided::default());
        let latest = RefCell::default();
        let made = self.plan(
            policies,
            facts,
            &latest,
            reserve,
            &mut planned,
            &mut decided,
        );
        if made.is_err() {
            decided.not_asked();
        }
        Preview {
            planned,
            decided,
            refused: made.err(),
        }
    }

    /// Like [`preview`](Self::preview), for a preflight: `policies` decide it unless one of `of_route` blocks its
    /// client.
    pub fn preview_preflight(
        &self,
        policies: &[AppliedPolicy],
        of_route: &[AppliedPolicy],
        facts: &Facts<'_>,
    ) -> Preview<'l> {
        let mut decided = Decided::default();
        match self.refuse_blocked(of_route, facts, &mut decided) {
            None => self.preview(policies, facts, None),
            refused => Preview {
                planned: Planned::default(),
                decided,
                refused,
            },
        }
    }
}

impl<'s> Preview<'s> {
    /// Returns the admission that refuses the request before any quota is asked, if one does.
    pub fn refused(&self) -> Option<Admission> {
        self.refused
    }

    /// Returns what is known of each policy. If the request is refused, the policies after the one that refuses are
    /// missing.
    pub fn decided(&self) -> &Decided {
        &self.decided
    }

    /// Yields the quotas of the plan, in order.
    pub fn quotas(&self, limiter: &Limiter<'s>) -> impl Iterator<Item = PreviewedQuota<'s>> {
        let snapshot = limiter.snapshot;
        self.planned
            .places()
            .map(move |(check, of, place)| PreviewedQuota {
                of,
                quota: self.decided.policies[of].quota(snapshot, place),
                is_candidate: check.mode == CheckMode::Candidate,
                partition_id: check.partition_id,
            })
    }

    /// Returns what the store would answer for each quota of the plan.
    pub async fn peek(&self, store: &Session, cost: PeekedCost) -> SmallVec<[PeekedCheck; 4]> {
        let checks = self.planned.checks.iter().map(|check| Check {
            cost: match cost {
                PeekedCost::Nothing => 0,
                PeekedCost::Request => check.cost,
            },
            ..*check
        });
        let checks: SmallVec<[Check<'_>; 4]> = checks.collect();
        if checks.is_empty() {
            return SmallVec::new();
        }
        store.peek_checks(&checks).await
    }

    /// Decides the request by `peeked`, the answers that the quotas of its plan gave for its cost.
    pub fn decide(&mut self, limiter: &Limiter<'_>, peeked: &[PeekedCheck]) -> Admission {
        if let Some(refused) = self.refused {
            return refused;
        }
        if self.planned.checks.is_empty() {
            return Admission::NOW;
        }
        let mut outcome = self.outcome(limiter, peeked);
        self.planned
            .admission(limiter.store, &mut outcome, &mut self.decided)
    }

    fn outcome(&self, limiter: &Limiter<'_>, peeked: &[PeekedCheck]) -> StoreVerdict {
        let is_lost = |(check, peeked): (&Check<'_>, &PeekedCheck)| {
            peeked.is_degraded
                && check.on_store_failure == OnStoreFailure::Closed
                && check.mode == CheckMode::Enforce
        };
        if self.planned.checks.iter().zip(peeked).any(is_lost) {
            let retry = limiter.snapshot.store.breaker.cooldown.into();
            return StoreVerdict::Unavailable { retry };
        }
        let mut verdict = Verdict::default();
        plan::decide(
            &mut PeekedLedger(peeked),
            &self.planned.checks,
            &mut verdict,
        );
        if verdict.admit {
            let enforced =
                |(check, _): &(&Check<'_>, &PeekedCheck)| check.mode == CheckMode::Enforce;
            let checks = self.planned.checks.iter().zip(peeked).filter(enforced);
            let waits = checks.map(|(_, peeked)| peeked.decision.wait);
            verdict.wait = waits.max().unwrap_or(Micros(0));
        }
        StoreVerdict::Decided {
            verdict,
            charge: Charge::default(),
            is_degraded: peeked.iter().any(|check| check.is_degraded),
        }
    }
}

/// The peeked answers of a plan's quotas, as a ledger: nothing is charged.
struct PeekedLedger<'p>(&'p [PeekedCheck]);

impl PeekedLedger<'_> {
    /// Returns what decides a check; none if it would be admitted without being counted.
    fn answer(&self, index: usize, check: &Check<'_>) -> Option<Decision> {
        let is_open = check.on_store_failure != OnStoreFailure::Local;
        let peeked = &self.0[index];
        (!peeked.is_degraded || !is_open).then_some(peeked.decision)
    }
}

impl Ledger for PeekedLedger<'_> {
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek {
        Peek {
            // Nothing is charged, so no time is needed.
            at: Timestamp(0),
            admit: (self.answer(index, check)).is_none_or(|decision| decision.admit),
        }
    }

    fn commit(&mut self, index: usize, check: &Check<'_>, _: Peek, _: Step) -> CheckResult {
        CheckResult {
            decision: self.answer(index, check),
            charged: None,
        }
    }
}
