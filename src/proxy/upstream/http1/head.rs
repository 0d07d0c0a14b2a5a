//! The head of a response (RFC 9112, sections 2, 4 and 5), and what it says of the body and of the
//! connection.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::ext::ReasonPhrase;
use memchr::memchr;
use smallvec::SmallVec;

use super::FIELDS_MAX;
use super::bad_head::BadHead;
use super::known_lines::KnownLines;
use crate::proxy::wire::body::BodyFraming;
use crate::proxy::wire::interim::InterimSink;
use crate::proxy::wire::section::Section;
use crate::request::hop_by_hop::{self, KEEP_ALIVE};

/// Reads the head of a response, in whatever pieces it comes, and the interim heads before it.
#[derive(Debug)]
pub struct HeadReader {
    section: Section,
    /// Most bytes of a head.
    bytes_max: usize,
    /// Interim heads so far, and in the next field their bytes.
    interim: u32,
    interim_bytes: usize,
    /// The sink to which interim responses are passed; none if they are dropped.
    sink: Option<Rc<dyn InterimSink>>,
    /// The protocol that the request asks for, if it asks for one.
    upgrade: Option<HeaderValue>,
}

/// The head of a response, without its fields.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The reason phrase, if it is not the usual one.
    reason: Option<ReasonPhrase>,
    /// Where the response's body ends.
    pub framing: BodyFraming,
    /// Whether the connection can carry no further request.
    pub is_last: bool,
    /// How long the origin keeps an idle connection, if it says so.
    pub keep_alive: Option<Duration>,
}

/// What a status line says, and what fields say of the body's end and of the connection.
#[derive(Debug, Default)]
struct Stated {
    status: StatusCode,
    /// The reason phrase, if it is not the usual one.
    reason: Option<ReasonPhrase>,
    is_http10: bool,
    codings: FieldValues,
    lengths: FieldValues,
    /// Values of Connection, other than `keep-alive` alone.
    options: FieldValues,
    keep_alive: Option<Duration>,
    upgrades: FieldValues,
}

/// The values of a field that usually comes once at most.
type FieldValues = SmallVec<[HeaderValue; 1]>;

/// The reason phrase if the origin sends none, or one that is not ASCII.
const NO_REASON: ReasonPhrase = ReasonPhrase::from_static(b"");

/// Most interim responses to one request.
pub(in crate::proxy::upstream) const INTERIM_MAX: u32 = 64;

/// Most bytes of all interim responses to one request.
pub(in crate::proxy::upstream) const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// The beginning of every head. Bytes that begin otherwise are refused before a whole head has come.
const BEGINNING: &[u8] = b"HTTP/1.";

impl HeadReader {
    /// Makes a reader for the response to a request that asks for the protocol `upgrade`, if it asks for
    /// one; interim responses are passed to `sink`. A head has at most `bytes_max`.
    pub fn new(
        upgrade: Option<HeaderValue>,
        sink: Option<Rc<dyn InterimSink>>,
        bytes_max: usize,
    ) -> Self {
        Self {
            section: Section::default(),
            bytes_max,
            interim: 0,
            interim_bytes: 0,
            upgrade,
            sink,
        }
    }

    /// Takes the head of the response to a `method` request from `bytes`; none if more must come first.
    /// What is left in `bytes` then is the beginning of the body. Clears `headers`, and leaves the
    /// response's fields in it, except those that concern this connection alone.
    pub fn read(
        &mut self,
        bytes: &mut Bytes,
        method: &Method,
        headers: &mut HeaderMap,
        lines: &mut KnownLines,
    ) -> Result<Option<ResponseHead>, BadHead> {
        let mut stated = Stated::default();
        while let Some(head_bytes) = self.take(bytes, headers, lines, &mut stated)? {
            match stated.status {
                StatusCode::SWITCHING_PROTOCOLS => return self.switch(stated).map(Some),
                status if status.is_informational() => {
                    self.interim += 1;
                    self.interim_bytes += head_bytes;
                    if self.interim > INTERIM_MAX || self.interim_bytes > INTERIM_BYTES_MAX {
                        return Err(BadHead::Interim);
                    }
                    if let Some(sink) = &self.sink {
                        headers.remove(CONTENT_LENGTH);
                        send_interim(&**sink, status, std::mem::take(headers));
                    }
                }
                _ => return stated.head(headers, method).map(Some),
            }
        }
        let begun = self.section.partial().iter();
        let is_http = begun
            .zip(BEGINNING)
            .all(|(byte, expected)| byte == expected);
        is_http.then_some(None).ok_or(BadHead::Malformed)
    }

    /// Takes a head, interim or not, and returns its length; none if it is not whole.
    fn take(
        &mut self,
        bytes: &mut Bytes,
        headers: &mut HeaderMap,
        lines: &mut KnownLines,
        stated: &mut Stated,
    ) -> Result<Option<usize>, BadHead> {
        // Most heads come in one piece. A bad one is left to the code below, which refuses it alike however it is cut.
        if self.section.partial().is_empty()
            && let Ok(Some(end)) = parse(bytes, headers, lines, stated)
            && end <= self.bytes_max
        {
            bytes.advance(end);
            return Ok(Some(end));
        }
        match self.section.take(bytes, self.bytes_max)? {
            Some(head) => (parse(&head, headers, lines, stated)?)
                .ok_or(BadHead::Malformed)
                .map(Some),
            None => Ok(None),
        }
    }

    /// Takes a 101 that names the protocol that was asked for. What follows it is not HTTP.
    fn switch(&self, stated: Stated) -> Result<ResponseHead, BadHead> {
        let is_same = |(asked, named): (&HeaderValue, &HeaderValue)| {
            asked.as_bytes().eq_ignore_ascii_case(named.as_bytes())
        };
        if !self
            .upgrade
            .as_ref()
            .zip(stated.upgrades.last())
            .is_some_and(is_same)
        {
            return Err(BadHead::Upgrade);
        }
        Ok(ResponseHead {
            status: stated.status,
            reason: stated.reason,
            framing: BodyFraming::None,
            is_last: true,
            keep_alive: None,
        })
    }
}

/// Passes an interim response with these fields on to the client, except a 100: the gateway itself tells
/// the client to go on with its body.
pub(in crate::proxy::upstream) fn send_interim(
    sink: &dyn InterimSink,
    status: StatusCode,
    headers: HeaderMap,
) {
    if status != StatusCode::CONTINUE {
        let mut interim = Response::new(());
        *interim.status_mut() = status;
        *interim.headers_mut() = headers;
        sink.send(interim);
    }
}

/// Reads the head at the beginning of `bytes`, and returns where it ends; none if it is not whole.
/// Leaves the fields that concern the client in `headers`.
fn parse(
    bytes: &Bytes,
    headers: &mut HeaderMap,
    lines: &mut KnownLines,
    stated: &mut Stated,
) -> Result<Option<usize>, BadHead> {
    if !bytes.starts_with(BEGINNING) {
        return Ok(None);
    }
    headers.clear();
    let mut rest = &bytes[..];
    let Some(status) = take_line(&mut rest)? else {
        return Ok(None);
    };
    *stated = Stated::default();
    stated.read_status(status).ok_or(BadHead::Malformed)?;
    for count in 0.. {
        let Some(line) = take_line(&mut rest)? else {
            return Ok(None);
        };
        if line.is_empty() {
            break;
        }
        if count == FIELDS_MAX {
            return Err(BadHead::TooLarge);
        }
        let field = lines.read(line, bytes)?;
        if !field.is_ours {
            headers.append(field.name, field.value);
            continue;
        }
        stated.note(&field.name, &field.value);
        if field.name == CONTENT_LENGTH {
            headers.append(field.name, field.value);
        }
    }
    let end = bytes.len() - rest.len();
    hop_by_hop::remove_named(headers, &stated.options);
    Ok(Some(end))
}

/// Takes a line, without the CRLF that ends it; none if it has not ended.
fn take_line<'b>(rest: &mut &'b [u8]) -> Result<Option<&'b [u8]>, BadHead> {
    let Some(end) = memchr(b'\n', rest) else {
        return Ok(None);
    };
    let (line, next) = rest.split_at(end);
    *rest = &next[1..];
    line.strip_suffix(b"\r").ok_or(BadHead::Malformed).map(Some)
}

impl ResponseHead {
    /// Makes the response with this head and `body`, and takes its fields from `headers`.
    pub(super) fn response<B>(self, headers: &mut HeaderMap, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        std::mem::swap(response.headers_mut(), headers);
        if let Some(reason) = self.reason {
            response.extensions_mut().insert(reason);
        }
        response
    }
}

impl Stated {
    /// Reads a status line (RFC 9112, section 4); none if it is not that of HTTP/1.0 or 1.1.
    fn read_status(&mut self, line: &[u8]) -> Option<()> {
        let [minor @ b'0'..=b'1', b' ', a, b, c, reason @ ..] = line.strip_prefix(BEGINNING)?
        else {
            return None;
        };
        let status = StatusCode::from_bytes(&[*a, *b, *c]).ok()?;
        let reason = match reason {
            [b' ', reason @ ..] => reason,
            [] => reason,
            _ => return None,
        };
        if status.canonical_reason().map(str::as_bytes) != Some(reason) {
            let said = ReasonPhrase::try_from(reason).ok()?;
            // A phrase that is not ASCII is not passed on, because its encoding is unknown.
            let is_shown = said.as_bytes().is_ascii();
            self.reason = Some(said).filter(|_| is_shown).or(Some(NO_REASON));
        }
        (self.status, self.is_http10) = (status, *minor == b'0');
        Some(())
    }

    /// Notes what a field says.
    fn note(&mut self, name: &HeaderName, value: &HeaderValue) {
        match *name {
            CONTENT_LENGTH => self.lengths.push(value.clone()),
            TRANSFER_ENCODING => self.codings.push(value.clone()),
            // Many origins send this in every HTTP/1.1 response, and it names no field to remove.
            CONNECTION if value == "keep-alive" => {}
            CONNECTION => self.options.push(value.clone()),
            UPGRADE => self.upgrades.push(value.clone()),
            _ if *name == KEEP_ALIVE => self.keep_alive = hop_by_hop::keep_alive_timeout(value),
            _ => {}
        }
    }

    /// Derives the response's head, including where the body ends, for a `method` request.
    fn head(self, headers: &mut HeaderMap, method: &Method) -> Result<ResponseHead, BadHead> {
        let status = self.status;
        let stated = self.framing()?;
        if let BodyFraming::Length(bytes) = stated
            && matches!(self.lengths[0].as_bytes(), [b'0', _, ..])
        {
            // The number is written anew, because some clients read a leading zero as octal.
            let length = HeaderValue::from(bytes);
            headers.insert(CONTENT_LENGTH, length);
        }
        let framing = match status {
            _ if *method == Method::HEAD => BodyFraming::None,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => BodyFraming::None,
            _ => stated,
        };
        if status == StatusCode::UPGRADE_REQUIRED {
            // A 426 says in Upgrade which protocol is required (RFC 9110, section 15.5.22).
            for protocol in self.upgrades {
                headers.append(UPGRADE, protocol);
            }
        }
        let mut is_followed = false;
        if status == StatusCode::NO_CONTENT {
            // RFC 9110, section 8.6, forbids a 204 to state a body. If it states one, the body may follow.
            headers.remove(CONTENT_LENGTH);
            is_followed = !matches!(stated, BodyFraming::UntilClose | BodyFraming::Length(0));
        }
        let says_close =
            hop_by_hop::names(&self.options).any(|name| name.eq_ignore_ascii_case("close"));
        Ok(ResponseHead {
            is_last: self.is_http10
                || framing == BodyFraming::UntilClose
                || is_followed
                || says_close,
            status,
            reason: self.reason,
            framing,
            keep_alive: self.keep_alive,
        })
    }

    /// Returns what the fields say about the body's end. A head that states it twice, or in an unknown
    /// way, is refused, because others could see the end in another place.
    fn framing(&self) -> Result<BodyFraming, BadHead> {
        match (&self.codings[..], &self.lengths[..]) {
            ([], []) => Ok(BodyFraming::UntilClose),
            ([coding], []) if !self.is_http10 && is_chunked(coding) => Ok(BodyFraming::Chunked),
            ([], [length]) => parse_length(length).map(BodyFraming::Length),
            _ => Err(BadHead::Framing),
        }
    }
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().eq_ignore_ascii_case(b"chunked")
}

/// Reads a length: digits alone, without sign or list.
pub(in crate::proxy::upstream) fn parse_length(length: &HeaderValue) -> Result<u64, BadHead> {
    let add = |length: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'));
        length.checked_mul(10)?.checked_add(digit?)
    };
    let digits = Some(length.as_bytes()).filter(|digits| !digits.is_empty());
    (digits.and_then(|digits| digits.iter().try_fold(0, add))).ok_or(BadHead::Framing)
}
