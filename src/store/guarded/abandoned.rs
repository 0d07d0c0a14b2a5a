//! What becomes of a decision whose caller does not wait for it.
//!
//! A refusal is remembered, whoever reads it. If the client left, its request never reached an upstream,
//! so what it was charged comes back; only a place in a leaky bucket stays spent. If the answer is late,
//! the request was decided without it, and what it was charged stays spent.

use std::rc::Rc;

use tokio::sync::oneshot;

use super::joined;
use super::owned_plan::OwnedPlan;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::Timestamp;
use crate::limit::{Check, Verdict};
use crate::store::outcome::Outcome;
use crate::store::redis::wire;
use crate::store::redis::{GivenUp, LateReader};

/// Returns who reads the reply to a plan that was sent then, if anything comes of it.
pub(super) fn reader(
    remote: &Rc<Remote>,
    settlements: &Rc<SettlementQueue>,
    plan: &[Check<'_>],
    sent: Timestamp,
    given_up: GivenUp,
) -> Option<LateReader> {
    if given_up == GivenUp::Late && !remote.store().may_remember(plan) {
        return None;
    }
    let owned = OwnedPlan::of(plan);
    let (remote, settlements) = (Rc::downgrade(remote), Rc::downgrade(settlements));
    Some(Box::new(move |reply| {
        let plan = owned.plan();
        let (Some(remote), Some(settlements)) = (remote.upgrade(), settlements.upgrade()) else {
            return;
        };
        let mut verdict = Verdict::default();
        if wire::verdict(&plan, &reply, &mut verdict).is_err() {
            return;
        }
        remote.store().remember_verdict(&plan, &verdict, sent);
        if given_up == GivenUp::Left {
            let charge = joined::charge(&plan, &verdict);
            settlements.give_back(&remote, charge.without_places());
        }
    }))
}

/// An outcome that a task finds, for a caller who may leave.
pub(super) struct AwaitedOutcome {
    remote: Rc<Remote>,
    settlements: Rc<SettlementQueue>,
    outcome: oneshot::Receiver<Outcome>,
}

impl AwaitedOutcome {
    /// Lets a task of its own find the outcome, because it must go on if the client leaves.
    pub(super) fn of(
        remote: &Rc<Remote>,
        settlements: &Rc<SettlementQueue>,
        finding: impl Future<Output = Outcome> + 'static,
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

    /// Returns the outcome; nothing if the task failed.
    pub(super) async fn get(mut self) -> Option<Outcome> {
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

fn give_back(remote: &Remote, settlements: &SettlementQueue, outcome: Outcome) {
    if let Outcome::Decided { charge, .. } = outcome {
        settlements.give_back(remote, charge.without_places());
    }
}
