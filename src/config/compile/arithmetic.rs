//! Checks that the arithmetic of each quota's algorithm works out, to the microsecond.
//!
//! The conditions are those of `limits.md`: a sliding window's buckets divide the window, gcra's
//! interval keeps the rate within 1 %, and nothing grows past 2^52.

use std::ops::Range;

use crate::clock::Micros;
use crate::config::display;
use crate::config::report::Report;
use crate::limit::quota::COUNT_MAX;
use crate::limit::sliding_log::LOG_LIMIT_MAX;
use crate::limit::sliding_window::BUCKETS_MAX;
use crate::limit::{Algorithm, Quota};

/// Refuses a quota whose arithmetic does not work out, at the place of the key in question or otherwise at `place`.
pub(super) fn check_arithmetic(
    [of_buckets, of_burst, of_queue]: [&Range<usize>; 3],
    place: &Range<usize>,
    quota: &Quota,
    report: &mut Report,
) {
    match quota.algorithm {
        Algorithm::SlidingWindow { buckets, .. } => {
            check_buckets(of_buckets, quota.window, buckets, report);
        }
        Algorithm::Gcra { burst } => {
            check_interval(place, quota, report);
            check_reach(("burst", burst, 0), of_burst, quota, report);
        }
        Algorithm::LeakyBucket { queue } => {
            check_interval(place, quota, report);
            check_reach(("queue", queue, 1), of_queue, quota, report);
        }
        Algorithm::SlidingLog if quota.limit > LOG_LIMIT_MAX => {
            let message = format!("a log of {} units takes Redis too long", quota.limit);
            let expected =
                format!("at most {LOG_LIMIT_MAX}, where a call takes up to half a millisecond");
            (report.mistake(place, message, expected)).hint(
                "`algorithm = \"sliding-window\"` counts any number; more `buckets` make it more exact",
            );
        }
        Algorithm::SlidingLog
        | Algorithm::FixedWindow
        | Algorithm::Calendar(_)
        | Algorithm::Credits { .. }
        | Algorithm::InFlight
        | Algorithm::Penalty { .. } => {}
    }
}

/// Refuses buckets that do not divide the window into whole microseconds.
fn check_buckets(place: &Range<usize>, window: Micros, buckets: u32, report: &mut Report) {
    let divides = |n: &u32| window.0.is_multiple_of(u64::from(*n));
    if divides(&buckets) {
        return;
    }
    let below = (1..buckets).rev().find(divides);
    let above = (buckets + 1..=BUCKETS_MAX).find(divides);
    let nearest = below.into_iter().chain(above);
    let nearest: Vec<_> = nearest.map(|n| format!("`buckets = {n}`")).collect();
    let span = display::span(window);
    let message =
        format!("{buckets} buckets do not divide a window of {span} into whole microseconds");
    (report.mistake(place, message, "a divisor of the window"))
        .hint(format!("the nearest that do: {}", nearest.join(", ")));
}

/// Refuses an interval that, rounded up to whole microseconds, costs more than 1 % of the rate.
fn check_interval(place: &Range<usize>, quota: &Quota, report: &mut Report) {
    let (limit, window_us) = (u128::from(quota.limit), u128::from(quota.window.0));
    let interval_us = quota.interval_us();
    // The actual rate is 1 per interval, which is window / (limit * interval) of the requested rate.
    if 100 * window_us >= 99 * limit * u128::from(interval_us) {
        return;
    }
    let exact = |interval: &u64| quota.window.0.is_multiple_of(*interval);
    let slower = (interval_us..=quota.window.0).find(exact);
    let faster = (1..interval_us).rev().find(exact);
    let window = display::window(quota.window);
    let nearest = slower.into_iter().chain(faster);
    let nearest = nearest.map(|us| format!("`\"{} per {window}\"`", quota.window.0 / us));
    let nearest: Vec<_> = nearest.collect();
    let (interval, rate) = (display::span(Micros(interval_us)), display::rate(quota));
    let message = format!("a unit every {interval} is over 1 % slower than {rate}");
    let expected = "a rate with an interval of whole microseconds";
    (report.mistake(place, message, expected))
        .hint(format!("the nearest exact rates: {}", nearest.join(", ")));
}

/// Refuses too long a burst or queue: gcra looks `2 * burst * interval` ahead, leaky-bucket `extra` units more.
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
    let message =
        format!("a `{key}` of {units} reaches further into the future than time can be counted");
    let interval = display::span(Micros(interval_us));
    let expected = format!("at most {most} at a unit every {interval}");
    report.mistake(place, message, expected);
}
