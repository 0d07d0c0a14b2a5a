//! Where a walk along a document stands, and which bytes it goes by.

use super::tree::NodeId;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A document, or nothing.
    Document,
    /// Blanks, or the end of the line on which a document has ended.
    LineEnd,
    Value,
    ElementOrEnd,
    KeyOrEnd,
    PointerKey,
    Colon,
    CommaOrEnd,
    InKey,
    InScalar,
    /// A string that is read.
    InText,
    InString(StringIs),
    InSkipped,
    /// What tells whether a member is more than nothing.
    First(MemberBegin),
    /// Nothing, until the next document begins.
    Broken,
}

/// What a string is that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringIs {
    PointerKey,
    Value,
    PartOfSkipped,
}

/// How a member has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberBegin {
    Object,
    Array,
    Skipped,
    String,
}

/// A container that is open.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    Object(NodeId),
    Array(NodeId, u32),
}

/// Goes on behind white space, which few tokens have before them; anything else breaks the document.
pub(super) fn other(next: Next, bytes: &[u8]) -> (Next, &[u8]) {
    match bytes.iter().position(|byte| !is_blank(*byte)) {
        Some(0) => (Next::Broken, &bytes[1..]),
        Some(at) => (next, &bytes[at..]),
        None => (next, &[]),
    }
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

pub(super) fn is_of_scalar(byte: u8) -> bool {
    OF_SCALAR[usize::from(byte)]
}

/// The bytes of numbers and literals.
const OF_SCALAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < u8::MAX {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        byte += 1;
    }
    table
};
