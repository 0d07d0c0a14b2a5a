//! The one order in which a request's head is changed, from the client's to the origin's.
//!
//! Security depends on the order: fields that an untrusted peer may not send are removed before anything is
//! read, routes and limits read what the origin will see, and the gateway's own fields are set when no client
//! can have them removed any more. [`before_route`], [`after_route`] and [`before_forward`] follow each other, a
//! line for each change; nothing else changes a field of a request. Host, framing and Connection are written when
//! the request is sent to the origin.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use http::header::{HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::body_cost::ask_for_readable;
use super::connection_facts::ConnectionFacts;
use super::debug;
use super::forwarded;
use super::journey_state::Journey;
use super::refusal::Refusal;
use super::{request_id, upstream_limit_headers};
use crate::proxy::wire::request_head::CommonFields;
use crate::request::{self, LatestHost, SeenNames, Unwanted, hop_by_hop};
use crate::snapshot::{Route, UpstreamKind};

/// What [`before_route`] found, for the later changes.
pub(super) struct Arrived {
    /// The values of Connection, if they name fields.
    connection: Option<Vec<HeaderValue>>,
    /// The fields whose several lines were joined into one.
    pub(super) joined: Vec<HeaderName>,
    /// Whether the name of some field reads like that of another that routes or policies read.
    has_disguises: bool,
}

/// Changes a head that has arrived, so that a route can be found by it.
#[expect(
    clippy::inline_always,
    reason = "one busy caller, and each request comes here"
)]
#[inline(always)]
pub(super) fn before_route(
    sent_by: &ConnectionFacts<'_>,
    head: &mut Parts,
    target: &Uri,
    seen: SeenNames,
    client: Option<IpAddr>,
    latest_host: &RefCell<LatestHost>,
) -> Result<Arrived, Refusal> {
    let snapshot = sent_by.snapshot;
    let headers = &mut head.headers;
    // Removes what is for this connection alone, what only the gateway says (`Tollgate-*`, and X-Forwarded-Prefix,
    // which not even a trusted peer may send), and what only a trusted peer may say. Connection is read here for the
    // last time, but the fields that it names are not removed yet, because a trusted peer may have set them. From here
    // on, every field is what the origin will see.
    let connection = match seen.unwanted {
        Unwanted::None => None,
        Unwanted::OnlyConnection if hop_by_hop::remove_common_connection(headers) => None,
        _ => hop_by_hop::strip_request(headers, &snapshot.head_filter, sent_by.forbids()),
    };
    // Sets the certificate of the connection, whatever the client says of one.
    sent_by.set_client_cert(headers);
    // Sets Host to an absolute target's authority, so that no reader can see another host.
    set_host(head, target, latest_host)?;
    // Sets the scheme in one spelling, if routes read it.
    if snapshot.reads_scheme {
        forwarded::set_scheme(&mut head.headers, &sent_by.sender(client));
    }
    // Leaves one line of each field that a route reads, so that its value is the one that the origin reads.
    let router = &snapshot.router;
    let joined = request::join_routed_lines(&mut head.headers, router, seen.has_disguises);
    Ok(Arrived {
        connection,
        joined,
        has_disguises: seen.has_disguises,
    })
}

/// Removes what Connection names, now that it is known what the route reads.
///
/// # Errors
/// If Connection names a field that the listener reads from its trusted peers, or that the route reads. A proxy
/// may have set that field, and passed on what its client wrote in Connection.
#[expect(
    clippy::inline_always,
    reason = "one busy caller, and each request comes here"
)]
#[inline(always)]
pub(super) fn after_route(
    sent_by: &ConnectionFacts<'_>,
    route: &Route,
    arrived: &Arrived,
    headers: &mut HeaderMap,
) -> Result<(), Refusal> {
    let Some(connection) = &arrived.connection else {
        return Ok(());
    };
    let listener = sent_by.listener;
    let id = sent_by.snapshot.general.request_id.iter();
    let believed =
        (listener.identity.believed_fields().chain(id)).filter(|_| listener.trusts_peers());
    let mut decisive = believed.chain(&route.decisive_headers);
    if decisive.any(|name| hop_by_hop::names_field(connection, name)) {
        return Err(Refusal::bad_connection_field());
    }
    hop_by_hop::remove_named(headers, connection);
    // Connection may have named the certificate's field.
    sent_by.set_client_cert(headers);
    Ok(())
}

/// Changes the head of an admitted request into what the origin gets. Returns the fields that follow the head's
/// own, if they can be shared with other requests; then the request's id is to be sent with them.
pub(super) fn before_forward(
    journey: &Journey<'_>,
    route: &Route,
    arrived: &Arrived,
    headers: &mut HeaderMap,
    client: Option<IpAddr>,
) -> Option<Rc<CommonFields>> {
    // Leaves one line of each field that a policy reads, so that the origin reads what was counted.
    if let Some(reads) = &route.reads {
        reads.join_lines(headers, arrived.has_disguises);
    }
    // A response that reports a cost must come whole and not compressed.
    if route.bodies.is_some() {
        ask_for_readable(headers);
    }
    // Says whose request it is: nothing that a client sends can have these fields removed any more.
    let common = journey.name_sender(route, headers, client);
    // Says what was stripped from the path: here, and not where the path is changed, so that no Connection field
    // can remove it.
    forwarded::set_prefix(headers, &route.path_change);
    // Says which overrides matched, and which quotas are used up.
    journey.announce_limits(headers);
    // The operator has the last word …
    if let Some(changes) = journey.route.and_then(|route| journey.live.changes(route)) {
        changes.request.apply_to_request(headers);
    }
    // … except on the protocol that the connection is to switch to.
    if let Some(protocol) = &journey.upgrade {
        headers.insert(UPGRADE, protocol.clone());
    }
    common
}

impl Journey<'_> {
    /// Finds out whose request it is, notes that, and gives the request its id. Returns the client's address.
    pub(super) fn resolve_client(&mut self, headers: &HeaderMap) -> Option<IpAddr> {
        let sent_by = self.connection();
        let address = sent_by.client(headers);
        let record = &mut self.exchange.record;
        record.sent_by(address);
        record.note_trace_id(|| request_id::trace_id(headers));
        if let Some(name) = &self.live.request_id {
            let is_trusted = sent_by.trusts_peer();
            self.exchange.id = Some(request_id::of(headers, name, is_trusted));
        }
        self.exchange.is_debugged = debug::is_debugged(&self.live.snapshot, address);
        address
    }

    /// Tells the upstream whose request it is, and that it came through a gateway: in `headers`, or in
    /// the fields that are returned.
    fn name_sender(
        &self,
        route: &Route,
        headers: &mut HeaderMap,
        client: Option<IpAddr>,
    ) -> Option<Rc<CommonFields>> {
        let snapshot = &self.live.snapshot;
        let sender = self.connection().sender(client);
        let upstream = &snapshot.upstreams[route.upstream].kind;
        // The fields can be shared if nothing reads or changes them before they are sent.
        let may_be_common = matches!(upstream, UpstreamKind::Http(_))
            && !snapshot.reads_scheme
            && (route.changes.as_ref()).is_none_or(|changes| changes.request.is_empty());
        let mut latest = self.client.forwarded.borrow_mut();
        let common = may_be_common
            .then(|| forwarded::common(headers, &sender, &mut latest))
            .flatten();
        if common.is_none() {
            if let Some((name, id)) = self.request_id() {
                headers.insert(name, id);
            }
            forwarded::annotate(headers, &sender);
        }
        common
    }

    /// Returns the request's id, after the name of the field that carries it.
    pub(super) fn request_id(&self) -> Option<(HeaderName, HeaderValue)> {
        let name = self.live.request_id.clone();
        name.zip(self.exchange.id.clone())
    }

    /// Tells the upstream which overrides matched, and which quotas are used up.
    fn announce_limits(&self, headers: &mut HeaderMap) {
        let mut buffer = self.client.worker.scratch.borrow_mut();
        let (snapshot, decided) = (&self.live.snapshot, &self.exchange.decided);
        upstream_limit_headers::set(headers, snapshot, decided, &mut buffer);
    }
}

/// Puts an absolute target's authority into the Host field, because routes, partitions and the
/// upstream look there. The field that it replaces must be valid all the same. Schemes other than
/// HTTP's name resources that are not served here.
fn set_host(head: &mut Parts, target: &Uri, latest: &RefCell<LatestHost>) -> Result<(), Refusal> {
    if let Some(authority) = target.authority() {
        if !matches!(target.scheme_str(), None | Some("http" | "https")) {
            return Err(Refusal::bad_path());
        }
        (latest
            .borrow_mut()
            .host(target, &head.headers, head.version))
        .map_err(|_| Refusal::bad_host())?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Refusal::bad_host())?;
        head.headers.insert(HOST, host);
    }
    Ok(())
}
