//! Quotas: the arithmetic that each algorithm needs must work out, to the microsecond.
//!
//! The conditions are those of `limits.md`: a sliding window's buckets divide the window, gcra's
//! interval keeps the rate within 1 %, and nothing grows past 2^52.

use std::ops::Range;

use super::defaults;
use crate::clock::Micros;
use crate::config::file::{self, AlgorithmName, At};
use crate::config::report::{Mistake, Report};
use crate::config::value::QuotaText;
use crate::config::words;
use crate::limit::quota::COUNT_MAX;
use crate::limit::{Algorithm, Quota};

/// Compiles the quotas of a policy, each with its window as the operator wrote it.
pub(super) fn compile<'f>(policy: &'f file::Policy, report: &mut Report) -> Vec<(Quota, &'f str)> {
    let Some(quotas) = &policy.quota else {
        return Vec::new();
    };
    if quotas.value.is_empty() && !policy.incomplete {
        report.add(
            Mistake::at(quotas.span.clone(), "the list of quotas is empty")
                .expected("at least one quota")
                .hint("`mode = \"off\"` turns a policy off"),
        );
    }
    check_windows(&quotas.value, report);
    let compiled = quotas.value.iter().map(|text| {
        let quota = Quota {
            limit: text.value.limit,
            window: text.value.window,
            algorithm: algorithm(policy, text.value.limit),
            count: policy
                .count
                .as_ref()
                .map_or_else(Default::default, |at| at.value),
        };
        check_arithmetic(policy, text, &quota, report);
        (quota, text.value.window_text.as_str())
    });
    compiled.collect()
}

fn algorithm(policy: &file::Policy, limit: u64) -> Algorithm {
    let name = policy
        .algorithm
        .as_ref()
        .map_or_else(Default::default, |at| at.value);
    match name {
        AlgorithmName::FixedWindow => Algorithm::FixedWindow,
        AlgorithmName::SlidingWindow => Algorithm::SlidingWindow {
            buckets: policy
                .buckets
                .as_ref()
                .map_or(defaults::BUCKETS, |at| at.value),
            leaving: policy
                .leaving
                .as_ref()
                .map_or_else(Default::default, |at| at.value),
        },
        AlgorithmName::SlidingLog => Algorithm::SlidingLog,
        AlgorithmName::Gcra => Algorithm::Gcra {
            burst: policy.burst.as_ref().map_or(limit, |at| at.value),
        },
        AlgorithmName::LeakyBucket => Algorithm::LeakyBucket {
            queue: policy.queue.as_ref().map_or(defaults::QUEUE, |at| at.value),
        },
    }
}

/// Two quotas over one window would share their counters; the larger never refuses anyway.
fn check_windows(quotas: &[At<QuotaText>], report: &mut Report) {
    for (at, quota) in quotas.iter().enumerate() {
        let same = |earlier: &&At<QuotaText>| earlier.value.window == quota.value.window;
        if let Some(earlier) = quotas[..at].iter().find(same) {
            let (least, window) = (
                earlier.value.limit.min(quota.value.limit),
                words::window(quota.value.window),
            );
            report.add(
                Mistake::at(
                    quota.span.clone(),
                    format!(
                        "two quotas of one policy have the same window, {}",
                        words::span(quota.value.window)
                    ),
                )
                .expected("a window of its own")
                .hint(format!("keep the smaller: `\"{least} per {window}\"`")),
            );
        }
    }
}

fn check_arithmetic(
    policy: &file::Policy,
    text: &At<QuotaText>,
    quota: &Quota,
    report: &mut Report,
) {
    match quota.algorithm {
        Algorithm::SlidingWindow { buckets, .. } => {
            check_buckets(policy, text, buckets, report);
        }
        Algorithm::Gcra { burst } => {
            let place = policy.burst.as_ref().map(|at| &at.span);
            check_interval(text, quota, report);
            check_reach(
                ("burst", burst, 0),
                place.unwrap_or(&text.span),
                quota,
                report,
            );
        }
        Algorithm::LeakyBucket { queue } => {
            let place = policy.queue.as_ref().map(|at| &at.span);
            check_interval(text, quota, report);
            check_reach(
                ("queue", queue, 1),
                place.unwrap_or(&text.span),
                quota,
                report,
            );
        }
        _ => {}
    }
}

/// Buckets must divide the window into whole microseconds.
fn check_buckets(policy: &file::Policy, text: &At<QuotaText>, buckets: u32, report: &mut Report) {
    let divides = |n: &u32| text.value.window.0.is_multiple_of(u64::from(*n));
    if divides(&buckets) {
        return;
    }
    let below = (1..buckets).rev().find(divides);
    let above = (buckets + 1..=BUCKETS_MAX).find(divides);
    let nearest: Vec<String> = (below.into_iter().chain(above))
        .map(|n| format!("`buckets = {n}`"))
        .collect();
    let place = policy.buckets.as_ref().map_or(&text.span, |at| &at.span);
    report.add(
        Mistake::at(
            place.clone(),
            format!(
                "{buckets} buckets do not divide a window of {} into whole microseconds",
                words::span(text.value.window)
            ),
        )
        .expected("a divisor of the window")
        .hint(format!("the nearest that do: {}", nearest.join(", "))),
    );
}

/// The interval is whole microseconds; rounding it up must not cost more than 1 % of the rate.
fn check_interval(text: &At<QuotaText>, quota: &Quota, report: &mut Report) {
    let (limit, window_us) = (u128::from(quota.limit), u128::from(quota.window.0));
    let interval_us = quota.interval_us();
    // The rate that is kept is 1 per interval; it is window / (limit * interval) of the one asked for.
    if 100 * window_us >= 99 * limit * u128::from(interval_us) {
        return;
    }
    let exact = |interval: &u64| quota.window.0.is_multiple_of(*interval);
    let slower = (interval_us..=quota.window.0).find(exact);
    let faster = (1..interval_us).rev().find(exact);
    let window = words::window(quota.window);
    let nearest: Vec<String> = (slower.into_iter().chain(faster))
        .map(|interval_us| format!("`\"{} per {window}\"`", quota.window.0 / interval_us))
        .collect();
    report.add(
        Mistake::at(
            text.span.clone(),
            format!(
                "a unit every {} is over 1 % slower than {}",
                words::span(Micros(interval_us)),
                words::rate(quota)
            ),
        )
        .expected("a rate with an interval of whole microseconds")
        .hint(format!("the nearest exact rates: {}", nearest.join(", "))),
    );
}

/// gcra looks up to `2 * burst * interval` ahead; `extra` is what leaky-bucket adds to its queue.
fn check_reach(
    (key, units, extra): (&str, u64, u64),
    place: &Range<usize>,
    quota: &Quota,
    report: &mut Report,
) {
    let interval_us = quota.interval_us();
    let burst = u128::from(units) + u128::from(extra);
    if 2 * burst * u128::from(interval_us) <= u128::from(COUNT_MAX) {
        return;
    }
    let most = (COUNT_MAX / (2 * interval_us)).saturating_sub(extra);
    report.add(
        Mistake::at(
            place.clone(),
            format!("a `{key}` of {units} reaches further ahead than time can be counted"),
        )
        .expected(format!(
            "at most {most} at a unit every {}",
            words::span(Micros(interval_us))
        )),
    );
}

/// Most buckets of a sliding window.
const BUCKETS_MAX: u32 = 100;
