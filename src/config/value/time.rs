//! Durations: sums of `[K]UNIT`; a quota's window is one, too.

use std::time::Duration;

use super::{ValueError, nearest};

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

/// JSON Schema pattern that every duration matches.
pub fn duration_pattern() -> String {
    format!("^{}$", span_pattern())
}

pub(super) fn span_pattern() -> String {
    let units = names().collect::<Vec<_>>().join("|");
    format!(r"\s*([0-9]+\s*({units})\s*)+")
}

/// A sum of `[K]UNIT` in microseconds, and how the operator wrote it, short.
pub(super) struct Span {
    pub(super) us: u64,
    pub(super) short: String,
}

/// Why a text is not a sum of `[K]UNIT`.
pub(super) enum DurationFault<'t> {
    /// A number without a unit.
    NoUnit,
    /// A unit that is not known.
    Unit(&'t str),
    /// A number with a decimal point.
    Fraction,
    /// More microseconds than can be counted.
    TooLong,
    /// No number where one should be.
    Other,
}

/// A unit: its short form, its length in microseconds, its names.
pub(super) type Unit = (&'static str, u64, &'static [&'static str]);

pub(super) fn span(text: &str) -> Result<Span, DurationFault<'_>> {
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

pub(super) fn one((short, us, _): &Unit) -> Span {
    Span {
        us: *us,
        short: format!("1{short}"),
    }
}

pub(super) fn unit(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|(_, _, names)| names.contains(&name))
}

fn unit_hint(unit: &str) -> String {
    match nearest(unit, names()) {
        Some(near) => format!("did you mean the unit `{near}`?"),
        None => "units are `ms`, `s`, `m`, `h`, `d`, `w`".to_owned(),
    }
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().flat_map(|(_, _, names)| names.iter().copied())
}

pub(super) fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
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

const DURATIONS: &str = "a duration such as `50ms`, `30s`, `5m` or `1h`";
pub(super) const FRACTION_HINT: &str = "whole numbers only: `1m30s` is one and a half minutes";

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
}
