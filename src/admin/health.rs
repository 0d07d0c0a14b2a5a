//! Health for load balancers, metrics for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;

use super::reply::AdminReply;
use super::request::AdminRequest;
use crate::metrics;

/// Says what there is.
pub(super) fn index() -> AdminReply {
    AdminReply::text(StatusCode::OK, INDEX)
}

/// Says that the process runs.
pub(super) fn live() -> AdminReply {
    AdminReply::text(StatusCode::OK, "ok\n")
}

/// Says whether the gateway wants traffic, and what is amiss nevertheless.
pub(super) fn ready(request: &AdminRequest) -> AdminReply {
    if !request.state.is_ready() {
        return AdminReply::text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n");
    }
    let redis = request.state.process.metrics.store_usage().redis;
    let servers = redis.iter().flat_map(|redis| &redis.servers);
    let mut body = String::from("ok\n");
    for server in servers.filter(|server| server.is_far) {
        let name = &server.name;
        let _ = writeln!(
            body,
            "[store] timeout is below two round trips to {name}: raise it, or move Redis closer"
        );
    }
    AdminReply::text(StatusCode::OK, body)
}

/// Renders the metrics on another thread, because the time it takes grows with the file's
/// routes, and the acceptors live on this one. One scrape is rendered at a time, whoever asks.
pub(super) async fn scrape(request: &AdminRequest) -> AdminReply {
    let turn = request.state.rendering.lock().await;
    let metrics = Arc::clone(&request.state.process.metrics);
    let rendered = tokio::task::spawn_blocking(move || metrics.render()).await;
    drop(turn);
    match rendered {
        Ok(text) => AdminReply::new(StatusCode::OK, metrics::CONTENT_TYPE, text),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be rendered");
            let detail = "The metrics cannot be rendered.";
            AdminReply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    }
}

const INDEX: &str = "\
Tollgate's admin port

/livez    the process runs
/readyz   it wants traffic
/metrics  OpenMetrics text
/api/     what runs, as JSON: /api/openapi.json describes it
";
