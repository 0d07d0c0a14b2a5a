//! One normalised path, for matching and for forwarding.
//!
//! A path is normalised once, before its route is looked up, and the origin gets exactly what was matched unless its
//! route changes that ([`target`](super::target)), so no spelling of a path slips past its policies. Dot segments are
//! resolved (encoded dots too), then repeated slashes are merged, unreserved characters are decoded, other escapes are
//! put in upper case, and characters that a path may not have unencoded (`"`, `|`, `é`) are encoded. Nothing is decoded
//! twice: `%252e` stays `%252e`.
//!
//! `..` removes an empty segment like any other, as in RFC 3986, section 5.2.4, and in browsers: `/a//../b` is `/a/b`.
//! Some origins merge slashes first and would find `/b`, but the path that they get has neither dot segments nor
//! repeated slashes.
//!
//! | in the path | |
//! | --- | --- |
//! | `%2F`, `%5C` | kept encoded and reported; only a route that keeps encoded slashes takes them, and only if they hide no other route's path |
//! | `\`, `%00`, `%` without two hex digits | refused |
//! | control characters, space, `?`, `#` as they are | refused; if encoded, kept encoded |
//! | `..;x`, `..%3Bx`, `..%2Fx` and the like | refused: origins disagree on whether they lead upwards |
//! | a last `/` | kept for the origin, ignored by the router |
//!
//! RFC 3986 does not equate `%3A` with `:`, so each is forwarded as it came. Most origins do equate
//! them, so the router compares spellings in which they are the same. The query is not touched
//! here.

use std::borrow::Cow;

/// A path in the one spelling that is matched: ASCII, and beginning with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalised<'p> {
    text: Cow<'p, str>,
    sent: &'p str,
    encoded_slash: bool,
    raw: bool,
}

impl<'p> Normalised<'p> {
    /// Returns the path's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the path as it was sent.
    pub fn sent(&self) -> &'p str {
        self.sent
    }

    /// Whether the path came with an unencoded character that a path may not have, and that has been encoded.
    pub fn had_raw(&self) -> bool {
        self.raw
    }

    /// Whether the path came with an encoded slash or backslash, which its route must keep or refuse.
    pub fn has_encoded_slash(&self) -> bool {
        self.encoded_slash
    }
}

/// Why a path is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// The path does not begin with `/`.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// A `%` is not followed by two hex digits.
    #[error("the path has a % without two hex digits")]
    Escape,
    /// A control character, space, `?` or `#` is not encoded.
    #[error("the path has a character that must be percent-encoded")]
    Character,
    /// A backslash is not encoded.
    #[error("the path has a backslash")]
    Backslash,
    /// The path has a NUL, encoded or not.
    #[error("the path has a NUL")]
    Nul,
    /// The path would be too long for a target once normalised.
    #[error("the path is too long once normalised")]
    Length,
    /// A dot segment is disguised by an encoded slash or a parameter: `..%2Fx`, `..;x`.
    #[error("the path hides a dot segment behind an encoded slash or a `;`")]
    DotSegment,
}

/// Normalises `path`; borrows it if it is normal already. Normalising the result changes nothing.
pub fn normalise(path: &str) -> Result<Normalised<'_>, BadPath> {
    let scan = Scan::of(path.as_bytes())?;
    Ok(Normalised {
        text: if scan.normal {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(rewrite(path.as_bytes())?)
        },
        sent: path,
        encoded_slash: scan.encoded_slash,
        raw: scan.raw,
    })
}

/// Spells the characters of a path as its normal form does, but keeps the segments that the normal form leaves out. The
/// path must be one that [`normalise`] accepts.
pub(super) fn with_all_segments(sent: &str) -> String {
    let mut out = Vec::with_capacity(sent.len());
    for segment in sent.as_bytes()[1..].split(|&byte| byte == b'/') {
        out.push(b'/');
        push_normal(segment, &mut out);
    }
    String::from_utf8(out).expect("only ASCII was pushed")
}

/// Decodes the characters that RFC 3986 distinguishes from their escapes but most origins do not (`!$&'()*+,;=:@`), so
/// that `%3A` and `:` compare equal. `path` is a normalised path or a part of one. Slashes stay encoded, so segments do
/// not change.
pub(super) fn comparable(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    // Most paths have no escape at all, which is quicker to check.
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let Some(first) = (0..bytes.len()).find(|&at| decodes_for_comparing(bytes, at)) else {
        return Cow::Borrowed(path);
    };
    let mut text = String::with_capacity(path.len());
    text.push_str(&path[..first]);
    let mut at = first;
    while at < bytes.len() {
        if decodes_for_comparing(bytes, at) {
            text.extend(escaped(bytes, at).map(char::from));
            at += ESCAPE_LEN;
        } else {
            text.push(char::from(bytes[at]));
            at += 1;
        }
    }
    Cow::Owned(text)
}

/// Returns the position in `path` of the byte at `offset` of its comparable spelling.
pub(super) fn offset_in(path: &str, offset: usize) -> usize {
    let bytes = path.as_bytes();
    (0..offset).fold(0, |at, _| {
        at + if decodes_for_comparing(bytes, at) {
            ESCAPE_LEN
        } else {
            1
        }
    })
}

/// Returns a normalised path as seen by an origin that takes encoded slashes and backslashes for slashes, and merges
/// slashes.
pub(super) fn with_slashes_decoded(path: &str) -> String {
    merged(&path.replace("%2F", "/").replace("%5C", "/"))
}

/// Merges repeated slashes.
pub(super) fn merged(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !text.ends_with('/') {
            text.push(letter);
        }
    }
    text
}

/// Removes a last slash, which makes no difference to the router; `/` becomes empty.
pub(super) fn without_last_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

fn decodes_for_comparing(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b'%'
        && escaped(bytes, at)
            .is_some_and(|byte| CLASSES[usize::from(byte)] == Class::Plain && !is_unreserved(byte))
}

/// What one scan of a path finds.
struct Scan {
    normal: bool,
    encoded_slash: bool,
    raw: bool,
}

impl Scan {
    fn of(path: &[u8]) -> Result<Self, BadPath> {
        if path.first() != Some(&b'/') {
            return Err(BadPath::NotAbsolute);
        }
        let mut scan = Self {
            normal: true,
            encoded_slash: false,
            raw: false,
        };
        let (mut segment, mut at) = (1, 1);
        while at < path.len() {
            match CLASSES[usize::from(path[at])] {
                Class::Plain => at += 1,
                Class::Slash => {
                    scan.normal &= PathSegment::of(&path[segment..at])? == PathSegment::Name;
                    at += 1;
                    segment = at;
                }
                Class::Percent => {
                    scan.escape(path, at)?;
                    at += ESCAPE_LEN;
                }
                Class::Encode => {
                    scan.normal = false;
                    scan.raw = true;
                    at += 1;
                }
                Class::Refuse => return Err(BadPath::Character),
                Class::Backslash => return Err(BadPath::Backslash),
                Class::Nul => return Err(BadPath::Nul),
            }
        }
        scan.normal &= matches!(
            PathSegment::of(&path[segment..])?,
            PathSegment::Name | PathSegment::Empty
        );
        Ok(scan)
    }

    fn escape(&mut self, path: &[u8], at: usize) -> Result<(), BadPath> {
        let byte = escaped(path, at).ok_or(BadPath::Escape)?;
        match byte {
            0 => return Err(BadPath::Nul),
            b'/' | b'\\' => self.encoded_slash = true,
            _ => {}
        }
        let digits = &path[at + 1..at + ESCAPE_LEN];
        self.normal &= !is_unreserved(byte) && !digits.iter().any(u8::is_ascii_lowercase);
        Ok(())
    }
}

/// Returns the normal form of a path that [`Scan::of`] has accepted.
fn rewrite(path: &[u8]) -> Result<String, BadPath> {
    let mut out = Vec::with_capacity(path.len());
    let mut last = PathSegment::Empty;
    for segment in path[1..].split(|&byte| byte == b'/') {
        let start = out.len();
        out.push(b'/');
        push_normal(segment, &mut out);
        last = PathSegment::of(&out[start + 1..])?;
        if matches!(last, PathSegment::Here | PathSegment::Up) {
            out.truncate(start);
        }
        if last == PathSegment::Up {
            let parent = out.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            out.truncate(parent);
        }
    }
    if matches!(last, PathSegment::Here | PathSegment::Up) {
        out.push(b'/');
    }
    out.dedup_by(|slash, before| (*slash, *before) == (b'/', b'/'));
    Ok(String::from_utf8(out).expect("only ASCII was pushed"))
}

fn push_normal(segment: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < segment.len() {
        let raw = segment[at];
        let byte = if raw == b'%' {
            at += ESCAPE_LEN - 1;
            escaped(segment, at + 1 - ESCAPE_LEN).expect("the scan refuses other escapes")
        } else {
            raw
        };
        at += 1;
        let stays = if raw == b'%' {
            is_unreserved(byte)
        } else {
            CLASSES[usize::from(byte)] == Class::Plain
        };
        if stays {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX_DIGITS[usize::from(nibble)];
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// What a segment does to the path before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathSegment {
    Empty,
    Here,
    Up,
    Name,
}

impl PathSegment {
    fn of(segment: &[u8]) -> Result<Self, BadPath> {
        match segment {
            b"" => Ok(Self::Empty),
            b"." => Ok(Self::Here),
            b".." => Ok(Self::Up),
            _ if is_dot_segment_in_disguise(segment) => Err(BadPath::DotSegment),
            _ => Ok(Self::Name),
        }
    }
}

/// Whether an origin that decodes slashes or cuts off parameters would see a dot segment.
fn is_dot_segment_in_disguise(segment: &[u8]) -> bool {
    if segment[0] != b'.' && !segment.contains(&b'%') {
        return false;
    }
    let mut piece = 0;
    (0..=segment.len()).any(|at| {
        let slash = at < segment.len()
            && segment[at] == b'%'
            && matches!(escaped(segment, at), Some(b'/' | b'\\'));
        if !slash && at < segment.len() {
            return false;
        }
        let text = segment.get(piece..at).unwrap_or_default();
        piece = at + ESCAPE_LEN;
        begins_with_dots(text)
    })
}

/// Whether the text before a parameter, or all of it, is `.` or `..`. The parameter's `;` may be encoded, because a
/// proxy further on may decode `..%3Bx`.
fn begins_with_dots(text: &[u8]) -> bool {
    let dots = text.strip_prefix(b"..").or(text.strip_prefix(b"."));
    dots.is_some_and(|rest| matches!(rest, [] | [b';', ..]) || escaped(rest, 0) == Some(b';'))
}

/// Returns the byte that the escape at `at` stands for, if there is one.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match bytes[at..] {
        [b'%', high, low, ..] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    }
}

/// Whether a byte is an unreserved character (RFC 3986 section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What the scan does at a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It may be in a segment unencoded: `pchar` of RFC 3986 section 3.3.
    Plain,
    Slash,
    Percent,
    /// It should have been sent encoded, and is encoded from here on.
    Encode,
    Refuse,
    Backslash,
    Nul,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Encode; 256];
    let mut byte = 0_u8;
    loop {
        classes[byte as usize] = match byte {
            0 => Class::Nul,
            b'/' => Class::Slash,
            b'%' => Class::Percent,
            b'\\' => Class::Backslash,
            1..=b' ' | 0x7f | b'?' | b'#' => Class::Refuse,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
            | b'@' => Class::Plain,
            _ if is_unreserved(byte) => Class::Plain,
            _ => Class::Encode,
        };
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    classes
};

const ESCAPE_LEN: usize = "%XX".len();
const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests;
