//! What a policy lets a client do.

use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, AnchorDay, Quota};

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
    /// The same for clients that have a day of their own, by that day from 1; empty if none has.
    pub own: Box<[(Quota, SeriesId)]>,
}

impl PolicyQuota {
    /// Returns its name in the access log without that of its policy: `100 per 1m`.
    pub fn short_name(&self, policy: &str) -> &str {
        let rest = self.log_name.strip_prefix(policy);
        rest.and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&self.log_name)
    }

    /// Returns how a client is counted whose own day this is, and where the store keeps it.
    pub fn of_day(&self, day: Option<AnchorDay>) -> (&Quota, SeriesId) {
        let own = day.filter(|_| !self.own.is_empty()).and_then(|day| {
            let Algorithm::Calendar(calendar) = self.quota.algorithm else {
                return None;
            };
            let day = day.within(calendar.shape().unit)?;
            self.own.get(usize::from(day) - 1)
        });
        own.map_or((&self.quota, self.series_id), |(quota, series_id)| {
            (quota, *series_id)
        })
    }

    /// Yields every way in which a client may be counted, and where the store keeps it.
    pub fn all(&self) -> impl Iterator<Item = (&Quota, SeriesId)> {
        let own = self
            .own
            .iter()
            .map(|(quota, series_id)| (quota, *series_id));
        [(&self.quota, self.series_id)].into_iter().chain(own)
    }
}

#[cfg(test)]
impl PolicyQuota {
    /// A quota with this name and number, for tests that show it.
    pub(crate) fn named(name: &str, limit: u64, window_secs: u64) -> Self {
        use crate::clock::Micros;
        use crate::limit::{Align, Count};
        Self {
            quota: Quota {
                limit,
                window: Micros::from_secs(window_secs),
                algorithm: Algorithm::FixedWindow,
                count: Count::Admitted,
                align: Align::Epoch,
                can_come_back: true,
            },
            series_id: SeriesId(0),
            item: format!("\"{name}\"").into(),
            policy_item: format!("\"{name}\";q={limit};w={window_secs}").into(),
            log_name: Box::default(),
            own: Box::default(),
        }
    }
}
