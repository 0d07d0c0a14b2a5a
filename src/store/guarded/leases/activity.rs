//! How much a client spent in the last second.

use crate::clock::{Micros, Timestamp};

/// Requests and their units, in two consecutive seconds of the clock. The older one counts in proportion to the part of
/// it that is still within the last second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// The number of the newer second.
    second: u64,
    newer: Spending,
    older: Spending,
}

/// Requests, and the units that they spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spending {
    pub(super) requests: u64,
    pub(super) units: u64,
}

impl Activity {
    /// Notes a request.
    pub(super) fn note(&mut self, units: u64, now: Timestamp) {
        let second = now.0 / SECOND.0;
        if second > self.second {
            self.older = if second == self.second + 1 {
                self.newer
            } else {
                Spending::default()
            };
            (self.second, self.newer) = (second, Spending::default());
        }
        self.newer.requests += 1;
        self.newer.units = self.newer.units.saturating_add(units);
    }

    /// Takes back a request, if it was noted in the current second of the clock.
    pub(super) fn take_back(&mut self, units: u64, now: Timestamp) {
        if now.0 / SECOND.0 == self.second {
            self.newer.requests = self.newer.requests.saturating_sub(1);
            self.newer.units = self.newer.units.saturating_sub(units);
        }
    }

    /// Returns what was spent in the last second.
    pub(super) fn last_second(&self, now: Timestamp) -> Spending {
        let elapsed = (now.0 / SECOND.0).saturating_sub(self.second);
        let inside = SECOND.0 - now.0 % SECOND.0;
        let part = |units: u64| {
            let units = u128::from(units) * u128::from(inside) / u128::from(SECOND.0);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        let (whole, ending) = match elapsed {
            0 => (self.newer, self.older),
            1 => (Spending::default(), self.newer),
            _ => return Spending::default(),
        };
        Spending {
            requests: whole.requests + part(ending.requests),
            units: whole.units.saturating_add(part(ending.units)),
        }
    }

    /// Says whether no noted request is within the last second any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        (now.0 / SECOND.0).saturating_sub(self.second) > 1
    }
}

const SECOND: Micros = Micros::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_is_the_newer_one_and_a_part_of_the_older_one() {
        let mut activity = Activity::default();
        let at = |ms: u64| Timestamp(1_700_000_000_000_000 + ms * 1_000);
        let spent = |activity: &Activity, ms| {
            let spent = activity.last_second(at(ms));
            (spent.requests, spent.units)
        };
        for _ in 0..10 {
            activity.note(3, at(400));
        }
        assert_eq!(spent(&activity, 900), (10, 30));
        assert_eq!(spent(&activity, 1_500), (5, 15));
        activity.note(4, at(1_500));
        assert_eq!(spent(&activity, 1_500), (6, 19));
        activity.note(9, at(1_600));
        activity.take_back(9, at(1_700));
        activity.take_back(9, at(2_000));
        assert_eq!(spent(&activity, 2_750), (0, 1));
        assert!(!activity.is_over(at(2_999)) && activity.is_over(at(3_000)));
        assert_eq!(spent(&activity, 3_000), (0, 0));
        activity.note(1, at(9_000));
        assert_eq!(spent(&activity, 9_000), (1, 1));
    }
}
