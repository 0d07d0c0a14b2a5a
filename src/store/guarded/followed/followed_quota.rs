//! What this gateway knows and counts of one quota of one client.

use std::mem;

use super::own_counts::OwnCounts;
use super::report::{CountReport, ReportOutcome, SeenState};
use crate::clock::{Micros, Timestamp};
use crate::limit::quota::COUNT_MAX;
use crate::limit::{AnyState, Charged, Check, Decision, PartitionId, Quota, Retry};
use crate::store::guarded::quota_key::QuotaKey;

/// What this gateway knows and counts of one quota of one client. Times are by the steady clock, except those by the
/// clock of Redis.
#[derive(Debug)]
pub(super) struct FollowedQuota {
    quota: Quota,
    interval: Micros,
    /// The state that Redis returned last.
    seen: AnyState,
    /// When Redis read that state, by its clock.
    seen_time: Timestamp,
    /// When that state arrived here.
    seen_at: Timestamp,
    /// That state, with the counts of this gateway that it does not include.
    known: AnyState,
    /// Counts that are not yet reported to Redis.
    unreported: OwnCounts,
    /// Counts of the report that is under way; none if there is none.
    reporting: Option<OwnCounts>,
    /// Whether the quota was reset while that report was under way: if Redis counts it after the reset, it is undone.
    is_void: bool,
    /// When the last report began.
    reported_at: Timestamp,
    /// When the next report is due.
    due_at: Timestamp,
    /// When the last state arrived here; it includes what all gateways have reported.
    heard_at: Timestamp,
    /// Since when the quota is counted, by the clock of Redis: when it was first followed, or last reset.
    since: Timestamp,
    /// When the last request came.
    used_at: Timestamp,
    /// Counts for decisions without the other gateways; set from the second interval without an answer from Redis.
    alone: Option<AloneCounts>,
}

/// Counts while those of the other gateways are not known.
#[derive(Debug)]
struct AloneCounts {
    /// What was known when that began.
    known: AnyState,
    /// What was counted here since that began.
    own: AnyState,
}

/// The current terms on which this gateway counts by itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::guarded) struct FollowTerms {
    /// The current time, by the steady clock.
    pub(in crate::store::guarded) now: Timestamp,
    /// Number of gateways among which a quota is divided while Redis does not add up their counts.
    pub(in crate::store::guarded) nodes: u32,
}

/// The answer to a check by what this gateway knows and counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::guarded) struct CountedUnits {
    /// What was counted; none if the check is refused or was not to be counted.
    pub(in crate::store::guarded) charged: Option<Charged>,
    pub(in crate::store::guarded) decision: Decision,
    /// Whether the check was decided without what the other gateways count.
    pub(in crate::store::guarded) is_alone: bool,
}

impl FollowedQuota {
    pub(super) fn new(check: &Check<'_>, interval: Micros, seen: SeenState) -> Self {
        Self {
            quota: *check.quota,
            interval,
            known: seen.state.clone(),
            seen: seen.state,
            seen_time: seen.time,
            seen_at: seen.received,
            unreported: OwnCounts::default(),
            reporting: None,
            is_void: false,
            reported_at: seen.asked,
            due_at: seen.asked + interval,
            heard_at: seen.received,
            since: seen.time,
            used_at: seen.received,
            alone: None,
        }
    }

    /// Takes in the state that Redis returned to another request, unless an answer with a later time came before.
    pub(super) fn see(&mut self, partition_id: PartitionId, seen: SeenState) {
        if seen.time >= self.seen_time {
            let received = seen.received;
            self.hear(seen);
            self.know(partition_id, received);
        }
    }

    /// Decides a check, and counts it if it is admitted; `counts` says whether it is to be counted at all.
    pub(super) fn decide(
        &mut self,
        check: &Check<'_>,
        interval: Micros,
        terms: &FollowTerms,
        counts: bool,
    ) -> CountedUnits {
        let (quota, cost) = (check.quota, check.cost);
        // A client's limit and interval may change; what was spent stays.
        (self.quota, self.interval) = (*quota, interval);
        self.used_at = terms.now;
        let now = self.server_now(check.partition_id, terms.now);
        let at = self.known.arrive(quota, now);
        if terms.now.since(self.heard_at).0 >= 2 * interval.0 {
            return self.decide_alone(check, terms, (now, at), counts);
        }
        let admit = self.known.admits(quota, cost, at);
        let charged = (admit && counts).then(|| self.charge(cost, at));
        CountedUnits {
            charged,
            decision: self.known.decision(quota, cost, at, admit),
            is_alone: false,
        }
    }

    /// Decides a check on this gateway's share of what was left when a second interval was missed.
    fn decide_alone(
        &mut self,
        check: &Check<'_>,
        terms: &FollowTerms,
        (now, at): (Timestamp, Timestamp),
        counts: bool,
    ) -> CountedUnits {
        let (quota, cost) = (check.quota, check.cost);
        let alone = self.alone.get_or_insert_with(|| AloneCounts {
            own: AnyState::new(quota),
            known: self.known.clone(),
        });
        let then = alone.known.arrive(quota, now);
        let left = alone.known.decision(quota, 0, then, true).remaining;
        let share = left / u64::from(terms.nodes.max(1));
        let own_at = alone.own.arrive(quota, now);
        let most = Quota {
            limit: COUNT_MAX,
            ..*quota
        };
        let used = COUNT_MAX - alone.own.decision(&most, 0, own_at, true).remaining;
        let admit = used.saturating_add(cost) <= share;
        let charge = admit && counts;
        if charge {
            alone.own.charge(quota, cost, own_at);
        }
        let charged = charge.then(|| self.charge(cost, at));
        let decision = self.known.decision(quota, cost, at, admit);
        let retry = match decision.retry {
            // Until the next interval, nothing is heard of the others.
            Retry::After(retry) if !admit => Retry::After(retry.max(self.interval)),
            retry => retry,
        };
        let used = used + if charge { cost } else { 0 };
        CountedUnits {
            charged,
            decision: Decision {
                remaining: share.saturating_sub(used).min(decision.remaining),
                retry,
                ..decision
            },
            is_alone: true,
        }
    }

    fn charge(&mut self, cost: u64, at: Timestamp) -> Charged {
        let charged = self.known.charge(&self.quota, cost, at);
        self.unreported.add(&self.quota, charged, signed(cost));
        charged
    }

    /// Takes back units of a charge.
    pub(super) fn give_back(
        &mut self,
        partition_id: PartitionId,
        charged: Charged,
        amount: u64,
        now: Timestamp,
    ) {
        let amount = amount.min(charged.amount);
        let now = self.server_now(partition_id, now);
        let at = self.known.arrive(&self.quota, now);
        self.known.release(&self.quota, charged, amount, at);
        if let Some(alone) = &mut self.alone {
            let at = alone.own.arrive(&self.quota, now);
            alone.own.release(&self.quota, charged, amount, at);
        }
        self.unreported.add(&self.quota, charged, -signed(amount));
    }

    /// Spends more units, whether they fit or not.
    pub(super) fn spend(&mut self, partition_id: PartitionId, amount: u64, now: Timestamp) {
        let now = self.server_now(partition_id, now);
        let at = self.known.arrive(&self.quota, now);
        self.charge(amount, at);
        if let Some(alone) = &mut self.alone {
            let at = alone.own.arrive(&self.quota, now);
            alone.own.charge(&self.quota, amount, at);
        }
    }

    /// Makes the quota whole, because it was reset at `at`, by the clock of Redis: counts from until then are dropped.
    pub(super) fn reset(&mut self, partition_id: PartitionId, at: Timestamp, now: Timestamp) {
        if self.since >= at {
            return;
        }
        self.since = at;
        // By now the clock of Redis shows at least that, so charges from now on are dated after the reset.
        (self.seen_time, self.seen_at) = (at.max(self.redis_time(now)), now);
        self.unreported.forget(at + self.quota.phase(partition_id));
        self.is_void = self.reporting.is_some();
        self.alone = None;
        self.seen = AnyState::new(&self.quota);
        self.know(partition_id, now);
        self.report_soon();
    }

    /// Makes a report due at once, because what Redis counts was changed.
    pub(super) fn report_soon(&mut self) {
        self.due_at = Timestamp(0);
    }

    /// Says whether a report is due before the next occasion, which is `tick` later.
    pub(super) fn is_due(&self, now: Timestamp, tick: Micros) -> bool {
        self.reporting.is_none() && now + tick > self.due_at
    }

    /// Says whether the quota need not be followed any longer: no request came for two intervals, and all that still
    /// counts is reported.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let unused = now.since(self.used_at).0;
        unused >= 2 * self.interval.0
            && (self.is_reported()
                || unused >= self.quota.counts_for().0.saturating_add(self.interval.0))
    }

    /// Says whether there is something to report, and no report is under way.
    pub(super) fn has_unreported(&self) -> bool {
        self.reporting.is_none() && !self.unreported.is_empty()
    }

    /// Says whether all counts are reported.
    pub(super) fn is_reported(&self) -> bool {
        self.reporting.is_none() && self.unreported.is_empty()
    }

    /// Begins to report what was counted.
    pub(super) fn begin_report(&mut self, key: QuotaKey, now: Timestamp) -> CountReport {
        let unreported = mem::take(&mut self.unreported);
        let steps = unreported.steps();
        self.reporting = Some(unreported);
        (self.reported_at, self.due_at) = (now, now + self.interval);
        CountReport {
            key,
            quota: self.quota,
            steps,
            asked: now,
        }
    }

    /// Notes the outcome of a report.
    pub(super) fn reported(
        &mut self,
        report: &CountReport,
        outcome: ReportOutcome,
        now: Timestamp,
    ) {
        let is_its = self.reported_at == report.asked;
        let Some(reporting) = self.reporting.take_if(|_| is_its) else {
            return;
        };
        let (partition_id, is_void) = (report.key.partition_id, mem::take(&mut self.is_void));
        let unreported = match outcome {
            ReportOutcome::Counted(seen) if is_void && seen.time > self.since => {
                self.hear(seen);
                reporting.reversed()
            }
            // Units that the report may have given back after the reset are spent again.
            ReportOutcome::Unknown if is_void => reporting.reversed().without_returns(),
            _ if is_void => OwnCounts::default(),
            ReportOutcome::Counted(seen) if self.shows(partition_id, &seen, &reporting) => {
                // A newer state, which another request brought meanwhile, includes the report, too.
                if seen.time >= self.seen_time || self.seen_at < seen.asked {
                    self.hear(seen);
                }
                OwnCounts::default()
            }
            ReportOutcome::Counted(_) | ReportOutcome::Uncounted => reporting,
            // Spent units are reported again, so counted twice at worst. If units came back twice, too many would be
            // admitted.
            ReportOutcome::Unknown => reporting.without_returns(),
        };
        self.unreported.add_all(&self.quota, &unreported);
        self.know(partition_id, now);
    }

    fn hear(&mut self, seen: SeenState) {
        (self.seen, self.seen_time, self.seen_at) = (seen.state, seen.time, seen.received);
        self.heard_at = self.heard_at.max(seen.received);
        self.alone = None;
    }

    /// Says whether a state includes what was reported. A full server counts nothing for which it has no key, and
    /// answers that the quota is whole.
    fn shows(&self, partition_id: PartitionId, seen: &SeenState, reporting: &OwnCounts) -> bool {
        let (quota, now) = (&self.quota, seen.time + self.quota.phase(partition_id));
        let mut own = AnyState::new(quota);
        let at = own.arrive(quota, now);
        let counts = reporting.clone().without_returns();
        counts.apply(quota, &mut own, at);
        !seen.state.is_whole(quota, now) || own.is_whole(quota, at)
    }

    /// Brings `known` up to date: the last state from Redis, with the counts that it does not include.
    fn know(&mut self, partition_id: PartitionId, now: Timestamp) {
        let now = self.server_now(partition_id, now);
        let mut known = self.seen.clone();
        let at = known.arrive(&self.quota, now);
        let reporting = self.reporting.iter().filter(|_| !self.is_void);
        for counts in reporting.chain([&self.unreported]) {
            counts.apply(&self.quota, &mut known, at);
        }
        self.known = known;
    }

    /// Returns the time by the clock of Redis, or a little less, plus the partition's phase.
    fn server_now(&self, partition_id: PartitionId, now: Timestamp) -> Timestamp {
        self.redis_time(now) + self.quota.phase(partition_id)
    }

    fn redis_time(&self, now: Timestamp) -> Timestamp {
        self.seen_time + now.since(self.seen_at)
    }
}

fn signed(units: u64) -> i64 {
    units.min(COUNT_MAX).cast_signed()
}

#[cfg(test)]
mod tests;
