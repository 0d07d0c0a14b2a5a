//! A plan that outlives its request, for tasks that go on without it.

use smallvec::SmallVec;

use crate::clock::Micros;
use crate::limit::{Algorithm, Align, Check, Count, Plan, Quota};

/// A plan with copies of its quotas, which live in the request's snapshot.
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

/// A placeholder where the quota does not matter.
pub(super) static ANY_QUOTA: Quota = Quota {
    limit: 1,
    window: Micros(1),
    algorithm: Algorithm::FixedWindow,
    count: Count::Admitted,
    align: Align::Epoch,
    can_come_back: true,
};

/// Units in flight, where their number does not matter.
pub(super) static ANY_UNITS: Quota = Quota {
    limit: 1,
    window: Micros(0),
    algorithm: Algorithm::InFlight,
    count: Count::Admitted,
    align: Align::Epoch,
    can_come_back: true,
};
