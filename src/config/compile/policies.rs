//! Policies: which keys go with which algorithm, and the texts that answers carry.

use std::ops::Range;

use super::quotas;
use crate::config::file::{self, AlgorithmName, At, File, Mode};
use crate::config::report::{Mistake, Report};
use crate::limit::plan::SeriesId;
use crate::limit::{Count, Quota, plan};
use crate::request::{Choice, Part, Partition};
use crate::snapshot::{Policy, PolicyQuota};

/// Compiles `[policies.NAME]`; series ids are not assigned yet.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Policy> {
    let compiled = (file.policies.iter()).map(|(name, policy)| one(name, policy, report));
    compiled.collect()
}

/// Returns whose quota a policy keeps: one per address unless the file says otherwise.
pub(super) fn partition(policy: &file::Policy) -> Partition {
    match &policy.partition {
        Some(partition) => partition.value.clone(),
        None => Partition(vec![Choice(vec![Part::Ip])]),
    }
}

fn one(name: &At<String>, policy: &file::Policy, report: &mut Report) -> Policy {
    check_keys(policy, report);
    if policy.quota.is_none() && !policy.incomplete {
        report.add(
            Mistake::at(
                name.span.clone(),
                format!("policy `{}` lacks `quota`", name.value),
            )
            .expected("a table with `quota`")
            .hint("add `quota = \"100 per minute\"`"),
        );
    }
    let compiled = quotas::compile(policy, report);
    let several = compiled.len() > 1;
    let quotas = compiled.into_iter().map(|(quota, window_text)| {
        let suffix = several.then_some(window_text);
        let item = item(&name.value, suffix);
        PolicyQuota {
            series_id: SeriesId(0),
            policy_item: policy_item(&item, &quota),
            item,
            quota,
        }
    });
    Policy {
        name: name.value.as_str().into(),
        quotas: quotas.collect(),
        partition: partition(policy),
        missing: policy.missing.unwrap_or_default(),
        mode: match policy.mode.unwrap_or_default() {
            Mode::Enforce => Some(plan::Mode::Enforce),
            Mode::Shadow => Some(plan::Mode::Shadow),
            Mode::Off => None,
        },
        on_store_failure: policy.on_store_failure.unwrap_or_default(),
    }
}

/// Refuses keys that the policy's algorithm has no use for.
fn check_keys(policy: &file::Policy, report: &mut Report) {
    if policy.algorithm.is_none() && policy.incomplete {
        return;
    }
    let algorithm = algorithm(policy);
    let text = text(algorithm);
    let keys: [(&str, Option<&Range<usize>>, AlgorithmName); 4] = [
        (
            "burst",
            policy.burst.as_ref().map(|at| &at.span),
            AlgorithmName::Gcra,
        ),
        (
            "queue",
            policy.queue.as_ref().map(|at| &at.span),
            AlgorithmName::LeakyBucket,
        ),
        (
            "buckets",
            policy.buckets.as_ref().map(|at| &at.span),
            AlgorithmName::SlidingWindow,
        ),
        (
            "leaving",
            policy.leaving.as_ref().map(|at| &at.span),
            AlgorithmName::SlidingWindow,
        ),
    ];
    for (key, span, belongs_to) in keys {
        if let Some(span) = span
            && algorithm != belongs_to
        {
            let belongs_to = self::text(belongs_to);
            report.add(
                Mistake::at(span.clone(), format!("`{key}` does not go with `{text}`"))
                    .expected(format!("a key of `{belongs_to}` only"))
                    .hint(format!("remove it, or set `algorithm = \"{belongs_to}\"`")),
            );
        }
    }
    if let Some(count) = &policy.count
        && count.value == Count::All
        && matches!(algorithm, AlgorithmName::Gcra | AlgorithmName::LeakyBucket)
    {
        report.add(
            Mistake::at(
                count.span.clone(),
                format!("`count = \"all\"` does not go with `{text}`"),
            )
            .expected("`admitted`")
            .hint("the windows and `sliding-log` can count refused requests"),
        );
    }
}

fn algorithm(policy: &file::Policy) -> AlgorithmName {
    policy
        .algorithm
        .as_ref()
        .map_or_else(Default::default, |at| at.value)
}

fn text(algorithm: AlgorithmName) -> &'static str {
    match algorithm {
        AlgorithmName::FixedWindow => "fixed-window",
        AlgorithmName::SlidingWindow => "sliding-window",
        AlgorithmName::SlidingLog => "sliding-log",
        AlgorithmName::Gcra => "gcra",
        AlgorithmName::LeakyBucket => "leaky-bucket",
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
    use crate::limit::Algorithm;

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
