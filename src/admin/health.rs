//! Health for load balancers, metrics for Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;

use super::reply::AdminReply;
use super::request::AdminRequest;
use crate::metrics::{Exposition, RedisUsage};

/// Lists the port's paths.
pub(super) fn index() -> AdminReply {
    AdminReply::text(StatusCode::OK, INDEX)
}

/// Answers that the process runs.
pub(super) fn live() -> AdminReply {
    AdminReply::text(StatusCode::OK, "ok\n")
}

/// Answers whether the gateway wants traffic, and lists problems that do not keep it from serving.
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
    body += &credits(request, redis.as_deref());
    if !request.state.sources.is_known.load(Relaxed) {
        body += "directives of `tollgate keys` (blocks, overrides for a time) are not known yet: Redis has not \
                 been reached since the start\n";
    }
    AdminReply::text(StatusCode::OK, body)
}

/// Returns a warning for each Redis server that may lose credits, if any policy has credits.
fn credits(request: &AdminRequest, redis: Option<&RedisUsage>) -> String {
    let live = request.state.process.live();
    let mut policies = live.snapshot.policies.iter();
    let has_credits =
        policies.any(|policy| policy.every_quota().any(|(quota, _)| quota.is_balance()));
    let servers = redis.iter().flat_map(|redis| &redis.servers);
    let mut body = String::new();
    for server in servers.filter(|_| has_credits) {
        let name = &server.name;
        let _ = match (server.evicts_all, server.is_forgetful) {
            (true, _) => writeln!(
                body,
                "{name} may evict any key, so credits follow on_store_failure: set maxmemory-policy to noeviction"
            ),
            (false, true) => writeln!(
                body,
                "{name} writes no append-only file, so a crash forgets credits: set appendonly to yes"
            ),
            (false, false) => Ok(()),
        };
    }
    body
}

/// Renders the metrics on another thread, because the time it takes grows with the file's
/// routes, and the acceptors run on the control thread. Only one scrape is rendered at a time.
pub(super) async fn scrape(request: &AdminRequest) -> AdminReply {
    let exposition = Exposition::accepted_by(&request.head.headers);
    let turn = request.state.rendering.lock().await;
    let metrics = Arc::clone(&request.state.process.metrics);
    let rendered = tokio::task::spawn_blocking(move || metrics.render(exposition)).await;
    drop(turn);
    match rendered {
        Ok(text) => AdminReply::new(StatusCode::OK, exposition.content_type(), text),
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
/         the dashboard, in a browser
";
