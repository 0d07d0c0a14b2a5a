//! Quotas: the arithmetic that each algorithm needs must work out, to the microsecond; and the texts
//! that answers carry.
//!
//! The conditions are those of `limits.md`: a sliding window's buckets divide the window, gcra's
//! interval keeps the rate within 1 %, and nothing grows past 2^52.

use std::ops::Range;

use crate::clock::Micros;
use crate::config::display;
use crate::config::file::{AlgorithmName, RawGrant, RawPolicy, Spanned, Table};
use crate::config::options::{BUCKETS_MAX, POLICY};
use crate::config::report::Report;
use crate::config::value::{GrantText, QuotaText};
use crate::limit::plan::SeriesId;
use crate::limit::quota::COUNT_MAX;
use crate::limit::sliding_log::LOG_LIMIT_MAX;
use crate::limit::{Algorithm, Quota};
use crate::snapshot::{Grant, PolicyQuota, REQUESTS};

/// How the quotas of a policy, or of one of its overrides, are counted, and where that is said.
pub(super) struct Counting<'f> {
    policy: &'f RawPolicy,
    burst: Option<u64>,
    queue: u64,
    /// Where `buckets`, `burst` and `queue` stand; none: what is wrong with them is said of the quota.
    places: [Option<&'f Range<usize>>; 3],
}

impl<'f> Counting<'f> {
    /// As the policy says.
    pub(super) fn of(table: &'f Table<RawPolicy>) -> Self {
        let policy = &table.value;
        Self {
            policy,
            burst: policy.burst,
            queue: policy.queue,
            places: ["buckets", "burst", "queue"].map(|key| table.place(key)),
        }
    }

    /// As an override of the policy says: what it leaves out has its default.
    pub(super) fn of_override(policy: &'f RawPolicy, grant: &'f RawGrant) -> Self {
        let at = |at: &'f Option<Spanned<u64>>| at.as_ref().map(|at| (at.value, &at.span));
        let (burst, queue) = (at(&grant.burst), at(&grant.queue));
        Self {
            policy,
            burst: burst.map(|(burst, _)| burst),
            queue: queue.map_or(0, |(queue, _)| queue),
            places: [
                None,
                burst.map(|(_, place)| place),
                queue.map(|(_, place)| place),
            ],
        }
    }

    fn algorithm(&self, limit: u64) -> Algorithm {
        match self.policy.algorithm {
            AlgorithmName::FixedWindow => Algorithm::FixedWindow,
            AlgorithmName::SlidingWindow => Algorithm::SlidingWindow {
                buckets: self.policy.buckets,
                oldest: self.policy.oldest,
            },
            AlgorithmName::SlidingLog => Algorithm::SlidingLog,
            AlgorithmName::Gcra => Algorithm::Gcra {
                burst: self.burst.unwrap_or(limit),
            },
            AlgorithmName::LeakyBucket => Algorithm::LeakyBucket { queue: self.queue },
        }
    }
}

/// Compiles a list of quotas, or the word that stands for one; series ids are not assigned yet.
pub(super) fn grant(
    name: &str,
    list: &[Spanned<GrantText>],
    counting: &Counting<'_>,
    report: &mut Report,
) -> Grant {
    let word = |at: &&Spanned<GrantText>| !matches!(at.value, GrantText::Quota(_));
    if let Some(word) = list.iter().find(word) {
        if list.len() > 1 {
            let message = format!("`{}` is combined with quotas", display::grant(&word.value));
            report.mistake(&word.span, message, "quotas, or this word alone");
        }
        return match word.value {
            GrantText::Blocked => Grant::Blocked,
            _ => Grant::Unlimited,
        };
    }
    let texts = list.iter().filter_map(|at| match &at.value {
        GrantText::Quota(quota) => Some((quota, &at.span)),
        _ => None,
    });
    Grant::Quotas(quotas(name, &texts.collect::<Vec<_>>(), counting, report))
}

/// Compiles the quotas of a policy.
pub(super) fn compile(table: &Table<RawPolicy>, report: &mut Report) -> Grant {
    let quotas = &table.value.quota;
    if let Some(place) = table.place("quota")
        && quotas.is_empty()
        && !table.is_incomplete(POLICY.about.title)
    {
        (report.mistake(place, "the list of quotas is empty", "at least one quota"))
            .hint("`mode = \"off\"` turns a policy off");
    }
    grant(&table.name, quotas, &Counting::of(table), report)
}

/// Compiles the quotas that are tried beside those of a policy.
pub(super) fn candidates(table: &Table<RawPolicy>, report: &mut Report) -> Vec<PolicyQuota> {
    let texts = table.value.candidate.iter().map(|at| (&at.value, &at.span));
    quotas(
        &table.name,
        &texts.collect::<Vec<_>>(),
        &Counting::of(table),
        report,
    )
}

/// Compiles quotas that must all hold, with the texts that answers have of them.
fn quotas(
    name: &str,
    texts: &[Text<'_>],
    counting: &Counting<'_>,
    report: &mut Report,
) -> Vec<PolicyQuota> {
    check_windows(texts, report);
    let quotas = texts.iter().map(|(text, place)| {
        let quota = Quota {
            limit: text.limit,
            window: text.window,
            algorithm: counting.algorithm(text.limit),
            count: counting.policy.count,
            align: counting.policy.align,
            can_come_back: true,
        };
        check_arithmetic(counting, place, &quota, report);
        let item = item(name, (texts.len() > 1).then_some(&text.window_text));
        PolicyQuota {
            series_id: SeriesId(0),
            policy_item: policy_item(&item, &quota, &counting.policy.policy.unit),
            item,
            log_name: format!("{name}: {} per {}", text.limit, text.window_text).into(),
            quota,
        }
    });
    quotas.collect()
}

/// A quota, and where it stands.
type Text<'f> = (&'f QuotaText, &'f Range<usize>);

/// Two quotas over one window would share their counters; the larger never refuses anyway.
fn check_windows(quotas: &[Text<'_>], report: &mut Report) {
    for (at, (quota, place)) in quotas.iter().enumerate() {
        let same = |(earlier, _): &&Text<'_>| earlier.window == quota.window;
        if let Some((earlier, _)) = quotas[..at].iter().find(same) {
            let least = earlier.limit.min(quota.limit);
            let span = display::span(quota.window);
            let window = display::window(quota.window);
            let message = format!("two quotas of one policy have the same window, {span}");
            (report.mistake(place, message, "a different window"))
                .hint(format!("keep the smaller: `\"{least} per {window}\"`"));
        }
    }
}

fn check_arithmetic(
    counting: &Counting<'_>,
    place: &Range<usize>,
    quota: &Quota,
    report: &mut Report,
) {
    let [of_buckets, of_burst, of_queue] = counting.places.map(|key| key.unwrap_or(place));
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
        Algorithm::SlidingLog | Algorithm::FixedWindow | Algorithm::Calendar(_) => {}
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
    let span = display::span(window);
    let message =
        format!("{buckets} buckets do not divide a window of {span} into whole microseconds");
    (report.mistake(place, message, "a divisor of the window"))
        .hint(format!("the nearest that do: {}", nearest.join(", ")));
}

/// The interval is whole microseconds; rounding it up must not cost more than 1 % of the rate.
fn check_interval(place: &Range<usize>, quota: &Quota, report: &mut Report) {
    let (limit, window_us) = (u128::from(quota.limit), u128::from(quota.window.0));
    let interval_us = quota.interval_us();
    // The rate that is kept is 1 per interval; it is window / (limit * interval) of the one asked for.
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
    let message =
        format!("a `{key}` of {units} reaches further into the future than time can be counted");
    let interval = display::span(Micros(interval_us));
    let expected = format!("at most {most} at a unit every {interval}");
    report.mistake(place, message, expected);
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

/// Renders a quota's item of `RateLimit-Policy`; `w` is whole seconds rounded up. Units are requests if
/// `qu` does not say otherwise, and their name needs no escapes.
fn policy_item(item: &str, quota: &Quota, unit: &str) -> Box<str> {
    let limit = quota.limit.min(INTEGER_MAX);
    let window_s = quota.window.0.div_ceil(1_000_000);
    let unit = match unit {
        REQUESTS => String::new(),
        unit => format!(";qu=\"{unit}\""),
    };
    format!("{item};q={limit}{unit};w={window_s}").into()
}

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;
    use crate::limit::{Align, Count};

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
            can_come_back: false,
        };
        assert_eq!(
            &*policy_item("\"a\"", &quota(100, 60_000_000), REQUESTS),
            "\"a\";q=100;w=60"
        );
        assert_eq!(
            &*policy_item("\"a\"", &quota(1 << 52, 1_500_000), "tokens"),
            "\"a\";q=999999999999999;qu=\"tokens\";w=2"
        );
    }
}
