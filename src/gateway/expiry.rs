//! Certificates that expire: said in the log at the start, at each reload and once a day.

use crate::clock::{Micros, Timestamp};
use crate::snapshot::Snapshot;

/// When the log is next told of certificates that expire.
pub(super) struct ExpiryLog(Timestamp);

impl ExpiryLog {
    /// Begins a day before the log is told again.
    pub(super) fn new(now: Timestamp) -> Self {
        Self(now + DAY)
    }

    /// Says whether a day has gone by since it last did.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now + DAY;
        }
        is_due
    }
}

/// Logs a warning for each certificate that has expired, or will soon.
pub(super) fn warn(snapshot: &Snapshot, now: Timestamp) {
    for expiry in snapshot.expiring(now) {
        let (listener, certificate, days) =
            (&*expiry.listener, &*expiry.certificate, expiry.days());
        if expiry.has_expired() {
            tracing::warn!(
                listener,
                certificate,
                days_ago = days,
                "a certificate has expired"
            );
        } else {
            tracing::warn!(listener, certificate, days, "a certificate expires soon");
        }
    }
}

const DAY: Micros = Micros(24 * 60 * 60 * 1_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_a_day() {
        let hours = |hours: u64| Timestamp(hours * 60 * 60 * 1_000_000);
        let mut log = ExpiryLog::new(hours(100));
        let due: Vec<u64> = (100..200).filter(|hour| log.is_due(hours(*hour))).collect();
        assert_eq!(due, [124, 148, 172, 196]);
        let mut late = ExpiryLog::new(hours(0));
        assert!(late.is_due(hours(1000)) && !late.is_due(hours(1001)));
    }
}
