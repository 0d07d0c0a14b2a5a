//! What this gateway holds ahead of one quota of one client.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::activity::Activity;
use crate::clock::{Micros, Timestamp};
use crate::limit::{Adjustment, Charged, Check, Consistency, Decision, Quota, Retry};
use crate::store::guarded::server_time::counted_down;

/// What this gateway holds ahead of one quota of one client, and what it knows of the units that Redis has left.
#[derive(Debug)]
pub(super) struct QuotaLease {
    pub(super) quota: Quota,
    pub(super) consistency: Consistency,
    /// Most units that this gateway may hold.
    held_max: u64,
    /// Units that were bought and are not spent, the oldest first.
    batches: SmallVec<[UnitBatch; 2]>,
    activity: Activity,
    /// The last answer from Redis.
    decision: Decision,
    /// When that answer was noted.
    decided_at: Timestamp,
    /// When Redis last refused; none if it never did.
    refused_at: Option<Timestamp>,
    /// Whether a purchase is under way.
    pub(super) is_buying: bool,
    /// Notified when the purchase has ended; none if no request waits for that.
    pub(super) bought: Option<Arc<Notify>>,
}

/// Units that were charged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitBatch {
    /// The part of the charge that is not spent.
    pub(super) charged: Charged,
    pub(super) bought_at: Timestamp,
    pub(super) ends: BatchEnd,
}

/// Until when units may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchEnd {
    /// When the window in which they were charged ends; none if units do not end with it.
    pub(super) window: Option<Timestamp>,
    /// Until when the other gateways count this one.
    pub(super) counted: Timestamp,
}

/// Units that a request spends.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::guarded) struct SpentUnits {
    /// When and where they were charged.
    pub(in crate::store::guarded) charged: Charged,
    /// What the client is told.
    pub(in crate::store::guarded) decision: Decision,
    /// Whether few are left, so that the next ones are to be bought.
    pub(in crate::store::guarded) is_low: bool,
    bought_at: Timestamp,
    ends: BatchEnd,
}

impl QuotaLease {
    pub(super) fn new(check: &Check<'_>, decision: Decision, now: Timestamp) -> Self {
        Self {
            quota: *check.quota,
            consistency: check.consistency,
            held_max: 0,
            batches: SmallVec::new(),
            activity: Activity::default(),
            decision,
            decided_at: now,
            refused_at: None,
            is_buying: false,
            bought: None,
        }
    }

    /// Spends held units; none if no single purchase has enough left.
    pub(super) fn spend(&mut self, cost: u64, now: Timestamp) -> Option<SpentUnits> {
        let fits =
            |batch: &UnitBatch| batch.charged.amount >= cost.max(1) && batch.ends.is_ahead(now);
        let place = self.batches.iter().position(fits)?;
        let batch = &mut self.batches[place];
        let charged = self.quota.take(&mut batch.charged, cost);
        let (bought_at, ends) = (batch.bought_at, batch.ends);
        if batch.charged.amount == 0 {
            self.batches.remove(place);
        }
        self.activity.note(cost, now);
        Some(SpentUnits {
            charged,
            decision: self.told(now),
            is_low: !self.is_buying && self.missing(now) > 0,
            bought_at,
            ends,
        })
    }

    /// Says whether there is room to take units back.
    pub(super) fn has_room(&self, spent: &SpentUnits, now: Timestamp) -> bool {
        self.held(now).saturating_add(spent.charged.amount) <= self.held_max
    }

    /// Takes units back that were not spent after all.
    pub(super) fn put_back(&mut self, spent: &SpentUnits, now: Timestamp) {
        let charged = spent.charged;
        self.activity.take_back(charged.amount, now);
        if charged.amount == 0 {
            return;
        }
        let is_its = |batch: &&mut UnitBatch| {
            let of = &batch.charged;
            (of.at, of.mark, batch.ends) == (charged.at, charged.mark, spent.ends)
        };
        if let Some(batch) = self.batches.iter_mut().find(is_its) {
            batch.charged.amount += charged.amount;
            // As if the last units of the charge had been spent in their place: with the smaller debt, no more comes
            // back than is due.
            batch.charged.debt = batch.charged.debt.min(charged.debt);
        } else {
            self.add(UnitBatch {
                charged,
                bought_at: spent.bought_at,
                ends: spent.ends,
            });
        }
    }

    pub(super) fn add(&mut self, batch: UnitBatch) {
        let older = |other: &UnitBatch| other.bought_at <= batch.bought_at;
        let place = self.batches.iter().take_while(|other| older(other)).count();
        self.batches.insert(place, batch);
    }

    /// Notes a request that Redis admitted, and what it answered.
    pub(super) fn note(&mut self, cost: u64, decision: Decision, now: Timestamp) {
        self.activity.note(cost, now);
        self.answered(decision, now);
    }

    /// Notes what Redis answered.
    pub(super) fn answered(&mut self, decision: Decision, now: Timestamp) {
        (self.decision, self.decided_at) = (decision, now);
        if !decision.admit {
            self.refused_at = Some(now);
        }
    }

    pub(super) fn allow(&mut self, consistency: Consistency, held_max: u64) {
        (self.consistency, self.held_max) = (consistency, held_max);
    }

    /// Returns how many units are to be bought: as many as were spent in the last second, up to `held_max`, less those
    /// that are held. That is 0 while more than half of them are held, and for a client with few requests. If the quota
    /// was used up lately, many purchases are refused, so there are fewer and larger ones: when only an eighth is held.
    pub(super) fn missing(&self, now: Timestamp) -> u64 {
        let spent = self.activity.last_second(now);
        let target = spent.units.min(self.held_max);
        let is_scarce = self.refused_at.is_some_and(|at| now.since(at) < SCARCE_FOR);
        let (held, low) = (
            self.held(now),
            if is_scarce { target / 8 } else { target / 2 },
        );
        if spent.requests < BUSY_REQUESTS || held > low {
            return 0;
        }
        target - held
    }

    /// Counts the units that may be spent.
    pub(super) fn held(&self, now: Timestamp) -> u64 {
        let batches = self.batches.iter();
        let ahead = batches.filter(|batch| batch.ends.is_ahead(now));
        ahead.map(|batch| batch.charged.amount).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Removes units that are not to be held any longer; returns those that still count in Redis.
    pub(super) fn expire(
        &mut self,
        now: Timestamp,
        is_kept: impl Fn(&UnitBatch) -> bool,
    ) -> SmallVec<[Charged; 2]> {
        let mut held = self.held(now);
        let mut out = SmallVec::new();
        self.batches.retain(|batch| {
            if batch.ends.is_ahead(now) {
                if is_kept(batch) && held <= self.held_max {
                    return true;
                }
                held -= batch.charged.amount;
            }
            let is_over = batch.ends.window.is_some_and(|edge| edge <= now);
            if !is_over {
                out.push(batch.charged);
            }
            false
        });
        out
    }

    /// Forgets units that were charged before a reset, as `is_before` says.
    pub(super) fn forget(&mut self, is_before: impl Fn(&Charged) -> bool) {
        self.batches.retain(|batch| !is_before(&batch.charged));
    }

    /// Says whether the lease is no longer needed.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        self.batches.is_empty() && !self.is_buying && self.activity.is_over(now)
    }

    /// Returns what a client is told whose request is admitted: what Redis had left, plus what is held here.
    fn told(&self, now: Timestamp) -> Decision {
        let (elapsed, held) = (now.since(self.decided_at), self.held(now));
        let left = |span| counted_down(span, elapsed);
        let decision = Decision {
            admit: true,
            next: self.decision.next.map(left),
            reset: left(self.decision.reset),
            retry: Retry::NOW,
            ..self.decision
        };
        // As if what is held had not been charged.
        Adjustment::GiveBack(held).adjusted(decision, &self.quota, held)
    }
}

impl BatchEnd {
    fn is_ahead(&self, now: Timestamp) -> bool {
        now < self.counted && self.window.is_none_or(|edge| now < edge)
    }
}

/// How long a quota counts as used up after it refused.
const SCARCE_FOR: Micros = Micros::from_secs(1);
/// Units are bought ahead for a client with at least this many requests in the last second. For others that would save
/// little, and cost a call when they stop.
const BUSY_REQUESTS: u64 = 8;
