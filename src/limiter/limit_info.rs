//! What a client is told of its quotas.

use crate::limit::Decision;
use crate::snapshot::PolicyQuota;

/// A quota, and what a client is told of it.
#[derive(Clone, Copy, Debug)]
pub struct LimitInfo<'s> {
    /// The quota.
    pub quota: &'s PolicyQuota,
    /// What the quota decided.
    pub decision: Decision,
}

/// Returns the quota with the smallest share left; the first one if several are equal. Quotas without a
/// window are left out.
pub fn tightest<'s>(infos: impl Iterator<Item = LimitInfo<'s>>) -> Option<LimitInfo<'s>> {
    let infos = infos.filter(|info| info.quota.quota.has_window());
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
