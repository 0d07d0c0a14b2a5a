//! `/api/upstreams`: where requests go, and whether that works.

use serde_json::{Value, json};

use super::time;
use crate::admin::state::AdminState;
use crate::proxy::upstream::{EndpointStatus, UpstreamStatus};
use crate::snapshot::UpstreamKind;

/// Shows the upstreams in the file's order.
pub(in crate::admin) fn upstreams(state: &AdminState) -> Value {
    let live = state.process.live();
    let status = state.process.endpoints.status();
    let upstreams = live.snapshot.upstreams.iter().map(|upstream| {
        let found = status.iter().find(|one| one.name == upstream.name);
        let mut shown = found.map_or_else(|| json!({ "endpoints": [] }), of_origins);
        shown["name"] = (*upstream.name).into();
        shown["kind"] = kind(&upstream.kind).into();
        shown
    });
    json!({ "upstreams": upstreams.collect::<Value>() })
}

fn kind(kind: &UpstreamKind) -> String {
    match kind {
        UpstreamKind::Echo => "builtin:echo".to_owned(),
        UpstreamKind::Status(status) => format!("builtin:status/{}", status.as_u16()),
        UpstreamKind::RedirectHttps => "builtin:redirect-https".to_owned(),
        UpstreamKind::Usage => "builtin:usage".to_owned(),
        UpstreamKind::Http(_) => "origins".to_owned(),
    }
}

fn of_origins(upstream: &UpstreamStatus) -> Value {
    let unresolved = upstream.unresolved.as_ref();
    json!({
        "endpoints": upstream.endpoints.iter().map(endpoint).collect::<Value>(),
        "unresolved": unresolved.map(|(name, error)| json!({
            "name": name,
            "error": error.as_deref(),
        })),
    })
}

fn endpoint(endpoint: &EndpointStatus) -> Value {
    json!({
        "name": *endpoint.name,
        "weight": endpoint.weight,
        "available": endpoint.is_available,
        "healthy": endpoint.is_healthy,
        "ejected_until": endpoint.ejected_until.map(time),
        "failing_since": endpoint.failing_since.map(time),
    })
}
