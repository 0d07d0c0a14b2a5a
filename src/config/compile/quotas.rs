//! Quotas: the arithmetic that each algorithm needs must work out, to the microsecond.
//!
//! The conditions are those of `limits.md`: a sliding window's buckets divide the window, gcra's
//! interval keeps the rate within 1 %, and nothing grows past 2^52.

use std::ops::Range;

use crate::clock::Micros;
use crate::config::file::{AlgorithmName, At, RawPolicy, Table};
use crate::config::options::{BUCKETS_MAX, POLICY};
use crate::config::report::Report;
use crate::config::spelling;
use crate::config::value::QuotaText;
use crate::limit::quota::COUNT_MAX;
use crate::limit::{Algorithm, Quota};

/// Compiles the quotas of a policy, each with its window as the operator wrote it.
pub(super) fn compile<'f>(
    table: &'f Table<RawPolicy>,
    report: &mut Report,
) -> Vec<(Quota, &'f str)> {
    let quotas = &table.value.quota;
    if let Some(place) = table.place("quota")
        && quotas.is_empty()
        && !table.is_incomplete(POLICY.about.title)
    {
        (report.mistake(place, "the list of quotas is empty", "at least one quota"))
            .hint("`mode = \"off\"` turns a policy off");
    }
    list(table, quotas, report)
}

/// Compiles the quotas that are tried beside those of a policy.
pub(super) fn candidates<'f>(
    table: &'f Table<RawPolicy>,
    report: &mut Report,
) -> Vec<(Quota, &'f str)> {
    list(table, &table.value.candidate, report)
}

/// Compiles quotas that count as the policy says.
fn list<'f>(
    table: &Table<RawPolicy>,
    quotas: &'f [At<QuotaText>],
    report: &mut Report,
) -> Vec<(Quota, &'f str)> {
    let policy = &table.value;
    check_windows(quotas, report);
    let compiled = quotas.iter().map(|text| {
        let quota = Quota {
            limit: text.value.limit,
            window: text.value.window,
            algorithm: algorithm(policy, text.value.limit),
            count: policy.count,
            align: policy.align,
        };
        check_arithmetic(table, text, &quota, report);
        (quota, text.value.window_text.as_str())
    });
    compiled.collect()
}

fn algorithm(policy: &RawPolicy, limit: u64) -> Algorithm {
    match policy.algorithm {
        AlgorithmName::FixedWindow => Algorithm::FixedWindow,
        AlgorithmName::SlidingWindow => Algorithm::SlidingWindow {
            buckets: policy.buckets,
            leaving: policy.leaving,
        },
        AlgorithmName::SlidingLog => Algorithm::SlidingLog,
        AlgorithmName::Gcra => Algorithm::Gcra {
            burst: policy.burst.unwrap_or(limit),
        },
        AlgorithmName::LeakyBucket => Algorithm::LeakyBucket {
            queue: policy.queue,
        },
    }
}

/// Two quotas over one window would share their counters; the larger never refuses anyway.
fn check_windows(quotas: &[At<QuotaText>], report: &mut Report) {
    for (at, quota) in quotas.iter().enumerate() {
        let same = |earlier: &&At<QuotaText>| earlier.value.window == quota.value.window;
        if let Some(earlier) = quotas[..at].iter().find(same) {
            let least = earlier.value.limit.min(quota.value.limit);
            let span = spelling::span(quota.value.window);
            let window = spelling::window(quota.value.window);
            let message = format!("two quotas of one policy have the same window, {span}");
            (report.mistake(&quota.span, message, "a window of its own"))
                .hint(format!("keep the smaller: `\"{least} per {window}\"`"));
        }
    }
}

fn check_arithmetic(
    table: &Table<RawPolicy>,
    text: &At<QuotaText>,
    quota: &Quota,
    report: &mut Report,
) {
    let place = |key| table.place(key).unwrap_or(&text.span);
    match quota.algorithm {
        Algorithm::SlidingWindow { buckets, .. } => {
            check_buckets(place("buckets"), quota.window, buckets, report);
        }
        Algorithm::Gcra { burst } => {
            check_interval(text, quota, report);
            check_reach(("burst", burst, 0), place("burst"), quota, report);
        }
        Algorithm::LeakyBucket { queue } => {
            check_interval(text, quota, report);
            check_reach(("queue", queue, 1), place("queue"), quota, report);
        }
        _ => {}
    }
}

/// Buckets must divide the window into whole microseconds.
fn check_buckets(place: &Range<usize>, window: Micros, buckets: u32, report: &mut Report) {
    let divides = |n: &u32| window.0.is_multiple_of(u64::from(*n));
    if divides(&buckets) {
        return;
    }
    let below = (1..buckets).rev().find(divides);
    let above = (buckets + 1..=BUCKETS_MAX).find(divides);
    let nearest = below.into_iter().chain(above);
    let nearest: Vec<_> = nearest.map(|n| format!("`buckets = {n}`")).collect();
    let span = spelling::span(window);
    let message =
        format!("{buckets} buckets do not divide a window of {span} into whole microseconds");
    (report.mistake(place, message, "a divisor of the window"))
        .hint(format!("the nearest that do: {}", nearest.join(", ")));
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
    let window = spelling::window(quota.window);
    let nearest = slower.into_iter().chain(faster);
    let nearest = nearest.map(|us| format!("`\"{} per {window}\"`", quota.window.0 / us));
    let nearest: Vec<_> = nearest.collect();
    let (interval, rate) = (spelling::span(Micros(interval_us)), spelling::rate(quota));
    let message = format!("a unit every {interval} is over 1 % slower than {rate}");
    let expected = "a rate with an interval of whole microseconds";
    (report.mistake(&text.span, message, expected))
        .hint(format!("the nearest exact rates: {}", nearest.join(", ")));
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
    let message = format!("a `{key}` of {units} reaches further ahead than time can be counted");
    let interval = spelling::span(Micros(interval_us));
    let expected = format!("at most {most} at a unit every {interval}");
    report.mistake(place, message, expected);
}
