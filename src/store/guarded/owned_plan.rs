//! A plan that outlives its request, for tasks that go on without it.

use smallvec::SmallVec;

use crate::clock::Micros;
use crate::limit::{Algorithm, Check, Plan, Quota};

/// A plan with copies of its quotas, because the originals live in the request's snapshot.
#[derive(Debug)]
pub(super) struct OwnedPlan(SmallVec<[(Quota, Check<'static>); 2]>);

impl OwnedPlan {
    /// Copies a plan.
    pub(super) fn of(plan: &[Check<'_>]) -> Self {
        let owned = |check: &Check<'_>| {
            let quota = &ANY_QUOTA;
            (*check.quota, Check { quota, ..*check })
        };
        Self(plan.iter().map(owned).collect())
    }

    /// Returns the plan.
    pub(super) fn plan(&self) -> Plan<'_> {
        let checks = self.0.iter();
        checks
            .map(|(quota, check)| Check { quota, ..*check })
            .collect()
    }
}

/// A placeholder for a quota that does not matter.
pub(super) static ANY_QUOTA: Quota = Quota::of(Algorithm::FixedWindow, 1, Micros(1));

/// A placeholder for a quota of units in flight whose limit does not matter.
pub(super) static ANY_UNITS: Quota = Quota::of(Algorithm::InFlight, 1, Micros(0));
