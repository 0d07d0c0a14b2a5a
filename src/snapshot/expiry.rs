//! When the certificates of listeners expire, and the warning for those that have expired or soon will.

use std::fmt;
use std::sync::Arc;

use super::Snapshot;
use crate::clock::Timestamp;

/// A certificate of a listener, and how long it is still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The listener's name.
    pub listener: Arc<str>,
    /// The certificate's name.
    pub certificate: Box<str>,
    /// Seconds until the certificate expires; negative once it has.
    pub seconds_left: i64,
}

impl Snapshot {
    /// Returns when each certificate of each listener expires.
    pub fn expiries(&self, now: Timestamp) -> impl Iterator<Item = Expiry> {
        let now_secs = (now.0 / 1_000_000).cast_signed();
        let encrypted = self
            .listeners
            .iter()
            .filter_map(|listener| Some((listener, listener.tls.as_ref()?)));
        encrypted.flat_map(move |(listener, tls)| {
            tls.certificates.iter().map(move |certificate| Expiry {
                listener: Arc::clone(&listener.name),
                certificate: certificate.name.clone(),
                seconds_left: certificate.expires_secs.saturating_sub(now_secs),
            })
        })
    }

    /// Returns the certificates that have expired, or will in less than two weeks.
    pub fn expiring(&self, now: Timestamp) -> impl Iterator<Item = Expiry> {
        self.expiries(now).filter(Expiry::is_soon)
    }
}

impl Expiry {
    /// Whether the certificate has expired, so that clients refuse it.
    pub fn has_expired(&self) -> bool {
        self.seconds_left < 0
    }

    fn is_soon(&self) -> bool {
        self.seconds_left < WARNED_DAYS * DAY_SECS
    }

    /// Returns the number of whole days until the certificate expires, or since it has.
    pub fn days(&self) -> u64 {
        self.seconds_left.unsigned_abs() / DAY_SECS.unsigned_abs()
    }
}

/// Writes the warning that `check` prints.
impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (listener, certificate) = (&self.listener, &self.certificate);
        write!(
            f,
            "listener `{listener}`: the certificate of `{certificate}` "
        )?;
        let days = match self.days() {
            0 => "less than a day".to_owned(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        };
        if self.has_expired() {
            write!(f, "expired {days} ago")
        } else {
            write!(f, "expires in {days}")
        }
    }
}

/// The operator is warned if fewer days than this are left.
const WARNED_DAYS: i64 = 14;
const DAY_SECS: i64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_of_from_two_weeks_before_it_expires() {
        for (seconds_left, expected) in [
            (14 * DAY_SECS, None),
            (14 * DAY_SECS - 1, Some("expires in 13 days")),
            (DAY_SECS, Some("expires in 1 day")),
            (DAY_SECS - 1, Some("expires in less than a day")),
            (0, Some("expires in less than a day")),
            (-1, Some("expired less than a day ago")),
            (-DAY_SECS, Some("expired 1 day ago")),
            (-3 * DAY_SECS, Some("expired 3 days ago")),
        ] {
            let expiry = Expiry {
                listener: "edge".into(),
                certificate: "a.test".into(),
                seconds_left,
            };
            let said = expiry.is_soon().then(|| expiry.to_string());
            let expected =
                expected.map(|text| format!("listener `edge`: the certificate of `a.test` {text}"));
            assert_eq!(said, expected, "{seconds_left}");
        }
    }
}
