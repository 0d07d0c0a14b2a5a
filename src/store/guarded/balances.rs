//! Balances on a server that may evict them. They are not decided there, because a client whose balance was evicted
//! would start afresh.

use smallvec::SmallVec;

use super::fallback::is_closed;
use super::remote::Remote;
use crate::limit::{Check, CheckResult, Plan};
use crate::store::outcome::StoreVerdict;

/// Which checks of a plan are of balances that may be evicted; there is at least one.
pub(super) struct EvictableBalances(SmallVec<[bool; 4]>);

impl EvictableBalances {
    /// Finds the checks of balances that may be evicted; none if the plan has none.
    pub(super) fn of(remote: &Remote, plan: &[Check<'_>]) -> Option<Self> {
        if !plan.iter().any(|check| check.quota.is_balance()) {
            return None;
        }
        let is_evictable = |check: &Check<'_>| check.quota.is_balance() && remote.evicts_all(check);
        let found: SmallVec<[bool; 4]> = plan.iter().map(is_evictable).collect();
        found.contains(&true).then_some(Self(found))
    }

    /// Says whether the plan cannot be decided without these balances.
    pub(super) fn are_needed(&self, plan: &[Check<'_>]) -> bool {
        let mut checks = plan.iter().zip(&self.0);
        checks.any(|(check, is_evictable)| *is_evictable && is_closed(check))
    }

    /// Returns the other checks of the plan.
    pub(super) fn others<'q>(&self, plan: &[Check<'q>]) -> Plan<'q> {
        let checks = plan.iter().zip(&self.0);
        let others = checks.filter(|(_, is_evictable)| !**is_evictable);
        others.map(|(check, _)| *check).collect()
    }

    /// Returns the outcome of the whole plan: the others as they were decided, and these balances as not counted.
    pub(super) fn uncounted(&self, mut of_others: StoreVerdict) -> StoreVerdict {
        if let StoreVerdict::Decided {
            verdict,
            is_degraded,
            ..
        } = &mut of_others
        {
            let mut answers = std::mem::take(&mut verdict.answers).into_iter();
            let answer = |is_evictable: &bool| match is_evictable {
                true => CheckResult::default(),
                false => answers.next().unwrap_or_default(),
            };
            verdict.answers = self.0.iter().map(answer).collect();
            *is_degraded = true;
        }
        of_others
    }
}
