//! The head of a response (RFC 9112, sections 2, 4 and 5), and what it says of the body and of the
//! connection.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use httparse::ParserConfig;
use hyper::ext::ReasonPhrase;
use smallvec::SmallVec;

use super::section::{BadSection, Section};
use super::{BodyFraming, FIELDS_MAX};
use crate::request::hop_by_hop;

/// Reads the head of a response, in whatever pieces it comes, and drops interim ones before it.
#[derive(Debug)]
pub struct HeadReader {
    section: Section,
    /// Interim heads so far, and their bytes.
    interim: u32,
    interim_bytes: usize,
}

/// A response without its body.
#[derive(Debug)]
pub struct ResponseHead {
    /// Status, reason and fields, as the origin sent them.
    pub response: Response<()>,
    /// Where its body ends.
    pub framing: BodyFraming,
    /// Whether the connection can carry no further request.
    pub is_last: bool,
}

/// Why a head is refused; its connection is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// It is no head of HTTP/1.0 or 1.1.
    #[error("malformed head")]
    Malformed,
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

impl Default for HeadReader {
    fn default() -> Self {
        Self {
            section: Section::new(HEAD_BYTES_MAX),
            interim: 0,
            interim_bytes: 0,
        }
    }
}

impl HeadReader {
    /// Takes the head of the response to a `method` request from `bytes`; none if more must come
    /// first. What is left in `bytes` then is the beginning of the body. The room of `headers`, which
    /// are cleared, is used for the response's.
    pub fn read(
        &mut self,
        bytes: &mut Bytes,
        method: &Method,
        headers: &mut HeaderMap,
    ) -> Result<Option<ResponseHead>, BadHead> {
        while let Some(head) = self.section.take(bytes)? {
            let response = parse(&head, headers)?;
            match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => return Err(BadHead::Upgrade),
                status if status.is_informational() => {
                    *headers = response.into_parts().0.headers;
                    self.interim += 1;
                    self.interim_bytes += head.len();
                    if self.interim > INTERIM_MAX || self.interim_bytes > INTERIM_BYTES_MAX {
                        return Err(BadHead::Interim);
                    }
                }
                _ => return ResponseHead::of(response, method).map(Some),
            }
        }
        let begun = self.section.partial().iter();
        let is_http = begun
            .zip(BEGINNING)
            .all(|(byte, expected)| byte == expected);
        is_http.then_some(None).ok_or(BadHead::Malformed)
    }
}

/// Reads a whole head.
fn parse(head: &Bytes, headers: &mut HeaderMap) -> Result<Response<()>, BadHead> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut parsed, head, &mut fields) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLarge),
        Ok(httparse::Status::Partial) | Err(_) => return Err(BadHead::Malformed),
    }
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let mut response = Response::new(());
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
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(BadHead::Malformed);
        };
        headers.append(name, value);
    }
    *response.headers_mut() = std::mem::take(headers);
    Ok(response)
}

impl ResponseHead {
    /// Says what the head of the response to a `method` request means.
    fn of(response: Response<()>, method: &Method) -> Result<Self, BadHead> {
        let (status, headers) = (response.status(), response.headers());
        let is_current = response.version() == Version::HTTP_11;
        let stated = stated_framing(headers, is_current)?;
        let has_body = *method != Method::HEAD
            && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let framing = if has_body { stated } else { BodyFraming::None };
        // A 204 that states a body (RFC 9110, section 8.6, forbids it) may be followed by one.
        let is_followed = status == StatusCode::NO_CONTENT
            && !matches!(stated, BodyFraming::UntilClose | BodyFraming::Length(0));
        let is_last = !is_current
            || framing == BodyFraming::UntilClose
            || is_followed
            || hop_by_hop::says_close(headers);
        Ok(Self {
            response,
            framing,
            is_last,
        })
    }
}

/// Reads what the fields say of a body's end. A sender that says it twice, or in an unknown way, is
/// refused, because those who read it later could see the end in another place.
fn stated_framing(headers: &HeaderMap, is_current: bool) -> Result<BodyFraming, BadHead> {
    let (mut codings, mut lengths) = (SmallVec::<[_; 2]>::new(), SmallVec::<[_; 2]>::new());
    // One look at all fields is less work than a search for each.
    for (name, value) in headers {
        match *name {
            TRANSFER_ENCODING => codings.push(value),
            CONTENT_LENGTH => lengths.push(value),
            _ => {}
        }
    }
    match (&codings[..], &lengths[..]) {
        ([], []) => Ok(BodyFraming::UntilClose),
        ([coding], []) if is_current && coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(BodyFraming::Chunked)
        }
        ([], [length]) => parse_length(length).map(BodyFraming::Length),
        _ => Err(BadHead::Framing),
    }
}

/// Reads a length: digits alone, without sign or list.
fn parse_length(length: &HeaderValue) -> Result<u64, BadHead> {
    let digits = length.as_bytes();
    let length = str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    let is_digits = digits.iter().all(u8::is_ascii_digit);
    length.filter(|_| is_digits).ok_or(BadHead::Framing)
}

impl From<BadSection> for BadHead {
    fn from(bad: BadSection) -> Self {
        match bad {
            BadSection::BareLineFeed => Self::Malformed,
            BadSection::TooLong => Self::TooLarge,
        }
    }
}
