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

/// Draws 128 bits, as hex digits.
pub(crate) fn hex_digits() -> [u8; 32] {
    let halves = [draw(), draw()];
    std::array::from_fn(|at| {
        let digit = halves[at / 16] >> (60 - at % 16 * 4) & 0xf;
        b"0123456789abcdef"[digit as usize]
    })
}

/// Draws 64 bits. It makes no system call, and nobody can tell the next draw from earlier ones.
fn draw() -> u64 {
    RandomState::new().build_hasher().finish()
}
