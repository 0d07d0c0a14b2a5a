//! Warns of certificates that expire: at the start, at each reload and once a day.

use crate::clock::{Micros, Timestamp};
use crate::snapshot::Snapshot;

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

/// How often the warnings are repeated.
pub(super) const DAY: Micros = Micros(24 * 60 * 60 * 1_000_000);
