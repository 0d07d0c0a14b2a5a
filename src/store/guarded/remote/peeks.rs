//! Peeks: asks Redis what a plan would be answered, and spends nothing.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Remote;
use crate::clock::Timestamp;
use crate::limit::{Check, Decision};
use crate::store::guarded::call_metrics::Unanswered;
use crate::store::guarded::owned_plan::OwnedPlan;
use crate::store::outcome::PeekedCheck;
use crate::store::redis::wire::{self, Reply};
use crate::store::redis::{Caller, LateReader};

impl Remote {
    /// Returns what Redis would answer a plan that one step can decide; none for a check for which it has no memory.
    /// Refusals are remembered.
    pub(in crate::store::guarded) async fn peek(
        self: &Rc<Self>,
        plan: &[Check<'_>],
        timeout: Duration,
    ) -> Result<SmallVec<[Option<Decision>; 4]>, Unanswered> {
        let (peeks, _) = self.peek_whole(plan, timeout).await?;
        Ok(peeks)
    }

    /// Like [`peek`](Self::peek), but also returns the reply itself.
    async fn peek_whole(
        self: &Rc<Self>,
        plan: &[Check<'_>],
        timeout: Duration,
    ) -> Result<(SmallVec<[Option<Decision>; 4]>, Reply), Unanswered> {
        let sent = self.store.clock.now();
        let late_reader = |_| Some(self.peek_reader(plan, sent));
        let caller = Caller::new(&late_reader);
        let peeking = pin!(self.redis.peek(plan, &caller));
        let (peeks, reply) = self.ask(plan, sent, timeout, &caller, peeking).await?;
        let refuses = |peek: &Option<Decision>| peek.is_some_and(|decision| !decision.admit);
        if peeks.iter().any(refuses) {
            self.store.remember(plan, &reply, sent);
        }
        Ok((peeks, reply))
    }

    /// Returns what a plan that one step can decide would be answered, by Redis or in its place.
    pub(in crate::store::guarded) async fn peek_anywhere(
        self: &Rc<Self>,
        plan: &[Check<'_>],
    ) -> SmallVec<[PeekedCheck; 4]> {
        let timeout = self.store.settings().timeout;
        let (by_redis, mut holders) = match self.peek_whole(plan, timeout).await {
            Ok((by_redis, reply)) => (by_redis, wire::holders(plan, &reply).unwrap_or_default()),
            Err(_) => (plan.iter().map(|_| None).collect(), SmallVec::new()),
        };
        holders.resize(plan.len(), Vec::new());
        let is_whole = by_redis.iter().all(Option::is_some);
        let own = (!is_whole).then(|| self.store.fallback().peek(plan));
        let own = own.unwrap_or_default();
        (by_redis.iter().zip(holders).enumerate())
            .map(|(index, (decision, holders))| PeekedCheck {
                decision: decision.unwrap_or_else(|| own[index]),
                is_degraded: decision.is_none(),
                holders,
            })
            .collect()
    }

    /// Returns a reader that remembers the refusals of a late reply.
    fn peek_reader(self: &Rc<Self>, plan: &[Check<'_>], sent: Timestamp) -> LateReader {
        let (owned, remote) = (OwnedPlan::of(plan), Rc::downgrade(self));
        Box::new(move |reply| {
            if let Some(remote) = remote.upgrade() {
                let plan = owned.plan();
                remote.note_late(&plan, sent);
                remote.store.remember(&plan, &reply, sent);
            }
        })
    }
}
