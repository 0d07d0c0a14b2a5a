//! in-flight: units that requests hold until they have been answered.
//!
//! State is the number of units held. Admit iff `held + cost <= limit`. No time brings a unit back.

use super::charged::Charged;
use super::quota::{Decision, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// How many units a client's requests hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight(u64);

impl InFlight {
    /// Restores the state in which `units` are held.
    pub fn new(units: u64) -> Self {
        Self(units)
    }
}

impl State for InFlight {
    fn arrive(&mut self, _quota: &Quota, now: Timestamp) -> Timestamp {
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, _at: Timestamp) -> bool {
        self.0.saturating_add(cost) <= quota.limit
    }

    fn charge(&mut self, _quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.0 = self.0.saturating_add(cost);
        Charged::plain(at, cost)
    }

    fn decision(&self, quota: &Quota, _cost: u64, _at: Timestamp, admit: bool) -> Decision {
        Decision {
            admit,
            remaining: quota.limit.saturating_sub(self.0),
            debt: 0,
            next: None,
            reset: Micros(0),
            retry: if admit { Retry::NOW } else { Retry::Never },
            wait: Micros(0),
        }
    }

    fn release(&mut self, _quota: &Quota, _charged: Charged, amount: u64, _at: Timestamp) {
        self.0 = self.0.saturating_sub(amount);
    }

    /// Units come back only from the requests that hold them.
    fn newest(&self, _quota: &Quota, at: Timestamp) -> Charged {
        Charged::plain(at, 0)
    }

    fn is_whole(&self, _quota: &Quota, _at: Timestamp) -> bool {
        self.0 == 0
    }
}
