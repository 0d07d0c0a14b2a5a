//! What it means for a policy's quotas that gateways do not ask Redis about each request, in words and figures.

use std::time::Duration;

use super::display;
use crate::clock::Micros;
use crate::limit::{Algorithm, Consistency, Overshoot, Quota, SyncInterval};
use crate::store::Settings;
use crate::store::settings::Location;

/// Says by how much the quotas of a policy may be overshot, and what that saves; nothing if the policy is exact.
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

/// A gateway that holds fewer units saves less than four of five calls.
const WORTHWHILE: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Align, Count, OldestBucket};
    use crate::store::settings::{Deployment, RedisSettings};

    #[test]
    fn check_says_what_each_gateway_may_hold_and_what_that_saves() {
        let sliding = Algorithm::SlidingWindow {
            buckets: 10,
            oldest: OldestBucket::Weighted,
        };
        let quota = |limit, secs, algorithm| Quota {
            limit,
            window: Micros::from_secs(secs),
            algorithm,
            count: Count::Admitted,
            align: Align::Epoch,
            can_come_back: true,
        };
        let store = Settings {
            location: Location::Redis(RedisSettings::plain(Deployment::Unix("r.sock".into()))),
            min_nodes: 3,
            ..Settings::default()
        };
        let said = |quota, ppm, store| {
            overshoot(Consistency::Leased(Overshoot(ppm)), &[quota], store).join("\n")
        };
        for (quota, ppm, expected) in [
            (
                quota(30_000, 1, sliding),
                10_000,
                "30000 per second is leased: each gateway holds at most 100 ahead (1% of `min_nodes = 3` gateways), \
                 at most 300 more than the quota; a busy client takes at least 0.02 Redis calls per request",
            ),
            (
                quota(1_000, 60, Algorithm::FixedWindow),
                10_000,
                "1000 per minute is leased: each gateway holds at most 3 ahead (1% of `min_nodes = 3` gateways), \
                 never more than the quota in a window; a busy client takes at least 0.67 Redis calls per request: \
                 saves little",
            ),
            (
                quota(100, 60, sliding),
                55_000,
                "100 per minute is exact: each gateway could hold 1 (5.5% of `min_nodes = 3` gateways), \
                 and 2 are the fewest that help",
            ),
        ] {
            assert_eq!(said(quota, ppm, &store), expected);
        }
        let bucket = quota(1_000, 1, Algorithm::Gcra { burst: 100 });
        assert_eq!(
            said(bucket, 1_000_000, &store),
            "1000 per second is leased: each gateway holds at most 50 ahead (half of `burst = 100`), \
             at most 1000 more than the quota; a busy client takes at least 0.04 Redis calls per request"
        );
        assert_eq!(
            overshoot(
                Consistency::Synced(SyncInterval(500)),
                &[quota(600, 60, sliding)],
                &store
            )
            .join("\n"),
            "600 per minute is synced: each gateway counts by itself and reports to Redis every 500ms, so clients exceed \
             the quota by at most what the other gateways admit in 1s and two round trips: 10 units at the rate of the \
             quota, and at worst the quota once more for each other gateway; for a Redis that is far away, not for money \
             or logins"
        );
        let quota = quota(100, 60, sliding);
        assert!(said(quota, 10_000, &Settings::default()).contains("exact here"));
        assert!(overshoot(Consistency::Exact, &[quota], &store).is_empty());
    }
}
