//! Metrics as OpenMetrics text: sums the shards, series by series.
//!
//! The encoder escapes label values; names and help are constants.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;

use super::text::{count, counter, counters, gauge};
use super::{MetricSeries, Metrics, PolicyMetrics, PolicyOutcome, STATUS_CLASSES};
use super::{endpoint, listener, store, upstream};
use crate::cost::MissingCost;
use crate::fault::Reason;

/// The media type of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Metrics {
    /// Renders every series as OpenMetrics text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail, and nothing else in the collector does.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

impl Collector for MetricSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let encoder = &mut encoder;
        let mut build =
            encoder.encode_descriptor("build", "The running version.", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        self.encode_requests(encoder)?;
        self.encode_errors(encoder)?;
        listener::encode(encoder, &self.listeners.all())?;
        self.certificates.encode(encoder)?;
        upstream::encode(encoder, &self.upstreams.all())?;
        endpoint::encode(encoder, &self.endpoints.all())?;
        self.encode_process(encoder)
    }
}

impl MetricSeries {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = counters(encoder, "requests", "Requests by route and status class.")?;
        let mut routes = self.routes.all();
        routes.push((UNROUTED.into(), Arc::clone(&self.unrouted)));
        for (name, route) in routes {
            for (index, class) in STATUS_CLASSES.into_iter().enumerate() {
                let labels = [("route", &*name), ("class", class)];
                count(&mut family, &labels, route.0.sum(|shard| &shard[index]))?;
            }
        }
        let help = "Decisions by policy and outcome.";
        let mut family = counters(encoder, "decisions", help)?;
        let policies = self.policies.all();
        for (name, policy) in &policies {
            for outcome in PolicyOutcome::ALL {
                let labels = [("policy", &**name), ("outcome", outcome.word())];
                let sum = policy.0.sum(|shard| &shard.outcomes[outcome as usize]);
                count(&mut family, &labels, sum)?;
            }
        }
        let help = "Units refunded because of the response, by policy.";
        let mut family = counters(encoder, "refunded_units", help)?;
        for (name, policy) in &policies {
            let sum = policy.0.sum(|shard| &shard.refunded_units);
            count(&mut family, &[("policy", &**name)], sum)?;
        }
        encode_reservations(encoder, &policies)?;
        Ok(())
    }

    fn encode_errors(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Requests that were refused or broke off, by reason and fault.";
        let mut family = counters(encoder, "errors", help)?;
        for reason in Reason::ALL {
            let labels = [("reason", reason.word()), ("fault", reason.fault().word())];
            let sum = self.process.sum(|shard| &shard.errors.0[reason.index()]);
            count(&mut family, &labels, sum)?;
        }
        let help = "Errors in the message itself, by reason.";
        let mut family = counters(encoder, "malformed", help)?;
        for reason in Reason::ALL.into_iter().filter(|one| one.is_malformed()) {
            let sum = self.process.sum(|shard| &shard.errors.0[reason.index()]);
            count(&mut family, &[("reason", reason.word())], sum)?;
        }
        Ok(())
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let waiting =
            (self.process).current(|shard| &shard.delayed_entered, |shard| &shard.delayed_left);
        let help = "Requests that are being delayed by leaky-bucket policies.";
        gauge(encoder, "requests_delayed", help, waiting)?;
        let help = "Panics that ended a connection.";
        counter(
            encoder,
            "panics",
            help,
            self.process.sum(|shard| &shard.panics),
        )?;
        let mut family = counters(
            encoder,
            "reloads",
            "Reloads of the configuration by result.",
        )?;
        for (result, reloads) in ["applied", "rejected"].into_iter().zip(&self.reloads) {
            count(&mut family, &[("result", result)], reloads.load(Relaxed))?;
        }
        if let Some(dropped) = self.log_lines_dropped.get() {
            let help = "Log lines lost because the output did not keep up or failed.";
            counter(encoder, "log_lines_dropped", help, dropped.load(Relaxed))?;
        }
        if let Some(store) = self.store.get() {
            store::encode(encoder, &(store.0)())?;
        }
        Ok(())
    }
}

fn encode_reservations(
    encoder: &mut DescriptorEncoder<'_>,
    policies: &[(Arc<str>, Arc<PolicyMetrics>)],
) -> Result<(), Error> {
    let help = "Units reserved until a body reported the cost, by policy.";
    let mut family = counters(encoder, "reserved_units", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.reserved_units);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Units charged in the end by policies that reserve, by policy.";
    let mut family = counters(encoder, "charged_units", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.charged_units);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Responses whose body reported more than max_cost, by policy.";
    let mut family = counters(encoder, "capped_costs", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.capped_costs);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Responses that did not report what the request cost, by policy and reason.";
    let mut family = counters(encoder, "cost_missing", help)?;
    for (name, policy) in policies {
        let is_reserving = policy.0.sum(|shard| &shard.reserved_units) > 0;
        for missing in MissingCost::ALL {
            let sum = policy.0.sum(|shard| &shard.missing_costs[missing as usize]);
            // Most policies reserve nothing.
            if is_reserving || sum > 0 || missing == MissingCost::Header {
                let labels = [("policy", &**name), ("reason", missing.word())];
                count(&mut family, &labels, sum)?;
            }
        }
    }
    Ok(())
}

/// The label of requests that no route took; no pattern has this name.
const UNROUTED: &str = "none";

#[cfg(test)]
mod tests {
    use super::super::{EndpointMetrics, Reload, WorkerIndex};
    use super::*;
    use crate::clock::Micros;
    use crate::cost::Settled;
    use crate::fault::{EndpointFailure, HandshakeFailure, TlsFailure};
    use crate::metrics::{BreakerState, RedisUsage, ServerUsage, Usage};
    use http::StatusCode;
    use std::sync::atomic::AtomicU64;

    fn names(all: &[&str]) -> Vec<Arc<str>> {
        all.iter().map(|name| Arc::from(*name)).collect()
    }

    fn server() -> ServerUsage {
        ServerUsage {
            name: Arc::from("a.test:6379"),
            breaker: BreakerState::HalfOpen,
            is_far: true,
        }
    }

    #[test]
    fn every_series_is_rendered_with_escaped_labels() {
        let metrics = Metrics::new(2);
        let (first, second) = (metrics.worker(0), metrics.worker(1));
        let (routes, policies) = (names(&["/a\"\n\\", "/b"]), names(&["per-client"]));
        let handles = metrics.handles(routes.iter(), policies.iter(), names(&["api"]).iter());
        handles.routes.raw[0].answered(first, StatusCode::OK);
        handles.routes.raw[0].answered(second, StatusCode::CREATED);
        handles.routes.raw[1].answered(second, StatusCode::TOO_MANY_REQUESTS);
        handles.unrouted.unanswered(first);
        handles.policies.raw[0].decided(first, PolicyOutcome::Admitted);
        handles.policies.raw[0].decided(second, PolicyOutcome::Refused);
        handles.policies.raw[0].charged(second, 20, CUT.units);
        handles.policies.raw[0].settled(second, CUT);
        handles.upstreams.raw[0].opened(first);
        handles.upstreams.raw[0].reused(first);
        handles.upstreams.raw[0].retried(second);
        handles.upstreams.raw[0].retry_denied(first);
        handles.upstreams.raw[0].tls_failed(second, TlsFailure::WrongName);
        fill_endpoint(
            &metrics.endpoint(&"api".into(), &"127.0.0.1:9000".into()),
            &metrics,
        );
        let unused = metrics.endpoint(&"api".into(), &"[::1]:9000".into());
        let listener = metrics.listener(&names(&["public"])[0]);
        listener.accepted(metrics.control());
        listener.accepted(metrics.control());
        listener.closed(second);
        listener.evicted(first);
        listener.handshake_failed(second, HandshakeFailure::Expired);
        metrics.error(second, Reason::QuotaExceeded);
        metrics.error(first, Reason::HeadTooLarge);
        metrics.delayed(first);
        metrics.panicked(second);
        metrics.reloaded(Reload::Rejected);
        metrics.observe_certificates(|| {
            let one = |name: &str, seconds| (Arc::from("public"), Box::from(name), seconds);
            let first = one("a.test", 86_400 * 9);
            vec![
                first,
                one("a.test", 86_400 * 3 / 2),
                one("CN=\"b\"", -43_200),
            ]
        });
        metrics.observe_log(Arc::new(AtomicU64::new(3)));
        metrics.observe_store(|| Usage {
            partitions: 7,
            bytes: 4096,
            is_full: true,
            overflowed: 1,
            coarsened: 2,
            redis: Some(Box::new(RedisUsage {
                answered: 5,
                remembered: 4,
                late: 3,
                failed: 2,
                unsent: 9,
                unasked: 1,
                out_of_memory: 7,
                settlements_dropped: 8,
                refusals_remembered: 6,
                connections: 2,
                nodes: 3,
                servers: vec![server()],
                round_trips: [0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 1],
                round_trips_us: 250_000,
            })),
        });
        insta::assert_snapshot!(metrics.render());
        drop(unused);
    }

    const CUT: Settled = Settled {
        units: 30,
        is_capped: true,
        missing_cost: Some(MissingCost::Cut),
    };

    fn fill_endpoint(endpoint: &EndpointMetrics, metrics: &Metrics) {
        let (first, second) = (metrics.worker(0), metrics.worker(1));
        for worker in [first, second, second] {
            endpoint.began(worker);
        }
        endpoint.responded(first, Micros(500));
        endpoint.responded(second, Micros(499_501));
        endpoint.ended(second);
        endpoint.failed(second, EndpointFailure::ConnectTimeout);
        endpoint.connection_opened(first);
        endpoint.connection_opened(second);
        endpoint.connection_closed(second);
        endpoint.checked(metrics.control(), true);
        endpoint.checked(metrics.control(), false);
        endpoint.ejected(first);
        endpoint.set_healthy(false);
        endpoint.set_ejected(true);
    }

    #[test]
    fn a_name_keeps_its_counters_while_a_snapshot_holds_it() {
        let metrics = Metrics::new(1);
        let (both, one) = (names(&["/a", "/b"]), names(&["/a"]));
        let none = names(&[]);
        let worker = metrics.worker(0);
        let first = metrics.handles(both.iter(), none.iter(), none.iter());
        first.routes.raw[0].answered(worker, StatusCode::OK);
        let second = metrics.handles(one.iter(), none.iter(), none.iter());
        assert!(Arc::ptr_eq(&first.routes.raw[0], &second.routes.raw[0]));
        assert!(metrics.render().contains("route=\"/b\""));
        drop(first);
        let third = metrics.handles(one.iter(), none.iter(), none.iter());
        let rendered = metrics.render();
        assert!(rendered.contains("tollgate_requests_total{route=\"/a\",class=\"2xx\"} 1\n"));
        assert!(!rendered.contains("route=\"/b\""));
        drop((second, third));
    }

    #[test]
    fn an_index_beyond_the_workers_counts_with_the_other_threads() {
        let metrics = Metrics::new(1);
        assert_eq!(metrics.worker(0), WorkerIndex(0));
        assert_eq!(metrics.worker(5), metrics.control());
    }
}
