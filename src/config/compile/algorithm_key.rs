//! Keys that go with some algorithms only.

use std::ops::Range;

use crate::config::display;
use crate::config::file::AlgorithmName;
use crate::config::report::Report;
use crate::limit::{Align, AnchorDay, CalendarUnit};

/// Refuses a key that goes with `owner` only, if `algorithm` is another one.
pub(super) fn check_key(
    (key, place): (&str, &Range<usize>),
    owner: AlgorithmName,
    algorithm: AlgorithmName,
    report: &mut Report,
) {
    if algorithm == owner {
        return;
    }
    let [text, owner] = [algorithm, owner].map(|name| display::word(display::ALGORITHMS, &name));
    let message = format!("`{key}` does not go with `{text}`");
    let expected = format!("a key for `{owner}` only");
    (report.mistake(place, message, expected))
        .hint(format!("remove it, or set `algorithm = \"{owner}\"`"));
}

/// Reports that windows of a calendar's days, weeks or months cannot begin on `day`.
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

/// Reports that a key goes with calendar quotas only.
pub(super) fn without_calendar(key: &str, place: &Range<usize>, report: &mut Report) {
    let message = format!("`{key}` goes with calendar quotas only");
    (report.mistake(place, message, "a quota such as `10000 per calendar month`"))
        .hint("remove it, or make the quota one of a calendar day, week or month");
}

/// Refuses an `align` for which no quota has windows; `names` are the algorithms of the quotas that it applies to.
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
