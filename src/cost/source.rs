//! Where bodies report numbers, and the numbers that they have reported.

use std::fmt;

use super::body::BodyNumbers;
use super::decimal::Decimal;
use super::json_pointer::JsonPointer;

/// Where a number is reported, as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberSource {
    /// At a pointer into the JSON of a request.
    RequestJson(JsonPointer),
    /// The length of a request's body.
    RequestBytes,
    /// At a pointer into the JSON of a response.
    ResponseJson(JsonPointer),
    /// The length of a response's body.
    ResponseBytes,
}

/// Where a number is reported, as a [`NumberSource`] says it, but with indices for the pointers of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberIndex {
    /// Index of a pointer into requests.
    RequestJson(usize),
    /// The length of a request's body.
    RequestBytes,
    /// Index of a pointer into responses.
    ResponseJson(usize),
    /// The length of a response's body.
    ResponseBytes,
}

/// What the bodies of a request and of its response have reported so far.
#[derive(Debug, Default)]
pub struct Numbers {
    /// What was read from the request's body.
    pub request: BodyNumbers,
    /// Length of the request's body: as announced, or else as far as it was read.
    pub request_bytes: Option<Decimal>,
    /// Whether `request_bytes` is the length of the whole body, and the body is not compressed.
    pub is_length_known: bool,
    /// Whether the request's body was read to its end, and is not compressed.
    pub is_request_whole: bool,
    /// What was read from the response's body.
    pub response: BodyNumbers,
    /// Length of the response's body so far.
    pub response_bytes: Option<Decimal>,
}

impl Numbers {
    /// Whether the request's body was read to its end, and all of it is JSON.
    pub fn is_json_whole(&self) -> bool {
        self.is_request_whole && self.request.is_whole
    }

    /// Returns the number at `place`, after the document that reported it if the last one counts, otherwise after 0.
    pub fn at(&self, place: NumberIndex) -> Option<(u32, &Decimal)> {
        match place {
            NumberIndex::RequestJson(at) => self.request.number(at),
            NumberIndex::ResponseJson(at) => self.response.number(at),
            NumberIndex::RequestBytes => Some((0, self.request_bytes.as_ref()?)),
            NumberIndex::ResponseBytes => Some((0, self.response_bytes.as_ref()?)),
        }
    }
}

impl fmt::Display for NumberSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestJson(pointer) => write!(f, "request-json:{pointer}"),
            Self::RequestBytes => f.write_str("request-bytes"),
            Self::ResponseJson(pointer) => write!(f, "response-json:{pointer}"),
            Self::ResponseBytes => f.write_str("response-bytes"),
        }
    }
}
