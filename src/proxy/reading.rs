//! What is read of the bodies of an exchange, on routes where they tell what a request costs.
//!
//! A request is held until it is read, because it is decided by that; an answer is read as it passes by.

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, IF_RANGE, RANGE,
};
use http::{Method, Response, StatusCode};
use http_body::Body as _;

use super::body::Content;
use super::downstream::body::{HoldError, RequestBodyError};
use super::journey::{Journey, Stop};
use super::refusal::Refusal;
use crate::cost::{BodyFormat, Decimal, MissingCost, NumberReader, Numbers, RequestNeed};
use crate::limiter::Admission;
use crate::request::Facts;
use crate::snapshot::{Route, RouteBodies};

/// What has been read of an exchange's bodies.
pub(crate) struct BodyReading {
    pub(super) numbers: Numbers,
    /// Reads the answer, if it can be read.
    reader: Option<NumberReader>,
    answer_bytes: u64,
    /// How the answer ended, as far as is known.
    end: Result<(), MissingCost>,
}

impl Journey<'_> {
    /// Reads the request's body as far as the route's policies reserve by it, unless it is refused whatever it
    /// says; then this returns what refuses it.
    pub(super) async fn read_request(
        &mut self,
        route: &Route,
        bodies: &RouteBodies,
        facts: &Facts<'_>,
    ) -> Result<Option<Admission>, Stop> {
        let mut numbers = Numbers::default();
        if bodies.reads_requests && self.upgrade.is_none() {
            let announced = self.body.as_ref().and_then(|body| body.size_hint().exact());
            numbers.request_bytes = announced.map(Decimal::from);
            let (limiter, decided) = (self.limiter, &mut self.exchange.decided);
            let latest = &self.client.partition;
            let unread = limiter.refuse_unread(route, facts, latest, &numbers, decided);
            let needs = match unread {
                Ok(needs) => needs,
                Err(refused) => return Ok(Some(refused)),
            };
            let is_compressed = is_compressed(facts.headers);
            let is_length_enough =
                |need: RequestNeed| need.bytes_max == 0 || announced.is_some() && !need.reads_json;
            let mut is_whole = false;
            if !is_length_enough(needs.all) {
                let bytes_max = needs.all.bytes_max;
                // Boxed, so that requests that are not held do not need room for it.
                let holding =
                    Box::pin(self.hold_body(bodies, bytes_max, is_compressed, &mut numbers));
                let (seen, held) = holding.await;
                is_whole = match held {
                    // Nobody is refused because of a policy that refuses nobody.
                    Err(HoldError::Full | HoldError::Late)
                        if is_length_enough(needs.enforced) || seen > needs.enforced.bytes_max =>
                    {
                        false
                    }
                    held => held?,
                };
            }
            numbers.is_request_whole = is_whole && !is_compressed;
            numbers.is_length_known = (is_whole || announced.is_some()) && !is_compressed;
        }
        self.exchange.reading = Some(Box::new(BodyReading::new(numbers)));
        Ok(None)
    }

    /// Reads the body to its end, or until more than `bytes_max` bytes have come; says how many have, and whether
    /// it ended.
    async fn hold_body(
        &mut self,
        bodies: &RouteBodies,
        bytes_max: u64,
        is_compressed: bool,
        numbers: &mut Numbers,
    ) -> (u64, Result<bool, HoldError>) {
        let Some(body) = self.body.as_mut() else {
            return (0, Ok(true));
        };
        let mut reader = NumberReader::new(Arc::clone(&bodies.request), BodyFormat::Json);
        let mut seen = 0;
        let read = |data: &[u8]| {
            seen += data.len() as u64;
            if !is_compressed {
                reader.read(data);
            }
        };
        let capacity = &self.client.worker.shared.capacity;
        let room = capacity.held_bytes(self.client.listener, self.listener.max_buffered_bytes);
        let deadline = self.client.worker.sweep.deadline();
        let timeout = self.listener.body_timeout;
        let held = body.hold(bytes_max, room, &deadline, timeout, read).await;
        numbers.request = reader.finish();
        numbers
            .request_bytes
            .get_or_insert_with(|| Decimal::from(seen));
        (seen, held)
    }
}

impl From<HoldError> for Stop {
    fn from(error: HoldError) -> Self {
        let refusal = match error {
            HoldError::Broken(RequestBodyError::Aborted) => return Self::Gone,
            HoldError::Broken(RequestBodyError::TooLarge) => Refusal::body_too_large(),
            HoldError::Broken(RequestBodyError::Malformed) => Refusal::bad_framing(),
            HoldError::Broken(RequestBodyError::TimedOut) | HoldError::Late => {
                Refusal::request_body_timeout()
            }
            HoldError::Full => Refusal::bodies_full(),
        };
        Self::Refused(refusal)
    }
}

/// Asks for an answer that can be read: whole and not compressed.
pub(super) fn ask_for_readable(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
}

impl BodyReading {
    /// Begins with what the request told.
    fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            reader: None,
            answer_bytes: 0,
            end: Err(MissingCost::ClientGone),
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
        match format(method, response) {
            Ok(format) => {
                let pointers = Arc::clone(&bodies.response);
                self.reader = Some(NumberReader::new(pointers, format));
            }
            Err(missing) => self.end = Err(missing),
        }
    }

    /// Reads what passes by of the answer.
    pub(super) fn passed(&mut self, data: &[u8]) {
        self.answer_bytes += data.len() as u64;
        if let Some(reader) = &mut self.reader {
            reader.read(data);
        }
    }

    /// Notes that the answer has ended, and whether that can be told from a broken connection.
    pub(super) fn ended(&mut self, is_end_told: bool) {
        if self.reader.is_some() {
            self.end = is_end_told.then_some(()).ok_or(MissingCost::Cut);
        }
    }

    /// Notes what passed to the client after an upgrade.
    pub(super) fn carried(&mut self, bytes: u64) {
        self.answer_bytes += bytes;
    }

    /// Notes that the upstream broke the answer off.
    pub(super) fn cut(&mut self) {
        if self.reader.is_some() {
            self.end = Err(MissingCost::Cut);
        }
    }

    /// Returns what the bodies told, and how the answer ended.
    pub(super) fn finish(mut self) -> (Numbers, Result<(), MissingCost>) {
        self.numbers.response_bytes = Some(Decimal::from(self.answer_bytes));
        if let Some(reader) = self.reader {
            self.numbers.response = reader.finish();
            if self.end.is_ok() && !self.numbers.response.is_whole {
                self.end = Err(MissingCost::Malformed);
            }
        }
        (self.numbers, self.end)
    }
}

/// Says how the answer to a request of this method holds documents, or why it cannot be read.
fn format(method: &Method, response: &Response<Content>) -> Result<BodyFormat, MissingCost> {
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
    let mut types = response.headers().get_all(CONTENT_TYPE).iter();
    let format = match (types.next(), types.next()) {
        (Some(only), None) => format_of(only.as_bytes()),
        _ => None,
    };
    format.ok_or(MissingCost::ContentType)
}

/// Says how a body of this type holds documents, if it does.
fn format_of(content_type: &[u8]) -> Option<BodyFormat> {
    let media_type = content_type.split(|byte| *byte == b';').next()?;
    let media_type = media_type.trim_ascii().to_ascii_lowercase();
    match &*media_type {
        b"text/event-stream" => Some(BodyFormat::EventStream),
        json if JSON_TYPES.contains(&json) || json.ends_with(b"+json") => Some(BodyFormat::Json),
        _ => None,
    }
}

/// Whether a body is encoded in any way.
fn is_compressed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| {
        !coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"identity")
    })
}

/// Types of JSON, and of lines of it, besides those that end in `+json`.
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
