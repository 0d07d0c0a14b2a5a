//! Durations and quotas: sums of `[K]UNIT`, of which a quota's window is one.

use std::time::Duration;

use super::{ValueError, nearest};
use crate::clock::Micros;
use crate::limit::CalendarUnit;
use crate::limit::quota::COUNT_MAX;

/// `"500 per 2s"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaText {
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub span: QuotaSpan,
    /// The window as the operator wrote it, short: `2s`, `10m`, `month`; the suffix of the policy's name in headers.
    pub window_text: String,
}

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaSpan {
    /// So long, always.
    Window(Micros),
    /// As long as a calendar says.
    Calendar(CalendarUnit),
}

/// Parses a duration such as `50ms`, `30s`, `1h`, `1m30s`.
pub fn duration(text: &str) -> Result<Duration, ValueError> {
    let wrong = ValueError::new("is not a duration", DURATIONS);
    match span(text) {
        Ok(span) => Ok(Duration::from_micros(span.us)),
        Err(DurationFault::NoUnit) => {
            Err(wrong.hint(format!("did you mean `{0}s` or `{0}ms`?", text.trim())))
        }
        Err(DurationFault::Unit(unit)) => Err(wrong.hint(unit_hint(unit))),
        Err(DurationFault::Fraction) => Err(wrong.hint(FRACTION_HINT)),
        Err(DurationFault::TooLong) => Err(ValueError::new("is too long", DURATIONS)),
        Err(DurationFault::Other) => Err(wrong),
    }
}

/// Parses a quota such as `500 per 2s`, `100 per minute`, `5 per 10 minutes`.
pub fn quota(text: &str) -> Result<QuotaText, ValueError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [_, "in", "flight"] => return Err(ValueError::to_come(QUOTAS)),
        [_, "per", .., "month" | "months"] if !words.contains(&"calendar") => {
            let hint = "months differ in length: `per calendar month`, or say how many days: `per 30 days`";
            return Err(ValueError::new("is not a quota", QUOTAS).hint(hint));
        }
        [_, "per", .., "year" | "years"] => {
            let hint = "years differ in length; say how many days: `per 365 days`";
            return Err(ValueError::new("is not a quota", QUOTAS).hint(hint));
        }
        _ => {}
    }
    let not_a_quota = || ValueError::new("is not a quota", QUOTAS).maybe_hint(quota_hint(text));
    let [limit, "per", ref window @ ..] = words[..] else {
        return Err(not_a_quota());
    };
    let limit = whole(limit).ok_or_else(not_a_quota)?;
    let Ok(limit @ 1..=COUNT_MAX) = limit.parse() else {
        let expected = format!("a limit from 1 to {COUNT_MAX}");
        let wrong = ValueError::new("has a limit that is out of range", expected);
        let hint = "what admits nothing is `blocked`, in `overrides`".to_owned();
        return Err(wrong.maybe_hint((limit.trim_matches('0').is_empty()).then_some(hint)));
    };
    if let ["calendar", unit @ ..] = window {
        let units = [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month];
        let unit = units.into_iter().find(|known| *unit == [known.name()]);
        let unit = unit.ok_or_else(|| {
            let hint = format!("`{limit} per calendar day`, `week` or `month`");
            ValueError::new("is not a quota", QUOTAS).hint(hint)
        })?;
        return Ok(QuotaText {
            limit,
            span: QuotaSpan::Calendar(unit),
            window_text: unit.name().to_owned(),
        });
    }
    let window = window.join(" ");
    let span = if let Some(unit) = unit(&window) {
        Ok(one(unit))
    } else {
        span(&window)
    };
    match span {
        Ok(span) if (WINDOW_US_MIN..=WINDOW_US_MAX).contains(&span.us) => Ok(QuotaText {
            limit,
            span: QuotaSpan::Window(Micros(span.us)),
            window_text: span.short,
        }),
        Ok(_) | Err(DurationFault::TooLong) => Err(ValueError::new(
            "has a window that is out of range",
            "a window from 1ms to 366d",
        )),
        Err(DurationFault::Fraction) => Err(not_a_quota().hint(FRACTION_HINT)),
        Err(_) => Err(not_a_quota()),
    }
}

/// What every duration fits, as JSON Schema has regular expressions.
pub fn duration_pattern() -> String {
    format!("^{}$", span_pattern())
}

/// What every quota fits.
pub fn quota_pattern() -> String {
    let units = names().collect::<Vec<_>>().join("|");
    format!(
        r"^\s*[0-9]([0-9_]*[0-9])?\s+per\s+({units}|calendar\s+(day|week|month)|{})\s*$",
        span_pattern()
    )
}

fn span_pattern() -> String {
    let units = names().collect::<Vec<_>>().join("|");
    format!(r"\s*([0-9]+\s*({units})\s*)+")
}

/// A sum of `[K]UNIT`, and how the operator wrote it, short.
struct Span {
    us: u64,
    short: String,
}

/// Why a text is no such sum.
enum DurationFault<'t> {
    /// A number without a unit.
    NoUnit,
    /// This unit is unknown.
    Unit(&'t str),
    /// A number with a decimal point.
    Fraction,
    /// More microseconds than can be counted.
    TooLong,
    /// No number where one should be.
    Other,
}

/// A unit: its short form, its length in microseconds, its names.
type Unit = (&'static str, u64, &'static [&'static str]);

fn span(text: &str) -> Result<Span, DurationFault<'_>> {
    let mut rest = text.trim();
    let mut sum = Span {
        us: 0,
        short: String::new(),
    };
    while !rest.is_empty() {
        let (digits, after) = split_while(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(DurationFault::Other);
        }
        let after = after.trim_start();
        if after.starts_with(['.', ',']) {
            return Err(DurationFault::Fraction);
        }
        let (name, after) = split_while(after, char::is_alphabetic);
        if name.is_empty() {
            return Err(if after.is_empty() {
                DurationFault::NoUnit
            } else {
                DurationFault::Other
            });
        }
        let (short, us, _) = unit(name).ok_or(DurationFault::Unit(name))?;
        let us = digits.parse().ok().and_then(|k: u64| k.checked_mul(*us));
        sum.us = us
            .and_then(|us| sum.us.checked_add(us))
            .ok_or(DurationFault::TooLong)?;
        let digits = digits.trim_start_matches('0');
        sum.short += if digits.is_empty() { "0" } else { digits };
        sum.short += short;
        rest = after.trim_start();
    }
    if sum.short.is_empty() {
        Err(DurationFault::Other)
    } else {
        Ok(sum)
    }
}

fn one((short, us, _): &Unit) -> Span {
    Span {
        us: *us,
        short: format!("1{short}"),
    }
}

fn unit(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|(_, _, names)| names.contains(&name))
}

fn unit_hint(unit: &str) -> String {
    match nearest(unit, names()) {
        Some(near) => format!("did you mean the unit `{near}`?"),
        None => "units are `ms`, `s`, `m`, `h`, `d`, `w`".to_owned(),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().flat_map(|(_, _, names)| names.iter().copied())
}

/// Guesses the quota that was meant by `100/min`, `100 every minute`, `10 per minut`, `5rps`.
fn quota_hint(text: &str) -> Option<String> {
    let text = text.trim();
    let (limit, rest) = split_while(text, |c| c.is_ascii_digit() || c == '_' || c == ',');
    let mut limit: String = limit.chars().filter(char::is_ascii_digit).collect();
    if limit.is_empty() {
        return None;
    }
    let mut rest = rest.trim().to_lowercase();
    for (unit, zeros) in [("k ", "000"), ("m ", "000000")] {
        if let Some(after) = rest.strip_prefix(unit) {
            limit += zeros;
            rest = after.to_owned();
        }
    }
    if rest.is_empty() {
        return Some(format!("say in which time: `{limit} per minute`"));
    }
    let window = match rest.as_str() {
        "rps" | "r/s" | "qps" | "req/s" => "second".to_owned(),
        "rpm" | "r/m" | "req/m" => "minute".to_owned(),
        rest => {
            let joint = [
                "requests", "req", "per", "every", "each", "pro", "an", "a", "in", "@", "/",
            ];
            let mut rest = rest;
            for word in joint.iter().copied().chain(joint) {
                match rest.strip_prefix(word) {
                    Some(after) if word == "/" || !after.starts_with(char::is_alphabetic) => {
                        rest = after.trim_start();
                    }
                    _ => {}
                }
            }
            let (k, name) = split_while(rest, |c| c.is_ascii_digit());
            let near = nearest(name.trim(), names())?;
            let space = if k.is_empty() || near.len() <= 2 {
                ""
            } else {
                " "
            };
            format!("{k}{space}{near}")
        }
    };
    Some(format!("did you mean `{limit} per {window}`?"))
}

/// Returns the digits of a whole number without their underscores.
fn whole(text: &str) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_plain = text.starts_with(is_digit) && text.ends_with(is_digit);
    let is_whole = is_plain && text.chars().all(|c| is_digit(c) || c == '_');
    is_whole.then(|| text.replace('_', ""))
}

fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !keep(c)).unwrap_or(text.len());
    text.split_at(end)
}

const UNITS: [Unit; 6] = [
    ("ms", 1_000, &["ms", "millisecond", "milliseconds"]),
    ("s", 1_000_000, &["s", "sec", "second", "seconds"]),
    ("m", 60_000_000, &["m", "min", "minute", "minutes"]),
    ("h", 3_600_000_000, &["h", "hour", "hours"]),
    ("d", 86_400_000_000, &["d", "day", "days"]),
    ("w", 604_800_000_000, &["w", "week", "weeks"]),
];

/// Shortest window of a quota.
const WINDOW_US_MIN: u64 = 1_000;
/// Longest window of a quota: 366 days.
const WINDOW_US_MAX: u64 = 366 * 86_400_000_000;

const DURATIONS: &str = "a duration such as `50ms`, `30s`, `5m` or `1h`";
const QUOTAS: &str = "a quota such as `100 per minute` or `500 per 2s`";
const FRACTION_HINT: &str = "whole numbers only: `1m30s` is one and a half minutes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_units() {
        for (text, us) in [
            ("0s", 0),
            ("50ms", 50_000),
            ("2s", 2_000_000),
            ("5m", 300_000_000),
            ("1h", 3_600_000_000),
            ("1d", 86_400_000_000),
            ("1m30s", 90_000_000),
            (" 2 minutes 1 s ", 121_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_micros(us)), "{text}");
        }
    }

    #[test]
    fn a_duration_says_how_to_mend_it() {
        for (text, hint) in [
            ("30", Some("did you mean `30s` or `30ms`?")),
            ("30 secnds", Some("did you mean the unit `seconds`?")),
            (
                "30 fortnights",
                Some("units are `ms`, `s`, `m`, `h`, `d`, `w`"),
            ),
            ("1.5s", Some(FRACTION_HINT)),
            ("", None),
            ("-1s", None),
            ("99999999999999d", None),
        ] {
            let wrong = duration(text).expect_err(text);
            assert_eq!(wrong.hint.as_deref(), hint, "{text}");
        }
    }

    #[test]
    fn quotas_keep_the_window_as_written() {
        for (text, limit, us, short) in [
            ("500 per 2s", 500, 2_000_000, "2s"),
            ("100 per minute", 100, 60_000_000, "1m"),
            ("5 per 10 minutes", 5, 600_000_000, "10m"),
            ("1_000 per 60 s", 1_000, 60_000_000, "60s"),
            ("7 per week", 7, 604_800_000_000, "1w"),
            ("1 per 1m30s", 1, 90_000_000, "1m30s"),
        ] {
            let expected = QuotaText {
                limit,
                span: QuotaSpan::Window(Micros(us)),
                window_text: short.to_owned(),
            };
            assert_eq!(quota(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_quota_guesses_what_was_meant() {
        for (text, meant) in [
            ("100/min", "100 per min"),
            ("100 / 2s", "100 per 2s"),
            ("100 per minut", "100 per minute"),
            ("100 every 10 minutes", "100 per 10 minutes"),
            ("100 requests per hour", "100 per hour"),
            ("1,000 per day", "1000 per day"),
            ("20rps", "20 per second"),
            ("20 a second", "20 per second"),
            ("1k per minute", "1000 per minute"),
        ] {
            let hint = quota(text).expect_err(text).hint;
            assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{text}");
        }
        assert_eq!(quota("lots").expect_err("no number").hint, None);
    }

    #[test]
    fn quotas_are_bounded_and_the_rest_is_to_come() {
        for (text, problem) in [
            ("0 per 1s", "has a limit that is out of range"),
            (
                "4503599627370497 per 1s",
                "has a limit that is out of range",
            ),
            ("1 per 0s", "has a window that is out of range"),
            ("1 per 53w", "has a window that is out of range"),
            ("10 per calendar year", "is not a quota"),
            ("10 per calendar", "is not a quota"),
            ("10 per 2 calendar months", "is not a quota"),
            ("20 in flight", "is not available yet"),
            ("1 per month", "is not a quota"),
        ] {
            assert_eq!(quota(text).expect_err(text).problem, problem, "{text}");
        }
    }
}
