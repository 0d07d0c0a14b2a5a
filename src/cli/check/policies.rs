//! The policies in the output of `tollgate check`: how they partition requests, and what they guarantee.

use std::fmt::Write as _;

use crate::config::value::{BLOCKED, UNLIMITED};
use crate::config::{display, guarantee, overshoot, sizing};
use crate::limit::Quota;
use crate::snapshot::{Grant, Overrides, Policy, PolicyMode, Snapshot};
use crate::store::settings::Location;

/// Says how a policy partitions requests.
pub(super) fn whose(policy: &Policy) -> String {
    match policy.partition.0.as_slice() {
        [] => "one for all".to_owned(),
        _ => format!("by {}", display::partition(&policy.partition)),
    }
}

/// Says what a policy grants and guarantees.
pub(super) fn policy(out: &mut String, policy: &Policy, snapshot: &Snapshot) {
    let store = &snapshot.store;
    let _ = write!(out, "  {}: {}", policy.name, whose(policy));
    match policy.mode {
        Some(PolicyMode::Enforce) => {}
        mode => {
            let _ = write!(out, ", {}", display::word(display::MODES, &mode));
        }
    }
    out.push('\n');
    match policy.grant {
        Grant::Quotas(_) => {}
        Grant::Unlimited => *out += "    unlimited without an override\n",
        Grant::Blocked => *out += "    blocked without an override\n",
    }
    for part in policy.grant.quotas() {
        quota(out, &part.quota, "");
        if !part.own.is_empty() {
            *out += "      for clients with a day of their own, it begins on that day\n";
        }
    }
    if let Some(penalty) = &policy.penalty {
        quota(out, &penalty.quota, "");
    }
    if let Some(spill) = policy.spill {
        let name = &snapshot.policies[spill].name;
        let _ = writeln!(
            out,
            "    what it refuses is taken from the credits of {name}"
        );
    }
    for part in &policy.candidates {
        quota(out, &part.quota, "candidate: ");
    }
    for text in guarantee::reported_later(policy) {
        let _ = writeln!(out, "    {text}");
    }
    let quotas: Vec<_> = policy
        .grant
        .quotas()
        .iter()
        .map(|part| part.quota)
        .collect();
    for line in overshoot::overshoot(policy.consistency, &quotas, store) {
        let _ = writeln!(out, "    {line}");
    }
    for advice in guarantee::advice(&quotas) {
        let _ = writeln!(out, "    {advice}");
    }
    if let (Location::Memory, [_, ..]) = (&store.location, &*quotas) {
        let _ = writeln!(out, "    {}", sizing::clients(&quotas, store.max_memory));
    }
    if let Some(overrides) = &policy.overrides {
        self::overrides(out, overrides);
    }
}

fn overrides(out: &mut String, overrides: &Overrides) {
    let count = overrides.patterns.len();
    let s = if count == 1 { "" } else { "s" };
    let _ = write!(out, "    {count} override{s}");
    if let Some(by) = &overrides.by {
        let by: Vec<_> = by.0.iter().map(display::choice).collect();
        let _ = write!(out, " by {}", by.join(", "));
    }
    let words = [
        (overrides.count_of(&Grant::Unlimited), UNLIMITED),
        (overrides.count_of(&Grant::Blocked), BLOCKED),
    ];
    let words = words.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = words
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if !words.is_empty() {
        let _ = write!(out, ": {}", words.join(", "));
    }
    out.push('\n');
}

fn quota(out: &mut String, quota: &Quota, role: &str) {
    let algorithm = display::algorithm(quota).map(|name| format!(", {name}"));
    let (rate, guarantee) = (display::rate(quota), guarantee::guarantee(quota));
    let _ = writeln!(
        out,
        "    {role}{rate}{}: {guarantee}",
        algorithm.unwrap_or_default()
    );
}
