//! Random numbers, mostly to spread out what would otherwise happen at the same moment.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Draws a number from 0 up to, but not including, 1.
pub(crate) fn fraction() -> f64 {
    let [a, b, c, d, ..] = draw().to_le_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

/// Draws a whole number from 0 up to, but not including, `bound`, which is not 0.
pub(crate) fn below(bound: u64) -> u64 {
    // Bounds are far below 2^64, so that some remainders are a little more likely does not matter.
    draw() % bound
}

/// Draws 128 bits, as hex digits.
pub(crate) fn hex_digits() -> [u8; 32] {
    let mut digits = [0; 32];
    let drawn = [draw().to_le_bytes(), draw().to_le_bytes()];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(drawn.as_flattened()) {
        pair.copy_from_slice(&HEX[usize::from(*byte)]);
    }
    digits
}

/// Draws 64 bits without a system call. The next draw cannot be predicted from earlier ones.
fn draw() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The two hex digits of each byte.
static HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    pairs
};
