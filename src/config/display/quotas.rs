//! Writes quotas in the file's words.

use super::{
    ALGORITHMS, ALIGNS, DAY_US, HOUR_US, MINUTE_US, OLDEST_BUCKETS, SECOND_US, WEEK_US, span, word,
};
use crate::clock::Micros;
use crate::config::file::{AlgorithmName, RawQuota, Spanned};
use crate::config::value::{BLOCKED, CREDITS, GrantText, QuotaSpan, QuotaText, UNLIMITED, Zone};
use crate::limit::{Algorithm, AnchorDay, Quota};

/// Writes a quota's numbers: `100 per minute`, `500 per 2s`, `10000 per calendar month`.
pub fn rate(quota: &Quota) -> String {
    match quota.algorithm {
        Algorithm::Calendar(calendar) => {
            format!(
                "{} per calendar {}",
                quota.limit,
                calendar.shape().unit.name()
            )
        }
        Algorithm::Credits { .. } => CREDITS.to_owned(),
        Algorithm::InFlight => in_flight(quota.limit),
        Algorithm::Penalty { length, .. } => format!("penalty of {}", span(length)),
        _ => format!("{} per {}", quota.limit, window(quota.window)),
    }
}

/// Writes the algorithm that counts a quota; `None` for credits, units in flight and penalties.
pub fn algorithm(quota: &Quota) -> Option<&'static str> {
    let name = match quota.algorithm {
        Algorithm::FixedWindow | Algorithm::Calendar(_) => AlgorithmName::FixedWindow,
        Algorithm::SlidingWindow { .. } => AlgorithmName::SlidingWindow,
        Algorithm::SlidingLog => AlgorithmName::SlidingLog,
        Algorithm::Gcra { .. } => AlgorithmName::Gcra,
        Algorithm::LeakyBucket { .. } => AlgorithmName::LeakyBucket,
        Algorithm::Credits { .. } | Algorithm::InFlight | Algorithm::Penalty { .. } => return None,
    };
    Some(word(ALGORITHMS, &name))
}

/// Writes what follows "per": `minute`, `2s`, `10m`.
pub fn window(window: Micros) -> String {
    let name = match window.0 {
        1_000 => "ms",
        SECOND_US => "second",
        MINUTE_US => "minute",
        HOUR_US => "hour",
        DAY_US => "day",
        WEEK_US => "week",
        _ => return span(window),
    };
    name.to_owned()
}

/// Writes one quota of `quota`: `100 per minute`.
pub fn quota(quota: &QuotaText) -> String {
    match quota.span {
        QuotaSpan::Credits => CREDITS.to_owned(),
        QuotaSpan::InFlight => in_flight(quota.limit),
        span => format!("{} per {}", quota.limit, quota_span(span)),
    }
}

/// Writes what follows "per": `minute`, `2s`, `calendar month`.
pub fn quota_span(span: QuotaSpan) -> String {
    match span {
        QuotaSpan::Window(micros) => window(micros),
        QuotaSpan::Calendar(unit) => format!("calendar {}", unit.name()),
        QuotaSpan::Credits => CREDITS.to_owned(),
        QuotaSpan::InFlight => "in flight".to_owned(),
    }
}

fn in_flight(units: u64) -> String {
    format!("{units} in flight")
}

/// Writes an item of `quota`, with the keys that it sets for itself: `240 per hour (buckets 60)`.
pub fn raw_quota(quota: &RawQuota) -> String {
    let own = own_keys(quota).map(|(key, text)| format!("{key} {text}"));
    let own: Vec<String> = own.collect();
    let text = grant(&quota.quota);
    if own.is_empty() {
        text
    } else {
        format!("{text} ({})", own.join(", "))
    }
}

/// Writes `time_zone`.
pub fn zone(zone: &Zone) -> String {
    zone.name.to_string()
}

/// Writes `anchor_day`.
pub fn anchor_day(day: &AnchorDay) -> String {
    match day {
        AnchorDay::Month(day) => day.to_string(),
        AnchorDay::Week(day) => AnchorDay::WEEKDAYS[usize::from(*day) - 1].to_owned(),
    }
}

/// Writes `anchor_time`, which is in minutes.
pub fn anchor_time(minutes: &u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Writes the grant of an item of `quota`: a quota, `unlimited` or `blocked`.
pub fn grant(grant: &GrantText) -> String {
    match grant {
        GrantText::Quota(text) => quota(text),
        GrantText::Unlimited => UNLIMITED.to_owned(),
        GrantText::Blocked => BLOCKED.to_owned(),
    }
}

/// Yields the keys that a quota sets for itself, except `quota`, with their values as text.
pub fn own_keys(quota: &RawQuota) -> impl Iterator<Item = (&'static str, String)> {
    fn own<V>(said: Option<&Spanned<V>>, spell: impl Fn(&V) -> String) -> Option<String> {
        said.map(|at| spell(&at.value))
    }
    let algorithm = own(quota.algorithm.as_ref(), |name| {
        word(ALGORITHMS, name).to_owned()
    });
    let oldest = own(quota.oldest.as_ref(), |oldest| {
        word(OLDEST_BUCKETS, oldest).to_owned()
    });
    let align = own(quota.align.as_ref(), |align| word(ALIGNS, align).to_owned());
    let own = [
        ("algorithm", algorithm),
        ("buckets", own(quota.buckets.as_ref(), u32::to_string)),
        ("oldest_bucket", oldest),
        ("align", align),
        ("burst", own(quota.burst.as_ref(), u64::to_string)),
        ("queue", own(quota.queue.as_ref(), u64::to_string)),
        ("time_zone", own(quota.time_zone.as_ref(), super::zone)),
        (
            "anchor_day",
            own(quota.anchor_day.as_ref(), super::anchor_day),
        ),
        (
            "anchor_time",
            own(quota.anchor_time.as_ref(), super::anchor_time),
        ),
    ];
    own.into_iter().filter_map(|(key, text)| Some((key, text?)))
}
