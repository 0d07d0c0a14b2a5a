//! The states of a walk along a document, and the bytes that it distinguishes.

use super::tree::NodeId;

/// What the walk expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A document, or the end of the body.
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
    /// The rest of a string that is read as a text.
    InText,
    InString(StringIs),
    InSkipped,
    /// The first byte of a member's value, which shows whether the value is empty.
    First(MemberBegin),
    /// Nothing, because the document is broken, until the next one begins.
    Broken,
}

/// What a skipped string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringIs {
    PointerKey,
    Value,
    PartOfSkipped,
}

/// How the value of a member has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberBegin {
    Object,
    Array,
    Skipped,
    String,
}

/// An open container.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    Object(NodeId),
    Array(NodeId, u32),
}

/// Skips white space, which few tokens have before them; any other byte breaks the document.
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

/// The bytes that numbers and literals consist of.
const OF_SCALAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < u8::MAX {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        byte += 1;
    }
    table
};
