//! Characters that no URL may hold, and that clients send as they are.
//!
//! In a request's target, they are `"`, `<`, `>` and a backtick, and in its query also bytes above 0x7f. The parser
//! refuses some of them, without saying what was requested, and lets others pass as they are. So they are escaped
//! before it reads them, and what is matched is what is forwarded.

/// Whether a piece of a request line, of which `before` has come already, has a character that must be escaped.
pub(super) fn has_raw(before: &[u8], piece: &[u8]) -> bool {
    // Almost no piece has one anywhere, so this looks at all bytes without a branch, many at once.
    let any = piece.iter().fold(false, |any, &byte| any | is_raw(byte));
    any && has_raw_target(before, piece)
}

#[cold]
fn has_raw_target(before: &[u8], piece: &[u8]) -> bool {
    let mut place = RequestLinePart::behind(before);
    piece.iter().any(|&byte| place.escapes(byte))
}

/// Returns `bytes` with these characters escaped in their first line, of which `before` has come already.
#[cold]
pub(super) fn escaped(before: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = RequestLinePart::behind(before);
    for &byte in bytes {
        if place.escapes(byte) {
            let digit = |nibble: u8| HEX_DIGITS[usize::from(nibble)];
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(byte);
        }
    }
    out
}

/// Where the next byte of a request line belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestLinePart {
    Method,
    Path,
    Query,
    Behind,
}

impl RequestLinePart {
    fn behind(before: &[u8]) -> Self {
        let mut place = Self::Method;
        for &byte in before {
            place.escapes(byte);
        }
        place
    }

    /// Returns whether a byte is to be escaped, and moves on.
    fn escapes(&mut self, byte: u8) -> bool {
        *self = match (*self, byte) {
            (Self::Method, b' ') => Self::Path,
            (_, b'\n') | (Self::Path | Self::Query, b' ') => Self::Behind,
            (Self::Path, b'?') => Self::Query,
            (place, _) => place,
        };
        match *self {
            Self::Query => is_raw(byte),
            // UTF-8 in a path is escaped where paths are normalised, and other bytes above 0x7f are refused.
            Self::Path => is_raw(byte) && byte.is_ascii(),
            Self::Method | Self::Behind => false,
        }
    }
}

fn is_raw(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`' | 0x80..)
}

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
