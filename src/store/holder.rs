//! Gateways of a fleet, as holders of units in flight.

use std::fmt;

use crate::chance;

/// Identifies a gateway of a fleet. The id is drawn when the process starts, so a gateway that is restarted, or that
/// takes over from another process, is a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatewayId(u64);

/// How many units in flight a gateway holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The gateway.
    pub gateway: GatewayId,
    /// Units in flight that it holds.
    pub units: u64,
}

impl GatewayId {
    /// Draws a random id.
    pub fn draw() -> Self {
        Self::new(chance::below(1 << BITS))
    }

    /// Makes an id from the low 52 bits of a number.
    pub const fn new(number: u64) -> Self {
        Self(number & ((1 << BITS) - 1))
    }

    /// Returns the id as a number that a double holds exactly.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Writes the id in hex digits.
impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013x}", self.0)
    }
}

/// Bits of an id: the most that a double holds exactly in whole hex digits.
const BITS: u32 = 52;
