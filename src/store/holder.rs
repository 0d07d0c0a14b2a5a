//! Gateways of a fleet, as holders of units in flight.

use std::fmt;

use crate::chance;

/// Names a gateway of a fleet: drawn when its process starts, so one that is restarted, or that another process hands
/// over to, is another gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatewayId(u64);

/// How many units in flight a gateway holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The gateway.
    pub gateway: GatewayId,
    /// The units.
    pub units: u64,
}

impl GatewayId {
    /// Draws an id.
    pub fn draw() -> Self {
        Self::new(chance::below(1 << BITS))
    }

    /// Makes an id of the low bits of a number.
    pub const fn new(number: u64) -> Self {
        Self(number & ((1 << BITS) - 1))
    }

    /// Returns the id as a number, which a double holds.
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

/// Bits of an id: what a double holds in whole hex digits.
const BITS: u32 = 52;
