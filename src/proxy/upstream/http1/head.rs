//! The head of a response (RFC 9112, sections 2, 4 and 5), and what it says of the body and of the
//! connection.

use std::mem::MaybeUninit;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use httparse::ParserConfig;
use hyper::ext::ReasonPhrase;
use smallvec::SmallVec;

use super::section::{BadSection, Section};
use super::{BodyFraming, FIELDS_MAX};
use crate::request::hop_by_hop::{self, KEEP_ALIVE};

/// Reads the head of a response, in whatever pieces it comes, and drops interim ones before it.
#[derive(Debug, Default)]
pub struct HeadReader {
    section: Section,
    /// Interim heads so far, and their bytes.
    interim: u32,
    interim_bytes: usize,
    /// The protocol that the request asks for.
    upgrade: Option<HeaderValue>,
}

/// A response without its body.
#[derive(Debug)]
pub struct ResponseHead {
    /// Status, reason, and the fields that do not concern this connection alone.
    pub response: Response<()>,
    /// Where its body ends.
    pub framing: BodyFraming,
    /// Whether the connection can carry no further request.
    pub is_last: bool,
    /// How long the origin keeps an idle connection, if it says so.
    pub keep_alive: Option<Duration>,
}

/// What fields say of the body's end and of the connection.
#[derive(Debug, Default)]
struct Stated {
    codings: FieldValues,
    lengths: FieldValues,
    /// The values of Connection.
    options: FieldValues,
    keep_alive: Option<Duration>,
    upgrade: Option<HeaderValue>,
}

/// The values of a field that usually comes once at most.
type FieldValues = SmallVec<[HeaderValue; 1]>;

/// Why a head is refused; its connection is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// It is no head of HTTP/1.0 or 1.1.
    #[error("malformed HTTP head")]
    Malformed,
    /// The connection was closed within it.
    #[error("closed within its head")]
    Incomplete,
    /// It has more bytes or fields than it may have.
    #[error("head too large")]
    TooLarge,
    /// More interim answers (1xx) come before it, or larger ones, than may.
    #[error("too many interim answers")]
    Interim,
    /// It does not say in one way where its body ends (RFC 9112, section 6.3).
    #[error("ambiguous length")]
    Framing,
    /// It changes to another protocol, which nobody asked for.
    #[error("upgrade that nobody asked for")]
    Upgrade,
}

/// Most bytes of a head.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Most interim answers to one request; the gateway's clients see none of them.
const INTERIM_MAX: u32 = 64;

/// Most bytes of all interim answers to one request.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// How every head begins. What begins otherwise need not be awaited to its end.
const BEGINNING: &[u8] = b"HTTP/1.";

impl HeadReader {
    /// Reads the response to a request that asks for the protocol `upgrade`, if it asks for one.
    pub fn new(upgrade: Option<HeaderValue>) -> Self {
        Self {
            upgrade,
            ..Self::default()
        }
    }

    /// Takes the head of the response to a `method` request from `bytes`; none if more must come
    /// first. What is left in `bytes` then is the beginning of the body. The room of `headers`, which
    /// are cleared, is used for the response's.
    pub fn read(
        &mut self,
        bytes: &mut Bytes,
        method: &Method,
        headers: &mut HeaderMap,
    ) -> Result<Option<ResponseHead>, BadHead> {
        while let Some((response, stated, head_bytes)) = self.take(bytes, headers)? {
            match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => return self.switch(response, &stated).map(Some),
                status if status.is_informational() => {
                    *headers = response.into_parts().0.headers;
                    self.interim += 1;
                    self.interim_bytes += head_bytes;
                    if self.interim > INTERIM_MAX || self.interim_bytes > INTERIM_BYTES_MAX {
                        return Err(BadHead::Interim);
                    }
                }
                _ => return stated.head(response, method).map(Some),
            }
        }
        let begun = self.section.partial().iter();
        let is_http = begun
            .zip(BEGINNING)
            .all(|(byte, expected)| byte == expected);
        is_http.then_some(None).ok_or(BadHead::Malformed)
    }

    /// Takes a head, interim or not; none if it is not whole.
    fn take(
        &mut self,
        bytes: &mut Bytes,
        headers: &mut HeaderMap,
    ) -> Result<Option<(Response<()>, Stated, usize)>, BadHead> {
        // Most heads come in one piece, and the parser finds their end by itself. A bad one is refused when
        // it is whole, however it comes.
        if self.section.partial().is_empty()
            && let Ok(Some((response, stated, end))) = parse(bytes, headers)
        {
            bytes.advance(end);
            return Ok(Some((response, stated, end)));
        }
        match self.section.take(bytes, HEAD_BYTES_MAX)? {
            Some(head) => parse(&head, headers)?.ok_or(BadHead::Malformed).map(Some),
            None => Ok(None),
        }
    }

    /// Takes a 101 that names the protocol that was asked for. What follows it is no HTTP.
    fn switch(&self, response: Response<()>, stated: &Stated) -> Result<ResponseHead, BadHead> {
        let is_same = |(asked, named): (&HeaderValue, &HeaderValue)| {
            asked.as_bytes().eq_ignore_ascii_case(named.as_bytes())
        };
        if !self
            .upgrade
            .as_ref()
            .zip(stated.upgrade.as_ref())
            .is_some_and(is_same)
        {
            return Err(BadHead::Upgrade);
        }
        Ok(ResponseHead {
            response,
            framing: BodyFraming::None,
            is_last: true,
            keep_alive: None,
        })
    }
}

/// Reads the head that `bytes` begin with, into the room of `headers`, and says where it ends; none if it
/// is not whole.
fn parse(
    bytes: &Bytes,
    headers: &mut HeaderMap,
) -> Result<Option<(Response<()>, Stated, usize)>, BadHead> {
    if !bytes.starts_with(BEGINNING) {
        return Ok(None);
    }
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    let end = match config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut fields) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLarge),
        Err(_) => return Err(BadHead::Malformed),
    };
    if end > HEAD_BYTES_MAX {
        return Err(BadHead::TooLarge);
    }
    let head = &bytes[..end];
    // Where each line but the first begins, the empty one too. The parser takes a line feed alone for the
    // end of a line.
    let names = parsed
        .headers
        .iter()
        .map(|field| field.name.as_ptr().addr());
    let lines = names.map(|at| at - head.as_ptr().addr()).chain([end - 2]);
    if !lines
        .chain([end])
        .all(|line| head[..line].ends_with(b"\r\n"))
    {
        return Err(BadHead::Malformed);
    }
    let mut response = Response::new(());
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    *response.status_mut() = status.ok_or(BadHead::Malformed)?;
    if parsed.version == Some(0) {
        *response.version_mut() = Version::HTTP_10;
    }
    let usual = response.status().canonical_reason();
    if let Some(reason) = parsed.reason.filter(|reason| Some(*reason) != usual)
        && let Ok(reason) = ReasonPhrase::try_from(reason.as_bytes())
    {
        response.extensions_mut().insert(reason);
    }
    headers.clear();
    headers.reserve(parsed.headers.len());
    let mut stated = Stated::default();
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(BadHead::Malformed);
        };
        stated.note(&name, &value);
        if !hop_by_hop::is_hop_by_hop(&name) {
            headers.append(name, value);
        }
    }
    hop_by_hop::remove_named(headers, &stated.options);
    *response.headers_mut() = std::mem::take(headers);
    Ok(Some((response, stated, end)))
}

impl Stated {
    /// Notes what a field says.
    fn note(&mut self, name: &HeaderName, value: &HeaderValue) {
        match *name {
            CONTENT_LENGTH => self.lengths.push(value.clone()),
            TRANSFER_ENCODING => self.codings.push(value.clone()),
            CONNECTION => self.options.push(value.clone()),
            UPGRADE => self.upgrade = Some(value.clone()),
            _ if *name == KEEP_ALIVE => self.keep_alive = hop_by_hop::keep_alive_timeout(value),
            _ => {}
        }
    }

    /// Says what the head of the response to a `method` request means.
    fn head(self, mut response: Response<()>, method: &Method) -> Result<ResponseHead, BadHead> {
        let (status, version) = (response.status(), response.version());
        let stated = self.framing(version)?;
        if let BodyFraming::Length(bytes) = stated
            && matches!(self.lengths[0].as_bytes(), [b'0', _, ..])
        {
            // Some read a number with a leading zero as octal.
            let length = HeaderValue::from(bytes);
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
        let framing = match status {
            _ if *method == Method::HEAD => BodyFraming::None,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => BodyFraming::None,
            _ => stated,
        };
        let mut is_followed = false;
        if status == StatusCode::NO_CONTENT {
            // RFC 9110, section 8.6, forbids it to state a body. One may follow if it does.
            response.headers_mut().remove(CONTENT_LENGTH);
            is_followed = !matches!(stated, BodyFraming::UntilClose | BodyFraming::Length(0));
        }
        let says_close = match &self.options[..] {
            [only] if only == "keep-alive" => false,
            options => hop_by_hop::names(options).any(|it| it.eq_ignore_ascii_case("close")),
        };
        *response.version_mut() = Version::HTTP_11;
        Ok(ResponseHead {
            is_last: version != Version::HTTP_11
                || framing == BodyFraming::UntilClose
                || is_followed
                || says_close,
            response,
            framing,
            keep_alive: self.keep_alive,
        })
    }

    /// Returns what the fields say of a body's end. A sender that says it twice, or in an unknown
    /// way, is refused, because others could see the end in another place.
    fn framing(&self, version: Version) -> Result<BodyFraming, BadHead> {
        match (&self.codings[..], &self.lengths[..]) {
            ([], []) => Ok(BodyFraming::UntilClose),
            ([coding], []) if version == Version::HTTP_11 && is_chunked(coding) => {
                Ok(BodyFraming::Chunked)
            }
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

impl From<BadSection> for BadHead {
    fn from(bad: BadSection) -> Self {
        match bad {
            BadSection::BareLineFeed => Self::Malformed,
            BadSection::TooLong => Self::TooLarge,
        }
    }
}
