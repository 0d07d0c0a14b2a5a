//! When the certificates of listeners expire, as text.

use std::collections::BTreeMap;
use std::fmt::{self, Error};
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::DescriptorEncoder;

use super::text::gauges;

/// Calls a function at every scrape for each certificate's listener, name and expiry.
#[derive(Default)]
pub(super) struct Certificates(OnceLock<Box<dyn Fn() -> Vec<CertificateEnd> + Send + Sync>>);

/// A certificate's listener, its name, and when it expires, in seconds since 1970.
type CertificateEnd = (Arc<str>, Box<str>, i64);

impl Certificates {
    /// Calls `certificates` at every scrape. Only the first observer counts.
    pub(super) fn observe(
        &self,
        certificates: impl Fn() -> Vec<(Arc<str>, Box<str>, i64)> + Send + Sync + 'static,
    ) {
        let _ = self.0.set(Box::new(certificates));
    }

    /// Renders when the certificates expire. If a listener has several of one name, the one that expires first counts.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(certificates) = self.0.get() else {
            return Ok(());
        };
        let mut first: BTreeMap<_, i64> = BTreeMap::new();
        for (listener, certificate, seconds) in certificates() {
            let end = first.entry((listener, certificate)).or_insert(seconds);
            *end = seconds.min(*end);
        }
        let help = "When a certificate of a listener expires, in seconds since 1970.";
        let name = "certificate_expiration_timestamp_seconds";
        let mut family = gauges(encoder, name, help)?;
        for ((listener, certificate), seconds) in first {
            let labels = [("listener", &*listener), ("certificate", &*certificate)];
            family.encode_family(&labels)?.encode_gauge(&seconds)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}
