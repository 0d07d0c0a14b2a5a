//! The client at the other end of a connection, as its requests know it.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::downstream::opening::TlsSession;
use super::forwarded::LatestFields;
use super::worker::Worker;
use crate::clock::Micros;
use crate::index::ListenerIndex;
use crate::request::{LatestAddress, LatestHost, LatestPartition, redacted_address};
use crate::snapshot::Listener;
use crate::tls::ClientCertificate;

/// What the requests of one connection have in common.
pub(crate) struct Client {
    pub(crate) worker: Rc<Worker>,
    /// Address of the other end, or of the client that its PROXY header names; none for a Unix socket without one.
    pub(crate) peer: Option<IpAddr>,
    /// Whether `peer` is known to be the client of the connection; false if its PROXY header names none.
    /// Then its requests are not trusted to say whose they are.
    pub(crate) is_client_known: bool,
    /// What was agreed in the TLS handshake, if the connection is encrypted.
    pub(crate) tls: Option<TlsSession>,
    /// Index of the listener that accepted the connection.
    pub(crate) listener: ListenerIndex,
    /// The listener as it was when it accepted the connection.
    pub(crate) accepted_by: Arc<Listener>,
    /// The latest request's client, as the log shows it.
    pub(crate) shown: RefCell<LatestAddress>,
    /// The latest request's host.
    pub(crate) host: RefCell<LatestHost>,
    /// What the latest request's origin was told of its client.
    pub(crate) forwarded: RefCell<LatestFields>,
    /// The latest request's partition id.
    pub(crate) partition: RefCell<LatestPartition>,
}

impl Client {
    /// Makes the client of a connection that has had no request yet.
    pub(crate) fn new(
        worker: Rc<Worker>,
        peer: Option<IpAddr>,
        listener: ListenerIndex,
        accepted_by: Arc<Listener>,
        tls: Option<TlsSession>,
    ) -> Self {
        Self {
            worker,
            peer,
            is_client_known: true,
            tls,
            listener,
            accepted_by,
            shown: RefCell::default(),
            host: RefCell::default(),
            forwarded: RefCell::default(),
            partition: RefCell::default(),
        }
    }

    /// Returns the other end's certificate, if the listener asks for one.
    pub(crate) fn certificate(&self) -> Option<&ClientCertificate> {
        self.tls.as_ref()?.certificate.as_ref()
    }

    /// Whether the other end's certificate has expired.
    pub(crate) fn is_certificate_expired(&self) -> bool {
        self.certificate().is_some_and(|certificate| {
            let clock = &self.worker.process.clock;
            let now_secs = clock.wall_at(clock.now()).0 / Micros::from_secs(1).0;
            now_secs.cast_signed() > certificate.expires_secs
        })
    }

    /// Shows the other end's address as far as the log may show it.
    pub(crate) fn redacted_peer(&self) -> impl Display {
        let live = self.worker.live();
        fmt::from_fn(move |f| {
            let names = live.snapshot.log.clients;
            write!(
                f,
                "{}",
                redacted_address(&live.digest_key, self.peer, names)
            )
        })
    }
}
