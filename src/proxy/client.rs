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
    /// The other end's address; none at the other end of a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// Whether that is whose connection it is. If not, nothing is believed that its requests say of
    /// their clients.
    pub(crate) is_named: bool,
    /// What was agreed with it, if the connection is encrypted.
    pub(crate) tls: Option<TlsSession>,
    /// Index of the listener that accepted it.
    pub(crate) listener: ListenerIndex,
    /// That listener as it was then.
    pub(crate) accepted_by: Arc<Listener>,
    /// The latest request's client, as the log shows it.
    pub(crate) shown: RefCell<LatestAddress>,
    /// The latest request's host.
    pub(crate) host: RefCell<LatestHost>,
    /// What the latest request's origin was told of its client.
    pub(crate) forwarded: RefCell<LatestFields>,
    /// Whose quota the latest request spent.
    pub(crate) partition: RefCell<LatestPartition>,
}

impl Client {
    /// Begins with a connection that has had no request yet.
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
            is_named: true,
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
