//! What the limiter decided of a request: facts from which others make answers, fields and records.

use smallvec::SmallVec;

use super::charge::OpenCharge;
use crate::clock::Micros;
use crate::limit::{Decision, Retry};
use crate::metrics::PolicyOutcome;
use crate::snapshot::{PolicyQuota, Snapshot};

/// What was decided of one request; indices are the snapshot's.
#[derive(Debug, Default)]
pub struct Decided {
    /// What each policy of the route did, in the route's order.
    pub outcomes: SmallVec<[(usize, PolicyOutcome); 4]>,
    /// What each enforced quota decided: indices of policy and quota.
    decisions: SmallVec<[(usize, usize, Decision); 2]>,
    /// What the request spent, if it may have to be given back; boxed, because few requests have
    /// it.
    pub charge: Option<Box<OpenCharge>>,
    /// Units that the request costs, if any policy applied.
    pub cost: Option<u64>,
    /// Whether a decision was made without the store that should have made it.
    pub is_degraded: bool,
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Admitted {
        /// How long it is held first.
        wait: Micros,
    },
    /// An enforced quota refuses.
    Refused {
        /// When the same request would be admitted.
        retry: Retry,
    },
    /// The store cannot answer, and a policy is `closed`.
    Unavailable {
        /// When to try again.
        retry: Micros,
    },
    /// A policy refuses requests that lack a part of its partition.
    Unidentified {
        /// Index of the policy.
        policy: usize,
    },
}

/// A quota, and what a client is told of it.
#[derive(Clone, Copy, Debug)]
pub struct LimitInfo<'s> {
    /// The quota.
    pub quota: &'s PolicyQuota,
    /// What it decided.
    pub decision: Decision,
}

impl Decided {
    /// Yields what the client is told of the quotas that enforce.
    pub fn infos<'s>(
        &'s self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = LimitInfo<'s>> + Clone {
        let info = |&(policy, quota, decision): &(usize, usize, Decision)| LimitInfo {
            quota: &snapshot.policies[policy].grant.quotas()[quota],
            decision,
        };
        self.decisions.iter().map(info)
    }

    /// Yields the names of the quotas that refused.
    pub fn violated<'s>(&'s self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s str> + Clone {
        self.infos(snapshot)
            .filter(|info| !info.decision.admit)
            .map(|info| &*info.quota.item)
    }

    /// Gives back what the request spent, and changes what the client is told accordingly.
    pub fn give_back(&mut self, snapshot: &Snapshot) {
        let Some(charge) = self.charge.take() else {
            return;
        };
        for (policy, quota, decision) in &mut self.decisions {
            let series_id = snapshot.policies[*policy].grant.quotas()[*quota].series_id;
            *decision = charge.after_give_back(series_id, *decision);
        }
        charge.give_back();
    }

    pub(super) fn note(&mut self, policy: usize, quota: usize, decision: Decision) {
        self.decisions.push((policy, quota, decision));
    }
}

/// Returns the quota with the smallest share left; the first one if several are equal.
pub fn tightest<'s>(infos: impl Iterator<Item = LimitInfo<'s>>) -> Option<LimitInfo<'s>> {
    infos.reduce(|least, next| {
        if next.has_less_left_than(&least) {
            next
        } else {
            least
        }
    })
}

impl LimitInfo<'_> {
    /// Compares the shares that are left of the quotas' capacities, without a division.
    fn has_less_left_than(&self, other: &Self) -> bool {
        let parts = |info: &Self| (info.decision.remaining, info.quota.quota.capacity());
        let ((left, whole), (other_left, other_whole)) = (parts(self), parts(other));
        u128::from(left) * u128::from(other_whole) < u128::from(other_left) * u128::from(whole)
    }
}
