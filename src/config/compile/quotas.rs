//! Quotas: the arithmetic that each algorithm needs must work out, to the microsecond; and the texts
//! that answers carry.
//!
//! The conditions are those of `limits.md`: a sliding window's buckets divide the window, gcra's
//! interval keeps the rate within 1 %, and nothing grows past 2^52.

use std::ops::Range;
use std::sync::Arc;

use super::algorithm_key::check_key;
use super::rows::has_days;
use crate::clock::Micros;
use crate::config::display;
use crate::config::file::{AlgorithmName, RawGrant, RawPolicy, RawQuota, Spanned, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::value::{GrantText, QuotaSpan, QuotaText};
use crate::limit::plan::SeriesId;
use crate::limit::quota::COUNT_MAX;
use crate::limit::sliding_log::LOG_LIMIT_MAX;
use crate::limit::sliding_window::BUCKETS_MAX;
use crate::limit::{Algorithm, Align, AnchorDay, Calendar, CalendarShape, CalendarUnit, Quota};
use crate::snapshot::{Grant, PolicyQuota, REQUESTS};

/// How the quotas of a policy, or of one of its overrides, are counted that do not say so themselves.
pub(super) struct Counting<'f> {
    policy: &'f RawPolicy,
    burst: Said<'f, Option<u64>>,
    queue: Said<'f, u64>,
    buckets: Said<'f, u32>,
    /// Whether clients may have days of their own, on which their calendar quotas begin.
    has_own_days: bool,
}

/// A value, and where it stands; nowhere: what is wrong with it is said of the quota.
type Said<'f, V> = (V, Option<&'f Range<usize>>);

impl<'f> Counting<'f> {
    /// As the policy says.
    pub(super) fn of(table: &'f Table<RawPolicy>) -> Self {
        let policy = &table.value;
        Self {
            burst: (policy.burst, table.place("burst")),
            queue: (policy.queue, table.place("queue")),
            buckets: (policy.buckets, table.place("buckets")),
            has_own_days: has_own_days(policy),
            policy,
        }
    }

    /// As an override of the policy says: what it leaves out has its default.
    pub(super) fn of_override(policy: &'f RawPolicy, grant: &'f RawGrant) -> Self {
        let place = |at: &'f Option<Spanned<u64>>| at.as_ref().map(|at| &at.span);
        let value = |at: &Option<Spanned<u64>>| at.as_ref().map(|at| at.value);
        Self {
            policy,
            burst: (value(&grant.burst), place(&grant.burst)),
            queue: (value(&grant.queue).unwrap_or(0), place(&grant.queue)),
            buckets: (policy.buckets, None),
            has_own_days: has_own_days(policy),
        }
    }

    /// Returns how a quota is counted, but for its arithmetic, which is not checked.
    fn algorithm(&self, raw: &RawQuota, text: &QuotaText) -> AlgorithmName {
        match text.span {
            QuotaSpan::Calendar(_) => AlgorithmName::FixedWindow,
            QuotaSpan::Window(_) => own(raw.algorithm.as_ref()).unwrap_or(self.policy.algorithm),
        }
    }

    /// Compiles a quota; series ids are not assigned yet.
    fn quota(
        &self,
        (raw, text): (&RawQuota, &QuotaText),
        place: &Range<usize>,
        report: &mut Report,
    ) -> Quota {
        let name = self.algorithm(raw, text);
        check_own_keys((raw, text), name, report);
        let align = own(raw.align.as_ref()).unwrap_or(self.policy.align);
        let algorithm = match (text.span, name) {
            (QuotaSpan::Calendar(unit), _) => {
                let day = self.day(raw, unit, report);
                Algorithm::Calendar(self.calendar(raw, unit, (day, false)))
            }
            (_, AlgorithmName::FixedWindow) => Algorithm::FixedWindow,
            (_, AlgorithmName::SlidingWindow) => Algorithm::SlidingWindow {
                buckets: own(raw.buckets.as_ref()).unwrap_or(self.buckets.0),
                oldest: own(raw.oldest.as_ref()).unwrap_or(self.policy.oldest),
            },
            (_, AlgorithmName::SlidingLog) => Algorithm::SlidingLog,
            (_, AlgorithmName::Gcra) => Algorithm::Gcra {
                burst: own(raw.burst.as_ref())
                    .or(self.burst.0)
                    .unwrap_or(text.limit),
            },
            (_, AlgorithmName::LeakyBucket) => Algorithm::LeakyBucket {
                queue: own(raw.queue.as_ref()).unwrap_or(self.queue.0),
            },
        };
        let quota = Quota {
            limit: text.limit,
            window: match text.span {
                QuotaSpan::Window(window) => window,
                QuotaSpan::Calendar(unit) => unit.longest(),
            },
            algorithm,
            count: self.policy.count,
            // Of several quotas of a policy, those take it that have such windows.
            align: match (algorithm, align) {
                (Algorithm::FixedWindow, align) => align,
                (Algorithm::SlidingWindow { .. }, Align::Spread) => Align::Spread,
                _ => Align::Epoch,
            },
            can_come_back: true,
        };
        let places = [
            span(raw.buckets.as_ref()).or(self.buckets.1),
            span(raw.burst.as_ref()).or(self.burst.1),
            span(raw.queue.as_ref()).or(self.queue.1),
        ];
        check_arithmetic(places.map(|at| at.unwrap_or(place)), place, &quota, report);
        quota
    }

    /// Returns the day on which windows of a calendar begin.
    fn day(&self, raw: &RawQuota, unit: CalendarUnit, report: &mut Report) -> u8 {
        if let Some(at) = &raw.anchor_day {
            return at.value.within(unit).unwrap_or_else(|| {
                wrong_day(at.value, unit, &at.span, report);
                1
            });
        }
        // Of several quotas of a policy, those take it that begin on such days.
        let day = self.policy.anchor_day.and_then(|day| day.within(unit));
        day.unwrap_or(1)
    }

    fn calendar(
        &self,
        raw: &RawQuota,
        unit: CalendarUnit,
        (anchor_day, is_own): (u8, bool),
    ) -> &'static Calendar {
        let zone = raw.time_zone.as_ref().map(|at| &at.value);
        let zone = zone.unwrap_or(&self.policy.time_zone);
        let shape = CalendarShape {
            unit,
            time_zone: Arc::clone(&zone.name),
            anchor_day,
            anchor_minute: own(raw.anchor_time.as_ref()).unwrap_or(self.policy.anchor_time),
            is_own,
        };
        Calendar::of(shape, zone.zone.clone())
    }

    /// Returns the quota for each day that a client may have of its own.
    fn own(&self, raw: &RawQuota, quota: &Quota) -> Box<[(Quota, SeriesId)]> {
        let Algorithm::Calendar(calendar) = quota.algorithm else {
            return Box::default();
        };
        let unit = calendar.shape().unit;
        let days = match unit {
            _ if !self.has_own_days => 0,
            CalendarUnit::Day => 0,
            CalendarUnit::Week => 7,
            CalendarUnit::Month => 31,
        };
        let of_day = |day| {
            let algorithm = Algorithm::Calendar(self.calendar(raw, unit, (day, true)));
            let quota = Quota {
                algorithm,
                ..*quota
            };
            (quota, SeriesId(0))
        };
        (1..=days).map(of_day).collect()
    }
}

fn own<V: Copy>(said: Option<&Spanned<V>>) -> Option<V> {
    said.map(|at| at.value)
}

fn span<V>(said: Option<&Spanned<V>>) -> Option<&Range<usize>> {
    said.map(|at| &at.span)
}

/// Whether clients may have days of their own: a claim names them, or the file of overrides has a column of them.
pub(super) fn has_own_days(policy: &RawPolicy) -> bool {
    let file = policy.overrides_file.as_ref();
    policy.policy.anchor_by.is_some() || file.is_some_and(|file| has_days(&file.content))
}

/// Says that windows of a calendar cannot begin on such a day.
pub(super) fn wrong_day(
    day: AnchorDay,
    unit: CalendarUnit,
    place: &Range<usize>,
    report: &mut Report,
) {
    let (day, name) = (display::anchor_day(&day), unit.name());
    let expected = match unit {
        CalendarUnit::Day => "no `anchor_day`: days begin at `anchor_time`",
        CalendarUnit::Week => "a day of the week such as `monday`",
        CalendarUnit::Month => "a day of the month from 1 to 31",
    };
    report.mistake(place, format!("no {name} begins on `{day}`"), expected);
}

/// Refuses keys of a quota that its algorithm has no use for.
fn check_own_keys((raw, text): (&RawQuota, &QuotaText), name: AlgorithmName, report: &mut Report) {
    if let QuotaSpan::Calendar(unit) = text.span {
        let keys = [
            ("buckets", span(raw.buckets.as_ref())),
            ("oldest_bucket", span(raw.oldest.as_ref())),
            ("align", span(raw.align.as_ref())),
            ("burst", span(raw.burst.as_ref())),
            ("queue", span(raw.queue.as_ref())),
        ];
        for (key, place) in keys {
            let Some(place) = place else { continue };
            let message = format!("`{key}` does not go with a calendar {}", unit.name());
            (report.mistake(place, message, "a key of other quotas only")).hint("remove it");
        }
        return;
    }
    for (key, place, owner) in [
        ("burst", span(raw.burst.as_ref()), AlgorithmName::Gcra),
        (
            "queue",
            span(raw.queue.as_ref()),
            AlgorithmName::LeakyBucket,
        ),
        (
            "buckets",
            span(raw.buckets.as_ref()),
            AlgorithmName::SlidingWindow,
        ),
        (
            "oldest_bucket",
            span(raw.oldest.as_ref()),
            AlgorithmName::SlidingWindow,
        ),
    ] {
        if let Some(place) = place {
            check_key((key, place), owner, name, report);
        }
    }
    if let Some(at) = &raw.align {
        check_align((at.value, &at.span), &[name], report);
    }
    let of_calendars = [
        ("time_zone", span(raw.time_zone.as_ref())),
        ("anchor_day", span(raw.anchor_day.as_ref())),
        ("anchor_time", span(raw.anchor_time.as_ref())),
    ];
    for (key, place) in of_calendars {
        if let Some(place) = place {
            without_calendar(key, place, report);
        }
    }
}

/// Says that a key goes with calendar quotas only.
pub(super) fn without_calendar(key: &str, place: &Range<usize>, report: &mut Report) {
    let message = format!("`{key}` goes with calendar quotas only");
    (report.mistake(place, message, "a quota such as `10000 per calendar month`"))
        .hint("remove it, or make the quota one of a calendar day, week or month");
}

/// Refuses an `align` that no quota has windows for; `names` are the algorithms of those it is about.
pub(super) fn check_align(
    (align, place): (Align, &Range<usize>),
    names: &[AlgorithmName],
    report: &mut Report,
) {
    let has = |name| names.contains(&name);
    let text = display::word(display::ALGORITHMS, &names[0]);
    let (message, expected) = match align {
        _ if has(AlgorithmName::FixedWindow) => return,
        Align::First => ("`align = \"first\"`", "a value for `fixed-window` only"),
        _ if has(AlgorithmName::SlidingWindow) => return,
        _ => (
            "`align`",
            "a key for `fixed-window` and `sliding-window` only",
        ),
    };
    let message = format!("{message} does not go with `{text}`");
    (report.mistake(place, message, expected)).hint(match align {
        Align::First => "remove it, or set `algorithm = \"fixed-window\"`".to_owned(),
        _ => format!("remove it: `{text}` has no aligned windows"),
    });
}

/// Compiles a list of quotas, or the word that stands for one; series ids are not assigned yet.
pub(super) fn grant(
    name: &str,
    list: &[Spanned<RawQuota>],
    counting: &Counting<'_>,
    report: &mut Report,
) -> Grant {
    let word = |at: &&Spanned<RawQuota>| !matches!(at.value.quota, GrantText::Quota(_));
    if let Some(word) = list.iter().find(word) {
        if list.len() > 1 {
            let text = display::grant(&word.value.quota);
            let message = format!("`{text}` is combined with quotas");
            report.mistake(&word.span, message, "quotas, or this word alone");
        }
        return match word.value.quota {
            GrantText::Blocked => Grant::Blocked,
            _ => Grant::Unlimited,
        };
    }
    Grant::Quotas(quotas(name, list, counting, report))
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
    let counting = Counting::of(table);
    quotas(&table.name, &table.value.candidate, &counting, report)
}

/// Compiles quotas that must all hold, with the texts that answers have of them.
fn quotas(
    name: &str,
    list: &[Spanned<RawQuota>],
    counting: &Counting<'_>,
    report: &mut Report,
) -> Vec<PolicyQuota> {
    let texts = list.iter().filter_map(|at| match &at.value.quota {
        GrantText::Quota(text) => Some((&at.value, text, &at.span)),
        _ => None,
    });
    let texts: Vec<Text<'_>> = texts.collect();
    check_windows(&texts, report);
    let is_one_of_several = texts.len() > 1;
    let quotas = texts.into_iter().map(|(raw, text, place)| {
        let quota = counting.quota((raw, text), place, report);
        let item = item(name, is_one_of_several.then_some(&text.window_text));
        let per = match text.span {
            QuotaSpan::Window(_) => text.window_text.clone(),
            QuotaSpan::Calendar(unit) => format!("calendar {}", unit.name()),
        };
        PolicyQuota {
            series_id: SeriesId(0),
            policy_item: policy_item(&item, &quota, &counting.policy.policy.unit),
            item,
            log_name: format!("{name}: {} per {per}", text.limit).into(),
            own: counting.own(raw, &quota),
            quota,
        }
    });
    quotas.collect()
}

/// A quota, and where it stands.
type Text<'f> = (&'f RawQuota, &'f QuotaText, &'f Range<usize>);

/// Two quotas over one window would share their counters; the larger never refuses anyway.
fn check_windows(quotas: &[Text<'_>], report: &mut Report) {
    for (at, (_, quota, place)) in quotas.iter().enumerate() {
        let same = |(_, earlier, _): &&Text<'_>| earlier.span == quota.span;
        if let Some((_, earlier, _)) = quotas[..at].iter().find(same) {
            let least = earlier.limit.min(quota.limit);
            let span = match quota.span {
                QuotaSpan::Window(window) => display::span(window),
                QuotaSpan::Calendar(unit) => format!("a calendar {}", unit.name()),
            };
            let window = display::quota_span(quota.span);
            let message = format!("two quotas of one policy have the same window, {span}");
            (report.mistake(place, message, "a different window"))
                .hint(format!("keep the smaller: `\"{least} per {window}\"`"));
        }
    }
}

fn check_arithmetic(
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

/// Renders a quota's item of `RateLimit-Policy`; `w` is whole seconds rounded up, and left out of calendars. Units are requests if
/// `qu` does not say otherwise, and their name needs no escapes.
fn policy_item(item: &str, quota: &Quota, unit: &str) -> Box<str> {
    let limit = quota.limit.min(INTEGER_MAX);
    let window = match quota.algorithm {
        Algorithm::Calendar(_) => String::new(),
        _ => format!(";w={}", quota.window.0.div_ceil(1_000_000)),
    };
    let unit = match unit {
        REQUESTS => String::new(),
        unit => format!(";qu=\"{unit}\""),
    };
    format!("{item};q={limit}{unit}{window}").into()
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
