//! `/api/policies`: the quotas of each policy, and what they guarantee, in the words of `tollgate check`.

use serde_json::{Value, json};

use crate::admin::state::AdminState;
use crate::config::value::{BLOCKED, UNLIMITED};
use crate::config::{display, guarantee, overshoot};
use crate::snapshot::{Grant, Overrides, Policy, PolicyQuota};
use crate::store::Settings;

/// Shows the policies in the file's order.
pub(in crate::admin) fn policies(state: &AdminState) -> Value {
    let live = state.process.live();
    let (all, store) = (&live.snapshot.policies, &live.snapshot.store);
    let policies = all.iter().map(|one| {
        let mut said = policy(one, store);
        said["spill"] = one.spill.map(|spill| &*all[spill].name).into();
        said
    });
    json!({ "policies": policies.collect::<Value>() })
}

fn policy(policy: &Policy, store: &Settings) -> Value {
    let quotas = policy.grant.quotas();
    let plain: Vec<_> = quotas.iter().map(|part| part.quota).collect();
    let leases = overshoot::overshoot(policy.consistency, &plain, store);
    let notes = guarantee::reported_later(policy).chain(leases);
    let notes: Vec<String> = notes.collect();
    let advice = guarantee::advice(&plain);
    json!({
        "name": *policy.name,
        "partition": policy.partition.0.iter().map(display::choice).collect::<Value>(),
        "mode": display::word(display::MODES, &policy.mode),
        "without_override": match policy.grant {
            Grant::Quotas(_) => "quotas",
            Grant::Unlimited => UNLIMITED,
            Grant::Blocked => BLOCKED,
        },
        "quotas": quotas.iter().map(quota).collect::<Value>(),
        "penalty": policy.penalty.as_deref().map(quota),
        "candidates": policy.candidates.iter().map(quota).collect::<Value>(),
        "on_missing": display::word(display::MISSING, &policy.missing),
        "on_store_failure": display::word(display::ON_STORE_FAILURE, &policy.on_store_failure),
        "notes": notes,
        "advice": (!advice.is_empty()).then(|| advice.join("; ")),
        "overrides": policy.overrides.as_deref().map(overrides),
    })
}

fn quota(part: &PolicyQuota) -> Value {
    let quota = &part.quota;
    json!({
        "quota": display::rate(quota),
        "algorithm": display::algorithm(quota),
        "guarantee": guarantee::guarantee(quota),
    })
}

/// Shows how many overrides there are, but not which, because they may name clients.
fn overrides(overrides: &Overrides) -> Value {
    let by = overrides.by.as_ref();
    json!({
        "count": overrides.patterns.len(),
        "by": by.map(|by| by.0.iter().map(display::choice).collect::<Value>()),
        "unlimited": overrides.count_of(&Grant::Unlimited),
        "blocked": overrides.count_of(&Grant::Blocked),
    })
}
