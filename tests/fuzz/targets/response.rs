//! Responses: however an origin's bytes are cut, the gateway reads what a slow walk over all of
//! them reads, and takes no byte after the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tollgate::proxy::upstream::http1::{BodyReader, HeadReader, KnownLines};
use tollgate::proxy::wire::body::BodyFraming;

use super::fields::{is_of_one_hop, tokens};

/// The input is a line with the request's method, followed by what the origin sends.
pub fn holds(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == b'\n');
    let (method, sent) = data.split_at(at.map_or(0, |at| at + 1));
    let method = match method {
        b"HEAD\n" => Method::HEAD,
        _ => Method::GET,
    };
    let mut expected = Reading::default();
    let end = Walk { rest: sent }.response(&method, &mut expected);
    expected.end = end.unwrap_or_else(|end| end);
    for size in [1, 2, 7, 50, sent.len().max(1)] {
        let read = read(&method, sent, size);
        assert_eq!(read, expected, "in pieces of {size}");
    }
}

/// What has been read of a response.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    head: Option<Head>,
    body: Vec<u8>,
    trailers: Fields,
    end: End,
}

#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    fields: Fields,
    framing: BodyFraming,
    is_last: bool,
}

/// Values by their names, in order.
type Fields = BTreeMap<String, Vec<Vec<u8>>>;

/// Where reading ends.
#[derive(Debug, Default, PartialEq)]
enum End {
    /// More has to come.
    #[default]
    More,
    Refused,
    /// The response is whole, and this many bytes follow it.
    Whole(usize),
}

/// Most bytes of a head, or of trailers.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// The gateway's readers of a response.
struct Readers {
    head: HeadReader,
    lines: KnownLines,
    body: Option<BodyReader>,
}

/// Reads a response in pieces of this size.
fn read(method: &Method, sent: &[u8], size: usize) -> Reading {
    let (mut reading, mut readers) = (Reading::default(), Readers::new());
    let mut left = sent.len();
    for mut piece in sent.chunks(size).map(Bytes::copy_from_slice) {
        left -= piece.len();
        let Some(is_end) = readers.take(method, &mut piece, &mut reading) else {
            reading.end = End::Refused;
            return reading;
        };
        if is_end {
            reading.end = End::Whole(piece.len() + left);
            return reading;
        }
        assert!(piece.is_empty(), "it waits for more, and has not read all");
    }
    reading
}

impl Readers {
    fn new() -> Self {
        Self {
            head: HeadReader::new(None, None, HEAD_BYTES_MAX),
            lines: KnownLines::default(),
            body: None,
        }
    }

    /// Reads a piece; returns whether the response is whole, or `None` if it is refused.
    fn take(&mut self, method: &Method, piece: &mut Bytes, reading: &mut Reading) -> Option<bool> {
        if self.body.is_none() {
            let mut headers = HeaderMap::new();
            let head = (self.head).read(piece, method, &mut headers, &mut self.lines);
            let Some(head) = head.ok()? else {
                return Some(false);
            };
            self.body = Some(BodyReader::new(head.framing, HEAD_BYTES_MAX));
            reading.head = Some(Head {
                status: head.status.as_u16(),
                fields: fields(&headers),
                framing: head.framing,
                is_last: head.is_last,
            });
        }
        let body = self.body.as_mut()?;
        while let Some(frame) = body.read(piece).ok()? {
            match frame.into_data() {
                Ok(data) => reading.body.extend_from_slice(&data),
                Err(frame) => reading.trailers = fields(&frame.into_trailers().ok()?),
            }
        }
        Some(body.is_end())
    }
}

fn fields(headers: &HeaderMap) -> Fields {
    let names = headers.keys().map(|name| {
        let values = headers.get_all(name).iter();
        let values = values.map(|value| value.as_bytes().to_vec()).collect();
        (name.to_string(), values)
    });
    names.collect()
}

/// The bytes that have not been walked past yet. A step returns an error where the walk ends.
struct Walk<'s> {
    rest: &'s [u8],
}

impl<'s> Walk<'s> {
    fn response(&mut self, method: &Method, reading: &mut Reading) -> Result<End, End> {
        let (mut interim, mut interim_bytes) = (0, 0);
        loop {
            let before = self.rest.len();
            let is_http = self.rest.iter().zip(b"HTTP/1.").all(|(a, b)| a == b);
            check(is_http)?;
            let lines = self.section(32 * 1024)?;
            let (version, status) = status_line(lines.first().ok_or(End::Refused)?)?;
            let headers = field_lines(&lines[1..])?;
            check(status != 101)?;
            if status >= 200 {
                let head = head(version, status, &headers, method)?;
                let framing = head.framing;
                reading.head = Some(head);
                return self.body(framing, reading);
            }
            interim += 1;
            interim_bytes += before - self.rest.len();
            check(interim <= 64 && interim_bytes <= 64 * 1024)?;
        }
    }

    /// Walks past lines and the empty line after them.
    fn section(&mut self, bytes_max: usize) -> Result<Vec<&'s [u8]>, End> {
        let (all, mut lines) = (self.rest, Vec::new());
        while let Some(at) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line = self.take(at + 1);
            let line = line.strip_suffix(b"\r\n").ok_or(End::Refused)?;
            if line.is_empty() {
                check(all.len() - self.rest.len() <= bytes_max)?;
                return Ok(lines);
            }
            lines.push(line);
        }
        check(all.len() <= bytes_max)?;
        Err(End::More)
    }

    fn body(&mut self, framing: BodyFraming, reading: &mut Reading) -> Result<End, End> {
        match framing {
            BodyFraming::None => {}
            BodyFraming::Length(length) => self.data(length, reading)?,
            BodyFraming::UntilClose => self.data(u64::MAX, reading)?,
            BodyFraming::Chunked => {
                let mut extension_bytes = 0;
                loop {
                    let size = self.size_line(&mut extension_bytes)?;
                    if size == 0 {
                        break;
                    }
                    self.data(size, reading)?;
                    self.line_end()?;
                }
                let lines = self.section(16 * 1024)?;
                reading.trailers = fields(&field_lines(&lines)?);
            }
        }
        Ok(End::Whole(self.rest.len()))
    }

    fn data(&mut self, length: u64, reading: &mut Reading) -> Result<(), End> {
        let at_hand = self.rest.len() as u64;
        let taken = usize::try_from(length.min(at_hand)).expect("at hand");
        reading.body.extend_from_slice(self.take(taken));
        (at_hand >= length).then_some(()).ok_or(End::More)
    }

    /// Walks past a chunk's size, its extensions and its line end.
    fn size_line(&mut self, extension_bytes: &mut usize) -> Result<u64, End> {
        let end = self.rest.iter().position(|&byte| byte == b'\r');
        let line = self.take(end.unwrap_or(self.rest.len()));
        let digits = line
            .iter()
            .take_while(|line| line.is_ascii_hexdigit())
            .count();
        let behind = &line[digits..];
        check(digits <= 16 && (digits > 0 || line.is_empty() && end.is_none()))?;
        let spaces = behind
            .iter()
            .take_while(|behind| matches!(behind, b' ' | b'\t'));
        let (spaces, extensions) = behind.split_at(spaces.count());
        *extension_bytes += spaces.len();
        if let Some((first, extensions)) = extensions.split_first() {
            *extension_bytes += extensions.len();
            check(*first == b';' && is_text(extensions))?;
        }
        check(*extension_bytes <= 16 * 1024)?;
        self.line_end()?;
        let digits = str::from_utf8(&line[..digits]).expect("digits");
        Ok(u64::from_str_radix(digits, 16).expect("at most 16 of them"))
    }

    fn line_end(&mut self) -> Result<(), End> {
        for expected in b"\r\n" {
            let byte = self.rest.first().ok_or(End::More)?;
            check(byte == expected)?;
            self.take(1);
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> &'s [u8] {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }
}

/// Reads a status line: the last digit of the version, and the status (RFC 9112, section 4).
fn status_line(line: &[u8]) -> Result<(u8, u16), End> {
    let (version, behind) = line.split_at_checked(9).ok_or(End::Refused)?;
    let is_known = matches!(version, b"HTTP/1.0 " | b"HTTP/1.1 ");
    let (status, reason) = behind.split_at_checked(3).ok_or(End::Refused)?;
    check(is_known && status.iter().all(u8::is_ascii_digit))?;
    check(reason.is_empty() || reason[0] == b' ' && is_text(reason))?;
    let status = str::from_utf8(status).expect("digits");
    let status = status.parse().expect("a number");
    check(status >= 100)?;
    Ok((version[7], status))
}

/// Reads fields (RFC 9112, section 5).
fn field_lines(lines: &[&[u8]]) -> Result<HeaderMap, End> {
    check(lines.len() <= super::FIELDS_MAX)?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':');
        let (name, value) = line.split_at(colon.ok_or(End::Refused)?);
        let is_token =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        check(name.iter().all(is_token) && is_text(value))?;
        let name = HeaderName::from_bytes(name).map_err(|_| End::Refused)?;
        let value = HeaderValue::from_bytes(value[1..].trim_ascii()).expect("text");
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns a head that says where the body ends (RFC 9112, section 6.3), and whether the connection can go on (9.3).
fn head(version: u8, status: u16, headers: &HeaderMap, method: &Method) -> Result<Head, End> {
    let values = |name| -> Vec<&[u8]> {
        let values = headers.get_all(name).iter();
        values.map(HeaderValue::as_bytes).collect()
    };
    let stated = match (&values(TRANSFER_ENCODING)[..], &values(CONTENT_LENGTH)[..]) {
        ([], []) => BodyFraming::UntilClose,
        ([coding], []) => {
            check(version == b'1' && coding.eq_ignore_ascii_case(b"chunked"))?;
            BodyFraming::Chunked
        }
        ([], [length]) => {
            check(length.iter().all(u8::is_ascii_digit))?;
            let length = str::from_utf8(length).expect("digits").parse();
            BodyFraming::Length(length.map_err(|_| End::Refused)?)
        }
        _ => return Err(End::Refused),
    };
    let has_body = *method != Method::HEAD && !matches!(status, 204 | 304);
    let framing = if has_body { stated } else { BodyFraming::None };
    let options = tokens(headers, &CONNECTION);
    let states_body = !matches!(stated, BodyFraming::UntilClose | BodyFraming::Length(0));
    let mut kept = headers.clone();
    if let BodyFraming::Length(length) = stated {
        // Without leading zeros, which some read as octal.
        kept.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    for name in headers.keys() {
        let is_named = options.contains(name.as_str()) && !matches!(*name, HOST | CONTENT_LENGTH);
        let is_forbidden = status == 204 && *name == CONTENT_LENGTH;
        if is_named || is_forbidden || is_of_one_hop(name.as_str()) {
            kept.remove(name);
        }
    }
    Ok(Head {
        status,
        fields: fields(&kept),
        framing,
        is_last: version == b'0'
            || framing == BodyFraming::UntilClose
            || options.contains("close")
            || status == 204 && states_body,
    })
}

/// Whether these bytes may be in a reason, a value or an extension (RFC 9110, section 5.5).
fn is_text(bytes: &[u8]) -> bool {
    let mut bytes = bytes.iter();
    bytes.all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
}

fn check(holds: bool) -> Result<(), End> {
    holds.then_some(()).ok_or(End::Refused)
}
