//! `/api/routes`: which requests go where, and what limits them.

use serde_json::{Value, json};

use crate::admin::state::AdminState;
use crate::snapshot::{AppliedPolicy, Snapshot};

/// Shows the routes in the file's order.
pub(in crate::admin) fn routes(state: &AdminState) -> Value {
    let live = state.process.live();
    let snapshot = &live.snapshot;
    let routes = snapshot.routes.iter().map(|route| {
        json!({
            "name": *route.name,
            "upstream": *snapshot.upstreams[route.upstream].name,
            "policies": applied(snapshot, &route.policies),
        })
    });
    let preflights = snapshot.preflight_policies.as_ref();
    json!({
        "routes": routes.collect::<Value>(),
        "preflight_policies": preflights.map(|policies| applied(snapshot, policies)),
    })
}

/// Shows which policies apply, and what a request costs there, unless requests or responses report that.
fn applied(snapshot: &Snapshot, policies: &[AppliedPolicy]) -> Value {
    let policies = policies.iter().map(|applied| {
        let policy = &snapshot.policies[applied.policy];
        let is_told = policy.reported_cost.is_some()
            && (policy.body_cost().is_none() || applied.body_cost.is_some());
        let cost = (!is_told).then_some(applied.cost);
        json!({ "name": *policy.name, "cost": cost })
    });
    policies.collect()
}
