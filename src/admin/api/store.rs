//! `/api/store`: where counters live, and whether that works.

use serde_json::{Value, json};

use crate::admin::state::AdminState;
use crate::metrics::RedisUsage;

/// Shows the store.
pub(in crate::admin) fn store(state: &AdminState) -> Value {
    let usage = state.process.metrics.store_usage();
    let live = state.process.live();
    json!({
        "kind": if usage.redis.is_some() { "redis" } else { "memory" },
        "partitions": usage.partitions,
        "bytes": usage.bytes,
        "bytes_max": live.snapshot.store.max_memory,
        "full": usage.is_full,
        "overflowed": usage.overflowed,
        "coarsened": usage.coarsened,
        "gateway": state.process.store.gateway().map(|gateway| gateway.to_string()),
        "redis": usage.redis.as_deref().map(redis),
    })
}

fn redis(redis: &RedisUsage) -> Value {
    let servers = redis.servers.iter().map(|server| {
        json!({
            "name": *server.name,
            "breaker": server.breaker.word(),
            "timeout_short": server.is_far,
        })
    });
    json!({
        "nodes": redis.nodes,
        "connections": redis.connections,
        "servers": servers.collect::<Value>(),
        "decisions": {
            "answered": redis.answered,
            "remembered": redis.remembered,
            "leased": redis.leased,
            "synced": redis.synced,
            "late": redis.late,
            "failed": redis.failed,
            "unsent": redis.unsent,
            "unasked": redis.unasked,
        },
        "out_of_memory": redis.out_of_memory,
        "settlements_dropped": redis.settlements_dropped,
        "refusals_remembered": redis.refusals_remembered,
        "leased_units": redis.units_leased,
        "followed_quotas": redis.quotas_followed,
    })
}
