//! Decides plans with synced policies, and reports to Redis what was counted.

use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use super::call_metrics::Unanswered;
use super::decider::Decider;
use super::followed::{CountReport, ReportOutcome, SeenState, is_synced};
use super::leased_plan;
use super::leasing::Leasing;
use super::paid_checks::{PaidChecks, Payment};
use super::refusals::{Recollection, counts_refused, refusal};
use super::remote::{LOG_EVERY, Remote};
use super::settlements::ENTRIES_PER_CALL_MAX;
use super::store::GuardedStore;
use crate::clock::Timestamp;
use crate::limit::plan::CheckMode;
use crate::limit::{AnyState, Check, Plan};
use crate::store::charge::Charge;
use crate::store::outcome::{PendingVerdict, StoreVerdict};
use crate::store::redis::CallError;
use crate::store::redis::wire::Settlement;

/// What a worker needs to decide plans with synced policies.
#[derive(Debug)]
pub(super) struct Syncing {
    pub(super) leasing: Rc<Leasing>,
}

/// Reports that are made in one call. The outcome of those that have no answer when this is dropped is unknown.
struct OpenReports {
    remote: Rc<Remote>,
    reports: Vec<CountReport>,
}

impl Syncing {
    pub(super) fn new(leasing: &Rc<Leasing>) -> Self {
        Self {
            leasing: Rc::clone(leasing),
        }
    }

    /// Decides a plan with policies that are not exact; otherwise like [`Decider::begin`].
    pub(super) fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        if !plan.iter().any(is_synced) {
            return self.begin_rest(plan, outcome);
        }
        let Some(counted) = self.count(plan, true, outcome) else {
            return self.count_refused(plan, outcome);
        };
        if counted.is_empty() {
            return self.begin_rest(plan, outcome);
        }
        if counted.is_whole() {
            *outcome = counted.join(StoreVerdict::default());
            return None;
        }
        Some(Box::pin(async move {
            let (rest, mut outcome) = (counted.rest(), StoreVerdict::default());
            let asked = self.begin_rest(&rest, &mut outcome);
            let decided = match asked {
                Some(asked) => asked.await,
                None => outcome,
            };
            counted.join(decided)
        }))
    }

    /// Decides a plan, or its checks that are not counted here.
    fn begin_rest<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        if leased_plan::has_leases(plan) {
            self.leasing.begin(plan, outcome)
        } else {
            self.decider().begin(plan, outcome)
        }
    }

    /// Decides the checks of a plan whose quotas are followed, and counts them if `counts` says so. If one refuses,
    /// writes the refusal to `outcome` and returns none.
    fn count<'a, 's>(
        &'a self,
        plan: &'a [Check<'s>],
        counts: bool,
        outcome: &mut StoreVerdict,
    ) -> Option<PaidChecks<'a, 's>> {
        let store = self.decider().remote.store();
        let terms = store.follow_terms();
        let mut counted = PaidChecks::new(self.decider(), plan);
        let (mut refused, mut is_alone) = (Recollection::new(), false);
        for (place, check) in plan.iter().enumerate() {
            let Some(units) = store.followed.decide(check, &terms, counts) else {
                continue;
            };
            if check.mode == CheckMode::Enforce && !units.decision.admit {
                refused.push((place, units.decision));
                is_alone |= units.is_alone;
            } else {
                counted.pay(place, Payment::Counted(units));
            }
        }
        if counts && !counted.is_empty() || !refused.is_empty() {
            self.decider().remote.metrics().synced();
        }
        if refused.is_empty() {
            return Some(counted);
        }
        *outcome = StoreVerdict::Decided {
            verdict: refusal(plan, &refused),
            charge: Charge::default(),
            is_degraded: is_alone,
        };
        None
    }

    /// Has Redis count a plan that is refused here, in those of its quotas that count refused requests, too.
    fn count_refused<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<PendingVerdict<'p>> {
        let counting: Plan<'p> = (plan.iter().filter(|check| counts_refused(check)))
            .copied()
            .collect();
        if counting.is_empty() {
            return None;
        }
        let refused = std::mem::take(outcome);
        Some(Box::pin(async move {
            // What this charges stays spent, whatever the answer is.
            drop(self.decider().decide(&counting, Duration::ZERO).await);
            refused
        }))
    }

    /// Refuses a plan by what is counted here, without counting it; none if it may be admitted, or if it has to be
    /// counted.
    pub(super) fn refuse_at_once(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        if !plan.iter().any(is_synced) || plan.iter().any(counts_refused) {
            return None;
        }
        let mut outcome = StoreVerdict::default();
        match self.count(plan, false, &mut outcome) {
            Some(_) => None,
            None => Some(outcome),
        }
    }

    /// Makes the reports that are due. To be called several times a second.
    pub(super) fn report_due(&self) {
        let remote = &self.decider().remote;
        // Without a connection, reports are left to other workers, which may have one.
        if !remote.is_connected() {
            return;
        }
        let due = remote
            .store()
            .followed
            .take_due(remote.store().clock.steady());
        if !due.is_empty() {
            tokio::task::spawn_local(self.report(due));
        }
    }

    /// Reports all that this process has counted, within `timeout`; returns how many quotas are not fully reported by
    /// then.
    pub(super) async fn report_all(&self, timeout: Duration) -> usize {
        let store = self.decider().remote.store();
        let reporting = async {
            while store.followed.unreported() > 0 {
                let all = store.followed.take_unreported(store.clock.steady());
                self.report(all).await;
                if store.followed.unreported() > 0 {
                    tokio::time::sleep(RETRY_EVERY).await;
                }
            }
        };
        let _ = tokio::time::timeout(timeout, reporting).await;
        store.followed.unreported()
    }

    /// Makes reports, some calls at a time.
    fn report(&self, reports: Vec<CountReport>) -> impl Future<Output = ()> + use<> {
        let remote = Rc::clone(&self.decider().remote);
        let calls = stream::iter(calls(&remote, reports));
        calls.for_each_concurrent(CALLS_AT_A_TIME, move |reports| {
            let remote = Rc::clone(&remote);
            OpenReports { remote, reports }.make()
        })
    }

    fn decider(&self) -> &Decider {
        &self.leasing.decider
    }
}

impl OpenReports {
    /// Makes the reports in one call, and notes their outcomes.
    async fn make(mut self) {
        let remote = Rc::clone(&self.remote);
        let settlements: Vec<Settlement<'_>> = (self.reports.iter())
            .flat_map(CountReport::settlements)
            .collect();
        let timeout = remote.timeout().max(REPORT_TIMEOUT);
        let answers = remote.settle_and_read(&settlements, timeout).await;
        let entries: Vec<usize> = (self.reports.iter())
            .map(|report| report.settlements().count())
            .collect();
        let now = remote.store().clock.steady();
        let mut answers = answers.map(Vec::into_iter);
        for (report, entries) in std::mem::take(&mut self.reports).into_iter().zip(entries) {
            let outcome = match &mut answers {
                Ok(answers) => {
                    let answers: Vec<_> = answers.by_ref().take(entries).collect();
                    log_failed(remote.store(), &answers, now);
                    outcome(answers, (report.asked, now))
                }
                Err(Unanswered::Unsent | Unanswered::Unasked | Unanswered::Failed) => {
                    ReportOutcome::Uncounted
                }
                Err(_) => ReportOutcome::Unknown,
            };
            remote.store().followed.reported(&report, outcome, now);
        }
    }
}

impl Drop for OpenReports {
    fn drop(&mut self) {
        let store = self.remote.store();
        for report in &self.reports {
            let now = store.clock.steady();
            (store.followed).reported(report, ReportOutcome::Unknown, now);
        }
    }
}

type EntryAnswer = Result<(Timestamp, AnyState), CallError>;

/// Returns the outcome of a report from the answers to its entries: the last one has the state after all of them.
fn outcome(answers: Vec<EntryAnswer>, times: (Timestamp, Timestamp)) -> ReportOutcome {
    let is_of_server = |answer: &EntryAnswer| matches!(answer, Err(CallError::Server(_)));
    if !answers.is_empty() && answers.iter().all(is_of_server) {
        return ReportOutcome::Uncounted;
    }
    let answers: Result<Vec<_>, CallError> = answers.into_iter().collect();
    let last = answers.ok().and_then(|answers| answers.into_iter().last());
    let seen = last.and_then(|(time, state)| SeenState::new(state, time, times));
    seen.map_or(ReportOutcome::Unknown, ReportOutcome::Counted)
}

/// Logs that a server cannot count what was reported, at most once in [`LOG_EVERY`].
fn log_failed(store: &GuardedStore, answers: &[EntryAnswer], now: Timestamp) {
    let failed = answers.iter().find_map(|answer| answer.as_ref().err());
    if let Some(error) = failed
        && store.followed.log.take(now, LOG_EVERY)
    {
        tracing::warn!(%error, "Redis could not count what this gateway admitted, so other gateways do not see it");
    }
}

/// Groups reports by what one call can make. On a Cluster those of one partition are next to each other.
fn calls(remote: &Remote, mut reports: Vec<CountReport>) -> Vec<Vec<CountReport>> {
    reports.sort_unstable_by_key(|report| report.partition_id().bits());
    let mut calls: Vec<Vec<CountReport>> = Vec::new();
    let mut entries = 0;
    for report in reports {
        entries += report.settlements().count();
        match calls.last_mut() {
            Some(call)
                if entries <= ENTRIES_PER_CALL_MAX
                    && !remote.is_cross_slot(call[0].partition_id(), report.partition_id()) =>
            {
                call.push(report);
            }
            _ => {
                entries = report.settlements().count();
                calls.push(vec![report]);
            }
        }
    }
    calls
}

/// Most calls that report at the same time: each takes Redis a fraction of a millisecond, and decisions are made in
/// between.
const CALLS_AT_A_TIME: usize = 8;
/// Shortest timeout of a report (`timeout` if that is longer): no request waits for it, and a report that is made again
/// may be counted twice.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the end of a process waits before it reports again what could not be reported.
const RETRY_EVERY: Duration = Duration::from_millis(50);
