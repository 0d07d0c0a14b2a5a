//! Synced quotas: this gateway counts by itself what it admits, and every so often tells Redis, which says what all have
//! counted.
//!
//! The first request of a client is decided by Redis. From then on the client is followed: its requests are decided by
//! what Redis said last and what was counted here since. What Redis is told is counted in the window or bucket in which
//! it was spent. What it could not be told is kept, and told again.

mod followed_quota;
mod own_counts;
mod report;
mod window_state;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use self::followed_quota::FollowedQuota;
pub(super) use self::followed_quota::{CountedUnits, FollowTerms};
pub(super) use self::report::{CountReport, SeenState, Told};
use super::quota_key::QuotaKey;
use super::turn::Turn;
use crate::clock::{Micros, Timestamp};
use crate::limit::{Adjustment, Charged, Check};
use crate::store::charge::SettledEntry;

/// The quotas that this gateway follows, shared by its workers.
#[derive(Debug)]
pub(super) struct FollowedQuotas {
    shards: Box<[CachePadded<Mutex<FollowedShard>>]>,
    hasher: RandomState,
    /// Telling Redis.
    turn: Turn,
}

type FollowedShard = HashMap<QuotaKey, FollowedQuota>;

/// Says whether gateways count a check's quota by themselves.
pub(super) fn is_synced(check: &Check<'_>) -> bool {
    check.consistency.sync_interval().is_some()
}

impl FollowedQuotas {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            hasher: RandomState::new(),
            turn: Turn::default(),
        }
    }

    /// Follows a check's quota from now on, of which Redis said this to a request.
    pub(super) fn follow(&self, check: &Check<'_>, seen: SeenState) {
        let Some(interval) = check.consistency.sync_interval() else {
            return;
        };
        let key = QuotaKey::of(check);
        let mut shard = self.shard(key);
        if let Some(followed) = shard.get_mut(&key) {
            followed.see(key.partition_id, seen);
        } else if shard.len() < SHARD_MAX {
            shard.insert(key, FollowedQuota::new(check, interval, seen));
        }
    }

    /// Decides a check by what is known here, and counts it if it is admitted and `counts` says so; none if its quota is
    /// not followed.
    pub(super) fn decide(
        &self,
        check: &Check<'_>,
        terms: &FollowTerms,
        counts: bool,
    ) -> Option<CountedUnits> {
        let interval = check.consistency.sync_interval()?;
        let key = QuotaKey::of(check);
        let mut shard = self.shard(key);
        let followed = shard.get_mut(&key)?;
        Some(followed.decide(check, interval, terms, counts))
    }

    /// Takes units back, or spends more; says whether the quota is followed.
    pub(super) fn adjust(
        &self,
        key: QuotaKey,
        charged: Charged,
        adjustment: Adjustment,
        now: Timestamp,
    ) -> bool {
        let mut shard = self.shard(key);
        let Some(followed) = shard.get_mut(&key) else {
            return false;
        };
        let partition_id = key.partition_id;
        match adjustment {
            Adjustment::GiveBack(units) => followed.give_back(partition_id, charged, units, now),
            Adjustment::Spend(units) => followed.spend(partition_id, units, now),
        }
        true
    }

    /// Settles an entry that this gateway counted; says whether the quota is still followed. If not, Redis has all of it.
    pub(super) fn settle(&self, entry: &SettledEntry, now: Timestamp) -> bool {
        let key = QuotaKey {
            series_id: entry.series_id,
            partition_id: entry.partition_id,
        };
        self.adjust(key, entry.charged, entry.adjustment, now)
    }

    /// Follows a quota no more, because it was reset: what was counted before is dropped.
    pub(super) fn forget(&self, key: QuotaKey) {
        self.shard(key).remove(&key);
    }

    /// Begins to tell Redis what is due, if it is this caller's turn. To be called several times a second.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<CountReport> {
        if !self.turn.take(now, TICK) {
            return Vec::new();
        }
        self.take(now, |followed| followed.is_due(now, TICK))
    }

    /// Begins to tell Redis all that it has not been told.
    pub(super) fn take_untold(&self, now: Timestamp) -> Vec<CountReport> {
        self.take(now, FollowedQuota::has_untold)
    }

    fn take(&self, now: Timestamp, is_due: impl Fn(&FollowedQuota) -> bool) -> Vec<CountReport> {
        let mut reports = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.retain(|key, followed| {
                if reports.len() < REPORTS_MAX && is_due(followed) {
                    if followed.is_over(now) {
                        return false;
                    }
                    reports.push(followed.begin_report(*key, now));
                }
                true
            });
            if shard.len() < shard.capacity() / 4 {
                shard.shrink_to_fit();
            }
        }
        reports
    }

    /// Notes what became of what Redis was told.
    pub(super) fn told(&self, report: &CountReport, told: Told, now: Timestamp) {
        if let Some(followed) = self.shard(report.key).get_mut(&report.key) {
            followed.told(report, told, now);
        }
    }

    /// Counts the quotas of which Redis has not been told all.
    pub(super) fn untold(&self) -> usize {
        let untold = |shard: &FollowedShard| shard.values().filter(|one| !one.is_told()).count();
        self.shards.iter().map(|shard| untold(&lock(shard))).sum()
    }

    /// Counts the quotas that are followed.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, key: QuotaKey) -> MutexGuard<'_, FollowedShard> {
        let shard = self.hasher.hash_one(key) % SHARDS as u64;
        lock(&self.shards[usize::try_from(shard).expect("there are few")])
    }
}

fn lock(shard: &Mutex<FollowedShard>) -> MutexGuard<'_, FollowedShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// Most quotas of a shard that are followed; further ones are decided by Redis.
const SHARD_MAX: usize = 1_024;
/// Most quotas that Redis is told of at a time; the others a little later.
const REPORTS_MAX: usize = 8_192;
/// How often it is looked what is due.
const TICK: Micros = Micros(90_000);
