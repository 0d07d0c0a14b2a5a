//! `/api/policies`: whose quotas there are, and what they guarantee, in the words of `tollgate check`.

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
    let costs = policy
        .reported_cost
        .as_deref()
        .map(guarantee::reported_cost);
    let answers = (policy.counted_answers.as_deref()).map(guarantee::counted_answers);
    let plain: Vec<_> = quotas.iter().map(|part| part.quota).collect();
    let leases = overshoot::overshoot(policy.consistency, &plain, store);
    let notes = costs.into_iter().flatten().chain(answers).chain(leases);
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

/// Counts the overrides; they may name clients.
fn overrides(overrides: &Overrides) -> Value {
    let by = overrides.by.as_ref();
    let of = |grant: &Grant| {
        let grants = overrides.grant_of.iter();
        let grants = grants.filter(|index| overrides.grants[**index as usize] == *grant);
        grants.count()
    };
    json!({
        "count": overrides.patterns.len(),
        "by": by.map(|by| by.0.iter().map(display::choice).collect::<Value>()),
        "unlimited": of(&Grant::Unlimited),
        "blocked": of(&Grant::Blocked),
    })
}
