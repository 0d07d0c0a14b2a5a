//! What is known of a request from its connection, and what it is therefore trusted to say.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use super::forwarded::Sender;
use crate::clock::Timestamp;
use crate::request::jwt::TokenClaims;
use crate::request::{self, claims};
use crate::snapshot::{Listener, Route, Snapshot};
use crate::tls::ClientCertificate;

/// What is known of a request from its connection.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionFacts<'r> {
    /// The configuration in force.
    pub(crate) snapshot: &'r Snapshot,
    /// The listener that accepted the connection.
    pub(crate) listener: &'r Listener,
    /// Address of the other end, or of the client that its PROXY header names; none for a Unix socket without one.
    pub(crate) peer: Option<IpAddr>,
    /// Whether `peer` is known to be the client of the connection; false if its PROXY header names none.
    pub(crate) is_client_known: bool,
    /// The other end's certificate, if the listener asks for one.
    pub(crate) certificate: Option<&'r ClientCertificate>,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
}

impl<'r> ConnectionFacts<'r> {
    /// Whether the peer is trusted to say whose requests it forwards.
    #[inline]
    pub(crate) fn trusts_peer(&self) -> bool {
        self.is_client_known && request::is_trusted_peer(self.peer, &self.listener.identity)
    }

    /// Returns the address of the request's client: the peer, or the client that a trusted peer names.
    #[expect(
        clippy::inline_always,
        reason = "one busy caller, and each request comes here"
    )]
    #[inline(always)]
    pub(crate) fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        if self.trusts_peer() {
            request::client_address(self.peer, headers, &self.listener.identity)
        } else {
            self.peer.map(|peer| peer.to_canonical())
        }
    }

    /// Returns the claims of the request's token, if the route's policies read claims and the token is valid at `now`.
    pub(super) fn claims(
        &self,
        route: &Route,
        headers: &HeaderMap,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Arc<TokenClaims>> {
        let tokens = self.snapshot.tokens.as_ref();
        let tokens = tokens.filter(|_| route.reads_claims())?;
        tokens.claims(headers, now())
    }

    /// Returns the most bytes that a request's body may have: the route's maximum, or the listener's if the route
    /// has none.
    pub(super) fn body_bytes_max(&self, route: &Route) -> Option<u64> {
        route.max_body_bytes.or(self.listener.max_body_bytes)
    }

    /// Returns a function that says which fields the peer may not send.
    #[inline]
    pub(super) fn forbids(&self) -> impl Fn(&HeaderName) -> bool + use<'r> {
        let id = self.snapshot.general.request_id.as_ref();
        let (source, trusts_peer) = (&self.listener.identity.source, self.trusts_peer());
        move |name| !trusts_peer && claims::requires_trusted_peer(name, source, id)
    }

    /// Sets the field that tells origins the client's certificate, if the client has one.
    pub(super) fn set_client_cert(&self, headers: &mut HeaderMap) {
        if let Some(certificate) = self.certificate {
            claims::set_client_cert(headers, &certificate.header);
        }
    }

    /// Returns who sent the request, and how.
    #[inline]
    pub(super) fn sender(&self, client: Option<IpAddr>) -> Sender<'r> {
        Sender {
            peer: self.peer,
            client,
            believed: self.trusts_peer().then_some(&self.listener.identity.source),
            scheme: if self.is_tls { "https" } else { "http" },
        }
    }
}
