//! A request on its journey, and why a journey ends early.

use http::HeaderValue;

use super::client::Client;
use super::connection_facts::ConnectionFacts;
use super::downstream::body::RequestBody;
use super::exchange::Exchange;
use super::refusal::Refusal;
use super::worker_config::WorkerConfig;
use crate::index::RouteIndex;
use crate::limiter::Limiter;
use crate::snapshot::Listener;

/// Why a journey ends before its last phase.
pub(super) enum Stop {
    /// The gateway answers.
    Refused(Refusal),
    /// There is nobody left to answer.
    Gone,
}

/// A request on its journey, and what goes with it.
pub(super) struct Journey<'r> {
    pub(super) client: &'r Client,
    pub(super) live: &'r WorkerConfig,
    pub(super) limiter: Limiter<'r>,
    pub(super) listener: &'r Listener,
    pub(super) exchange: &'r mut Exchange,
    /// The client's body, until it is forwarded.
    pub(super) body: &'r mut Option<RequestBody>,
    /// The index of the route, once it is found.
    pub(super) route: Option<RouteIndex>,
    /// Index of the origin in the route's `cors_origins` whose page made the request, if one of them did.
    pub(super) page_origin: Option<usize>,
    /// The protocol that the client asks to switch to; none once it is known that the route does not allow it.
    pub(super) upgrade: Option<HeaderValue>,
}

impl<'r> Journey<'r> {
    /// Returns what is known of the request from its connection.
    pub(super) fn connection(&self) -> ConnectionFacts<'r> {
        ConnectionFacts {
            snapshot: &self.live.snapshot,
            listener: self.listener,
            peer: self.client.peer,
            is_client_known: self.client.is_client_known,
            certificate: self.client.certificate(),
            is_tls: self.client.tls.is_some(),
        }
    }
}
