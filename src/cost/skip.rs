//! Finds the ends of values that are not looked into; most bytes of a body pass through here.

use memchr::memchr2;

use super::tree::bits;

/// How far a container has been skipped.
pub(super) enum Skipped {
    /// The piece has ended within the container.
    More,
    /// The piece has ended within a string of the container, right after a backslash if `is_escaped`.
    InString { is_escaped: bool },
    /// The container has ended before this position.
    ToEnd(usize),
    /// The document is broken: there is a backslash outside of a string at this position.
    Broken(usize),
}

/// Skips the rest of `depth` nested containers. Only strings and brackets are looked at.
pub(super) fn container(bytes: &[u8], depth: &mut u64) -> Skipped {
    // Many containers are short, and a block takes as long as some ten single bytes.
    let near = bytes
        .iter()
        .take(NEAR)
        .take_while(|byte| !matches!(byte, b'"' | b'\\'));
    let mut at = 0;
    for byte in near {
        at += 1;
        match byte {
            b'[' | b'{' => *depth += 1,
            b']' | b'}' if *depth == 1 => return Skipped::ToEnd(at),
            b']' | b'}' => *depth -= 1,
            _ => {}
        }
    }
    while at < bytes.len() {
        let block = SkippedBlock::of(&bytes[at..]);
        if u64::from(block.closes.count_ones()) < *depth {
            *depth += u64::from(block.opens.count_ones());
            *depth -= u64::from(block.closes.count_ones());
        } else {
            for bracket in bits(block.opens | block.closes) {
                if block.opens >> bracket & 1 != 0 {
                    *depth += 1;
                } else if *depth == 1 {
                    return Skipped::ToEnd(at + bracket + 1);
                } else {
                    *depth -= 1;
                }
            }
        }
        at += block.length;
        if block.ends_in_string {
            let mut is_escaped = false;
            let Some(rest) = string(&bytes[at..], &mut is_escaped) else {
                return Skipped::InString { is_escaped };
            };
            at = bytes.len() - rest.len();
        } else if bytes.get(at) == Some(&b'\\') {
            return Skipped::Broken(at);
        }
    }
    Skipped::More
}

/// Returns what follows the closing quotation mark of a string; `None` if the piece ends before it. `is_escaped` says
/// whether a backslash precedes the piece, and afterwards whether one ends it.
pub(super) fn string<'b>(mut bytes: &'b [u8], is_escaped: &mut bool) -> Option<&'b [u8]> {
    loop {
        if *is_escaped {
            bytes = bytes.split_first()?.1;
            *is_escaped = false;
        }
        let at = quote_or_backslash(bytes)?;
        *is_escaped = bytes[at] == b'\\';
        bytes = &bytes[at + 1..];
        if !*is_escaped {
            return Some(bytes);
        }
    }
}

/// Finds the quotation mark or backslash that ends a run of plain bytes in a string.
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    // After one, the next is often near, and a search costs more to begin than looking at a few bytes.
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let found = near.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    found.or_else(|| Some(memchr2(b'"', b'\\', far)? + near.len()))
}

/// The brackets outside of strings in a block of bytes, which are looked at together.
struct SkippedBlock {
    /// Where containers open and close, one bit for each byte.
    opens: u64,
    closes: u64,
    /// How many bytes of the block count: those before the first backslash.
    length: usize,
    ends_in_string: bool,
}

impl SkippedBlock {
    /// Looks at the first [`BLOCK`] bytes of a text that begins outside of a string.
    fn of(bytes: &[u8]) -> Self {
        let mut padded = [0; BLOCK];
        let block = bytes.first_chunk().unwrap_or_else(|| {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        });
        let (mut quotes, mut backslashes, mut opens, mut closes) = (0, 0, 0, 0);
        for (at, word) in block.as_chunks().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // Square and curly brackets differ in one bit.
            let curly = word | (LOW_BITS << 5);
            quotes |= equal(word, b'"') << (8 * at);
            backslashes |= equal(word, b'\\') << (8 * at);
            opens |= equal(curly, b'{') << (8 * at);
            closes |= equal(curly, b'}') << (8 * at);
        }
        // The bits below the first backslash.
        let plain = backslashes.wrapping_sub(1) & !backslashes;
        // Each bit becomes the parity of itself and all lower bits.
        let mut in_string = quotes & plain;
        for shift in [1, 2, 4, 8, 16, 32] {
            in_string ^= in_string << shift;
        }
        let ends_in_string = in_string >> 63 != 0;
        Self {
            opens: opens & plain & !in_string,
            closes: closes & plain & !in_string,
            length: bytes.len().min(backslashes.trailing_zeros() as usize),
            ends_in_string,
        }
    }
}

/// Returns which bytes of a word are equal to `byte`, one bit each.
fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ (LOW_BITS * u64::from(byte));
    let low_bits = LOW_BITS * 0x7F;
    // The highest bit of each byte becomes 1 if any of its bits is 1, so if the byte differs.
    let differs = ((difference & low_bits) + low_bits) | difference;
    // Gathers the highest bits of all bytes in the highest byte.
    ((!differs >> 7) & LOW_BITS).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Bytes that are looked at together, one for each bit of a word.
const BLOCK: usize = 64;

/// The lowest bit of each byte of a word.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Bytes that are looked at one by one before a faster way is taken.
const NEAR: usize = 16;
