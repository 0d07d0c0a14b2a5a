//! What a quota was charged.

use crate::clock::{Micros, Timestamp};

/// Where and when units were charged, and how many of them can still be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// Time at which the decision was made, as [`State::arrive`](super::State::arrive) returned it: ahead of the
    /// store's by the partition's phase.
    pub at: Timestamp,
    /// Units charged, less those that came back before.
    pub amount: u64,
    /// For gcra: how long after `at` the bucket would have been full again without the charge.
    pub debt: Micros,
    /// For gcra: how far releases had moved `tat` back by then, in µs modulo 2^52. For a calendar: the window's number.
    pub mark: u64,
}

impl Charged {
    /// Describes a charge of an algorithm that needs only its time and amount.
    pub fn plain(at: Timestamp, amount: u64) -> Self {
        Self {
            at,
            amount,
            debt: Micros(0),
            mark: 0,
        }
    }
}
