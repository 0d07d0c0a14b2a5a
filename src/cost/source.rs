//! Where numbers are reported, and those that have been.

use std::fmt;

use super::body::BodyNumbers;
use super::decimal::Decimal;
use super::json_pointer::JsonPointer;

/// Where a number is reported, as the file says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberSource {
    /// In the JSON of a request.
    RequestJson(JsonPointer),
    /// The length of a request's body.
    RequestBytes,
    /// In the JSON of an answer.
    ResponseJson(JsonPointer),
    /// The length of an answer's body.
    ResponseBytes,
}

/// The same on a route, whose pointers have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberIndex {
    /// This one of the pointers into requests.
    RequestJson(usize),
    /// The length of a request's body.
    RequestBytes,
    /// This one of the pointers into answers.
    ResponseJson(usize),
    /// The length of an answer's body.
    ResponseBytes,
}

/// What the bodies of a request and of its answer have reported so far.
#[derive(Debug, Default)]
pub struct Numbers {
    /// What was read of the request.
    pub request: BodyNumbers,
    /// The length of its body: announced, or what was read of it.
    pub request_bytes: Option<Decimal>,
    /// Whether that is the length of the whole body, and it is not compressed.
    pub is_length_known: bool,
    /// Whether the whole body was read, and it is not compressed.
    pub is_request_whole: bool,
    /// What was read of the answer.
    pub response: BodyNumbers,
    /// The length of its body so far.
    pub response_bytes: Option<Decimal>,
}

impl Numbers {
    /// Whether the request's body was read, and is JSON to its end.
    pub fn is_json_whole(&self) -> bool {
        self.is_request_whole && self.request.is_whole
    }

    /// Returns the number that is reported at a place, behind the document that told it if the last counts.
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
