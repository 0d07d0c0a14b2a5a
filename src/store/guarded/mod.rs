//! A store over Redis that answers whatever becomes of Redis: from remembered refusals first, then from
//! Redis, and if Redis does not answer, as each policy says.
//!
//! [`GuardedStore`] is the process's part: refusals, breakers, this node's own counts for when Redis
//! is away, and the fleet's size. [`GuardedSession`] is a worker's part. A plan that is in one slot is
//! decided in one step; on a Cluster its partitions may be in several ([`cross_slot`]). A decision that
//! got no answer in time may have been counted: it is not sent again, and its answer is read when it comes
//! ([`abandoned`]).

mod abandoned;
mod announcements;
mod asks;
mod balances;
mod breaker;
mod counters;
mod cross_slot;
mod deadlines;
mod distance;
mod fallback;
mod fleet;
mod holdings;
mod joined;
mod owned_plan;
mod refusals;
mod remote;
mod servers;
mod settlements;
mod store;
mod turn;

pub(crate) use refusals::Recalled;
pub use store::GuardedStore;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;

use self::abandoned::LateAnswers;
use self::asks::PlanAsks;
use self::balances::EvictableBalances;
use self::counters::Unanswered;
use self::joined::{JoinedPlan, PlanPart, decided, unavailable};
use self::owned_plan::ANY_QUOTA;
use self::remote::Remote;
use self::settlements::SettlementQueue;
use super::charge::SettledEntry;
use super::directives::{DirectiveError, DirectiveSet};
use super::outcome::{PeekedCheck, StoreVerdict};
use super::redis::wire::{self, DirectiveAction, Settlement, SettlementStep};
use crate::clock::Timestamp;
use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, Check, PartitionId, Verdict};
use crate::metrics::Refund;

/// A worker's way to a store over Redis; lives on the worker's thread.
#[derive(Debug)]
pub struct GuardedSession {
    remote: Rc<Remote>,
    settlements: Rc<SettlementQueue>,
}

impl GuardedSession {
    /// Opens the worker's connections, on its runtime.
    pub(super) fn open(store: &Arc<GuardedStore>) -> Self {
        let remote = Rc::new(Remote::open(store));
        let settlements: Rc<SettlementQueue> = Rc::default();
        tokio::task::spawn_local(Rc::clone(&settlements).attend(Rc::downgrade(&remote)));
        let announcements = Rc::clone(&settlements.announcements);
        tokio::task::spawn_local(announcements.attend(Rc::downgrade(&remote)));
        Self {
            remote,
            settlements,
        }
    }

    /// Says what is remembered of a plan; `can_ask` says whether the caller asks if that is due.
    pub(super) fn recall(&self, plan: &[Check<'_>], can_ask: bool) -> Recalled {
        let store = self.remote.store();
        let recalled = (store.refusals).recall(plan, can_ask, || store.clock.now());
        if let Recalled::Refused(_) = recalled {
            self.remote.counters().remembered();
        }
        recalled
    }

    /// Decides a plan that is not refused by what is remembered, all or nothing.
    pub(super) async fn decide(&self, plan: &[Check<'_>]) -> StoreVerdict {
        if let Some(evictable) = EvictableBalances::of(&self.remote, plan) {
            if evictable.are_needed(plan) {
                return unavailable(&self.remote);
            }
            let others = evictable.others(plan);
            let decided = if others.is_empty() {
                StoreVerdict::default()
            } else {
                Box::pin(self.decide(&others)).await
            };
            return evictable.uncounted(decided);
        }
        // Boxed, so that plans in one slot need no room for it.
        let apart = || Box::pin(cross_slot::decide(&self.remote, &self.settlements, plan));
        if cross_slot::is_cross_slot(&self.remote, plan) {
            return apart().await;
        }
        let mut timeout = self.remote.store().settings().timeout;
        if asks::has_units(plan) {
            timeout = Box::pin(asks::wait_for_announcements(&self.remote, plan, 1)).await;
        }
        let sent = self.remote.store().clock.now();
        let late = LateAnswers::new(&self.remote, &self.settlements);
        let late_reader = |given_up| Some(late.reader(plan, sent, given_up, true));
        let mut asks = PlanAsks::begin(&self.remote, &self.settlements, plan, 0..);
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
                apart().await
            }
            Err(why) => {
                asks.unanswered(why);
                let mut outcome = self.remote.store().fallback().decide(plan);
                asks.decided_here(&mut outcome);
                late.join(outcome)
            }
        }
    }

    /// Decides here what a full Redis has no keys for.
    fn join(&self, plan: &[Check<'_>], verdict: Verdict, asks: PlanAsks<'_>) -> StoreVerdict {
        let mut joined = JoinedPlan::new(plan);
        joined.add_redis(&self.remote, PlanPart::whole(plan), verdict, asks);
        joined.finish(&self.remote, &self.settlements)
    }

    /// Decides a plan that is refused by what is remembered, to see whether that still holds; what does
    /// not hold is forgotten.
    pub(super) async fn decide_due(&self, plan: &[Check<'_>]) -> StoreVerdict {
        let outcome = self.decide(plan).await;
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

    /// Returns what each check of a plan would be answered.
    pub(super) async fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[PeekedCheck; 4]> {
        let parts = cross_slot::parts(&self.remote, plan);
        let peeks = parts
            .iter()
            .map(|part| self.remote.peek_anywhere(&part.checks));
        let peeks = join_all(peeks).await;
        let mut peeked: SmallVec<[(usize, PeekedCheck); 4]> = (parts.iter().zip(peeks))
            .flat_map(|(part, peeks)| part.places.iter().copied().zip(peeks))
            .collect();
        peeked.sort_unstable_by_key(|(place, _)| *place);
        peeked.into_iter().map(|(_, peek)| peek).collect()
    }

    /// Gives back and spends, without a wait.
    pub(super) fn settle_later(&self, settled: SmallVec<[SettledEntry; 2]>, refund: Refund) {
        self.settlements.settle(&self.remote, settled, refund);
    }

    /// Gives back of the newest charges that count, or spends, for whoever orders it, in one call.
    pub(super) async fn adjust(
        &self,
        checks: &[Check<'_>],
        adjustment: Adjustment,
    ) -> Result<(), DirectiveError> {
        let step = match adjustment {
            Adjustment::GiveBack(amount) => SettlementStep::ReleaseNewest(amount),
            Adjustment::Spend(amount) => SettlementStep::Spend(amount),
        };
        let settlements = checks.iter().map(|check| Settlement {
            quota: check.quota,
            series_id: check.series_id,
            partition_id: check.partition_id,
            step,
        });
        let settlements: Vec<Settlement<'_>> = settlements.collect();
        match self.remote.adjust(&settlements).await {
            Ok(failed) if failed.is_empty() => {}
            _ => return Err(DirectiveError::Unreachable),
        }
        let store = self.remote.store();
        let now = store.clock.now();
        for check in checks {
            (store.refusals).given_back(check.series_id, check.partition_id, now);
        }
        Ok(())
    }

    /// Makes one partition's quotas of these series whole again, in Redis in one call and here; returns when.
    pub(super) async fn reset(
        &self,
        series_ids: &[SeriesId],
        partition_id: PartitionId,
    ) -> Result<Timestamp, DirectiveError> {
        let reset = |series_id: &SeriesId| Settlement {
            // A reset does not depend on the quota.
            quota: &ANY_QUOTA,
            series_id: *series_id,
            partition_id,
            step: SettlementStep::Reset,
        };
        let resets: Vec<Settlement<'_>> = series_ids.iter().map(reset).collect();
        let at = self.remote.reset(&resets).await;
        let at = at.map_err(|_| DirectiveError::Unreachable)?;
        for series_id in series_ids {
            self.remote.store().note_reset(*series_id, partition_id, at);
        }
        Ok(at)
    }

    /// Reads the fleet's directives, unless this version is known.
    pub(super) async fn directives(
        &self,
        known: u64,
    ) -> Result<Option<DirectiveSet>, DirectiveError> {
        let reply = self.remote.directives(DirectiveAction::Get(known)).await;
        let reply = reply.map_err(|_| DirectiveError::Unreachable)?;
        wire::directive_set(&reply, known).map_err(|_| DirectiveError::Unreachable)
    }

    /// Changes the fleet's directives; returns how many were kept or removed.
    pub(super) async fn change_directives(
        &self,
        action: DirectiveAction<'_>,
    ) -> Result<usize, DirectiveError> {
        let reply = self.remote.directives(action).await;
        let reply = reply.map_err(|_| DirectiveError::Unreachable)?;
        wire::directive_count(&reply).map_err(|_| DirectiveError::Unreachable)
    }

    /// Waits until what is to be settled has been, for at most [`FINISH_MAX`]; returns how many charges have not.
    pub(super) async fn finish(&self) -> usize {
        let unsettled = self.settlements.finish(FINISH_MAX).await;
        // What is settled may end units.
        let announcements = &self.settlements.announcements;
        unsettled + announcements.finish(&self.remote, FINISH_MAX).await
    }

    /// Does what is needed a few times a second, and not for each request.
    pub(super) fn tick(&self) {
        self.remote.tick();
        self.settlements.announcements.renew(&self.remote);
    }
}

/// How long the end of a worker waits for what is to be settled.
const FINISH_MAX: Duration = Duration::from_secs(2);
