//! penalty: a client that was refused is refused for a time.
//!
//! State is the end and the length of the last penalty. Admit iff it is over. A plan charges it when another quota of
//! the same policy refuses; this begins a new penalty, unless one is still running.

use serde::{Deserialize, Serialize};

use super::charged::Charged;
use super::quota::{Algorithm, COUNT_MAX, Decision, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// A client's last penalty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Penalty {
    end: Timestamp,
    length: Micros,
}

impl Penalty {
    /// Makes the state of a penalty that is or was `length` long and ends or ended at `end`.
    pub fn new(end: Timestamp, length: Micros) -> Self {
        Self { end, length }
    }

    /// Returns how long a penalty is that begins at `at`.
    fn next_length(&self, quota: &Quota, at: Timestamp) -> Micros {
        let (length, growth) = terms(quota);
        let is_further = growth > 1 && self.length > Micros(0) && at.since(self.end) < DAY;
        if !is_further {
            return length;
        }
        let grown = self.length.0.saturating_mul(growth.into());
        Micros(grown.min(DAY.max(length).0)).max(length)
    }
}

impl State for Penalty {
    /// A clock that steps back makes no penalty longer than it was.
    fn arrive(&mut self, _quota: &Quota, now: Timestamp) -> Timestamp {
        self.end = self.end.min(now + self.length);
        now
    }

    fn admits(&self, _quota: &Quota, _cost: u64, at: Timestamp) -> bool {
        self.end <= at
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        if cost > 0 && self.end <= at {
            self.length = self.next_length(quota, at);
            self.end = at + self.length;
        }
        Charged::plain(at, cost)
    }

    /// The admission is ignored: the state says whether a penalty runs after the step.
    fn decision(&self, quota: &Quota, _cost: u64, at: Timestamp, _admit: bool) -> Decision {
        let left = self.end.since(at);
        let is_over = left == Micros(0);
        Decision {
            admit: is_over,
            remaining: if is_over { quota.limit } else { 0 },
            debt: 0,
            next: (!is_over).then_some(left),
            reset: left,
            retry: Retry::After(left),
            wait: Micros(0),
        }
    }

    fn release(&mut self, _quota: &Quota, _charged: Charged, _amount: u64, _at: Timestamp) {}

    fn newest(&self, _quota: &Quota, at: Timestamp) -> Charged {
        Charged::plain(at, 0)
    }

    fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        let remembered = if terms(quota).1 > 1 { DAY } else { Micros(0) };
        self.end + remembered <= at
    }
}

impl Quota {
    /// Makes a penalty of this length; each further one within a day is `growth` times as long as the last.
    pub fn penalty(length: Micros, growth: u32) -> Self {
        Self {
            limit: COUNT_MAX,
            window: Micros(0),
            algorithm: Algorithm::Penalty { length, growth },
            count: super::Count::Admitted,
            align: super::Align::Epoch,
            can_come_back: false,
        }
    }
}

/// Returns how long a first penalty is, and how many times as long each further one is.
fn terms(quota: &Quota) -> (Micros, u32) {
    match quota.algorithm {
        Algorithm::Penalty { length, growth } => (length, growth),
        _ => unreachable!("only penalties have such states"),
    }
}

/// How long after its end a penalty makes the next one longer, and the length up to which penalties grow.
const DAY: Micros = Micros::from_secs(86_400);
