//! The trace of one request that is under way.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Version};

use super::heads::ShownHeads;
use super::traced_request::{TraceStep, TracedEnd, TracedRequest};
use super::traces::{HeadCopies, Traces, WantedRequest};
use crate::clock::{Clock, Micros, Timestamp};
use crate::proxy::wire::request_head::RequestHead;
use crate::request::hop_by_hop;
use crate::snapshot::Snapshot;

/// The trace of a request that a watcher may want; made only while somebody watches.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    began: Timestamp,
    pub(super) method: Method,
    pub(super) path: String,
    has_query: bool,
    /// The head as it arrived; none if too many requests came to copy it: then the trace begins with the decision.
    arrived: Option<ArrivedHead>,
    wanted_by: Vec<WantedRequest>,
    /// When the request's client and route were known; `asked_at` is when the limiter was asked.
    pub(super) identified_at: Timestamp,
    pub(super) asked_at: Timestamp,
    /// The host asked for, once it is known to be good.
    pub(super) host: String,
    /// Address of the request's client.
    pub(super) client: Option<IpAddr>,
    is_decided: bool,
    steps: Vec<TraceStep>,
}

/// Whether a field is written when the request is sent to an endpoint, and not taken from the head.
fn is_of_message(name: &HeaderName) -> bool {
    hop_by_hop::is_hop_by_hop(name) || matches!(*name, HOST | CONTENT_LENGTH)
}

/// A head as it arrived.
#[derive(Debug)]
pub(crate) struct ArrivedHead {
    version: Version,
    headers: HeaderMap,
}

impl RequestTrace {
    /// Begins to trace a request that has arrived, if its head may be copied.
    #[cold]
    pub(crate) fn begin(
        head: &Parts,
        peer: Option<IpAddr>,
        traces: &Traces,
        (clock, copies): (&Clock, &HeadCopies),
    ) -> Option<Box<Self>> {
        let path = head.uri.path();
        if !copies.take(|| traces.may_want(path)) {
            return None;
        }
        let mut trace = Self::new(clock.now(), &head.method, path, peer);
        trace.has_query = head.uri.query().is_some();
        trace.arrived = Some(ArrivedHead {
            version: head.version,
            headers: head.headers.clone(),
        });
        Some(trace)
    }

    /// Begins to trace a request, without its head.
    pub(super) fn new(
        began: Timestamp,
        method: &Method,
        path: &str,
        client: Option<IpAddr>,
    ) -> Box<Self> {
        Box::new(Self {
            began,
            method: method.clone(),
            path: path.to_owned(),
            has_query: false,
            arrived: None,
            wanted_by: Vec::new(),
            identified_at: began,
            asked_at: began,
            host: String::new(),
            client,
            is_decided: false,
            steps: Vec::new(),
        })
    }

    /// Notes the host asked for.
    pub(crate) fn asked_for(&mut self, host: &str) {
        host.clone_into(&mut self.host);
    }

    /// Notes the address of the request's client.
    pub(crate) fn sent_by(&mut self, client: Option<IpAddr>) {
        self.client = client;
    }

    /// Notes when the request's client and route are known.
    pub(crate) fn identified(&mut self, now: Timestamp) {
        (self.identified_at, self.asked_at) = (now, now);
    }

    /// Notes when the limiter is asked.
    pub(crate) fn asked(&mut self, now: Timestamp) {
        self.asked_at = now;
    }

    /// Whether the request has been traced since its arrival.
    pub(super) fn has_arrived(&self) -> bool {
        self.arrived.is_some()
    }

    /// Whether the request was decided, and the watchers that want it were found then.
    pub(super) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Notes the watchers that want the request.
    pub(super) fn set_watchers(&mut self, wanted_by: Vec<WantedRequest>) {
        (self.wanted_by, self.is_decided) = (wanted_by, true);
    }

    /// Adds the head that arrived.
    pub(super) fn add_head(&mut self, snapshot: &Snapshot) {
        let shown = ShownHeads::new(snapshot, !self.host.is_empty());
        let query = if self.has_query { "?(a query)" } else { "" };
        let mut text = format!("{} {}{query}", self.method, shown.path(&self.path));
        match &self.arrived {
            Some(arrived) => {
                write!(text, " {:?}", arrived.version).expect("memory takes every byte");
                shown.write(arrived.headers.iter(), &mut text);
            }
            None => {
                text.push_str("\n(its fields were not kept, because too many requests arrive)");
            }
        }
        self.add(self.began, "received", text);
    }

    /// Adds what is sent to the upstream, without its host and what concerns the connection, because these are written
    /// when the request is sent to an endpoint.
    pub(crate) fn forwarded(&mut self, now: Timestamp, head: &RequestHead, snapshot: &Snapshot) {
        let shown = ShownHeads::new(snapshot, false);
        let mut text = format!("{} {}", head.method, shown.path(head.target.path()));
        let common = head.common.iter().flat_map(|common| common.iter());
        let further = head.id.iter().chain(common);
        let further = further.map(|(name, value)| (name, value));
        let fields = head.headers.iter().chain(further);
        let sent = fields.filter(|(name, _)| !is_of_message(name));
        shown.write(sent, &mut text);
        self.add(now, "forwarded", text);
    }

    /// Adds why an upstream gives no answer.
    pub(crate) fn failed(&mut self, now: Timestamp, endpoint: Option<&str>, cause: &str) {
        let text = match endpoint {
            Some(endpoint) => format!("{endpoint}: {cause}"),
            None => cause.to_owned(),
        };
        self.add(now, "failed", text);
    }

    pub(super) fn add(&mut self, now: Timestamp, step: &'static str, text: String) {
        self.steps.push(TraceStep {
            at_us: now.since(self.began).0,
            step,
            text,
        });
    }

    pub(super) fn took(&self, now: Timestamp) -> Micros {
        now.since(self.began)
    }

    /// Sends the trace of a request that is over to those who want it.
    pub(super) fn send(self, end: impl FnOnce(&Self) -> TracedEnd) {
        let end = end(&self);
        let steps = self.steps;
        let request = Arc::new(TracedRequest { end, steps });
        for wanted in self.wanted_by {
            wanted.send(&request);
        }
    }
}
