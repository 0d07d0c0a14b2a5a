//! Plans whose clients left before the answer: looked at once more, so that a refusal is remembered.
//!
//! Whoever leaves as soon as its request is on its way to Redis takes the answer with it, and a flood
//! of such clients would cost Redis a call for each. Of the plans that were left, each worker looks
//! at one at a time, the last; what it finds refused is remembered for those that come after.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::{apart, remember};
use crate::clock::Micros;
use crate::limit::plan::Mode;
use crate::limit::{Answer, Check, Count, Plan, Quota, Retry, Verdict};
use crate::store::redis::Session;

/// The plan that was left last, and who looks at it.
#[derive(Debug, Default)]
pub(in crate::store) struct Leavers {
    last: RefCell<Option<Left>>,
    left: Notify,
}

/// A plan that was left. Its checks, and their quotas, which do not outlive the request.
type Left = SmallVec<[(Quota, Check<'static>); 2]>;

/// A question to Redis. Dropped before it is answered: the client left.
pub(super) struct Question<'q, 's> {
    leavers: &'q Leavers,
    plan: &'q [Check<'s>],
    is_answered: bool,
}

impl Leavers {
    /// Notes that a plan is asked about.
    pub(super) fn ask<'q, 's>(&'q self, plan: &'q [Check<'s>]) -> Question<'q, 's> {
        Question {
            leavers: self,
            plan,
            is_answered: false,
        }
    }

    /// Looks at what is left, as long as there is a session.
    pub(super) async fn attend(self: Rc<Self>, session: Weak<Session>) {
        loop {
            self.left.notified().await;
            let last = self.last.borrow_mut().take();
            let Some(session) = session.upgrade() else {
                return;
            };
            if let Some(left) = last {
                peek(&session, &left).await;
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
            let left = self.plan.iter().map(|check| {
                let own = Check {
                    quota: &NO_QUOTA,
                    ..*check
                };
                (*check.quota, own)
            });
            *self.leavers.last.borrow_mut() = Some(left.collect());
            self.leavers.left.notify_one();
        }
    }
}

/// Looks at a plan, and remembers it if it is refused.
async fn peek(session: &Session, left: &Left) {
    let is_counted = |(quota, _): &(Quota, _)| quota.count == Count::All;
    if session.store().in_force().refusal_cache == Micros(0) || left.iter().any(is_counted) {
        return;
    }
    let plan: Plan<'_> = (left.iter())
        .map(|(quota, check)| Check { quota, ..*check })
        .collect();
    let sent = session.store().clock.now();
    let parts = apart::parts(session, &plan);
    let peeks = join_all(parts.iter().map(|part| session.peek(&part.checks))).await;
    let mut verdict = Verdict {
        admit: true,
        retry: Retry::NOW,
        wait: Micros(0),
        answers: plan.iter().map(|_| NO_ANSWER).collect(),
    };
    for (part, peeks) in parts.iter().zip(peeks) {
        // What Redis does not say is not remembered.
        let Ok(peeks) = peeks else { return };
        for (&place, decision) in part.places.iter().zip(peeks) {
            verdict.answers[place].decision = Some(decision);
            if plan[place].mode == Mode::Enforce && !decision.admit {
                verdict.admit = false;
                verdict.retry = verdict.retry.max(decision.retry);
            }
        }
    }
    remember(session, &plan, &verdict, sent);
}

const NO_ANSWER: Answer = Answer {
    decision: None,
    charged: None,
};
/// Stands in a check for the quota beside it.
static NO_QUOTA: Quota = super::ANY;
