//! Synced quotas: this gateway counts by itself what it admits, and at intervals reports that to Redis, which answers
//! with what all gateways have counted.
//!
//! Redis decides the first request of a client. From then on the client is followed: its requests are decided by the
//! last state from Redis and by what was counted here since. Redis counts reported units in the window or bucket in
//! which they were spent. Counts that could not be reported are kept, and reported later.

mod followed_quota;
mod own_counts;
mod report;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use self::followed_quota::FollowedQuota;
pub(super) use self::followed_quota::{CountedUnits, FollowTerms};
pub(super) use self::report::{CountReport, ReportOutcome, SeenState};
use super::quota_key::QuotaKey;
use super::quota_shards::{QuotaShard, QuotaShards, SHARD_MAX, SHARDS, shrink};
use crate::clock::{Micros, Timestamp, Turn};
use crate::limit::{Adjustment, Check};
use crate::store::charge::SettledEntry;

/// The quotas that this gateway follows, shared by its workers.
#[derive(Debug)]
pub(super) struct FollowedQuotas {
    shards: QuotaShards<FollowedQuota>,
    /// The turn to begin the reports that are due.
    turn: Turn,
    /// Limits how often a failed report is logged.
    pub(super) log: Turn,
    /// The shard whose reports begin first the next time.
    first_shard: AtomicUsize,
}

/// Says whether gateways count a check's quota by themselves.
pub(super) fn is_synced(check: &Check<'_>) -> bool {
    check.consistency.sync_interval().is_some()
}

impl FollowedQuotas {
    pub(super) fn new() -> Self {
        Self {
            shards: QuotaShards::new(),
            turn: Turn::default(),
            log: Turn::default(),
            first_shard: AtomicUsize::new(0),
        }
    }

    /// Follows a check's quota from now on, beginning with the state that Redis returned to a request; a quota that is
    /// followed already takes that state in. Does nothing if the shard is full.
    pub(super) fn follow(&self, check: &Check<'_>, seen: SeenState) {
        let Some(interval) = check.consistency.sync_interval() else {
            return;
        };
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        if let Some(followed) = shard.get_mut(&key) {
            followed.see(key.partition_id, seen);
        } else if shard.len() < SHARD_MAX {
            shard.insert(key, FollowedQuota::new(check, interval, seen));
        }
    }

    /// Decides a check by what is known here, and counts it if it is admitted and `counts` says so; none if its quota
    /// is not followed.
    pub(super) fn decide(
        &self,
        check: &Check<'_>,
        terms: &FollowTerms,
        counts: bool,
    ) -> Option<CountedUnits> {
        let interval = check.consistency.sync_interval()?;
        let key = QuotaKey::of(check);
        let mut shard = self.shards.of(key);
        let followed = shard.get_mut(&key)?;
        Some(followed.decide(check, interval, terms, counts))
    }

    /// Settles what this gateway counted; says whether the quota is still followed. If not, what it counted was
    /// reported or has aged out.
    pub(super) fn settle(&self, entry: &SettledEntry, now: Timestamp) -> bool {
        let key = QuotaKey {
            series_id: entry.series_id,
            partition_id: entry.partition_id,
        };
        let mut shard = self.shards.of(key);
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

    /// Makes a quota whole that was reset at `at`, by the clock of Redis.
    pub(super) fn reset(&self, key: QuotaKey, at: Timestamp, now: Timestamp) {
        if let Some(followed) = self.shards.of(key).get_mut(&key) {
            followed.reset(key.partition_id, at, now);
        }
    }

    /// Reports a quota as soon as possible, because what Redis counts of it was changed.
    pub(super) fn report_soon(&self, key: QuotaKey) {
        if let Some(followed) = self.shards.of(key).get_mut(&key) {
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

    /// Begins reports of all counts that have not been reported; at most [`REPORTS_MAX`] at a time.
    pub(super) fn take_unreported(&self, now: Timestamp) -> Vec<CountReport> {
        self.take(now, FollowedQuota::has_unreported)
    }

    fn take(&self, now: Timestamp, is_due: impl Fn(&FollowedQuota) -> bool) -> Vec<CountReport> {
        // Each call begins at the next shard, so each has its turn, however many reports are due.
        let first = self.first_shard.fetch_add(1, Relaxed);
        let mut reports = Vec::new();
        for index in first..first + SHARDS {
            let mut shard = self.shards.nth(index);
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
            shrink(&mut shard);
        }
        reports
    }

    /// Notes the outcome of a report.
    pub(super) fn reported(&self, report: &CountReport, outcome: ReportOutcome, now: Timestamp) {
        if let Some(followed) = self.shards.of(report.key).get_mut(&report.key) {
            followed.reported(report, outcome, now);
        }
    }

    /// Counts the quotas that are not fully reported.
    pub(super) fn unreported(&self) -> usize {
        let unreported = |shard: &QuotaShard<FollowedQuota>| {
            shard.values().filter(|one| !one.is_reported()).count()
        };
        self.shards.all().map(|shard| unreported(&shard)).sum()
    }

    /// Counts the quotas that are followed.
    pub(super) fn len(&self) -> usize {
        self.shards.all().map(|shard| shard.len()).sum()
    }
}

/// Most reports that begin at a time; others begin a little later.
const REPORTS_MAX: usize = 8_192;
/// How often due reports are begun.
const TICK: Micros = Micros(90_000);
