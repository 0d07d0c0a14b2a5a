//! What a quota was charged.

use crate::clock::{Micros, Timestamp};

/// Where and when units were charged, and how many of them can still be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The time the decision was made at (what [`State::arrive`](super::State::arrive) returned), later than the store's by the
    /// partition's phase.
    pub at: Timestamp,
    /// Units charged less what came back before.
    pub amount: u64,
    /// Of gcra: how long after `at` the bucket would have been full without the charge.
    pub debt: Micros,
    /// Of gcra: how far releases had moved `tat` back by then, in µs modulo 2^52. Of a calendar: the number of the
    /// window.
    pub mark: u64,
}

impl Charged {
    /// Describes a charge by an algorithm whose state says the rest.
    pub fn plain(at: Timestamp, amount: u64) -> Self {
        Self {
            at,
            amount,
            debt: Micros(0),
            mark: 0,
        }
    }
}
