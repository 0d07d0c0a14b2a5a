//! How exactly gateways that share a store keep a quota.

use std::time::Duration;

use super::quota::{Algorithm, Align, Count, Quota};
use crate::clock::Micros;

/// How exactly gateways that share a store keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The store decides each request.
    #[default]
    Exact,
    /// Gateways buy units ahead and spend them without asking.
    Leased(Overshoot),
    /// Gateways count by themselves, and report their counts to the store this often.
    Synced(SyncInterval),
}

/// How often gateways report what they counted, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SyncInterval(pub u32);

/// How much of a quota all gateways together may hold ahead, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Overshoot(pub u32);

impl Consistency {
    /// Returns how many units of a quota one of `nodes` gateways may hold ahead; 0 if the store decides each request.
    pub fn held_max(self, quota: &Quota, nodes: u32) -> u64 {
        match self {
            Self::Leased(overshoot) if can_be_leased(quota) => {
                let part = overshoot.part(quota, nodes);
                if part < HELD_MIN { 0 } else { part }
            }
            _ => 0,
        }
    }

    /// Returns how often gateways report their counts, if they count by themselves.
    pub fn sync_interval(self) -> Option<Micros> {
        match self {
            Self::Synced(interval) => Some(interval.into()),
            Self::Exact | Self::Leased(_) => None,
        }
    }

    /// Returns the most units by which clients may exceed a quota that `nodes` gateways share; none if the policy is
    /// exact. More gateways do not raise the bound of a leased quota.
    pub fn overshoot_max(self, quota: &Quota, nodes: u32) -> Option<u64> {
        let ends_with_window = matches!(
            quota.algorithm,
            Algorithm::FixedWindow | Algorithm::Calendar(_)
        );
        match self {
            Self::Exact => None,
            // With more gateways than `nodes`, each holds no more than this.
            Self::Leased(_) if ends_with_window || self.held_max(quota, nodes) == 0 => Some(0),
            Self::Leased(overshoot) => Some(overshoot.held_max(quota.limit, 1)),
            // The other gateways, at least one, may each admit the whole quota before this one hears of it.
            Self::Synced(_) => Some(quota.limit.saturating_mul(u64::from(nodes.max(2)) - 1)),
        }
    }
}

impl Default for SyncInterval {
    /// Returns a second.
    fn default() -> Self {
        Self(1_000)
    }
}

impl From<SyncInterval> for Micros {
    fn from(interval: SyncInterval) -> Self {
        Self(u64::from(interval.0) * 1_000)
    }
}

impl Default for Overshoot {
    /// Returns 1 %.
    fn default() -> Self {
        Self(10_000)
    }
}

impl Overshoot {
    /// Returns the part of a quota that one of `nodes` gateways may hold, however small.
    pub fn part(self, quota: &Quota, nodes: u32) -> u64 {
        self.held_max(quota.limit, nodes).min(bought_max(quota))
    }

    /// Returns the part of a quota of `limit` that one of `nodes` gateways may hold.
    pub fn held_max(self, limit: u64, nodes: u32) -> u64 {
        let (ppm, nodes) = (u64::from(self.0), u64::from(nodes.max(1)));
        match limit.checked_mul(ppm) {
            Some(product) => product / (1_000_000 * nodes),
            None => limit / (1_000_000 * nodes) * ppm,
        }
    }
}

/// Says whether units of a quota can be bought before they are asked for.
pub fn can_be_leased(quota: &Quota) -> bool {
    let is_window = match quota.algorithm {
        Algorithm::FixedWindow
        | Algorithm::Calendar(_)
        | Algorithm::SlidingWindow { .. }
        | Algorithm::SlidingLog
        | Algorithm::Gcra { .. } => true,
        Algorithm::LeakyBucket { .. }
        | Algorithm::Credits { .. }
        | Algorithm::InFlight
        | Algorithm::Penalty { .. } => false,
    };
    is_window && quota.count == Count::Admitted
}

/// Says whether gateways can count a quota by themselves, and add their counts in the windows where units were spent.
pub fn can_be_synced(quota: &Quota) -> bool {
    let is_window = matches!(
        quota.algorithm,
        Algorithm::FixedWindow | Algorithm::Calendar(_) | Algorithm::SlidingWindow { .. }
    );
    is_window && quota.count == Count::Admitted && quota.align != Align::First
}

/// Returns the most units of a quota that are bought ahead: for gcra half the burst, because a bucket loses the units
/// that time adds while it is full.
fn bought_max(quota: &Quota) -> u64 {
    match quota.algorithm {
        Algorithm::Gcra { burst } => burst / 2,
        _ => quota.limit,
    }
}

/// The shortest interval at which gateways report what they counted.
pub const SYNC_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Fewest units that are held ahead: where a gateway may hold no more than one, the quota is exact.
const HELD_MIN: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_may_hold_is_its_part_of_the_overshoot_rounded_down() {
        for (limit, ppm, nodes, held) in [
            (30_000, 10_000, 3, 100),
            (1_000, 10_000, 3, 3),
            (1_000, 10_000, 10, 1),
            (1_000, 10_000, 0, 10),
            (7, 1_000_000, 2, 3),
            (1 << 52, 1_000_000, 1, (1 << 52) / 1_000_000 * 1_000_000),
        ] {
            assert_eq!(
                Overshoot(ppm).held_max(limit, nodes),
                held,
                "{limit} {ppm} {nodes}"
            );
        }
    }
}
