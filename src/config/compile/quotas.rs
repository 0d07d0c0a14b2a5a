//! Quotas of policies and overrides, with the texts that answers carry.

use std::ops::Range;

use super::counting::Counting;
use crate::config::display;
use crate::config::file::{RawPolicy, RawQuota, Spanned, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::config::value::{GrantText, QuotaSpan, QuotaText};
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, Quota};
use crate::snapshot::{Grant, PolicyQuota, QuotaItems, REQUESTS};

/// Compiles a list of quotas, or the word in place of one; series ids are not assigned yet.
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
    Grant::Quotas(quotas(name, list, counting, report).into())
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

/// Compiles the candidates of a policy: quotas that are tried out beside its own.
pub(super) fn candidates(table: &Table<RawPolicy>, report: &mut Report) -> Vec<PolicyQuota> {
    let counting = Counting::of(table);
    quotas(&table.name, &table.value.candidate, &counting, report)
}

/// Compiles quotas that must all hold, with the texts by which answers describe them.
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
        let item_name = item_name(name, is_one_of_several.then_some(&text.window_text));
        let rate = match text.span {
            QuotaSpan::Window(_) => format!("{} per {}", text.limit, text.window_text),
            _ => display::quota(text),
        };
        PolicyQuota {
            series_id: SeriesId(0),
            items: QuotaItems::new(&item_name, &item_parameters(&quota, counting.unit())),
            log_name: format!("{name}: {rate}").into(),
            own: counting.own(raw, &quota),
            quota,
        }
    });
    quotas.collect()
}

/// A quota, its text, and its place.
type Text<'f> = (&'f RawQuota, &'f QuotaText, &'f Range<usize>);

/// Refuses quotas over one window: they would share their counters, and the larger would never refuse anyway.
fn check_windows(quotas: &[Text<'_>], report: &mut Report) {
    for (at, (_, quota, place)) in quotas.iter().enumerate() {
        if quota.span == QuotaSpan::InFlight && quotas.len() > 1 {
            let text = display::quota(quota);
            let message = format!("`{text}` stands in one list with other quotas");
            (report.mistake(place, message, format!("`{text}` alone")))
                .hint("a request can have several policies: write one for each kind of quota");
            return;
        }
        let same = |(_, earlier, _): &&Text<'_>| earlier.span == quota.span;
        if let Some((_, earlier, _)) = quotas[..at].iter().find(same) {
            let least = earlier.limit.min(quota.limit);
            let span = match quota.span {
                QuotaSpan::Window(window) => display::span(window),
                QuotaSpan::Calendar(unit) => format!("a calendar {}", unit.name()),
                QuotaSpan::InFlight => continue,
                QuotaSpan::Credits => {
                    let message = "`credits` is listed twice, but a client has only one balance under a policy";
                    report.mistake(place, message, "`credits` once");
                    continue;
                }
            };
            let window = display::quota_span(quota.span);
            let message = format!("two quotas of one policy have the same window, {span}");
            (report.mistake(place, message, "a different window"))
                .hint(format!("keep the smaller: `\"{least} per {window}\"`"));
        }
    }
}

/// Renders a quota's name as a structured-field string (RFC 9651, section 4.1.6).
///
/// No name needs escapes, because the reader refuses names that would.
pub(super) fn item_name(name: &str, window_text: Option<&str>) -> String {
    match window_text {
        Some(window_text) => format!("\"{name}:{window_text}\""),
        None => format!("\"{name}\""),
    }
}

/// Renders the parameters of a quota in `RateLimit-Policy`, of which a balance has none. `w` is in whole seconds,
/// rounded up, and left out for calendars and units in flight. Units are requests unless `qu` says otherwise; the
/// name of a unit needs no escapes.
fn item_parameters(quota: &Quota, unit: &str) -> String {
    if quota.is_balance() {
        return String::new();
    }
    let limit = quota.limit.min(INTEGER_MAX);
    let window = match quota.algorithm {
        Algorithm::Calendar(_) | Algorithm::InFlight => String::new(),
        _ => format!(";w={}", quota.window.0.div_ceil(1_000_000)),
    };
    let unit = match unit {
        REQUESTS if quota.is_in_flight() => ";qu=\"concurrent-requests\"".to_owned(),
        REQUESTS => String::new(),
        unit => format!(";qu=\"{unit}\""),
    };
    format!(";q={limit}{unit}{window}")
}

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;

    #[test]
    fn policy_items_round_the_window_up_and_hold_the_limit_to_an_integer() {
        let quota = |limit, window_us| Quota {
            can_come_back: false,
            ..Quota::of(Algorithm::FixedWindow, limit, Micros(window_us))
        };
        assert_eq!(
            item_parameters(&quota(100, 60_000_000), REQUESTS),
            ";q=100;w=60"
        );
        assert_eq!(
            item_parameters(&quota(1 << 52, 1_500_000), "tokens"),
            ";q=999999999999999;qu=\"tokens\";w=2"
        );
    }
}
