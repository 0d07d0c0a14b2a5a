//! Finds the ends of what is not looked into: most bytes of a body pass through here.

use memchr::memchr2;

/// How far a value has been skipped.
pub(super) enum Skipped {
    /// The piece has ended within it.
    More,
    /// To behind the opening quotation mark of a string.
    ToString(usize),
    /// To its end.
    ToEnd(usize),
}

/// Skips the rest of a value in which `depth` containers are open. A container ends behind its last
/// bracket, anything else before a comma or a bracket. Only strings and brackets are looked at.
pub(super) fn value(bytes: &[u8], depth: &mut u64) -> Skipped {
    let mut at = 0;
    while at < bytes.len() {
        let block = bytes[at..].first_chunk();
        if let Some(change) = block.and_then(|block| depth_change(block, *depth)) {
            *depth = depth.saturating_add_signed(change);
            at += BLOCK;
            continue;
        }
        let end = bytes.len().min(at + BLOCK);
        while at < end {
            match (bytes[at], *depth) {
                (b'"', _) => return Skipped::ToString(at + 1),
                (b'[' | b'{', _) => *depth += 1,
                (b']' | b'}' | b',', 0) => return Skipped::ToEnd(at),
                (b']' | b'}', 1) => return Skipped::ToEnd(at + 1),
                (b']' | b'}', _) => *depth -= 1,
                _ => {}
            }
            at += 1;
        }
    }
    Skipped::More
}

/// Returns what is behind the closing quotation mark of a string; none if the piece ends before.
/// `is_escaped` says whether a backslash stands before the piece.
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

/// Finds what ends a run of a string's plain bytes.
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    // Where there is one, the next is often near, and a search costs more to begin than a few bytes.
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let found = near.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    found.or_else(|| Some(memchr2(b'"', b'\\', far)? + near.len()))
}

/// By how much a block changes the depth, all bytes at once; none if it has to be looked at one by
/// one, because it has a string, or may have the value's end.
fn depth_change(block: &[u8; BLOCK], depth: u64) -> Option<i64> {
    let count = |is: fn(u8) -> bool| block.iter().map(|byte| u8::from(is(*byte))).sum::<u8>();
    // Square and curly brackets differ in this bit.
    let (opens, closes) = (count(|it| it | 0x20 == b'{'), count(|it| it | 0x20 == b'}'));
    let is_plain = count(|it| it == b'"') == 0 && depth > u64::from(closes);
    is_plain.then(|| i64::from(opens) - i64::from(closes))
}

/// Bytes that are looked at together.
const BLOCK: usize = 32;

/// Bytes of a string that are looked at one by one.
const NEAR: usize = 8;
