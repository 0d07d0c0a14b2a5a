//! `consistency`: which keys and quotas go with gateways that count less exactly than the store.

use std::time::Duration;

use super::in_flight::is_in_flight;
use crate::config::display;
use crate::config::file::{ConsistencyName, RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::limit::consistency::{SYNC_INTERVAL_MIN, can_be_leased, can_be_synced};
use crate::limit::{Algorithm, Align, Consistency, Count, Quota, SyncInterval};
use crate::snapshot::{Grant, Policy};

/// Compiles how exactly gateways keep the quotas of a policy, the overrides of which are already compiled.
pub(super) fn compile(
    table: &Table<RawPolicy>,
    policy: &Policy,
    report: &mut Report,
) -> Consistency {
    let raw = &table.value;
    let word = display::word(display::CONSISTENCIES, &raw.consistency);
    for (key, of) in [("overshoot", "leased"), ("sync_interval", "synced")] {
        if word != of
            && let Some(place) = table.place(key)
            && !table.is_incomplete(POLICY.about.title)
        {
            let message = format!("`{key}` is given, but the policy is {word}");
            let expected = format!("`consistency = \"{of}\"` as well");
            (report.mistake(place, message, expected)).hint("add it, or remove this");
        }
    }
    if raw.consistency == ConsistencyName::Exact {
        return Consistency::Exact;
    }
    for (key, is_other) in [
        ("count", raw.count == Count::All),
        ("penalty", raw.penalty.is_some()),
        ("candidate", !raw.candidate.is_empty()),
        ("spill", raw.spill.is_some()),
    ] {
        if let (Some(place), true) = (table.place(key), is_other) {
            let message = format!("this `{key}` does not go with `consistency = \"{word}\"`");
            (report.mistake(place, message, "a policy that is exact"))
                .hint("this key works only if Redis decides each request");
        }
    }
    if let (Some(place), Some(kind)) = (table.place("consistency"), exact_kind(raw, policy)) {
        let message = format!("`{word}` does not go with {kind}");
        let expected = match raw.consistency {
            ConsistencyName::Synced => {
                "`exact`, `leased`, or quotas of `fixed-window` and `sliding-window`"
            }
            _ => "`exact`, or quotas per window of other algorithms",
        };
        report.mistake(place, message, expected);
    }
    match raw.consistency {
        ConsistencyName::Synced => Consistency::Synced(sync_interval(table, policy, report)),
        _ => Consistency::Leased(raw.overshoot),
    }
}

/// Compiles `sync_interval`: how often gateways report to Redis what they counted.
fn sync_interval(table: &Table<RawPolicy>, policy: &Policy, report: &mut Report) -> SyncInterval {
    let interval = table.value.sync_interval;
    let windows = quotas(policy).filter(|quota| quota.has_window());
    let shortest = windows.map(|quota| Duration::from(quota.window)).min();
    let most = shortest.map_or(Duration::MAX, |shortest| shortest / WINDOW_PART);
    let place = (table.place("sync_interval")).or_else(|| table.place("consistency"));
    if let (Some(place), Some(shortest), true) = (place, shortest, interval > most) {
        let [interval, shortest] = [interval, shortest].map(display::duration);
        let message =
            format!("`sync_interval` ({interval}) is too long for a window of {shortest}");
        let expected = if most < SYNC_INTERVAL_MIN {
            let least = display::duration(SYNC_INTERVAL_MIN * WINDOW_PART);
            format!("windows of {least} and longer, or another `consistency`")
        } else {
            format!(
                "`sync_interval` at most a tenth of it: `{}`",
                display::duration(most)
            )
        };
        report.mistake(place, message, expected);
    }
    let ms = interval.as_millis();
    SyncInterval(u32::try_from(ms).unwrap_or(u32::MAX))
}

/// Names the first kind of quota in the policy that has to be exact.
fn exact_kind(raw: &RawPolicy, policy: &Policy) -> Option<&'static str> {
    if is_in_flight(policy) {
        return Some("units in flight");
    }
    let goes = match raw.consistency {
        ConsistencyName::Synced => can_be_synced,
        _ => can_be_leased,
    };
    let is_exact = |quota: &&Quota| quota.count == Count::Admitted && !goes(quota);
    let quota = quotas(policy).find(is_exact)?;
    Some(match quota.algorithm {
        Algorithm::Credits { .. } => "credits",
        Algorithm::Gcra { .. } => "`gcra`",
        Algorithm::SlidingLog => "`sliding-log`",
        _ if quota.align == Align::First => "`align = \"first\"`",
        _ => "`leaky-bucket`",
    })
}

fn quotas(policy: &Policy) -> impl Iterator<Item = &Quota> {
    let grants = policy.grants().flat_map(Grant::quotas);
    grants.map(|part| &part.quota)
}

/// Fewest sync intervals in a window.
const WINDOW_PART: u32 = 10;
