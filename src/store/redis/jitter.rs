//! Chance, so that the workers of a fleet do not all do the same at one moment.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Draws a number from 0 up to, but not including, 1.
pub(super) fn fraction() -> f64 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}
