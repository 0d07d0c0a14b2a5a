//! Fields that say whose request it is: what is believed of them, and what the upstream is told.

use std::net::IpAddr;
use std::rc::Rc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::forwarded::{self, Sender};
use super::journey_state::Journey;
use super::refusal::Refusal;
use super::upstream::CommonFields;
use super::{request_id, tiers};
use crate::request::{self, cdn_loop, claims, hop_by_hop};
use crate::snapshot::{Route, UpstreamKind};

impl Journey<'_> {
    /// Takes out what the peer may not say, and says what the gateway knows in its place; returns the
    /// client's address.
    pub(super) fn believe(&mut self, headers: &mut HeaderMap) -> IpAddr {
        let (peer, identity) = (self.client.peer, &self.listener.identity);
        let id_name = self.live.snapshot.general.request_id.as_ref();
        let is_trusted = self.trusts_peer();
        if !is_trusted {
            claims::strip_untrusted(headers, &identity.source, id_name);
        }
        self.tell_certificate(headers);
        let address = if is_trusted {
            request::client_address(peer, headers, identity)
        } else {
            peer.to_canonical()
        };
        let record = &mut self.exchange.record;
        record.sent_by(address);
        record.traced(|| request_id::trace_id(headers));
        if let Some(name) = id_name {
            self.exchange.id = Some(request_id::of(headers, name, is_trusted));
        }
        address
    }

    /// Removes what the values of Connection, `naming`, name, if any do.
    ///
    /// # Errors
    /// If they name a field that the listener believes of its trusted peers, or that the route goes by. A
    /// proxy may have set that field, and passed on what its client wrote in Connection.
    pub(super) fn remove_named(
        &self,
        naming: Option<&[HeaderValue]>,
        route: &Route,
        headers: &mut HeaderMap,
    ) -> Result<(), Refusal> {
        let Some(naming) = naming else {
            return Ok(());
        };
        let identity = &self.listener.identity;
        let id = self.live.snapshot.general.request_id.iter();
        let id = id.filter(|_| !identity.trusted_proxies.is_empty());
        let believed = identity.believed_fields().chain(id);
        let mut decisive = believed.chain(&route.decisive_headers);
        if decisive.any(|name| hop_by_hop::names_field(naming, name)) {
            return Err(Refusal::bad_connection_field());
        }
        hop_by_hop::remove_named(headers, naming);
        self.tell_certificate(headers);
        Ok(())
    }

    /// Says which certificate the client has, if the listener asks for one.
    fn tell_certificate(&self, headers: &mut HeaderMap) {
        if let Some(certificate) = self.client.certificate() {
            claims::set_client_cert(headers, &certificate.header);
        }
    }

    /// Tells the upstream whose request it is, and that it came through a gateway: in its fields, or
    /// in those that are returned, beside which the request's id is to be told.
    pub(super) fn annotate_request(
        &self,
        route: &Route,
        headers: &mut HeaderMap,
        client: IpAddr,
    ) -> Option<Rc<CommonFields>> {
        let snapshot = &self.live.snapshot;
        let sender = self.sender(client);
        let is_http = matches!(
            snapshot.upstreams[route.upstream].kind,
            UpstreamKind::Http(_)
        );
        // Nothing looks at the fields, or changes them, before they are sent.
        let may_be_common = is_http && !snapshot.reads_scheme && route.request_headers.is_empty();
        let mut latest = self.client.forwarded.borrow_mut();
        let common = may_be_common
            .then(|| forwarded::common(headers, &sender, &mut latest))
            .flatten();
        if common.is_none() {
            if let Some((name, id)) = self.request_id() {
                headers.insert(name, id);
            }
            forwarded::annotate(headers, &sender);
            cdn_loop::add(headers);
        }
        common
    }

    /// Returns the request's id, and the field that tells it.
    pub(super) fn request_id(&self) -> Option<(HeaderName, HeaderValue)> {
        let name = self.live.snapshot.general.request_id.clone();
        name.zip(self.exchange.id.clone())
    }

    /// Whether the peer is believed in what it says of its clients.
    fn trusts_peer(&self) -> bool {
        self.client.is_named && request::is_trusted(self.client.peer, &self.listener.identity)
    }

    /// Returns who sent the request, and how.
    pub(super) fn sender(&self, client: IpAddr) -> Sender<'_> {
        let (peer, identity) = (self.client.peer, &self.listener.identity);
        let is_tls = self.client.tls.is_some();
        Sender {
            peer,
            client,
            believed: self.trusts_peer().then_some(&identity.source),
            scheme: if is_tls { "https" } else { "http" },
        }
    }

    /// Tells the upstream which overrides matched, and which quotas are used up.
    pub(super) fn tell_upstream(&self, headers: &mut HeaderMap) {
        let mut buffer = self.client.worker.scratch.borrow_mut();
        let (snapshot, decided) = (&self.live.snapshot, &self.exchange.decided);
        tiers::tell_upstream(headers, snapshot, decided, &mut buffer);
    }
}
