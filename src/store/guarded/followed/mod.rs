//! Synced quotas: this gateway counts by itself what it admits, and every so often reports that to Redis, which says what
//! all have counted.
//!
//! The first request of a client is decided by Redis. From then on the client is followed: its requests are decided by
//! what Redis said last and what was counted here since. Redis counts what is reported in the window or bucket in which
//! it was spent. What could not be reported is kept, and reported later.

mod followed_quota;
mod own_counts;
mod report;
mod window_state;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use self::followed_quota::FollowedQuota;
pub(super) use self::followed_quota::{CountedUnits, FollowTerms};
pub(super) use self::report::{CountReport, ReportOutcome, SeenState};
use super::quota_key::QuotaKey;
use super::turn::Turn;
use crate::clock::{Micros, Timestamp};
use crate::limit::{Adjustment, Check};
use crate::store::charge::SettledEntry;

/// The quotas that this gateway follows, shared by its workers.
#[derive(Debug)]
pub(super) struct FollowedQuotas {
    shards: Box<[CachePadded<Mutex<FollowedShard>>]>,
    hasher: RandomState,
    /// Reporting.
    turn: Turn,
    /// The shard whose reports are the first next time.
    first_shard: AtomicUsize,
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
            first_shard: AtomicUsize::new(0),
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

    /// Settles what this gateway counted; says whether the quota is still followed. If not, all of it was reported.
    pub(super) fn settle(&self, entry: &SettledEntry, now: Timestamp) -> bool {
        let key = QuotaKey {
            series_id: entry.series_id,
            partition_id: entry.partition_id,
        };
        let mut shard = self.shard(key);
        let Some(followed) = shard.get_mut(&key) else {
            return false;
        };
        let partition_id = key.partition_id;
        match entry.adjustment {
            Adjustment::GiveBack(units) => {
                followed.give_back(partition_id, entry.charged, units, now);
            }
            Adjustment::Spend(units) => followed.spend(partition_id, units, now),
        }
        true
    }

    /// Makes a quota whole that was reset at `at` of the clock of Redis.
    pub(super) fn reset(&self, key: QuotaKey, at: Timestamp, now: Timestamp) {
        if let Some(followed) = self.shard(key).get_mut(&key) {
            followed.reset(key.partition_id, at, now);
        }
    }

    /// Reports a quota as soon as may be, because Redis was told something else of it.
    pub(super) fn report_soon(&self, key: QuotaKey) {
        if let Some(followed) = self.shard(key).get_mut(&key) {
            followed.report_soon();
        }
    }

    /// Begins the reports that are due, if it is this caller's turn. To be called several times a second.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<CountReport> {
        if !self.turn.take(now, TICK) {
            return Vec::new();
        }
        self.take(now, |followed| followed.is_due(now, TICK))
    }

    /// Begins to report all that was not.
    pub(super) fn take_unreported(&self, now: Timestamp) -> Vec<CountReport> {
        self.take(now, FollowedQuota::has_unreported)
    }

    fn take(&self, now: Timestamp, is_due: impl Fn(&FollowedQuota) -> bool) -> Vec<CountReport> {
        // So that each shard has its turn, however many reports are due.
        let first = self.first_shard.fetch_add(1, Relaxed);
        let mut reports = Vec::new();
        for index in first..first + SHARDS {
            let mut shard = lock(&self.shards[index % SHARDS]);
            shard.retain(|key, followed| {
                if !is_due(followed) {
                    return true;
                }
                let is_over = followed.is_over(now);
                if !is_over && reports.len() < REPORTS_MAX {
                    reports.push(followed.begin_report(*key, now));
                }
                !is_over
            });
            if shard.len() < shard.capacity() / 4 {
                shard.shrink_to_fit();
            }
        }
        reports
    }

    /// Notes what became of a report.
    pub(super) fn reported(&self, report: &CountReport, outcome: ReportOutcome, now: Timestamp) {
        if let Some(followed) = self.shard(report.key).get_mut(&report.key) {
            followed.reported(report, outcome, now);
        }
    }

    /// Counts the quotas of which not all is reported.
    pub(super) fn unreported(&self) -> usize {
        let unreported =
            |shard: &FollowedShard| shard.values().filter(|one| !one.is_reported()).count();
        let shards = self.shards.iter();
        shards.map(|shard| unreported(&lock(shard))).sum()
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
/// Most reports that begin at a time; the others a little later.
const REPORTS_MAX: usize = 8_192;
/// How often it is looked what is due.
const TICK: Micros = Micros(90_000);
