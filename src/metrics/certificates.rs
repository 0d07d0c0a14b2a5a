//! How long the certificates of listeners are still good, as text.

use std::collections::BTreeMap;
use std::fmt::{self, Error};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::DescriptorEncoder;

use super::text::gauges;

/// Asks for each certificate's listener, its name and the seconds until it expires, at every scrape.
#[derive(Default)]
pub(super) struct Certificates(OnceLock<Box<dyn Fn() -> Vec<CertificateLeft> + Send + Sync>>);

type CertificateLeft = (Arc<str>, Box<str>, i64);

impl Certificates {
    /// Asks `certificates` at every scrape; the first call counts.
    pub(super) fn observe(
        &self,
        certificates: impl Fn() -> Vec<(Arc<str>, Box<str>, i64)> + Send + Sync + 'static,
    ) {
        let _ = self.0.set(Box::new(certificates));
    }

    /// Renders the days that are left. Of several certificates of one name, the one that expires
    /// first counts.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(certificates) = self.0.get() else {
            return Ok(());
        };
        let mut first: BTreeMap<_, i64> = BTreeMap::new();
        for (listener, certificate, seconds) in certificates() {
            let left = first.entry((listener, certificate)).or_insert(seconds);
            *left = seconds.min(*left);
        }
        let help = "Days until a certificate of a listener expires; negative once it has expired.";
        let mut family = gauges(encoder, "certificate_days_left", help)?;
        for ((listener, certificate), seconds) in first {
            let labels = [("listener", &*listener), ("certificate", &*certificate)];
            let days = Duration::from_secs(seconds.unsigned_abs()).as_secs_f64() / DAY_SECS;
            let days = if seconds < 0 { -days } else { days };
            family.encode_family(&labels)?.encode_gauge(&days)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

const DAY_SECS: f64 = 86_400.0;
