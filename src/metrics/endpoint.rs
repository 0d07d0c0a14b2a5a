//! What is counted per endpoint, and how it is rendered: requests, how long responses take, failures, connections and
//! health.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::shard::{Sharded, WorkerIndex, add};
use super::text::{BOUNDS_US, BUCKETS, count, counters, gauges, histogram};
use crate::clock::Micros;
use crate::fault::EndpointFailure;

/// What is counted per endpoint, and how healthy it is.
#[derive(Debug)]
pub struct EndpointMetrics {
    shards: Sharded<EndpointShard>,
    is_healthy: AtomicBool,
    is_ejected: AtomicBool,
}

/// The names of an upstream and of one of its endpoints.
pub(super) type EndpointName = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct EndpointShard {
    began: AtomicU64,
    ended: AtomicU64,
    /// Responses by how long their heads took: up to each of [`BOUNDS_US`], and longer.
    responses: [AtomicU64; BUCKETS],
    responses_us: AtomicU64,
    failures: [AtomicU64; EndpointFailure::ALL.len()],
    connections_opened: AtomicU64,
    connections_closed: AtomicU64,
    checks_ok: AtomicU64,
    checks_failed: AtomicU64,
    ejections: AtomicU64,
}

impl EndpointMetrics {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            shards: Sharded::new(shards),
            is_healthy: AtomicBool::new(true),
            is_ejected: AtomicBool::new(false),
        }
    }

    /// Counts a request, or a retry of one, that begins at the endpoint.
    pub fn began(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).began, 1);
    }

    /// Counts the end of a request that began, whatever became of it.
    pub fn ended(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).ended, 1);
    }

    /// Returns how many requests are in progress at the endpoint, over all workers.
    pub fn active(&self) -> u64 {
        (self.shards).current(|shard| &shard.began, |shard| &shard.ended)
    }

    /// Counts a response whose head came this long after the endpoint was given its request.
    pub fn responded(&self, worker: WorkerIndex, took: Micros) {
        let shard = self.shards.of(worker);
        let bucket = BOUNDS_US.partition_point(|bound_us| *bound_us < took.0);
        add(&shard.responses[bucket], 1);
        add(&shard.responses_us, took.0);
    }

    /// Counts a request, or a connection for one, that failed at the endpoint.
    pub fn failed(&self, worker: WorkerIndex, failure: EndpointFailure) {
        add(&self.shards.of(worker).failures[failure.index()], 1);
    }

    /// Counts a connection that was made.
    pub fn connection_opened(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).connections_opened, 1);
    }

    /// Counts the end of a connection that was made.
    pub fn connection_closed(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).connections_closed, 1);
    }

    /// Counts a health check.
    pub fn checked(&self, worker: WorkerIndex, is_ok: bool) {
        let shard = self.shards.of(worker);
        let counters = [&shard.checks_failed, &shard.checks_ok];
        add(counters[usize::from(is_ok)], 1);
    }

    /// Counts an ejection.
    pub fn ejected(&self, worker: WorkerIndex) {
        add(&self.shards.of(worker).ejections, 1);
    }

    /// Shows whether health checks find the endpoint healthy.
    pub fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Relaxed);
    }

    /// Shows whether the endpoint is ejected.
    pub fn set_ejected(&self, is_ejected: bool) {
        self.is_ejected.store(is_ejected, Relaxed);
    }

    fn sum(&self, counter: impl Fn(&EndpointShard) -> &AtomicU64) -> u64 {
        self.shards.sum(counter)
    }
}

/// The series of one metric: its name, its help, and its value for an endpoint.
type EndpointSeries = (&'static str, &'static str, fn(&EndpointMetrics) -> u64);

const COUNTERS: [EndpointSeries; 2] = [
    (
        "endpoint_requests",
        "Requests sent to an endpoint, including retries.",
        |one| one.sum(|shard| &shard.began),
    ),
    (
        "endpoint_ejections",
        "Ejections of an endpoint because of consecutive failures.",
        |one| one.sum(|shard| &shard.ejections),
    ),
];

const GAUGES: [EndpointSeries; 4] = [
    (
        "endpoint_active_requests",
        "Requests in progress at an endpoint.",
        EndpointMetrics::active,
    ),
    (
        "endpoint_connections_open",
        "Open connections to an endpoint.",
        |one| {
            (one.shards).current(
                |shard| &shard.connections_opened,
                |value| &value.connections_closed,
            )
        },
    ),
    (
        "endpoint_healthy",
        "1 unless health checks find an endpoint unhealthy.",
        |one| one.is_healthy.load(Relaxed).into(),
    ),
    (
        "endpoint_ejected",
        "1 while an endpoint is ejected because of consecutive failures.",
        |one| one.is_ejected.load(Relaxed).into(),
    ),
];

/// Renders the series of every endpoint.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    endpoints: &[(EndpointName, Arc<EndpointMetrics>)],
) -> Result<(), Error> {
    for (name, help, value) in COUNTERS {
        let mut family = counters(encoder, name, help)?;
        for (name, one) in endpoints {
            count(&mut family, &labels(name), value(one))?;
        }
    }
    for (name, help, value) in GAUGES {
        let mut family = gauges(encoder, name, help)?;
        for (name, one) in endpoints {
            family
                .encode_family(&labels(name))?
                .encode_gauge(&value(one))?;
        }
    }
    let help = "Failures of requests, or of connections for them, at an endpoint, by cause.";
    let mut family = counters(encoder, "endpoint_failures", help)?;
    for (name, one) in endpoints {
        for failure in EndpointFailure::ALL {
            let sum = one.sum(|shard| &shard.failures[failure.index()]);
            count(&mut family, &with(name, "cause", failure.word()), sum)?;
        }
    }
    let help = "Health checks of an endpoint by result.";
    let mut family = counters(encoder, "endpoint_checks", help)?;
    for (name, one) in endpoints {
        let ok = one.sum(|shard| &shard.checks_ok);
        count(&mut family, &with(name, "result", "ok"), ok)?;
        let failed = one.sum(|shard| &shard.checks_failed);
        count(&mut family, &with(name, "result", "failed"), failed)?;
    }
    let help = "Time until the head of an endpoint's response, in seconds.";
    let name = "endpoint_response_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (name, one) in endpoints {
        let counts: [u64; BUCKETS] =
            std::array::from_fn(|bucket| one.sum(|shard| &shard.responses[bucket]));
        let sum_us = one.sum(|shard| &shard.responses_us);
        let labels = labels(name);
        let mut metric = family.encode_family(&labels)?;
        histogram(&mut metric, &BOUNDS_US, &counts, sum_us)?;
    }
    Ok(())
}

fn labels((upstream, endpoint): &EndpointName) -> [(&str, &str); 2] {
    [("upstream", upstream), ("endpoint", endpoint)]
}

fn with<'l>(name: &'l EndpointName, label: &'l str, value: &'l str) -> [(&'l str, &'l str); 3] {
    let [upstream, endpoint] = labels(name);
    [upstream, endpoint, (label, value)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Exposition, Metrics};

    #[test]
    fn endpoints_keep_their_series_while_somebody_holds_them() {
        let metrics = Metrics::new(1);
        let (api, other, address) = ("api".into(), "other".into(), "a:1".into());
        let held = metrics.endpoint(&api, &address);
        held.began(metrics.worker(0));
        drop(metrics.endpoint(&other, &address));
        assert!(
            metrics
                .render(Exposition::OpenMetrics)
                .contains("upstream=\"other\"")
        );
        metrics.forget_endpoints();
        assert!(
            !metrics
                .render(Exposition::OpenMetrics)
                .contains("upstream=\"other\"")
        );
        assert_eq!(metrics.endpoint(&api, &address).active(), 1);
        drop(held);
        let none: [Arc<str>; 0] = [];
        metrics.handles(none.iter(), none.iter(), none.iter());
        assert_eq!(metrics.endpoint(&api, &address).active(), 0);
    }
}
