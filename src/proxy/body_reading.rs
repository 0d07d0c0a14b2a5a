//! What has been read of the bodies of an exchange, and what can be read of its answer.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{Method, Response, StatusCode};

use super::content::Content;
use crate::cost::{BodyFormat, Decimal, MissingCost, NumberReader, Numbers};
use crate::snapshot::RouteBodies;

/// What has been read of an exchange's bodies.
pub(crate) struct BodyReading {
    pub(super) numbers: Numbers,
    /// Reads the answer, if it can be read.
    reader: Option<NumberReader>,
    answer_bytes: u64,
    /// How the answer ended, as far as is known.
    end: Result<(), MissingCost>,
    /// Whether the answer ended only with its connection, so that its content must show that it is complete.
    ended_by_close: bool,
}

impl BodyReading {
    /// Begins with what the request reported.
    pub(super) fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            reader: None,
            answer_bytes: 0,
            end: Err(MissingCost::ClientGone),
            ended_by_close: false,
        }
    }

    /// Notes that the gateway answers in the upstream's place.
    pub(super) fn unanswered(&mut self) {
        self.end = Err(MissingCost::Unanswered);
    }

    /// Notes the head of the answer to a request of this method.
    pub(super) fn answered(
        &mut self,
        bodies: &RouteBodies,
        method: &Method,
        response: &Response<Content>,
    ) {
        match format(bodies, method, response) {
            Ok(format) => {
                let pointers = Arc::clone(&bodies.response);
                let last_event = bodies.stream_end.clone();
                self.reader = Some(NumberReader::new(pointers, format, last_event));
            }
            Err(missing) => self.end = Err(missing),
        }
    }

    /// Reads a piece of the answer as it passes.
    pub(super) fn passed(&mut self, data: &[u8]) {
        self.answer_bytes += data.len() as u64;
        if let Some(reader) = &mut self.reader {
            reader.read(data);
        }
    }

    /// Notes that the answer has ended, and whether that can be distinguished from a broken connection.
    pub(super) fn ended(&mut self, has_known_end: bool) {
        if self.reader.is_some() {
            self.end = Ok(());
            self.ended_by_close = !has_known_end;
        }
    }

    /// Counts bytes that passed to the client after an upgrade.
    pub(super) fn carried(&mut self, bytes: u64) {
        self.answer_bytes += bytes;
    }

    /// Notes that the upstream broke the answer off.
    pub(super) fn cut(&mut self) {
        if self.reader.is_some() {
            self.end = Err(MissingCost::Cut);
        }
    }

    /// Returns what the bodies reported, and how the answer ended.
    pub(super) fn finish(mut self) -> (Numbers, Result<(), MissingCost>) {
        self.numbers.response_bytes = Some(Decimal::from(self.answer_bytes));
        if let Some(reader) = self.reader {
            self.numbers.response = reader.finish();
            let response = &self.numbers.response;
            if self.end.is_ok() && self.ended_by_close && !response.is_closed {
                self.end = Err(MissingCost::Cut);
            } else if self.end.is_ok() && !response.is_whole {
                self.end = Err(MissingCost::Malformed);
            }
        }
        (self.numbers, self.end)
    }
}

/// Returns the format in which the answer to a request of this method is read, or why it cannot be read.
fn format(
    bodies: &RouteBodies,
    method: &Method,
    response: &Response<Content>,
) -> Result<BodyFormat, MissingCost> {
    let is_without_body = |status| {
        matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        )
    };
    if matches!(response.body(), Content::Switched(_) | Content::Tunnel(_)) {
        return Err(MissingCost::Upgraded);
    }
    if *method == Method::HEAD || is_without_body(response.status()) {
        return Err(MissingCost::NoBody);
    }
    if response.status() == StatusCode::PARTIAL_CONTENT {
        return Err(MissingCost::Partial);
    }
    if is_compressed(response.headers()) {
        return Err(MissingCost::Compressed);
    }
    let by_type = || {
        // If there are several, the first one counts.
        let content_type = response.headers().get(CONTENT_TYPE)?;
        format_of(content_type.as_bytes())
    };
    let format = bodies.response_format.or_else(by_type);
    format.ok_or(MissingCost::ContentType)
}

/// Returns the format in which a body of this type is read, if it can be.
fn format_of(content_type: &[u8]) -> Option<BodyFormat> {
    let media_type = content_type.split(|byte| *byte == b';').next()?;
    let media_type = media_type.trim_ascii().to_ascii_lowercase();
    match &*media_type {
        b"text/event-stream" => Some(BodyFormat::EventStream),
        json if JSON_TYPES.contains(&json) || json.ends_with(b"+json") => Some(BodyFormat::Json),
        _ => None,
    }
}

/// Whether a body is encoded in any way. A character encoding or an empty value, as some origins send, is no coding.
pub(super) fn is_compressed(headers: &HeaderMap) -> bool {
    let is_plain = |coding: &[u8]| {
        let coding = coding.trim_ascii();
        coding.is_empty()
            || coding.eq_ignore_ascii_case(b"identity")
            || coding.eq_ignore_ascii_case(b"utf-8")
    };
    let mut fields = headers.get_all(CONTENT_ENCODING).iter();
    fields.any(|field| !field.as_bytes().split(|byte| *byte == b',').all(is_plain))
}

/// Media types of JSON, and of lines of JSON, apart from those that end in `+json`.
const JSON_TYPES: [&[u8]; 7] = [
    b"application/json",
    b"text/json",
    b"application/x-ndjson",
    b"application/ndjson",
    b"application/jsonl",
    b"application/jsonlines",
    b"application/x-jsonlines",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_event_streams_are_read_whatever_their_parameters() {
        let (json, events) = (Some(BodyFormat::Json), Some(BodyFormat::EventStream));
        for (content_type, format) in [
            ("application/json", json),
            ("Application/JSON; charset=utf-8", json),
            ("application/problem+json", json),
            ("application/x-ndjson", json),
            ("text/event-stream;charset=utf-8", events),
            ("text/plain", None),
            ("application/jsonp", None),
            ("text/html; a=application/json", None),
            ("", None),
        ] {
            assert_eq!(format_of(content_type.as_bytes()), format, "{content_type}");
        }
    }
}
