//! How a quota is counted: as it says itself, and otherwise as its policy or override says.

use std::ops::Range;
use std::sync::Arc;

use super::algorithm_key::{check_align, check_key, without_calendar, wrong_day};
use super::arithmetic::check_arithmetic;
use super::rows::has_days;
use crate::clock::Micros;
use crate::config::display;
use crate::config::file::{AlgorithmName, RawGrant, RawPolicy, RawQuota, Spanned, Table};
use crate::config::report::Report;
use crate::config::value::{CREDITS, QuotaSpan, QuotaText};
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, Align, Calendar, CalendarShape, CalendarUnit, Quota};

/// How quotas of a policy, or of one of its overrides, are counted if they do not say so themselves.
pub(super) struct Counting<'f> {
    policy: &'f RawPolicy,
    burst: WithPlace<'f, Option<u64>>,
    queue: WithPlace<'f, u64>,
    buckets: WithPlace<'f, u32>,
    initial_credits: u64,
    /// Whether clients may have days of their own, on which their calendar quotas begin.
    has_own_days: bool,
}

/// A value and its place; if it has none, its mistakes are reported at the quota.
type WithPlace<'f, V> = (V, Option<&'f Range<usize>>);

impl<'f> Counting<'f> {
    /// Returns how a policy's own quotas are counted.
    pub(super) fn of(table: &'f Table<RawPolicy>) -> Self {
        let policy = &table.value;
        Self {
            burst: (policy.burst, table.place("burst")),
            queue: (policy.queue, table.place("queue")),
            buckets: (policy.buckets, table.place("buckets")),
            initial_credits: policy.initial_credits,
            has_own_days: has_own_days(policy),
            policy,
        }
    }

    /// Returns how an override's quotas are counted: `burst`, `queue` and `initial_credits` are never the policy's.
    pub(super) fn of_override(
        policy: &'f RawPolicy,
        grant: &'f RawGrant,
        has_own_days: bool,
    ) -> Self {
        let place = |at: &'f Option<Spanned<u64>>| at.as_ref().map(|at| &at.span);
        let value = |at: &Option<Spanned<u64>>| at.as_ref().map(|at| at.value);
        Self {
            policy,
            burst: (value(&grant.burst), place(&grant.burst)),
            queue: (value(&grant.queue).unwrap_or(0), place(&grant.queue)),
            buckets: (policy.buckets, None),
            initial_credits: value(&grant.initial_credits).unwrap_or(0),
            has_own_days,
        }
    }

    /// Returns the name of a unit.
    pub(super) fn unit(&self) -> &str {
        &self.policy.policy.unit
    }

    /// Returns the name of a quota's algorithm: `fixed-window` for calendars, credits and units in flight.
    fn algorithm(&self, raw: &RawQuota, text: &QuotaText) -> AlgorithmName {
        match text.span {
            QuotaSpan::Calendar(_) | QuotaSpan::Credits | QuotaSpan::InFlight => {
                AlgorithmName::FixedWindow
            }
            QuotaSpan::Window(_) => own(raw.algorithm.as_ref()).unwrap_or(self.policy.algorithm),
        }
    }

    /// Compiles a quota; series ids are not assigned yet.
    pub(super) fn quota(
        &self,
        (raw, text): (&RawQuota, &QuotaText),
        place: &Range<usize>,
        report: &mut Report,
    ) -> Quota {
        let name = self.algorithm(raw, text);
        check_own_keys((raw, text), name, report);
        let align = own(raw.align.as_ref()).unwrap_or(self.policy.align);
        let algorithm = match (text.span, name) {
            (QuotaSpan::Credits, _) => Algorithm::Credits {
                initial: self.initial_credits,
            },
            (QuotaSpan::InFlight, _) => Algorithm::InFlight,
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
                QuotaSpan::Credits | QuotaSpan::InFlight => Micros(0),
            },
            algorithm,
            count: self.policy.count,
            // A policy's `align` applies to those of its quotas that have such windows.
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
        // A policy's `anchor_day` applies to those of its quotas that can begin on such a day.
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

    /// Returns the quota once for each day that clients may have as their own, or an empty list if they have none.
    pub(super) fn own(&self, raw: &RawQuota, quota: &Quota) -> Box<[(Quota, SeriesId)]> {
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

/// Whether clients may have days of their own: a claim names them, or the file of overrides has a column for them. The
/// file's content is available only while the policy is compiled.
pub(super) fn has_own_days(policy: &RawPolicy) -> bool {
    let file = policy.overrides_file.as_ref();
    policy.anchor_by.is_some() || file.is_some_and(|file| has_days(&file.content))
}

/// Refuses keys of a quota that its algorithm has no use for.
fn check_own_keys((raw, text): (&RawQuota, &QuotaText), name: AlgorithmName, report: &mut Report) {
    let other = match text.span {
        QuotaSpan::Window(_) => None,
        QuotaSpan::Calendar(unit) => Some(format!("a calendar {}", unit.name())),
        QuotaSpan::Credits => Some(format!("`{CREDITS}`")),
        QuotaSpan::InFlight => Some(format!("`{}`", display::quota(text))),
    };
    let of_calendars = [
        ("time_zone", span(raw.time_zone.as_ref())),
        ("anchor_day", span(raw.anchor_day.as_ref())),
        ("anchor_time", span(raw.anchor_time.as_ref())),
    ];
    if let Some(other) = other {
        let of_windows = [
            ("buckets", span(raw.buckets.as_ref())),
            ("oldest_bucket", span(raw.oldest.as_ref())),
            ("align", span(raw.align.as_ref())),
            ("burst", span(raw.burst.as_ref())),
            ("queue", span(raw.queue.as_ref())),
        ];
        let of_calendars = of_calendars
            .into_iter()
            .filter(|_| !matches!(text.span, QuotaSpan::Calendar(_)));
        for (key, place) in of_windows.into_iter().chain(of_calendars) {
            let Some(place) = place else { continue };
            let message = format!("`{key}` does not go with {other}");
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
    for (key, place) in of_calendars {
        if let Some(place) = place {
            without_calendar(key, place, report);
        }
    }
}
