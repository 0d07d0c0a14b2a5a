//! Policies: which keys go with which algorithm.

use std::sync::Arc;

use super::algorithm_key::check_key;
use super::{costs, overrides, quotas};
use crate::config::display;
use crate::config::file::{AlgorithmName, File, RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::limit::Count;
use crate::snapshot::Policy;

/// Compiles `[policies.NAME]`; series ids are not assigned yet.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Policy> {
    let compiled = (file.policies.iter()).map(|table| one(table, report));
    compiled.collect()
}

fn one(table: &Table<RawPolicy>, report: &mut Report) -> Policy {
    check_keys(table, report);
    let policy = Policy {
        name: Arc::clone(&table.name),
        grant: quotas::compile(table, report),
        candidates: quotas::candidates(table, report),
        reported_cost: costs::reported_cost(table, report),
        counted_answers: costs::counted_answers(table, report),
        refusal: costs::refusal(table, report),
        ..table.value.policy.clone()
    };
    Policy {
        overrides: overrides::compile(table, &policy, report).map(Arc::new),
        ..policy
    }
}

/// Refuses keys that the policy's algorithm has no use for.
fn check_keys(table: &Table<RawPolicy>, report: &mut Report) {
    if !table.has("algorithm") && table.is_incomplete(POLICY.about.title) {
        return;
    }
    let algorithm = table.value.algorithm;
    let text = display::word(display::ALGORITHMS, &algorithm);
    for (key, owner) in [
        ("burst", AlgorithmName::Gcra),
        ("queue", AlgorithmName::LeakyBucket),
        ("buckets", AlgorithmName::SlidingWindow),
        ("oldest_bucket", AlgorithmName::SlidingWindow),
    ] {
        if let Some(place) = table.place(key) {
            check_key((key, place), owner, algorithm, report);
        }
    }
    if let Some(place) = table.place("align")
        && !matches!(
            algorithm,
            AlgorithmName::FixedWindow | AlgorithmName::SlidingWindow
        )
    {
        let message = format!("`align` does not go with `{text}`");
        (report.mistake(
            place,
            message,
            "a key for `fixed-window` and `sliding-window` only",
        ))
        .hint(format!("remove it: `{text}` has no aligned windows"));
    }
    if let Some(place) = table.place("count")
        && table.value.count == Count::All
        && matches!(algorithm, AlgorithmName::Gcra | AlgorithmName::LeakyBucket)
    {
        let message = format!("`count = \"all\"` does not go with `{text}`");
        (report.mistake(place, message, "`admitted`"))
            .hint("the windows and `sliding-log` can count refused requests");
    }
}
