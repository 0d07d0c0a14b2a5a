//! Calendar quotas: at most `limit` units per window of a calendar.
//!
//! State is the number of one window and the units used in it. Admit iff `used + cost <= limit`.

use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::charged::Charged;
use super::quota::{Algorithm, COUNT_MAX, Decision, Quota};
use super::state::State;
use crate::clock::Timestamp;

/// Units used in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalendarWindow {
    number: u32,
    used: u64,
}

impl CalendarWindow {
    /// Makes the state of the window with this number, of which `used` units are used.
    pub fn new(number: u32, used: u64) -> Self {
        Self { number, used }
    }

    /// Describes the charge of `cost` that was made last.
    pub fn latest_charge(&self, cost: u64, at: Timestamp) -> Charged {
        Charged {
            mark: self.number.into(),
            ..Charged::plain(at, cost)
        }
    }
}

impl State for CalendarWindow {
    fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        let calendar = calendar(quota);
        let current = calendar.current(now);
        if self.used > 0 && self.number > current.number {
            let next = calendar.windows(now).next;
            if self.number == next.number {
                return next.start;
            }
        }
        if self.number < current.number {
            self.used = 0;
        }
        self.number = current.number;
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, _at: Timestamp) -> bool {
        self.used.saturating_add(cost) <= quota.limit
    }

    fn charge(&mut self, _quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.used = self.used.saturating_add(cost).min(COUNT_MAX);
        self.latest_charge(cost, at)
    }

    fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        let to_end = calendar(quota).current(at).end.since(at);
        Decision::of_window(quota, self.used, to_end, cost, admit)
    }

    fn release(&mut self, _quota: &Quota, charged: Charged, amount: u64, _at: Timestamp) {
        if charged.mark == u64::from(self.number) {
            self.used = self.used.saturating_sub(amount);
        }
    }

    fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        if then.mark >= self.number.into() {
            self.spend(quota, amount, at);
        }
    }

    fn newest(&self, _quota: &Quota, at: Timestamp) -> Charged {
        self.latest_charge(self.used, at)
    }

    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        self.used == 0 || self.number < calendar(quota).current(at).number
    }
}

/// Returns a calendar quota's calendar.
fn calendar(quota: &Quota) -> &'static Calendar {
    match quota.algorithm {
        Algorithm::Calendar(calendar) => calendar,
        _ => unreachable!("only calendar quotas have such states"),
    }
}
