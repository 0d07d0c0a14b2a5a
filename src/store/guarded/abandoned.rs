//! Answers to decisions whose callers have stopped waiting for them.
//!
//! A refusal is remembered as if it had come in time. If the client left, its request never reached an upstream, so its
//! charge is given back; only a place in a leaky bucket stays spent. If the answer is late, the request was decided
//! without it: the charge is given back if the request was refused, and is settled like the request's own charge if it
//! went on.

use std::cell::OnceCell;
use std::rc::Rc;

use tokio::sync::oneshot;

use super::joined;
use super::owned_plan::OwnedPlan;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::Timestamp;
use crate::limit::{Adjustment, Check, Verdict};
use crate::metrics::Refund;
use crate::store::charge::LateCharge;
use crate::store::outcome::StoreVerdict;
use crate::store::redis::wire;
use crate::store::redis::{GivenUp, LateReader};

/// Makes readers for the answers of one request that come after its caller has stopped waiting.
pub(super) struct LateAnswers<'a> {
    remote: &'a Rc<Remote>,
    settlements: &'a Rc<SettlementQueue>,
    /// What late answers say was charged; none if no answer is late.
    charge: OnceCell<Rc<LateCharge>>,
}

impl<'a> LateAnswers<'a> {
    pub(super) fn new(remote: &'a Rc<Remote>, settlements: &'a Rc<SettlementQueue>) -> Self {
        Self {
            remote,
            settlements,
            charge: OnceCell::new(),
        }
    }

    /// Returns a reader for the answer to a plan that was sent at `sent`. `remembers` says whether it remembers a
    /// refusal.
    pub(super) fn reader(
        &self,
        plan: &[Check<'_>],
        sent: Timestamp,
        given_up: GivenUp,
        remembers: bool,
    ) -> LateReader {
        let late = (given_up == GivenUp::Late).then(|| {
            let late = Rc::clone(self.charge.get_or_init(Rc::default));
            late.wait_for(plan);
            late
        });
        let owned = OwnedPlan::of(plan);
        let awaited = self.settlements.await_late(late.as_ref());
        let remote = Rc::downgrade(self.remote);
        let settlements = Rc::downgrade(self.settlements);
        Box::new(move |reply| {
            // The answer counts as awaited until its charge is in the queue.
            let _awaited = awaited;
            let plan = owned.plan();
            let (Some(remote), Some(settlements)) = (remote.upgrade(), settlements.upgrade())
            else {
                return;
            };
            let mut verdict = Verdict::default();
            if wire::verdict(&plan, &reply, &mut verdict).is_err() {
                return;
            }
            remote.note_late(&plan, sent);
            if remembers && !verdict.admit {
                remote.store().remember(&plan, &reply, sent);
            }
            remote.store().follow(&plan, &reply, sent);
            let charge = joined::charge(&plan, &verdict);
            if let Some(late) = late {
                settlements.settle(&remote, late.answered(charge), Refund::default());
            } else {
                settlements.give_back(&remote, charge.without_places().without_units());
            }
        })
    }

    /// Ties late charges to the outcome that was decided without them: they are settled with the charge of an admitted
    /// request, and given back if the request was refused.
    pub(super) fn join(self, mut outcome: StoreVerdict) -> StoreVerdict {
        let Some(late) = self.charge.into_inner() else {
            return outcome;
        };
        match &mut outcome {
            StoreVerdict::Decided {
                verdict, charge, ..
            } if verdict.admit => charge.late = Some(late),
            _ => {
                let all = late.settle(|_| Adjustment::GiveBack(u64::MAX));
                self.settlements.settle(self.remote, all, Refund::default());
            }
        }
        outcome
    }
}

/// An outcome that a separate task finds. If the caller leaves before it has the outcome, the charge is given back.
pub(super) struct AwaitedOutcome {
    remote: Rc<Remote>,
    settlements: Rc<SettlementQueue>,
    outcome: oneshot::Receiver<StoreVerdict>,
}

impl AwaitedOutcome {
    /// Spawns a task that finds the outcome, because the decision must be completed even if the client leaves.
    pub(super) fn of(
        remote: &Rc<Remote>,
        settlements: &Rc<SettlementQueue>,
        finding: impl Future<Output = StoreVerdict> + 'static,
    ) -> Self {
        let (sender, outcome) = oneshot::channel();
        let awaited = Self {
            remote: Rc::clone(remote),
            settlements: Rc::clone(settlements),
            outcome,
        };
        let (remote, settlements) = (Rc::clone(remote), Rc::clone(settlements));
        tokio::task::spawn_local(async move {
            if let Err(outcome) = sender.send(finding.await) {
                give_back(&remote, &settlements, outcome);
            }
        });
        awaited
    }

    /// Waits for the outcome; none if the task failed.
    pub(super) async fn get(mut self) -> Option<StoreVerdict> {
        (&mut self.outcome).await.ok()
    }
}

impl Drop for AwaitedOutcome {
    fn drop(&mut self) {
        self.outcome.close();
        if let Ok(outcome) = self.outcome.try_recv() {
            give_back(&self.remote, &self.settlements, outcome);
        }
    }
}

fn give_back(remote: &Remote, settlements: &SettlementQueue, outcome: StoreVerdict) {
    if let StoreVerdict::Decided { charge, .. } = outcome {
        settlements.give_back(remote, charge.without_places());
    }
}
