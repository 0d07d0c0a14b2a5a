//! Abandoned plans: their clients left before the answer. Redis is peeked at for them, so that a
//! refusal is remembered.
//!
//! If a client leaves after its plan was sent, nobody reads the answer. A flood of such clients would
//! cost Redis a call each. So each worker peeks at the last plan that was abandoned, one at a time;
//! if it is refused, that is remembered, and the next ones need no call.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::cross_slot;
use super::fallback::UNCOUNTED;
use super::owned_plan::OwnedPlan;
use super::remote::Remote;
use crate::clock::Micros;
use crate::limit::plan::Mode;
use crate::limit::{Check, Count, Retry, Verdict};

/// The plan that was abandoned last.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    last: RefCell<Option<OwnedPlan>>,
    filled: Notify,
}

/// A question to Redis. If it is dropped before it is answered, its plan is abandoned.
pub(super) struct Question<'q, 's> {
    abandoned: &'q Abandoned,
    plan: &'q [Check<'s>],
    is_answered: bool,
}

impl Abandoned {
    /// Notes that a plan is asked about.
    pub(super) fn ask<'q, 's>(&'q self, plan: &'q [Check<'s>]) -> Question<'q, 's> {
        Question {
            abandoned: self,
            plan,
            is_answered: false,
        }
    }

    /// Peeks for abandoned plans as long as the worker's session lives.
    pub(super) async fn attend(self: Rc<Self>, remote: Weak<Remote>) {
        loop {
            self.filled.notified().await;
            let last = self.last.borrow_mut().take();
            let Some(remote) = remote.upgrade() else {
                return;
            };
            if let Some(plan) = last {
                peek(&remote, &plan.plan()).await;
            }
        }
    }
}

impl Question<'_, '_> {
    /// Notes that the answer is here.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Question<'_, '_> {
    fn drop(&mut self) {
        if !self.is_answered {
            *self.abandoned.last.borrow_mut() = Some(OwnedPlan::of(self.plan));
            self.abandoned.filled.notify_one();
        }
    }
}

/// Peeks for a plan, and remembers if it is refused.
async fn peek(remote: &Remote, plan: &[Check<'_>]) {
    let counts_all = |check: &Check<'_>| check.quota.count == Count::All;
    if !remote.store().remembers_refusals() || plan.iter().any(counts_all) {
        return;
    }
    let sent = remote.store().clock.now();
    let parts = cross_slot::parts(remote, plan);
    let peeks = join_all(parts.iter().map(|part| remote.peek(&part.checks))).await;
    let mut verdict = Verdict {
        admit: true,
        retry: Retry::NOW,
        wait: Micros(0),
        answers: plan.iter().map(|_| UNCOUNTED).collect(),
    };
    for (part, peeks) in parts.iter().zip(peeks) {
        // Only what Redis itself says is remembered.
        let Ok(peeks) = peeks else { return };
        for (&place, decision) in part.places.iter().zip(peeks) {
            verdict.answers[place].decision = Some(decision);
            if plan[place].mode == Mode::Enforce && !decision.admit {
                verdict.admit = false;
                verdict.retry = verdict.retry.max(decision.retry);
            }
        }
    }
    remote.store().remember(plan, &verdict, sent);
}
