//! Policies: which keys go with which algorithm, and the texts that answers carry.

use std::sync::Arc;

use super::{costs, quotas};
use crate::config::file::{AlgorithmName, File, RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::spelling;
use crate::limit::plan::SeriesId;
use crate::limit::{Count, Quota};
use crate::snapshot::{Grant, Policy, PolicyQuota};

/// Compiles `[policies.NAME]`; series ids are not assigned yet.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Policy> {
    let compiled = (file.policies.iter()).map(|table| one(table, report));
    compiled.collect()
}

fn one(table: &Table<RawPolicy>, report: &mut Report) -> Policy {
    check_keys(table, report);
    let quotas = quotas::compile(table, report);
    let candidates = quotas::candidates(table, report);
    Policy {
        name: Arc::clone(&table.name),
        grant: Grant::Quotas(named(&table.name, quotas)),
        candidates: named(&table.name, candidates),
        told_cost: costs::told_cost(table, report),
        counted_answers: costs::counted_answers(table, report),
        refusal: costs::refusal(table, report),
        ..table.value.policy.clone()
    }
}

/// Gives quotas the texts that answers have of them.
fn named(policy: &str, quotas: Vec<(Quota, &str)>) -> Vec<PolicyQuota> {
    let several = quotas.len() > 1;
    let quotas = quotas.into_iter().map(|(quota, window_text)| {
        let item = item(policy, several.then_some(window_text));
        PolicyQuota {
            series_id: SeriesId(0),
            policy_item: policy_item(&item, &quota),
            item,
            quota,
        }
    });
    quotas.collect()
}

/// Refuses keys that the policy's algorithm has no use for.
fn check_keys(table: &Table<RawPolicy>, report: &mut Report) {
    if !table.has("algorithm") && table.is_incomplete(POLICY.about.title) {
        return;
    }
    let algorithm = table.value.algorithm;
    let text = spelling::word(spelling::ALGORITHMS, &algorithm);
    for (key, owner) in [
        ("burst", AlgorithmName::Gcra),
        ("queue", AlgorithmName::LeakyBucket),
        ("buckets", AlgorithmName::SlidingWindow),
        ("leaving", AlgorithmName::SlidingWindow),
    ] {
        if let Some(place) = table.place(key)
            && algorithm != owner
        {
            let owner = spelling::word(spelling::ALGORITHMS, &owner);
            let message = format!("`{key}` does not go with `{text}`");
            let expected = format!("a key of `{owner}` only");
            (report.mistake(place, message, expected))
                .hint(format!("remove it, or set `algorithm = \"{owner}\"`"));
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
            "a key of `fixed-window` and `sliding-window` only",
        ))
        .hint(format!(
            "remove it: `{text}` has no window that begins for all at once"
        ));
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

/// Renders a quota's name as a structured-field string (RFC 9651, section 4.1.6).
///
/// The reader takes no name that would have to be escaped.
fn item(name: &str, window_text: Option<&str>) -> Box<str> {
    match window_text {
        Some(window_text) => format!("\"{name}:{window_text}\"").into(),
        None => format!("\"{name}\"").into(),
    }
}

/// Renders a quota's item of `RateLimit-Policy`; `w` is whole seconds rounded up.
fn policy_item(item: &str, quota: &Quota) -> Box<str> {
    let limit = quota.limit.min(INTEGER_MAX);
    let window_s = quota.window.0.div_ceil(1_000_000);
    format!("{item};q={limit};w={window_s}").into()
}

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;
    use crate::limit::{Algorithm, Align};

    #[test]
    fn items_are_structured_field_strings() {
        assert_eq!(&*item("per-client", None), r#""per-client""#);
        assert_eq!(&*item("per-client", Some("2s")), r#""per-client:2s""#);
    }

    #[test]
    fn policy_items_round_the_window_up_and_hold_the_limit_to_an_integer() {
        let quota = |limit, window_us| Quota {
            limit,
            window: Micros(window_us),
            algorithm: Algorithm::FixedWindow,
            count: Count::Admitted,
            align: Align::Epoch,
        };
        assert_eq!(
            &*policy_item("\"a\"", &quota(100, 60_000_000)),
            "\"a\";q=100;w=60"
        );
        assert_eq!(
            &*policy_item("\"a\"", &quota(1 << 52, 1_500_000)),
            "\"a\";q=999999999999999;w=2"
        );
    }
}
