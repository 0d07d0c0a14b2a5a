//! Whole pages, as they are rendered.

use super::*;
use crate::build_info;
use crate::clock::{Micros, Timestamp};
use crate::cost::Settled;
use crate::fault::{EndpointFailure, HandshakeFailure, TlsFailure};
use crate::metrics::{
    BreakerState, ConfigInfo, ConfiguredQuota, EndpointMetrics, RedisUsage, ServerUsage, Usage,
    WorkerIndex,
};
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
        evicts_all: false,
        is_forgetful: false,
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
    // An end without a beginning makes no gauge negative.
    unused.ended(first);
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
    handles.policies.raw[0].near_limit(first);
    for (worker, took_us) in [(first, 500), (second, 501), (second, 30_000_001)] {
        metrics.took(worker, &handles.routes.raw[0], Micros(took_us));
    }
    metrics.took(first, &handles.unrouted, Micros(7));
    metrics.refused(first, StatusCode::TOO_MANY_REQUESTS, Reason::QuotaExceeded);
    metrics.refused(second, StatusCode::NOT_FOUND, Reason::NoRoute);
    configure(&metrics, &policies[0]);
    metrics.observe_certificates(|| {
        let one = |name: &str, seconds| (Arc::from("public"), Box::from(name), seconds);
        let first = one("a.test", 86_400 * 9);
        vec![first, one("a.test", 86_400), one("CN=\"b\"", -1)]
    });
    metrics.observe_log(Arc::new(AtomicU64::new(3)));
    metrics.observe_store(usage);
    insta::assert_snapshot!(without_process(&metrics.render(Exposition::OpenMetrics)));
    insta::assert_snapshot!(without_process(&metrics.render(Exposition::Text)));
    drop(unused);
}

/// Makes the usage that a store over Redis reports.
fn usage() -> Usage {
    Usage {
        partitions: 7,
        bytes: 4096,
        is_full: true,
        overflowed: 1,
        coarsened: 2,
        redis: Some(Box::new(RedisUsage {
            answered: 5,
            remembered: 4,
            leased: 11,
            synced: 13,
            late: 3,
            failed: 2,
            unsent: 9,
            unasked: 1,
            out_of_memory: 7,
            settlements_dropped: 8,
            units_leased: 12,
            quotas_followed: 14,
            refusals_remembered: 6,
            connections: 2,
            nodes: 3,
            share_nodes: 4,
            servers: vec![server()],
            round_trips: [0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 1],
            round_trips_us: 250_000,
        })),
    }
}

/// Begins with a configuration, and rejects a reload.
fn configure(metrics: &Metrics, policy: &Arc<str>) {
    metrics.started(ConfigInfo {
        hash: "0123456789abcdef".into(),
        since: Timestamp(1_700_006_400_500_000),
    });
    metrics.reload_rejected();
    metrics.show_quotas(vec![ConfiguredQuota {
        policy: Arc::clone(policy),
        quota: "per-client:100ms".into(),
        units: 100,
        window: Some(Micros(100_000)),
        overshoot: Some(3),
    }]);
}

/// Removes the series of the process and replaces the version, because they change.
fn without_process(page: &str) -> String {
    let is_own = |line: &&str| !line.contains("process_");
    let own: String = page.split_inclusive('\n').filter(is_own).collect();
    own.replace(build_info::VERSION, "VERSION")
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
    // The first time is equal to the first bound, and the second is beyond the last one.
    endpoint.responded(first, Micros(500));
    endpoint.responded(second, Micros(30_000_001));
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
    assert!(Arc::ptr_eq(
        &first.routes.raw[0].ranking,
        &second.routes.raw[0].ranking
    ));
    assert!(
        metrics
            .render(Exposition::OpenMetrics)
            .contains("route=\"/b\"")
    );
    drop(first);
    let third = metrics.handles(one.iter(), none.iter(), none.iter());
    let rendered = metrics.render(Exposition::OpenMetrics);
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
