//! Reads the bodies of an exchange, on routes where they tell what a request costs.
//!
//! A request's body is buffered until it is read, because the decision depends on it; an answer's is read as it passes.

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use http_body::Body as _;

use super::body_reading::{BodyReading, is_compressed};
use super::downstream::body::BufferError;
use super::downstream::body_error::RequestBodyError;
use super::journey_state::{Journey, Stop};
use super::refusal::Refusal;
use crate::cost::{BodyFormat, Decimal, NumberReader, Numbers, RequestNeed};
use crate::limiter::Admission;
use crate::request::Facts;
use crate::snapshot::{Route, RouteBodies};

impl Journey<'_> {
    /// Reads as much of the request's body as the route's policies need to reserve its cost. If the request is refused
    /// whatever its body says, reads nothing and returns that refusal.
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
            let unread = limiter.refuse_unread(&route.policies, facts, latest, &numbers, decided);
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
                // Boxed, so that requests that are not buffered do not need room for it.
                let buffering =
                    Box::pin(self.hold_body(bodies, bytes_max, is_compressed, &mut numbers));
                let (seen, buffered) = buffering.await;
                is_whole = match buffered {
                    // A policy that refuses nobody must not get a request refused because it reads the body.
                    Err(BufferError::Full | BufferError::Late)
                        if is_length_enough(needs.enforced) || seen > needs.enforced.bytes_max =>
                    {
                        false
                    }
                    buffered => buffered?,
                };
            }
            numbers.is_request_whole = is_whole && !is_compressed;
            numbers.is_length_known = (is_whole || announced.is_some()) && !is_compressed;
        }
        self.exchange.reading = Some(Box::new(BodyReading::new(numbers)));
        Ok(None)
    }

    /// Reads the body to its end, or until more than `bytes_max` bytes have come; returns how many have, and whether
    /// the body ended.
    async fn hold_body(
        &mut self,
        bodies: &RouteBodies,
        bytes_max: u64,
        is_compressed: bool,
        numbers: &mut Numbers,
    ) -> (u64, Result<bool, BufferError>) {
        let Some(body) = self.body.as_mut() else {
            return (0, Ok(true));
        };
        let mut reader = NumberReader::new(Arc::clone(&bodies.request), BodyFormat::Json, None);
        let mut seen = 0;
        let read = |data: &[u8]| {
            seen += data.len() as u64;
            if !is_compressed {
                reader.read(data);
            }
        };
        let capacity = &self.client.worker.process.capacity;
        let room = capacity.buffered_bytes(self.client.listener, self.listener.max_buffered_bytes);
        let deadline = self.client.worker.sweep.deadline();
        let timeout = self.listener.body_timeout;
        let buffered = body.buffer(bytes_max, room, &deadline, timeout, read).await;
        numbers.request = reader.finish();
        numbers
            .request_bytes
            .get_or_insert_with(|| Decimal::from(seen));
        (seen, buffered)
    }
}

impl From<BufferError> for Stop {
    fn from(error: BufferError) -> Self {
        let refusal = match error {
            BufferError::Broken(RequestBodyError::Aborted) => return Self::Gone,
            BufferError::Broken(RequestBodyError::TooLarge) => Refusal::body_too_large(),
            BufferError::Broken(RequestBodyError::Malformed) => Refusal::bad_framing(),
            BufferError::Broken(RequestBodyError::TimedOut) | BufferError::Late => {
                Refusal::request_body_timeout()
            }
            BufferError::Full => Refusal::bodies_full(),
        };
        Self::Refused(refusal)
    }
}

/// Asks the origin for an answer that can be read: whole and not compressed.
pub(super) fn ask_for_readable(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(RANGE);
    headers.remove(IF_RANGE);
}
