//! What it means for a policy's quotas, in words and figures, that gateways do not ask Redis about each request.

use std::time::Duration;

use super::display;
use crate::clock::Micros;
use crate::limit::{Algorithm, Consistency, Overshoot, Quota, SyncInterval};
use crate::store::Settings;
use crate::store::settings::Location;

/// Says by how much the quotas of a policy may be overshot, and what that saves; empty if the policy is exact.
pub fn overshoot(consistency: Consistency, quotas: &[Quota], store: &Settings) -> Vec<String> {
    let word = match consistency {
        Consistency::Exact => return Vec::new(),
        Consistency::Leased(_) => "leased",
        Consistency::Synced(_) => "synced",
    };
    if store.location == Location::Memory {
        return vec![format!(
            "{word}: exact here, because counters are in this process"
        )];
    }
    match consistency {
        Consistency::Leased(overshoot) => leased(overshoot, quotas, store),
        Consistency::Synced(interval) => synced(interval, quotas),
        Consistency::Exact => Vec::new(),
    }
}

fn synced(interval: SyncInterval, quotas: &[Quota]) -> Vec<String> {
    let interval = Duration::from(Micros::from(interval));
    let [every, twice] = [interval, 2 * interval].map(display::duration);
    let lines = quotas.iter().map(|quota| {
        let rate = display::rate(quota);
        let even = u128::from(quota.limit) * 2 * interval.as_micros() / u128::from(quota.window.0.max(1));
        format!(
            "{rate} is synced: each gateway counts by itself and reports to Redis every {every}, so clients exceed the quota by at most what the other gateways admit in {twice} and two round trips: {even} units at the rate of the quota, and at worst the quota once more for each other gateway; for a Redis that is far away, not for money or logins"
        )
    });
    lines.collect()
}

fn leased(overshoot: Overshoot, quotas: &[Quota], store: &Settings) -> Vec<String> {
    let consistency = Consistency::Leased(overshoot);
    let nodes = store.min_nodes;
    let s = if nodes == 1 { "" } else { "s" };
    let percent = display::overshoot(&overshoot);
    let lines = quotas.iter().map(|quota| {
        let (rate, held) = (display::rate(quota), consistency.held_max(quota, nodes));
        let part = match quota.algorithm {
            Algorithm::Gcra { burst } if overshoot.part(quota, nodes) == burst / 2 => {
                format!("half of `burst = {burst}`")
            }
            _ => format!("{percent} of `min_nodes = {nodes}` gateway{s}"),
        };
        if held == 0 {
            let held = overshoot.part(quota, nodes);
            return format!("{rate} is exact: each gateway could hold {held} ({part}), and 2 are the fewest that help");
        }
        let bound = match consistency.overshoot_max(quota, nodes) {
            Some(0) => "never more than the quota in a window".to_owned(),
            most => format!("at most {} more than the quota", most.unwrap_or_default()),
        };
        let calls = display::calls(held);
        let saves = if held < WORTHWHILE { ": saves little" } else { "" };
        format!(
            "{rate} is leased: each gateway holds at most {held} ahead ({part}), {bound}; a busy client takes at least {calls} Redis calls per request{saves}"
        )
    });
    lines.collect()
}

/// Units held ahead below which little is saved: less than four of five calls.
const WORTHWHILE: u64 = 10;
