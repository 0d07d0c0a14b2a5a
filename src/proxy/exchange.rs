//! One request and its answer, from the head's arrival to the end of the answer's body.

use std::rc::Rc;

use http::request::Parts;
use http::{HeaderValue, Response};

use super::body_reading::BodyReading;
use super::client::Client;
use super::content::Content;
use super::downstream::request::{RequestGuard, RequestState};
use super::record::{ExchangeEnd, Record};
use super::refusal::Refusal;
use super::upstream::Attempts;
use super::worker_config::WorkerConfig;
use crate::fault::Reason;
use crate::limiter::{Decided, ResponseFacts};
use crate::snapshot::UpstreamFault;

/// The state of one exchange, as long as that lives; it travels in the answer's body.
pub(crate) struct Exchange {
    /// The attempts to have an upstream answer.
    pub(crate) attempts: Attempts,
    /// Whether the head of an answer is on its way.
    is_answered: bool,
    /// The request as its connection knows it; it ends there when this is dropped.
    request: RequestGuard,
    /// The request's id, if it has one.
    pub(crate) id: Option<HeaderValue>,
    /// Whether the response says how the request was decided.
    pub(super) is_debugged: bool,
    /// What the limiter decided, and the charge that may be given back.
    pub(crate) decided: Decided,
    /// What is read of the bodies, on routes where they tell what a request costs.
    pub(super) reading: Option<Box<BodyReading>>,
    /// What is recorded of the exchange.
    pub(crate) record: Record,
}

impl Exchange {
    /// Begins the exchange of a request whose head has arrived.
    pub(crate) fn begin(
        request: RequestGuard,
        client: &Rc<Client>,
        live: &Rc<WorkerConfig>,
        head: &Parts,
    ) -> Box<Self> {
        // Built in its box, because it is large.
        Box::new(Self {
            attempts: Attempts::default(),
            is_answered: false,
            request,
            id: None,
            is_debugged: false,
            decided: Decided::default(),
            reading: None,
            record: Record::begin(client, live, head),
        })
    }

    /// Notes the upstream's answer, and settles what the request was charged.
    pub(super) fn answered(&mut self, response: &Response<Content>) {
        if let Some(reading) = &mut self.reading
            && let Some(bodies) = self.record.route().and_then(|route| route.bodies.as_ref())
        {
            reading.answered(bodies, self.record.method(), response);
        }
        let answer = ResponseFacts {
            status: response.status(),
            fault: UpstreamFault::Other,
            headers: Some(response.headers()),
        };
        self.settle(&answer, None);
    }

    /// Notes that the gateway answers in the upstream's place, and settles what the request was charged.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        if let Some(reading) = &mut self.reading {
            reading.unanswered();
        }
        let answer = ResponseFacts {
            status: refusal.status(),
            fault: upstream_fault(refusal.reason()),
            headers: None,
        };
        self.record.retry_after(refusal.retry_after_secs());
        self.settle(&answer, Some(refusal.reason()));
    }

    fn settle(&mut self, answer: &ResponseFacts<'_>, reason: Option<Reason>) {
        self.is_answered = true;
        self.record.answered(answer.status, reason);
        let record = &self.record;
        (self.decided).settle(&record.live.snapshot, &record.settler(), answer);
    }

    /// Returns the request on its connection.
    pub(crate) fn request(&self) -> &RequestState {
        &self.request
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_answered && !self.attempts.is_sent() {
            self.decided.abandon(&self.record.client.worker.store);
        }
        if let Some(reading) = self.reading.take()
            && let Some(route) = self.record.route()
        {
            let (numbers, end) = reading.finish();
            let settler = self.record.settler();
            self.decided.settle_bodies(route, &settler, &numbers, end);
        }
        self.record.finish(&ExchangeEnd {
            decided: &self.decided,
            attempts: &self.attempts,
            id: self.id.as_ref(),
            received_bytes: self.request.body_bytes(),
        });
    }
}

/// Says what kept the upstream from answering, if the gateway refuses for this reason.
fn upstream_fault(reason: Reason) -> UpstreamFault {
    match reason {
        Reason::ConnectFailed | Reason::NoEndpoint | Reason::NoDescriptors => {
            UpstreamFault::Connect
        }
        Reason::ResponseTimeout => UpstreamFault::Timeout,
        _ => UpstreamFault::Other,
    }
}
