//! Policies: which keys go with which algorithm.

use std::sync::Arc;

use super::algorithm_key::{check_align, check_key, without_calendar, wrong_day};
use super::rows::has_days;
use super::{consistency, costs, credits, in_flight, overrides, quotas};
use crate::config::display;
use crate::config::file::{AlgorithmName, File, RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::value::{GrantText, QuotaSpan, QuotaText};
use crate::limit::plan::SeriesId;
use crate::limit::{CalendarUnit, Count, Quota};
use crate::snapshot::{Grant, Policy, PolicyQuota, QuotaItems, Threshold};

/// Compiles `[policies.NAME]`; series ids are not assigned yet.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Policy> {
    let compiled = (file.policies.iter()).map(|table| one(table, file, report));
    compiled.collect()
}

fn one(table: &Table<RawPolicy>, file: &File, report: &mut Report) -> Policy {
    check_keys(table, report);
    check_calendar_keys(table, report);
    let policy = Policy {
        name: Arc::clone(&table.name),
        grant: quotas::compile(table, report),
        candidates: quotas::candidates(table, report).into(),
        reported_cost: costs::reported_cost(table, report).map(Box::new),
        counted_answers: costs::counted_answers(table, report),
        anchor_by: table.value.anchor_by.clone().map(Box::new),
        refusal: costs::refusal(table, report),
        penalty: penalty(table, report).map(Box::new),
        notify: thresholds(table, report).into(),
        ..table.value.policy.clone()
    };
    let overrides = overrides::compile(table, &policy, report).map(Arc::new);
    if table.value.overrides.0.is_empty() && table.value.overrides_file.is_none() {
        check_alone(table, &policy, report);
    }
    let policy = Policy {
        overrides,
        ..policy
    };
    credits::check(table, &policy, file, report);
    in_flight::check(table, &policy, report);
    let consistency = consistency::compile(table, &policy, report);
    Policy {
        consistency,
        ..policy
    }
}

/// Compiles the penalty of clients that a policy refuses, as one more quota that must admit them.
fn penalty(table: &Table<RawPolicy>, report: &mut Report) -> Option<PolicyQuota> {
    let raw = &table.value;
    let Some(length) = raw.penalty else {
        if let Some(place) = table.place("penalty_growth")
            && !table.is_incomplete(POLICY.about.title)
        {
            let message = "`penalty_growth` is given, but the policy has no penalty";
            (report.mistake(place, message, "`penalty` as well")).hint("add it, or remove this");
        }
        return None;
    };
    let quota = Quota::penalty(length.into(), raw.penalty_growth);
    Some(PolicyQuota {
        log_name: format!("{}: {}", table.name, display::rate(&quota)).into(),
        items: QuotaItems::new(&quotas::item_name(&table.name, None), ""),
        series_id: SeriesId(0),
        own: Box::default(),
        quota,
    })
}

/// Compiles `notify`.
fn thresholds(table: &Table<RawPolicy>, report: &mut Report) -> Vec<Threshold> {
    let mut thresholds: Vec<Threshold> = Vec::new();
    for at in &table.value.notify {
        if thresholds.contains(&at.value) {
            report.mistake(&at.span, "this threshold comes twice", "each once");
        } else if thresholds.len() == THRESHOLDS_MAX {
            let expected = format!("at most {THRESHOLDS_MAX} thresholds");
            report.mistake(&at.span, "there are too many thresholds", &expected);
            break;
        }
        thresholds.push(at.value);
    }
    thresholds.sort_unstable();
    thresholds
}

/// Refuses keys that the policy's algorithm has no use for.
fn check_keys(table: &Table<RawPolicy>, report: &mut Report) {
    if !table.has("algorithm") && table.is_incomplete(POLICY.about.title) {
        return;
    }
    let algorithm = table.value.algorithm;
    let names = algorithms(&table.value);
    for (key, owner) in [
        ("burst", AlgorithmName::Gcra),
        ("queue", AlgorithmName::LeakyBucket),
        ("buckets", AlgorithmName::SlidingWindow),
        ("oldest_bucket", AlgorithmName::SlidingWindow),
    ] {
        if let Some(place) = table.place(key)
            && !names.contains(&owner)
        {
            check_key((key, place), owner, algorithm, report);
        }
    }
    if let Some(place) = table.place("align") {
        check_align((table.value.align, place), &names, report);
    }
    if let Some(place) = table.place("count")
        && table.value.count == Count::All
        && let Some(name) = (names.iter())
            .find(|name| matches!(name, AlgorithmName::Gcra | AlgorithmName::LeakyBucket))
    {
        let text = display::word(display::ALGORITHMS, name);
        let message = format!("`count = \"all\"` does not go with `{text}`");
        (report.mistake(place, message, "`admitted`"))
            .hint("the windows and `sliding-log` can count refused requests");
    }
}

/// Returns the algorithms by which a policy's quotas are counted, the policy's own first.
fn algorithms(policy: &RawPolicy) -> Vec<AlgorithmName> {
    let own = policy
        .quotas()
        .filter_map(|at| Some(at.value.algorithm.as_ref()?.value));
    [policy.algorithm].into_iter().chain(own).collect()
}

/// Refuses keys that no calendar quota of the policy has a use for.
fn check_calendar_keys(table: &Table<RawPolicy>, report: &mut Report) {
    let policy = &table.value;
    if let (Some(file), Some(place)) = (&policy.overrides_file, table.place("anchor_by"))
        && has_days(&file.content)
    {
        let message = "both `anchor_by` and the file of overrides name clients' days";
        report.mistake(place, message, "one of them");
    }
    // Rows of a file may grant any quota.
    if policy.overrides_file.is_some() || table.is_incomplete(POLICY.about.title) {
        return;
    }
    let units = policy.quotas().filter_map(|at| match &at.value.quota {
        GrantText::Quota(QuotaText {
            span: QuotaSpan::Calendar(unit),
            ..
        }) => Some(*unit),
        _ => None,
    });
    let units: Vec<CalendarUnit> = units.collect();
    for key in ["time_zone", "anchor_day", "anchor_time", "anchor_by"] {
        if let Some(place) = table.place(key)
            && units.is_empty()
        {
            without_calendar(key, place, report);
        }
    }
    let days = units.iter().filter(|unit| **unit != CalendarUnit::Day);
    if let (Some(day), Some(place), Some(first)) =
        (policy.anchor_day, table.place("anchor_day"), units.first())
        && units.iter().all(|unit| day.within(*unit).is_none())
    {
        wrong_day(day, *days.clone().next().unwrap_or(first), place, report);
    }
    if let Some(place) = table.place("anchor_by")
        && days.count() == 0
        && !units.is_empty()
    {
        let message = "`anchor_by` goes with calendar weeks and months only";
        report.mistake(place, message, "a quota of a calendar week or month");
    }
}

/// Refuses keys and words that make sense only beside overrides, in a policy that has none.
fn check_alone(table: &Table<RawPolicy>, policy: &Policy, report: &mut Report) {
    if table.is_incomplete(POLICY.about.title) {
        return;
    }
    if let Some(place) = table.place("overrides_by") {
        (report.mistake(
            place,
            "`overrides_by` is given, but the policy has no overrides",
            "",
        ))
        .hint("add `overrides` or `overrides_file`, or remove it");
    }
    if let Some(place) = table.place("quota")
        && let Some(word) = table.value.quota.first()
        && !matches!(policy.grant, Grant::Quotas(_))
    {
        let message = format!(
            "`{}` would apply to all clients",
            display::grant(&word.value.quota)
        );
        let hint = (policy.grant == Grant::Unlimited)
            .then(|| "`mode = \"off\"` turns a policy off".to_owned());
        (report.mistake(place, message, "a quota, or `overrides` as well")).maybe_hint(hint);
    }
}

/// Most items of `notify`.
const THRESHOLDS_MAX: usize = 8;
