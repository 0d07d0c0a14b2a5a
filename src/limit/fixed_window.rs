//! fixed-window: at most `limit` units per window, aligned to the epoch or begun by a partition's first unit.
//!
//! State is the units used in one window and that window's start. Admit iff `used + cost <= limit`.

use serde::{Deserialize, Serialize};

use super::charged::Charged;
use super::quota::{Align, COUNT_MAX, Decision, Quota};
use super::state::State;
use crate::clock::Timestamp;

/// Units used in the window that begins at `start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedWindow {
    start: Timestamp,
    used: u64,
}

impl FixedWindow {
    /// Makes the state of a window that begins at `start` and of which `used` units are used.
    pub fn new(start: Timestamp, used: u64) -> Self {
        Self { start, used }
    }

    /// Describes the charge of `cost` made last, at `at`. A window that is not aligned is identified by its start.
    pub fn latest_charge(&self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        match quota.align {
            Align::First => Charged::plain(self.start, cost),
            Align::Epoch | Align::Spread => Charged::plain(at, cost),
        }
    }

    /// Returns the start of the window in which a unit that is spent at `at` counts.
    fn window_start(&self, quota: &Quota, at: Timestamp) -> Timestamp {
        match quota.align {
            Align::First if self.start <= at && at < self.start + quota.window => self.start,
            Align::First => at,
            Align::Epoch | Align::Spread => aligned(quota, at),
        }
    }
}

impl State for FixedWindow {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        if self.used == 0 {
            self.start = match quota.align {
                Align::First => now,
                Align::Epoch | Align::Spread => aligned(quota, now),
            };
            return now;
        }
        let current = self.window_start(quota, now);
        if self.start > now {
            if self.start.since(now) <= quota.window {
                return self.start;
            }
            self.start = current;
        } else if self.start < current {
            *self = Self {
                start: current,
                used: 0,
            };
        }
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, _at: Timestamp) -> bool {
        self.used.saturating_add(cost) <= quota.limit
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.used = self.used.saturating_add(cost).min(COUNT_MAX);
        self.latest_charge(quota, cost, at)
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        let to_end = (self.start + quota.window).since(at);
        Decision::of_window(quota, self.used, to_end, cost, admit)
    }

    fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, _at: Timestamp) {
        let is_of_this = match quota.align {
            Align::First => charged.at == self.start,
            Align::Epoch | Align::Spread => aligned(quota, charged.at) == self.start,
        };
        if is_of_this {
            self.used = self.used.saturating_sub(amount);
        }
    }

    fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        if then.at >= self.start {
            self.spend(quota, amount, at);
        }
    }

    fn newest(&self, _quota: &Quota, _at: Timestamp) -> Charged {
        Charged::plain(self.start, self.used)
    }

    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        self.used == 0 || self.start + quota.window <= at
    }
}

fn aligned(quota: &Quota, at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0 % quota.window.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;
    use crate::limit::Algorithm;

    const TEN_A_SECOND: Quota = Quota::of(Algorithm::FixedWindow, 10, Micros(1_000_000));

    #[test]
    fn absurd_spend_saturates() {
        let mut window = FixedWindow::default();
        let at = window.arrive(&TEN_A_SECOND, Timestamp(1_500_000));
        window.spend(&TEN_A_SECOND, u64::MAX, at);
        window.spend(&TEN_A_SECOND, u64::MAX, at);
        let start = Timestamp(1_000_000);
        assert_eq!(
            window,
            FixedWindow {
                start,
                used: COUNT_MAX
            }
        );
    }
}
