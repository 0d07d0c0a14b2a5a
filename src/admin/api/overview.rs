//! `/api/overview` and `/api/version`.

use serde_json::{Value, json};

use super::time;
use crate::admin::state::AdminState;
use crate::build_info;

/// Shows in brief what runs, and in which state it is.
pub(in crate::admin) fn overview(state: &AdminState) -> Value {
    let process = &state.process;
    let live = process.live();
    let snapshot = &live.snapshot;
    let usage = process.store.usage();
    let upstreams = process.endpoints.status();
    let endpoints = || upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let listeners = snapshot.listeners.keys();
    let open = listeners.map(|index| process.capacity.listener(index).status().open);
    let last = state.reloads.last();
    json!({
        "version": build_info::VERSION,
        "time": time(process.clock.wall()),
        "started": time(state.started),
        "ready": state.is_ready(),
        "configuration": {
            "file": state.reloads.path().map(|path| path.display().to_string()),
            "last_reload": last.map(|report| json!({
                "time": time(report.time),
                "result": report.outcome.word(),
            })),
        },
        "listeners": snapshot.listeners.len(),
        "connections": open.sum::<usize>(),
        "routes": snapshot.routes.len(),
        "policies": snapshot.policies.len(),
        "upstreams": snapshot.upstreams.len(),
        "endpoints": {
            "total": endpoints().count(),
            "available": endpoints().filter(|endpoint| endpoint.is_available).count(),
        },
        "store": match &usage.redis {
            None => json!({ "kind": "memory", "full": usage.is_full }),
            Some(redis) => json!({
                "kind": "redis",
                "full": usage.is_full,
                "nodes": redis.nodes,
                "answering": redis.servers.iter().all(|server| server.breaker.is_closed()),
            }),
        },
    })
}

/// Shows the version, the build and the platform.
pub(in crate::admin) fn version(_: &AdminState) -> Value {
    json!({
        "version": build_info::VERSION,
        "commit": build_info::COMMIT,
        "profile": build_info::PROFILE,
        "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
    })
}
