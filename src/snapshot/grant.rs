//! What a policy lets a client do.

use crate::limit::Quota;
use crate::limit::plan::SeriesId;

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Spend these quotas, all of which must have room.
    Quotas(Vec<PolicyQuota>),
    /// Everything: nothing is counted.
    Unlimited,
    /// Nothing: 403.
    Blocked,
}

impl Grant {
    /// Returns the quotas; none if nothing is counted.
    pub fn quotas(&self) -> &[PolicyQuota] {
        match self {
            Self::Quotas(quotas) => quotas,
            Self::Unlimited | Self::Blocked => &[],
        }
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::Quotas(Vec::new())
    }
}

/// One quota of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyQuota {
    /// The quota.
    pub quota: Quota,
    /// Where the store keeps it.
    pub series_id: SeriesId,
    /// Its name as a structured-field string, quotes included: `"per-client"`, or `"per-client:2s"` if the policy has several.
    pub item: Box<str>,
    /// Its item of `RateLimit-Policy`: `"per-client";q=100;w=60`.
    pub policy_item: Box<str>,
    /// Its name in the access log: `per-client: 100 per 1m`.
    pub log_name: Box<str>,
}
