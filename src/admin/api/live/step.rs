//! One step of `/api/live`, as JSON.

use serde_json::{Value, json};

use super::words;
use crate::admin::api::overview::overview;
use crate::admin::api::time;
use crate::admin::api::usage::{notifications, top_clients};
use crate::admin::live::{DECISIONS, POLICY_COUNTERS, REFUSED, ROUTE_COUNTERS, RecentCounts, STEP};
use crate::admin::state::AdminState;
use crate::proxy::upstream::EndpointStatus;

/// Renders the latest step.
pub(super) fn render(recent: &RecentCounts, state: &AdminState) -> Value {
    let policies = recent.policies.latest(REFUSED).into_iter();
    let routes = recent.routes.latest(REFUSED).into_iter();
    json!({
        "time": time(state.process.clock.wall()),
        "totals": counted(None, &ROUTE_COUNTERS, recent.totals.latest()),
        "policies": policies
            .map(|(name, growth)| counted(Some(name), &POLICY_COUNTERS, growth))
            .collect::<Value>(),
        "routes": routes
            .map(|(name, growth)| counted(Some(name), &ROUTE_COUNTERS, growth))
            .collect::<Value>(),
        "top": top_clients(state, CLIENTS_MAX),
        "notifications": notifications(state, NOTIFICATIONS_MAX),
        "overview": overview(state),
        "store": store(recent, state),
        "endpoints": endpoints(state),
        "reload": state.reloads.last().map(|report| json!({
            "time": time(report.time),
            "result": report.outcome.word(),
            "source": report.source.to_string(),
            "text": words::reload(&report.outcome),
        })),
    })
}

/// Shows counters under their names; those that are 0 are left out.
fn counted(name: Option<&str>, names: &[&str], counters: &[u64]) -> Value {
    let counters = names.iter().zip(counters).filter(|(_, count)| **count > 0);
    let counters = counters.map(|(name, count)| ((*name).to_owned(), (*count).into()));
    let name = name.map(|name| ("name".to_owned(), name.into()));
    Value::Object(name.into_iter().chain(counters).collect())
}

fn store(recent: &RecentCounts, state: &AdminState) -> Value {
    let usage = state.process.metrics.store_usage();
    let (store, text) = words::store(&usage);
    let redis = usage.redis.as_deref();
    let decisions = redis.map(|_| {
        let counts = DECISIONS.iter().zip(recent.decisions.latest());
        let rates =
            counts.map(|(name, count)| ((*name).to_owned(), count.div_ceil(STEP.as_secs()).into()));
        Value::Object(rates.collect())
    });
    let servers = redis.iter().flat_map(|redis| &redis.servers);
    let servers = servers
        .map(|server| json!({ "name": *server.name, "breaker": server.breaker.word() }))
        .collect::<Value>();
    json!({
        "kind": if redis.is_some() { "redis" } else { "memory" },
        "state": store.word(),
        "text": text,
        "decisions_per_second": decisions,
        "servers": servers,
    })
}

fn endpoints(state: &AdminState) -> Value {
    let upstreams = state.process.endpoints.status();
    let all = || upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let is_troubled = |one: &&EndpointStatus| !one.is_available || one.failing_since.is_some();
    let troubled = upstreams.iter().flat_map(|upstream| {
        let troubled = upstream.endpoints.iter().filter(is_troubled);
        troubled.map(|one| {
            json!({
                "upstream": *upstream.name,
                "name": *one.name,
                "available": one.is_available,
                "healthy": one.is_healthy,
                "ejected_until": one.ejected_until.map(time),
                "failing_since": one.failing_since.map(time),
                "text": words::endpoint(one),
            })
        })
    });
    json!({
        "total": all().count(),
        "available": all().filter(|one| one.is_available).count(),
        "troubled": troubled.take(TROUBLED_MAX).collect::<Value>(),
    })
}

/// Most clients that are shown in each order.
const CLIENTS_MAX: usize = 20;
/// Most notifications that are shown.
const NOTIFICATIONS_MAX: usize = 20;
/// Most endpoints in trouble that are shown.
const TROUBLED_MAX: usize = 50;
