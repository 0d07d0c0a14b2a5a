//! The field lines of responses. An origin repeats most of them in every head, so a line that comes twice
//! is remembered with what it says, and is not read again.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue};

use super::bad_head::BadHead;
use crate::request::hop_by_hop;

/// Field lines that have come twice, of any origin, with what they say.
#[derive(Debug)]
pub struct KnownLines(Box<[LinePlace]>);

/// A place of the table. Each line has a single place at which it can be remembered.
#[derive(Clone, Debug, Default)]
struct LinePlace {
    /// The key of the latest line that came to this place and was not the remembered one.
    latest: u64,
    known: Option<(Bytes, KnownField)>,
}

/// The field that a line contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownField {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    /// Whether the field is for the gateway, because it concerns the body's end or the connection.
    pub(super) is_ours: bool,
}

/// Number of places: one for each value of the first byte of a key.
const PLACES: usize = 256;

/// Longer lines are not remembered, so that all lines with their names take at most half a MiB per worker.
const LINE_BYTES_MAX: usize = 1024;

impl Default for KnownLines {
    fn default() -> Self {
        Self(vec![LinePlace::default(); PLACES].into())
    }
}

impl KnownLines {
    /// Reads a line of `head`, and remembers it if it has come before.
    pub(super) fn read(&mut self, line: &[u8], head: &Bytes) -> Result<KnownField, BadHead> {
        let Some(key) = key(line) else {
            return KnownField::read(line, head);
        };
        let place = &mut self.0[usize::from(key.to_be_bytes()[0])];
        if let Some((known, field)) = &place.known
            && known == line
        {
            return Ok(field.clone());
        }
        if std::mem::replace(&mut place.latest, key) != key {
            return KnownField::read(line, head);
        }
        // The line is copied, because a slice of the head would keep alive all that was read with it.
        let line = Bytes::copy_from_slice(line);
        let field = KnownField::read(&line, &line)?;
        place.known = Some((line, field.clone()));
        Ok(field)
    }
}

impl KnownField {
    /// Reads a line of `head`: a name, a colon, and a value between white space (RFC 9112, section 5).
    fn read(line: &[u8], head: &Bytes) -> Result<Self, BadHead> {
        let colon = memchr::memchr(b':', line).ok_or(BadHead::Malformed)?;
        let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
        let name = HeaderName::from_bytes(name).map_err(|_| BadHead::Malformed)?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(value));
        Ok(Self {
            is_ours: hop_by_hop::is_hop_by_hop(&name) || name == CONTENT_LENGTH,
            name,
            value: value.map_err(|_| BadHead::Malformed)?,
        })
    }
}

/// Returns a hash that tells a line from most others; none if it is too short or too long to be remembered.
fn key(line: &[u8]) -> Option<u64> {
    let (first, last) = (line.first_chunk()?, line.last_chunk()?);
    let length = line.len() as u64;
    let mixed = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(27) ^ length;
    (line.len() <= LINE_BYTES_MAX).then(|| mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Removes white space from both ends.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a line while no other is known.
    fn read_first(line: &[u8]) -> Result<KnownField, BadHead> {
        let head = Bytes::copy_from_slice(line);
        KnownLines::default().read(&head, &head)
    }

    #[test]
    fn known_line_says_what_it_said_first() {
        let mut lines = KnownLines::default();
        let long = format!("x-long: {}", "a".repeat(LINE_BYTES_MAX));
        let table = [
            "Server: a",
            "server: a",
            "Server:a",
            "Server: \t a\t ",
            "Content-Length: 12",
            "Connection: close",
            "Keep-Alive: timeout=5",
            "x-a: 12345678",
            "x-a: 12345679",
            "x-b: 1",
            "x:",
            "x-empty: ",
            &*long,
            "Server : a",
            " Server: a",
            "Server\t: a",
            "no-colon-in-it",
            ": no-name",
            "x-value: \x01\x02",
            "x-return: a\ra",
            "x-nam\u{e9}: aaaaa",
        ];
        for round in 0..4 {
            for line in table {
                let head = Bytes::copy_from_slice(line.as_bytes());
                let expected = read_first(line.as_bytes());
                let found = lines.read(&head, &head);
                assert_eq!(found, expected, "{line:?} in round {round}");
            }
        }
    }

    #[test]
    fn line_is_remembered_when_it_comes_again() {
        let mut lines = KnownLines::default();
        let mut is_shared = |line: &'static str| {
            let head = Bytes::from_static(line.as_bytes());
            let field = lines.read(&head, &head).expect("a field");
            let known = lines.0.iter().filter_map(|place| place.known.as_ref());
            let mut values = known.map(|(_, field)| field.value.as_bytes().as_ptr());
            values.any(|known| known == field.value.as_bytes().as_ptr())
        };
        assert!(!is_shared("x-same: value"));
        assert!(is_shared("x-same: value"));
        assert!(!is_shared("x-same: other"));
        assert!(is_shared("x-same: value"));
    }
}
