//! What a policy lets a client do.

use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, AnchorDay, Quota};

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Spend these quotas, all of which must have room.
    Quotas(Box<[PolicyQuota]>),
    /// Everything: nothing is counted.
    Unlimited,
    /// Nothing: 403.
    Blocked,
}

impl Grant {
    /// Returns the quotas; there are none if nothing is counted.
    pub fn quotas(&self) -> &[PolicyQuota] {
        match self {
            Self::Quotas(quotas) => quotas,
            Self::Unlimited | Self::Blocked => &[],
        }
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::Quotas(Box::default())
    }
}

/// One quota of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyQuota {
    /// The quota.
    pub quota: Quota,
    /// The series under which the store keeps the quota.
    pub series_id: SeriesId,
    /// How the quota is named and described in responses.
    pub items: QuotaItems,
    /// The quota's name in the access log: `per-client: 100 per 1m`.
    pub log_name: Box<str>,
    /// The quota and its series for clients that have a day of their own, indexed by that day minus 1; empty if no
    /// client has one.
    pub own: Box<[(Quota, SeriesId)]>,
}

/// A quota's name, and its item of `RateLimit-Policy`, which begins with the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaItems {
    text: Box<str>,
    name_bytes: usize,
}

impl QuotaItems {
    /// Joins the name and the parameters that follow it in `RateLimit-Policy`; the parameters are empty if that field
    /// leaves the quota out.
    pub fn new(name: &str, parameters: &str) -> Self {
        Self {
            text: [name, parameters].concat().into(),
            name_bytes: name.len(),
        }
    }

    /// Returns the quota's name as a structured-field string, quotes included: `"per-client"`, or `"per-client:2s"` if
    /// the policy has several quotas.
    pub fn name(&self) -> &str {
        &self.text[..self.name_bytes]
    }

    /// Returns the quota's item of `RateLimit-Policy`: `"per-client";q=100;w=60`.
    pub fn policy_item(&self) -> Option<&str> {
        (self.text.len() > self.name_bytes).then_some(&self.text)
    }
}

impl PolicyQuota {
    /// Returns the quota's name in the access log without the name of its policy: `100 per 1m`.
    pub fn short_name(&self, policy: &str) -> &str {
        let rest = self.log_name.strip_prefix(policy);
        rest.and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&self.log_name)
    }

    /// Returns the quota and the series of a client whose own day is `day`.
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

    /// Yields every variant of the quota that a client may be counted by, with its series.
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
    /// Makes a quota with this name and limit, for tests of what is shown.
    pub(crate) fn named(name: &str, limit: u64, window_secs: u64) -> Self {
        use crate::clock::Micros;
        Self {
            quota: Quota::of(
                Algorithm::FixedWindow,
                limit,
                Micros::from_secs(window_secs),
            ),
            series_id: SeriesId(0),
            items: QuotaItems::new(
                &format!("\"{name}\""),
                &format!(";q={limit};w={window_secs}"),
            ),
            log_name: Box::default(),
            own: Box::default(),
        }
    }
}
