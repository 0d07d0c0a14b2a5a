//! Finds the ends of what is not looked into: most bytes of a body pass through here.

use memchr::memchr2;

/// How far a container has been skipped.
pub(super) enum Skipped {
    /// The piece has ended within it.
    More,
    /// The piece has ended within a string of it, behind a backslash or not.
    InString { is_escaped: bool },
    /// To its end.
    ToEnd(usize),
}

/// Skips the rest of a container, of which `depth` are open. Only strings and brackets are looked at.
pub(super) fn container(bytes: &[u8], depth: &mut u64) -> Skipped {
    let mut at = 0;
    // From where on a block is looked at: behind a string there is often another.
    let mut block_at = 0;
    loop {
        if at >= block_at {
            while let Some(block) = bytes[at..].first_chunk()
                && let Some(change) = depth_change(block, *depth)
            {
                *depth = depth.saturating_add_signed(change);
                at += BLOCK;
            }
            block_at = at + BLOCK;
        }
        let near = &bytes[at..bytes.len().min(block_at)];
        let Some(found) = near.iter().position(|byte| ENDS_RUN[usize::from(*byte)]) else {
            at += near.len();
            if at == bytes.len() {
                return Skipped::More;
            }
            continue;
        };
        at += found + 1;
        match (bytes[at - 1], *depth) {
            (b'"', _) => {
                let mut is_escaped = false;
                let Some(rest) = string(&bytes[at..], &mut is_escaped) else {
                    return Skipped::InString { is_escaped };
                };
                at = bytes.len() - rest.len();
                block_at = at + BLOCK;
            }
            (b'[' | b'{', _) => *depth += 1,
            (_, 1) => return Skipped::ToEnd(at),
            _ => *depth -= 1,
        }
    }
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
const NEAR: usize = 16;

/// The bytes that say something of a container that is skipped.
const ENDS_RUN: [bool; 256] = {
    let mut table = [false; 256];
    let ends = b"\"[]{}";
    let mut at = 0;
    while at < ends.len() {
        table[ends[at] as usize] = true;
        at += 1;
    }
    table
};
