//! Facts that are read from certificates, of clients as well as of servers.

use x509_cert::certificate::{CertificateInner, Raw};

/// A certificate whose parts can be read, whether it keeps to RFC 5280 or not.
pub(super) type Certificate = CertificateInner<Raw>;

/// Returns the last second of a certificate's validity, in seconds since 1970.
pub(super) fn expiry(certificate: &Certificate) -> i64 {
    let not_after = certificate.tbs_certificate().validity().not_after;
    i64::try_from(not_after.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}
