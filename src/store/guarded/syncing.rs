//! Plans with synced policies, and telling Redis what was counted.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;

use super::counters::Unanswered;
use super::decider::Decider;
use super::followed::{CountReport, SeenState, Told, is_synced};
use super::leased_plan;
use super::leasing::Leasing;
use super::paid_checks::{PaidChecks, Payment};
use super::refusals::{Recollection, refusal};
use super::remote::Remote;
use super::settlements::ENTRIES_PER_CALL_MAX;
use crate::limit::Check;
use crate::limit::plan::CheckMode;
use crate::store::charge::Charge;
use crate::store::outcome::{Asked, StoreVerdict};
use crate::store::redis::wire::Settlement;

/// What a worker decides plans with synced policies with.
#[derive(Debug)]
pub(super) struct Syncing {
    pub(super) leasing: Rc<Leasing>,
}

impl Syncing {
    /// Decides a plan with policies that are not exact; as [`Decider::begin`].
    pub(super) fn begin<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<Asked<'p>> {
        if !plan.iter().any(is_synced) {
            return self.begin_rest(plan, outcome);
        }
        let counted = self.count(plan, outcome)?;
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

    /// Decides what of a plan is not counted here.
    fn begin_rest<'p>(
        &'p self,
        plan: &'p [Check<'p>],
        outcome: &mut StoreVerdict,
    ) -> Option<Asked<'p>> {
        if leased_plan::has_leases(plan) {
            self.leasing.begin(plan, outcome)
        } else {
            self.decider().begin(plan, outcome)
        }
    }

    /// Counts what a plan asks of quotas that are followed; none if one of them refuses, which is written to `outcome`.
    fn count<'a, 's>(
        &'a self,
        plan: &'a [Check<'s>],
        outcome: &mut StoreVerdict,
    ) -> Option<PaidChecks<'a, 's>> {
        let store = self.decider().remote.store();
        let terms = store.follow_terms();
        let mut counted = PaidChecks::new(self.decider(), plan);
        let (mut refused, mut is_alone) = (Recollection::new(), false);
        for (place, check) in plan.iter().enumerate() {
            let Some(units) = store.followed.decide(check, &terms, true) else {
                continue;
            };
            if check.mode == CheckMode::Enforce && !units.decision.admit {
                refused.push((place, units.decision));
                is_alone |= units.is_alone;
            } else {
                counted.pay(place, Payment::Counted(units));
            }
        }
        if !counted.is_empty() || !refused.is_empty() {
            self.decider().remote.counters().synced();
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

    /// Refuses a plan by what is counted here, without counting it; none if it may be admitted.
    pub(super) fn refuse_at_once(&self, plan: &[Check<'_>]) -> Option<StoreVerdict> {
        let store = self.decider().remote.store();
        let terms = store.follow_terms();
        let mut refused = Recollection::new();
        let enforced = |(_, check): &(usize, &Check<'_>)| check.mode == CheckMode::Enforce;
        for (place, check) in plan.iter().enumerate().filter(enforced) {
            let units = store.followed.decide(check, &terms, false);
            if let Some(units) = units.filter(|units| !units.decision.admit) {
                refused.push((place, units.decision));
            }
        }
        (!refused.is_empty()).then(|| StoreVerdict::refused(refusal(plan, &refused)))
    }

    /// Tells Redis what is due. To be called several times a second.
    pub(super) fn sync(&self) {
        let store = self.decider().remote.store();
        for reports in calls(
            &self.decider().remote,
            store.followed.take_due(store.clock.steady()),
        ) {
            tokio::task::spawn_local(tell(Rc::clone(&self.decider().remote), reports));
        }
    }

    /// Tells Redis all that this gateway has counted, within `timeout`; returns of how many quotas it could not.
    pub(super) async fn finish(&self, timeout: Duration) -> usize {
        let remote = &self.decider().remote;
        let followed = &remote.store().followed;
        let telling = async {
            while followed.untold() > 0 {
                let reports = followed.take_untold(remote.store().clock.steady());
                let calls = calls(remote, reports).into_iter();
                join_all(calls.map(|reports| tell(Rc::clone(remote), reports))).await;
                if followed.untold() > 0 {
                    tokio::time::sleep(RETRY_EVERY).await;
                }
            }
        };
        let _ = tokio::time::timeout(timeout, telling).await;
        followed.untold()
    }

    fn decider(&self) -> &Decider {
        &self.leasing.decider
    }
}

/// Groups reports by what one call can tell.
fn calls(remote: &Remote, reports: Vec<CountReport>) -> Vec<Vec<CountReport>> {
    let mut calls: Vec<(usize, Vec<CountReport>)> = Vec::new();
    for report in reports {
        let entries = report.settlements().count();
        let is_of = |(others, call): &&mut (usize, Vec<CountReport>)| {
            let first = call.first().map(CountReport::partition_id);
            *others + entries <= ENTRIES_PER_CALL_MAX
                && first.is_some_and(|first| !remote.is_cross_slot(first, report.partition_id()))
        };
        match calls.iter_mut().find(is_of) {
            Some((others, call)) => {
                *others += entries;
                call.push(report);
            }
            None => calls.push((entries, vec![report])),
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
}

/// Tells Redis in one call what was counted of some quotas.
async fn tell(remote: Rc<Remote>, reports: Vec<CountReport>) {
    let settlements: Vec<Settlement<'_>> = (reports.iter())
        .flat_map(CountReport::settlements)
        .collect();
    let answers = remote.settle_and_read(&settlements).await;
    let now = remote.store().clock.steady();
    let mut answers = answers.map(Vec::into_iter);
    for report in &reports {
        let told = match &mut answers {
            // The last entry of a quota says what all have made of it.
            Ok(answers) => match answers.by_ref().take(report.settlements().count()).last() {
                Some(Ok((time, state))) => {
                    let seen = SeenState::new(state, time, (report.asked, now));
                    seen.map_or(Told::Unknown, Told::Counted)
                }
                Some(Err(_)) => Told::Uncounted,
                None => Told::Unknown,
            },
            Err(Unanswered::Late | Unanswered::Disconnected | Unanswered::BadKey) => Told::Unknown,
            Err(_) => Told::Uncounted,
        };
        remote.store().followed.told(report, told, now);
    }
}

/// How long it takes at the end until Redis is told again what it could not be told.
const RETRY_EVERY: Duration = Duration::from_millis(50);
