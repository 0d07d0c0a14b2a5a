//! Units that this gateway holds ahead: bought of quotas whose policy is leased, charged when bought, and spent without
//! asking.
//!
//! Units are bought only for busy clients: as many as a client spent in the last second, and no more than the gateway's
//! part of the policy's overshoot. Units that are not spent within a second are given back where they were charged.
//! Units end with the window in which they were charged, by what this gateway knows of the store's time; when the
//! client is reset; and before the other gateways stop counting this one, because then their parts grow.

mod activity;
mod lease;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::sync::futures::OwnedNotified;

pub(super) use self::lease::SpentUnits;
use self::lease::{BatchEnd, QuotaLease, UnitBatch};
use super::quota_key::QuotaKey;
use super::quota_shards::{QuotaShard, QuotaShards, SHARD_MAX, shrink};
use super::server_time::shortened;
use crate::clock::{Micros, Timestamp};
use crate::limit::{Adjustment, Algorithm, Charged, Check, Decision, PartitionId, Quota};
use crate::store::charge::{Keeper, SettledEntry};

/// Units that this gateway holds ahead, shared by its workers.
#[derive(Debug)]
pub(super) struct Leases {
    shards: QuotaShards<QuotaLease>,
    /// The shard that is swept next.
    next_sweep: AtomicUsize,
    /// Whether nothing is bought or spent any more.
    is_closed: AtomicBool,
}

/// The current terms on which this gateway buys and spends units.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTerms {
    /// The current time, by the steady clock like all times of leases: a corrected clock must not let units be spent
    /// for longer.
    pub(super) now: Timestamp,
    /// Number of gateways among which an overshoot is divided.
    pub(super) nodes: u32,
    /// Until when the other gateways count this one.
    pub(super) counted_until: Timestamp,
    /// Whether this gateway has been part of the fleet for long enough to buy.
    pub(super) may_buy: bool,
}

/// Whether units of a check's quota are to be bought.
#[derive(Debug)]
pub(super) enum PurchaseTurn {
    /// The caller is to buy this many, and to call [`Leases::end_purchase`] afterwards: then this is ready, for
    /// requests that wait.
    Buy(u64, OwnedNotified),
    /// Another purchase is under way; it has ended when this is ready.
    UnderWay(OwnedNotified),
    /// No: enough units are held.
    Held,
    /// No: the client asks too seldom or for too much at once, or this gateway may not buy. The check is exact.
    AskRedis,
}

/// What was bought for one check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bought {
    /// What Redis charged.
    pub(super) charged: Charged,
    /// What Redis answered.
    pub(super) decision: Decision,
    /// When Redis was asked, by the steady clock.
    pub(super) sent: Timestamp,
}

impl LeaseTerms {
    /// Returns how many units of a check's quota this gateway may hold; 0 if the check is exact.
    pub(super) fn held_max(&self, check: &Check<'_>) -> u64 {
        check.consistency.held_max(check.quota, self.nodes)
    }

    /// Says whether held units may pay for a check; otherwise it is exact.
    pub(super) fn leases(&self, check: &Check<'_>) -> bool {
        self.held_max(check) > 0
    }
}

impl Leases {
    pub(super) fn new() -> Self {
        Self {
            shards: QuotaShards::new(),
            next_sweep: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Spends units that are held for a check; none if there are too few.
    pub(super) fn spend(&self, check: &Check<'_>, now: Timestamp) -> Option<SpentUnits> {
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        let lease = shard.get_mut(&key)?;
        if lease.quota != *check.quota || self.is_closed.load(Relaxed) {
            return None;
        }
        lease.spend(check.cost, now)
    }

    /// Takes units back that were not spent after all; returns those that cannot be kept. `is_forgotten` says whether
    /// the client was reset since.
    pub(super) fn put_back(
        &self,
        check: &Check<'_>,
        spent: &SpentUnits,
        now: Timestamp,
        is_forgotten: impl Fn(&Charged) -> bool,
    ) -> Option<SettledEntry> {
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        if is_forgotten(&spent.charged) {
            return None;
        }
        match shard.get_mut(&key) {
            // Other units may have been bought in their place, so that there is no room.
            Some(lease) if lease.quota == *check.quota && lease.has_room(spent, now) => {
                lease.put_back(spent, now);
                None
            }
            _ => Some(given_back(key, *check.quota, spent.charged)),
        }
    }

    /// Notes that Redis admitted a check that was not paid here, and what it answered.
    pub(super) fn note(&self, check: &Check<'_>, decision: Decision, terms: &LeaseTerms) {
        let held_max = terms.held_max(check);
        if held_max == 0 {
            return;
        }
        let (key, now) = (QuotaKey::of(check), terms.now);
        let mut shard = self.shards.of(key);
        if !shard.contains_key(&key) && shard.len() >= SHARD_MAX {
            return;
        }
        let new = || QuotaLease::new(check, decision, now);
        let lease = shard.entry(key).or_insert_with(new);
        if lease.quota != *check.quota {
            // The client's lease is of another quota, such as another tier's, which keeps it until it is idle.
            if !lease.is_idle(now) {
                return;
            }
            *lease = new();
        }
        lease.allow(check.consistency, held_max);
        lease.note(check.cost, decision, now);
    }

    /// Notes what Redis answered a check that it did not charge.
    pub(super) fn answered(&self, check: &Check<'_>, decision: Decision, now: Timestamp) {
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        let lease = shard.get_mut(&key);
        if let Some(lease) = lease.filter(|lease| lease.quota == *check.quota) {
            lease.answered(decision, now);
        }
    }

    /// Says whether enough is held for a check.
    pub(super) fn holds(&self, check: &Check<'_>, now: Timestamp) -> bool {
        let key = QuotaKey::of(check);
        let shard = self.shards.of(key);
        let lease = shard.get(&key).filter(|lease| lease.quota == *check.quota);
        let is_enough = |lease: &QuotaLease| lease.held(now) >= check.cost.max(1);
        !self.is_closed.load(Relaxed) && lease.is_some_and(is_enough)
    }

    /// Says whether units are to be bought for a check. If so, the caller has to call
    /// [`end_purchase`](Self::end_purchase) afterwards.
    pub(super) fn begin_purchase(&self, check: &Check<'_>, terms: &LeaseTerms) -> PurchaseTurn {
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        let lease = shard.get_mut(&key);
        let Some(lease) = lease.filter(|lease| lease.quota == *check.quota) else {
            return PurchaseTurn::AskRedis;
        };
        let held_max = terms.held_max(check);
        lease.allow(check.consistency, held_max);
        let (missing, held) = (lease.missing(terms.now), lease.held(terms.now));
        let may_buy = terms.may_buy && !self.is_closed.load(Relaxed);
        let can_pay = check.cost <= held_max.saturating_sub(held);
        if missing == 0 || !may_buy || !can_pay {
            return if held >= check.cost.max(1) {
                PurchaseTurn::Held
            } else {
                PurchaseTurn::AskRedis
            };
        }
        let bought = Arc::clone(lease.bought.get_or_insert_default()).notified_owned();
        if std::mem::replace(&mut lease.is_buying, true) {
            return PurchaseTurn::UnderWay(bought);
        }
        PurchaseTurn::Buy(missing.max(check.cost), bought)
    }

    /// Returns how many units are to be bought for a check, whether or not a purchase is under way; 0 if none are.
    pub(super) fn missing(&self, check: &Check<'_>, now: Timestamp) -> u64 {
        let key = QuotaKey::of(check);
        let shard = self.shards.of(key);
        let lease = shard.get(&key).filter(|lease| lease.quota == *check.quota);
        lease.map_or(0, |lease| lease.missing(now))
    }

    /// Adds the units of a purchase; returns those that cannot be kept. `is_forgotten` says whether the client was
    /// reset since.
    pub(super) fn bought(
        &self,
        check: &Check<'_>,
        bought: Bought,
        terms: &LeaseTerms,
        is_forgotten: impl Fn(&Charged) -> bool,
    ) -> Option<SettledEntry> {
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        let lease = shard.get_mut(&key);
        let lease = lease.filter(|lease| lease.quota == *check.quota);
        let Some(lease) = lease.filter(|_| !self.is_closed.load(Relaxed)) else {
            return Some(given_back(key, *check.quota, bought.charged));
        };
        if is_forgotten(&bought.charged) {
            return None;
        }
        lease.answered(bought.decision, terms.now);
        lease.add(UnitBatch {
            charged: bought.charged,
            bought_at: terms.now,
            ends: BatchEnd {
                window: window_end(check.quota, &bought),
                counted: terms.counted_until,
            },
        });
        None
    }

    /// Notes that a purchase has ended.
    pub(super) fn end_purchase(&self, key: QuotaKey) {
        if let Some(lease) = self.shards.of(key).get_mut(&key) {
            lease.is_buying = false;
            if let Some(bought) = lease.bought.take() {
                bought.notify_waiters();
            }
        }
    }

    /// Buys and spends no more from now on; what is held goes back when it is [swept](Self::sweep).
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    /// Buys and spends again, after [`close`](Self::close).
    pub(super) fn reopen(&self) {
        self.is_closed.store(false, Relaxed);
    }

    /// Removes units that are not to be held any longer, some shards at a time, and returns what is to be given back.
    /// To be called several times a second. Where `is_barred` says that Redis cannot be asked, unspent units are kept,
    /// so that they can be spent.
    pub(super) fn sweep(
        &self,
        terms: &LeaseTerms,
        is_barred: impl Fn(PartitionId) -> bool,
    ) -> Vec<SettledEntry> {
        let first = self.next_sweep.fetch_add(SHARDS_PER_SWEEP, Relaxed);
        let is_closed = self.is_closed.load(Relaxed);
        let mut back = Vec::new();
        for index in first..first + SHARDS_PER_SWEEP {
            let mut shard = self.shards.nth(index);
            shard.retain(|key, lease| {
                if !lease.is_empty() {
                    let consistency = lease.consistency;
                    let held_max = consistency.held_max(&lease.quota, terms.nodes);
                    lease.allow(consistency, held_max);
                    let is_kept = |batch: &UnitBatch| {
                        let age = terms.now.since(batch.bought_at);
                        !is_closed && (age < UNUSED_MAX || is_barred(key.partition_id))
                    };
                    let expired = lease.expire(terms.now, is_kept);
                    back.extend(
                        expired
                            .iter()
                            .map(|part| given_back(*key, lease.quota, *part)),
                    );
                }
                !lease.is_idle(terms.now)
            });
            shrink(&mut shard);
        }
        back
    }

    /// Removes all held units, and returns what is to be given back.
    pub(super) fn take_all(&self, now: Timestamp) -> Vec<SettledEntry> {
        let mut back = Vec::new();
        for mut shard in self.shards.all() {
            for (key, lease) in &mut *shard {
                let expired = lease.expire(now, |_| false);
                back.extend(
                    expired
                        .iter()
                        .map(|part| given_back(*key, lease.quota, *part)),
                );
            }
        }
        back
    }

    /// Forgets units that were charged to a client before a reset, as `is_before` says.
    pub(super) fn reset(&self, key: QuotaKey, is_before: impl Fn(&Quota, &Charged) -> bool) {
        if let Some(lease) = self.shards.of(key).get_mut(&key) {
            let quota = lease.quota;
            lease.forget(|charged| is_before(&quota, charged));
        }
    }

    /// Counts the units that are held.
    pub(super) fn held(&self, now: Timestamp) -> u64 {
        let held = |shard: &QuotaShard<QuotaLease>| -> u64 {
            shard.values().map(|lease| lease.held(now)).sum()
        };
        self.shards.all().map(|shard| held(&shard)).sum()
    }
}

/// Returns when the window in which units were charged ends, by this gateway's steady clock; none if units do not end
/// with it.
///
/// This is a lower bound: Redis decided after it was asked, and its clock may be a little faster.
fn window_end(quota: &Quota, bought: &Bought) -> Option<Timestamp> {
    match quota.algorithm {
        Algorithm::FixedWindow | Algorithm::Calendar(_) => {
            let to_end = bought.decision.reset;
            Some(bought.sent + shortened(to_end))
        }
        _ => None,
    }
}

/// Makes the entry that gives a charge back to Redis.
fn given_back(key: QuotaKey, quota: Quota, charged: Charged) -> SettledEntry {
    SettledEntry {
        quota,
        series_id: key.series_id,
        partition_id: key.partition_id,
        charged,
        adjustment: Adjustment::GiveBack(charged.amount),
        keeper: Keeper::Redis,
    }
}

/// Shards that one sweep passes over; all are swept within 0.4 s.
const SHARDS_PER_SWEEP: usize = 16;
/// Age at which units that were not spent are given back.
const UNUSED_MAX: Micros = Micros::from_secs(1);
