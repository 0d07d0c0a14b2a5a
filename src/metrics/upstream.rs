//! What is counted per upstream, and how it is rendered.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;

use super::shard::{Sharded, WorkerIndex, add};
use super::text::{count, counters, gauges};
use crate::fault::TlsFailure;

/// What is counted per upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    shards: Sharded<UpstreamShard>,
    /// How many endpoints are available, plus 1; 0 for built-in answers, which have none.
    available: AtomicU64,
}

#[derive(Debug, Default)]
struct UpstreamShard {
    opened: AtomicU64,
    reused: AtomicU64,
    retries: AtomicU64,
    retries_denied: AtomicU64,
    tls_failures: [AtomicU64; TlsFailure::ALL.len()],
}

impl UpstreamMetrics {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            shards: Sharded::new(shards),
            available: AtomicU64::new(0),
        }
    }

    /// Shows how many of the upstream's endpoints are available now.
    pub fn set_available(&self, endpoints: usize) {
        self.available.store(endpoints as u64 + 1, Relaxed);
    }

    /// Counts a connection that was made.
    pub fn opened(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).opened, 1);
    }

    /// Counts a request that took an idle or a shared connection.
    pub fn reused(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).reused, 1);
    }

    /// Counts a connection that failed in TLS: in the handshake, or before the first response on it.
    pub fn tls_failed(&self, worker: WorkerIndex, failure: TlsFailure) {
        add(&self.shards.of(worker).tls_failures[failure.index()], 1);
    }

    /// Counts a retry of a request.
    pub fn retried(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).retries, 1);
    }

    /// Counts a request that was not tried again only because the retry budget was spent.
    pub fn retry_denied(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).retries_denied, 1);
    }
}

/// A counter's name, its help, and where it is in a shard.
type Counter = (&'static str, &'static str, fn(&UpstreamShard) -> &AtomicU64);

const COUNTERS: [Counter; 4] = [
    (
        "upstream_connections_opened",
        "Upstream connections opened.",
        |shard| &shard.opened,
    ),
    (
        "upstream_connections_reused",
        "Requests that used an idle or shared upstream connection.",
        |shard| &shard.reused,
    ),
    (
        "upstream_retries",
        "Retries of requests to upstreams.",
        |shard| &shard.retries,
    ),
    (
        "upstream_retries_denied",
        "Requests not retried because the retry budget was used up.",
        |shard| &shard.retries_denied,
    ),
];

/// Renders the series of every upstream.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    upstreams: &[(Arc<str>, Arc<UpstreamMetrics>)],
) -> Result<(), Error> {
    let help = "Endpoints of upstreams that are healthy and not ejected.";
    let mut family = gauges(encoder, "upstream_endpoints_available", help)?;
    for (upstream, metrics) in upstreams {
        if let Some(available) = metrics.available.load(Relaxed).checked_sub(1) {
            let labels = [("upstream", &**upstream)];
            family.encode_family(&labels)?.encode_gauge(&available)?;
        }
    }
    for (name, help, counter) in COUNTERS {
        let mut family = counters(encoder, name, help)?;
        for (upstream, metrics) in upstreams {
            count(
                &mut family,
                &[("upstream", &**upstream)],
                metrics.shards.sum(counter),
            )?;
        }
    }
    let help = "Upstream connections that failed in TLS, by reason.";
    let mut family = counters(encoder, "upstream_tls_failures", help)?;
    for (upstream, metrics) in upstreams {
        for failure in TlsFailure::ALL {
            let labels = [("upstream", &**upstream), ("reason", failure.word())];
            let sum = metrics
                .shards
                .sum(|shard| &shard.tls_failures[failure.index()]);
            count(&mut family, &labels, sum)?;
        }
    }
    Ok(())
}
