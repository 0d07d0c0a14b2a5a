//! Chance, so that many do not all do the same at one moment.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Draws a number from 0 up to, but not including, 1.
pub(crate) fn fraction() -> f64 {
    let [a, b, c, d, ..] = draw().to_le_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

/// Draws a whole number from 0 up to, but not including, `bound`, which is not 0.
pub(crate) fn below(bound: u64) -> u64 {
    // So far below 2^64 that it does not matter which remainders are a little more likely.
    draw() % bound
}

/// Draws 128 bits.
pub(crate) fn bytes() -> [u8; 16] {
    let both = u128::from(draw()) << 64 | u128::from(draw());
    both.to_le_bytes()
}

/// Draws 64 bits. It makes no system call, and nobody can tell the next draw from earlier ones.
fn draw() -> u64 {
    RandomState::new().build_hasher().finish()
}
