//! A store over Redis that also answers while Redis does not: from remembered refusals first, then from Redis, and if
//! Redis does not answer, as each policy says.
//!
//! [`GuardedStore`] is the process's part: refusals, breakers, this node's own counts for when Redis is away, and the
//! fleet's size. [`GuardedSession`] is a worker's part. A plan whose keys are in one slot is decided in one step; on a
//! Cluster its partitions may be in several slots ([`cross_slot`]). A decision that got no answer in time may have been
//! executed: it is not sent again, and its answer is read when it arrives ([`abandoned`]). Busy clients of leased
//! quotas spend units that were bought ahead ([`leased_plan`]). Synced quotas are counted here, and the counts are
//! added up in Redis at intervals ([`followed`]).

mod abandoned;
mod announcements;
mod asks;
mod balances;
mod breaker;
mod call_metrics;
mod cross_slot;
mod deadlines;
mod decider;
mod distance;
mod fallback;
mod fleet;
mod followed;
mod holdings;
mod joined;
mod leased_plan;
mod leases;
mod leasing;
mod owned_plan;
mod paid_checks;
mod quota_key;
mod quota_shards;
mod refusals;
mod remote;
mod server_time;
mod servers;
mod settlements;
mod store;
mod syncing;

use refusals::Recalled;
pub use store::{GuardedStore, PassedLeasing};

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;

use self::decider::Decider;
use self::leasing::Leasing;
use self::owned_plan::ANY_QUOTA;
use self::quota_key::QuotaKey;
use self::remote::Remote;
use self::settlements::SettlementQueue;
use self::syncing::Syncing;
use super::charge::SettledEntry;
use super::directives::{DirectiveError, DirectiveSet};
use super::outcome::{PeekedCheck, PendingVerdict, StoreVerdict};
use super::redis::wire::{self, DirectiveAction, Settlement, SettlementStep};
use crate::clock::Timestamp;
use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, Check, Consistency, PartitionId};
use crate::metrics::Refund;

/// A worker's session with a store over Redis; lives on the worker's thread.
#[derive(Debug)]
pub struct GuardedSession {
    decider: Rc<Decider>,
    leasing: Rc<Leasing>,
    syncing: Syncing,
}

impl GuardedSession {
    /// Opens the worker's connections, on its runtime.
    pub(super) fn open(store: &Arc<GuardedStore>) -> Self {
        let remote = Rc::new(Remote::open(store));
        let settlements: Rc<SettlementQueue> = Rc::default();
        tokio::task::spawn_local(Rc::clone(&settlements).attend(Rc::downgrade(&remote)));
        let announcements = Rc::clone(&settlements.announcements);
        tokio::task::spawn_local(announcements.attend(Rc::downgrade(&remote)));
        let decider = Rc::new(Decider {
            remote,
            settlements,
        });
        let leasing = Rc::new(Leasing::new(&decider));
        Self {
            syncing: Syncing::new(&leasing),
            leasing,
            decider,
        }
    }

    /// Decides a plan. If Redis need not be asked, writes the outcome to `outcome`; otherwise returns the future that
    /// asks.
    pub(super) fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        if plan
            .iter()
            .all(|check| check.consistency == Consistency::Exact)
        {
            self.decider.begin(plan, outcome)
        } else {
            self.syncing.begin(plan, outcome)
        }
    }

    /// Refuses a plan, without asking Redis, if this gateway knows that it must be refused; none if it may be admitted.
    pub(super) fn refuse_at_once(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        if leased_plan::has_leases(plan) && self.leasing.holds_any(plan) {
            return None;
        }
        match self.decider.recall(plan, false) {
            Recalled::Refused(verdict) => Some(StoreVerdict::without_charge(verdict)),
            Recalled::Due | Recalled::Nothing => self.syncing.refuse_at_once(plan),
        }
    }

    /// Returns what each check of a plan would be answered.
    pub(super) async fn peek(&self, plan: &[Check<'_>]) -> SmallVec<[PeekedCheck; 4]> {
        let parts = cross_slot::parts(&self.decider.remote, plan);
        let peeks = parts
            .iter()
            .map(|part| self.decider.remote.peek_anywhere(&part.checks));
        let peeks = join_all(peeks).await;
        let mut peeked: SmallVec<[(usize, PeekedCheck); 4]> = (parts.iter().zip(peeks))
            .flat_map(|(part, peeks)| part.places.iter().copied().zip(peeks))
            .collect();
        peeked.sort_unstable_by_key(|(place, _)| *place);
        peeked.into_iter().map(|(_, peek)| peek).collect()
    }

    /// Settles charges (gives units back or spends more) without waiting; `refund` counts once all of it is done.
    pub(super) fn settle_later(&self, settled: SmallVec<[SettledEntry; 2]>, refund: Refund) {
        self.decider
            .settlements
            .settle(&self.decider.remote, settled, refund);
    }

    /// Gives units back from the newest charges that still count, or spends more, in one call; an operator has ordered
    /// it.
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
        match self.decider.remote.adjust(&settlements).await {
            Ok(failed) if failed.is_empty() => {}
            _ => return Err(DirectiveError::Unreachable),
        }
        let store = self.decider.remote.store();
        let now = store.clock.now();
        for check in checks {
            (store.refusals).given_back(check.series_id, check.partition_id, now);
            store.followed.report_soon(QuotaKey::of(check));
        }
        Ok(())
    }

    /// Resets one partition's quotas of these series, in Redis in one call, and here; returns the time of the reset by
    /// the clock of Redis.
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
        let at = self.decider.remote.reset(&resets).await;
        let at = at.map_err(|_| DirectiveError::Unreachable)?;
        for series_id in series_ids {
            self.decider
                .remote
                .store()
                .note_reset(*series_id, partition_id, at);
        }
        Ok(at)
    }

    /// Reads the fleet's directives; none if their version is still `known`.
    pub(super) async fn directives(
        &self,
        known: u64,
    ) -> Result<Option<DirectiveSet>, DirectiveError> {
        let reply = self
            .decider
            .remote
            .directives(DirectiveAction::Get(known))
            .await;
        let reply = reply.map_err(|_| DirectiveError::Unreachable)?;
        wire::directive_set(&reply, known).map_err(|_| DirectiveError::Unreachable)
    }

    /// Changes the fleet's directives; returns how many were kept or removed.
    pub(super) async fn change_directives(
        &self,
        action: DirectiveAction<'_>,
    ) -> Result<usize, DirectiveError> {
        let reply = self.decider.remote.directives(action).await;
        let reply = reply.map_err(|_| DirectiveError::Unreachable)?;
        wire::directive_count(&reply).map_err(|_| DirectiveError::Unreachable)
    }

    /// Ends purchases of units ahead, waits until charges are settled, and then until units in flight are announced,
    /// each for at most [`FINISH_MAX`]; returns how many charges and announcements are left.
    pub(super) async fn finish(&self) -> usize {
        self.leasing.close(FINISH_MAX).await;
        let unsettled = self.decider.settlements.finish(FINISH_MAX).await;
        // Settling a charge may end units in flight, so the announcements come last.
        let announcements = &self.decider.settlements.announcements;
        unsettled + announcements.finish(&self.decider.remote, FINISH_MAX).await
    }

    /// Reports to Redis what the process has counted of synced quotas, for at most [`FINISH_MAX`]; returns how many
    /// quotas are not fully reported.
    pub(super) async fn report_all(&self) -> usize {
        self.syncing.report_all(FINISH_MAX).await
    }

    /// Does the session's periodic work. To be called several times a second.
    pub(super) fn tick(&self) {
        self.decider.remote.tick();
        self.decider
            .settlements
            .announcements
            .renew(&self.decider.remote);
        self.leasing.sweep();
        self.syncing.report_due();
    }
}

/// Longest wait at the end of a worker: for its purchases, its settlements, its announcements and its reports, each.
const FINISH_MAX: Duration = Duration::from_secs(2);
