//! Quotas: units per window, units in flight, or a balance.

use super::time::{
    DurationFault, FRACTION_HINT, names, one, span, span_pattern, split_while, unit,
};
use super::{ValueError, nearest};
use crate::clock::Micros;
use crate::limit::CalendarUnit;
use crate::limit::quota::COUNT_MAX;

/// A quota as written, such as `"500 per 2s"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaText {
    /// Units per window, or in flight; the largest count for credits.
    pub limit: u64,
    /// The window, if the quota has one.
    pub span: QuotaSpan,
    /// The window as the operator wrote it, short: `2s`, `10m`, `month`; the suffix of the policy's name in headers.
    pub window_text: String,
}

/// What a quota limits units by: a window, a balance, or what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaSpan {
    /// A window of fixed length.
    Window(Micros),
    /// A window as long as a day, week or month of a calendar.
    Calendar(CalendarUnit),
    /// No window: units are a balance.
    Credits,
    /// No window: requests hold units until they have been answered.
    InFlight,
}

/// Parses a quota such as `500 per 2s`, `100 per minute`, `5 per 10 minutes`.
pub fn quota(text: &str) -> Result<QuotaText, ValueError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(timeless) = timeless(&words) {
        return timeless;
    }
    match words[..] {
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
    let [units, "per", ref window @ ..] = words[..] else {
        return Err(not_a_quota());
    };
    let limit = limit(units).ok_or_else(not_a_quota)??;
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

/// Parses a quota without a window, or returns `None` if the text is not one.
fn timeless(words: &[&str]) -> Option<Result<QuotaText, ValueError>> {
    let not_a_quota = || ValueError::new("is not a quota", QUOTAS);
    Some(match *words {
        [units, "in", "flight"] => match limit(units) {
            None => Err(not_a_quota()),
            Some(limit) => limit.map(|limit| QuotaText {
                limit,
                span: QuotaSpan::InFlight,
                window_text: "in-flight".to_owned(),
            }),
        },
        [
            units,
            "concurrent" | "parallel" | "inflight" | "in-flight",
            ..,
        ] => Err(not_a_quota().hint(format!("did you mean `{units} in flight`?"))),
        [CREDITS] => Ok(QuotaText {
            limit: COUNT_MAX,
            span: QuotaSpan::Credits,
            window_text: CREDITS.to_owned(),
        }),
        [_, CREDITS] => {
            let hint = "`credits`, with `initial_credits = 100` for newcomers, and `tollgate keys grant` for more";
            Err(not_a_quota().hint(hint))
        }
        _ => return None,
    })
}

/// Parses the number of units of a quota, or returns `None` if the text is not a number.
fn limit(text: &str) -> Option<Result<u64, ValueError>> {
    let digits = whole(text)?;
    let Ok(limit @ 1..=COUNT_MAX) = digits.parse() else {
        let expected = format!("a limit from 1 to {COUNT_MAX}");
        let wrong = ValueError::new("has a limit that is out of range", expected);
        let hint = "what admits nothing is `blocked`, in `overrides`".to_owned();
        let is_nothing = digits.trim_matches('0').is_empty();
        return Some(Err(wrong.maybe_hint(is_nothing.then_some(hint))));
    };
    Some(Ok(limit))
}

/// JSON Schema pattern that every quota matches.
pub fn quota_pattern() -> String {
    let units = r"[0-9]([0-9_]*[0-9])?";
    format!(
        r"^\s*{CREDITS}\s*$|^\s*{units}\s+in\s+flight\s*$|{}",
        windowed_pattern()
    )
}

/// JSON Schema pattern that every quota with a window matches.
pub fn windowed_pattern() -> String {
    let units = names().collect::<Vec<_>>().join("|");
    format!(
        r"^\s*[0-9]([0-9_]*[0-9])?\s+per\s+({units}|calendar\s+(day|week|month)|{})\s*$",
        span_pattern()
    )
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

/// Returns the digits of a whole number without underscores, or `None` if the text is not one.
fn whole(text: &str) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_plain = text.starts_with(is_digit) && text.ends_with(is_digit);
    let is_whole = is_plain && text.chars().all(|c| is_digit(c) || c == '_');
    is_whole.then(|| text.replace('_', ""))
}

/// Shortest window of a quota.
const WINDOW_US_MIN: u64 = 1_000;
/// Longest window of a quota: 366 days.
const WINDOW_US_MAX: u64 = 366 * 86_400_000_000;

/// Spelling of a balance.
pub const CREDITS: &str = "credits";
const QUOTAS: &str = "a quota such as `100 per minute` or `500 per 2s`";

#[cfg(test)]
mod tests {
    use super::*;

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
            ("100 / 2s", "100 per 2s"),
            ("100 per minut", "100 per minute"),
            ("100 every 10 minutes", "100 per 10 minutes"),
            ("100 requests per hour", "100 per hour"),
            ("1,000 per day", "1000 per day"),
            ("20 a second", "20 per second"),
        ] {
            let hint = quota(text).expect_err(text).hint;
            assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{text}");
        }
        assert_eq!(quota("lots").expect_err("no number").hint, None);
    }

    #[test]
    fn quotas_are_bounded() {
        for (text, problem) in [
            ("0 per 1s", "has a limit that is out of range"),
            (
                "4503599627370497 per 1s",
                "has a limit that is out of range",
            ),
            ("1 per 0s", "has a window that is out of range"),
            ("1 per 53w", "has a window that is out of range"),
            ("10 per calendar", "is not a quota"),
            ("10 per 2 calendar months", "is not a quota"),
            ("some in flight", "is not a quota"),
            ("20 concurrent requests", "is not a quota"),
            ("1 per month", "is not a quota"),
        ] {
            assert_eq!(quota(text).expect_err(text).problem, problem, "{text}");
        }
    }
}
