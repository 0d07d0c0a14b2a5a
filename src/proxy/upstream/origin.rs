//! One endpoint of an upstream, as one worker knows it: how to reach it, and its idle connections.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::Scheme;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::connect_error::ConnectError;
use super::endpoints::EndpointState;
use super::http1::Http1Connection;
use super::http2::{self, Slot, StreamError};
use super::stream::{OpenConnection, Stream, TcpConnection};
use super::system_error::is_out_of_descriptors;
use super::upstream_connection::UpstreamConnection;
use crate::clock::{Micros, Timestamp};
use crate::fault::TlsFailure;
use crate::metrics::WorkerIndex;
use crate::proxy::wire::sockets::SocketPermit;
use crate::snapshot::{self, HttpUpstream};
use crate::tls::{ALPN_HTTP1, ClientTls};

/// An endpoint, how to reach it, and its idle connections.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) state: Arc<EndpointState>,
    /// The endpoint's authority as the value of a Host field.
    pub(super) host: HeaderValue,
    /// The scheme in requests over HTTP/2.
    scheme: Scheme,
    /// The TLS configuration and the name to verify the endpoint by; none if connections are not encrypted.
    tls: Option<(ClientTls, ServerName<'static>)>,
    /// The same configuration, offering HTTP/1.1 alone.
    tls_http1: Option<ClientTls>,
    idle: RefCell<Vec<Idle>>,
    /// Connections over HTTP/2, with streams or without.
    shared: RefCell<Vec<Rc<http2::Http2Connection>>>,
    /// The attempt to connect that is under way, if other requests may share its connection.
    attempt: RefCell<Option<Rc<ConnectAttempt>>>,
    /// The protocol that the scheme fixes, or else that of the latest connection; none before the first one.
    protocol: Cell<Option<Protocol>>,
    /// Whether the endpoint has left its upstream: no more requests come, so no connection is kept.
    has_left: Cell<bool>,
    worker: WorkerIndex,
    now: Rc<Cell<Timestamp>>,
}

/// The protocols that a new connection offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlpnOffer {
    /// Both, of which the endpoint chooses one.
    Any,
    /// HTTP/1.1 alone, for a request that asks for an upgrade.
    Http1,
}

/// The protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

#[derive(Debug)]
struct Idle {
    connection: Http1Connection<Stream>,
    until: Timestamp,
}

/// Why a request got no connection, and to which endpoint.
#[derive(Clone, Debug)]
pub(super) struct Unconnected {
    pub(super) origin: Rc<Origin>,
    pub(super) error: ConnectError,
    /// Whether another request made the attempt, and has blamed the endpoint already.
    pub(super) is_shared: bool,
}

/// An attempt to connect that other requests wait for.
#[derive(Debug, Default)]
pub(super) struct ConnectAttempt {
    pub(super) ended: Notify,
    pub(super) has_ended: Cell<bool>,
    /// The endpoint that accepted, or why none did; none if the attempt is under way or was given up.
    pub(super) outcome: RefCell<Option<Result<Rc<Origin>, Unconnected>>>,
}

impl Origin {
    pub(super) fn new(
        state: &Arc<EndpointState>,
        tls: Option<&ClientTls>,
        worker: WorkerIndex,
        now: Rc<Cell<Timestamp>>,
    ) -> Self {
        let endpoint = &state.endpoint;
        let named = |tls: &ClientTls| {
            let own = || ServerName::try_from(String::from(&*endpoint.host));
            let name = tls.server_name.clone().map_or_else(own, Ok);
            (
                tls.clone(),
                name.expect("the file's endpoint has a name that can be verified"),
            )
        };
        Self {
            tls: tls.map(named),
            tls_http1: tls.map(|tls| tls.clone().offering(&[ALPN_HTTP1])),
            scheme: match endpoint.scheme {
                snapshot::Scheme::Https => Scheme::HTTPS,
                snapshot::Scheme::Http | snapshot::Scheme::H2c => Scheme::HTTP,
            },
            protocol: Cell::new(match endpoint.scheme {
                snapshot::Scheme::Http => Some(Protocol::Http1),
                snapshot::Scheme::Https => None,
                snapshot::Scheme::H2c => Some(Protocol::Http2),
            }),
            host: HeaderValue::from_str(endpoint.authority.as_str())
                .expect("an authority has no character that a field value cannot have"),
            state: Arc::clone(state),
            idle: RefCell::default(),
            shared: RefCell::default(),
            attempt: RefCell::default(),
            has_left: Cell::new(false),
            worker,
            now,
        }
    }

    /// Whether this is the endpoint of `state`, with connections encrypted as `tls` says.
    pub(super) fn is_same(&self, state: &Arc<EndpointState>, tls: Option<&ClientTls>) -> bool {
        Arc::ptr_eq(&self.state, state) && self.tls.as_ref().map(|(own, _)| own) == tls
    }

    /// Notes that a request got a head, and that nothing of its response failed after that.
    pub(super) fn answered(&self) {
        self.state.answered(self.now.get());
    }

    /// Drops connections that have been idle for too long or were closed by the origin.
    pub(super) fn retire(&self, now: Timestamp) {
        self.idle
            .borrow_mut()
            .retain(|idle| idle.until > now && idle.connection.seems_quiet());
        self.shared
            .borrow_mut()
            .retain(|shared| shared.is_kept(now));
    }

    /// Connects to the first of the endpoint's addresses that accepts.
    pub(super) async fn connect(&self, room: SocketPermit) -> Result<TcpConnection, ConnectError> {
        let tcp = TcpStream::connect(&*self.state.addresses).await;
        let tcp = tcp.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp));
        let tcp = tcp.map_err(|error| self.unreachable(error))?;
        let open = OpenConnection::new(&self.state.metrics, self.worker, room);
        Ok(TcpConnection::new(tcp, open))
    }

    /// Performs the TLS handshake on a connection, if the endpoint uses TLS.
    pub(super) async fn secured(
        &self,
        tcp: TcpConnection,
        offer: AlpnOffer,
    ) -> Result<Stream, ConnectError> {
        let (Some((tls, name)), Some(http1)) = (&self.tls, &self.tls_http1) else {
            return Ok(Stream::plain(tcp));
        };
        let client = match offer {
            AlpnOffer::Any => tls,
            AlpnOffer::Http1 => http1,
        };
        let secured = Stream::secure(tcp, client, name.clone()).await;
        secured.map_err(|failure| self.no_tls(failure))
    }

    pub(super) fn no_tls(&self, source: TlsFailure) -> ConnectError {
        ConnectError::Tls {
            endpoint: Arc::clone(&self.state.name),
            source,
        }
    }

    pub(super) fn no_http2(&self, source: StreamError) -> ConnectError {
        ConnectError::Http2 {
            endpoint: Arc::clone(&self.state.name),
            source: source.into(),
        }
    }

    /// Makes the error for a connection for which no descriptor is left.
    pub(super) fn no_descriptors(&self) -> ConnectError {
        ConnectError::NoDescriptors {
            endpoint: Arc::clone(&self.state.name),
        }
    }

    /// Makes the error for an endpoint that does not accept, or to which no socket can be opened.
    pub(super) fn unreachable(&self, source: io::Error) -> ConnectError {
        if is_out_of_descriptors(&source) {
            return self.no_descriptors();
        }
        ConnectError::Connect {
            endpoint: Arc::clone(&self.state.name),
            source: source.into(),
        }
    }

    /// Returns the number of idle connections.
    pub(super) fn idle(&self) -> usize {
        let shared = self.shared.borrow();
        self.idle.borrow().len() + shared.iter().filter(|shared| shared.is_idle()).count()
    }

    /// Notes that no more requests come here, and closes the idle connections; requests under way go on.
    pub(super) fn leave(&self) {
        self.has_left.set(true);
        self.close_idle();
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&self) {
        self.idle.borrow_mut().clear();
        self.shared.borrow_mut().retain(|shared| !shared.is_idle());
    }

    /// Returns which protocols a request may be sent in, depending on whether it asks for an upgrade.
    pub(super) fn offer(&self, is_upgrade: bool) -> AlpnOffer {
        // An endpoint that speaks only HTTP/2 is not asked for an upgrade.
        match self.state.endpoint.scheme {
            snapshot::Scheme::Https if is_upgrade => AlpnOffer::Http1,
            _ => AlpnOffer::Any,
        }
    }

    /// Whether requests may share the connection that an attempt opens.
    pub(super) fn may_share(&self, offer: AlpnOffer) -> bool {
        offer == AlpnOffer::Any && self.protocol.get() != Some(Protocol::Http1)
    }

    /// Returns the attempt to connect that is under way, if there is one.
    pub(super) fn attempt(&self) -> RefMut<'_, Option<Rc<ConnectAttempt>>> {
        self.attempt.borrow_mut()
    }

    /// Returns the scheme in requests over HTTP/2.
    pub(super) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Returns the protocol of a new connection, and remembers it unless HTTP/1.1 alone was offered.
    pub(super) fn protocol(&self, stream: &Stream, offer: AlpnOffer) -> Protocol {
        let protocol = match self.state.endpoint.scheme {
            snapshot::Scheme::H2c => Protocol::Http2,
            _ if stream.has_chosen_http2() => Protocol::Http2,
            _ => Protocol::Http1,
        };
        if offer == AlpnOffer::Any {
            self.protocol.set(Some(protocol));
        }
        protocol
    }

    /// Lets requests share a new connection, and takes the first place on it.
    pub(super) fn share(
        &self,
        connection: http2::Http2Connection,
        http: &HttpUpstream,
    ) -> Option<Slot> {
        let connection = Rc::new(connection);
        let slot = connection.slot(http.max_header_bytes, idle_timeout(http));
        self.shared.borrow_mut().push(connection);
        slot
    }

    /// Takes a place on a shared connection over HTTP/2, if one has room.
    pub(super) fn slot(&self, http: &HttpUpstream) -> Option<Slot> {
        let shared = self.shared.borrow();
        let slot = |connection: &Rc<http2::Http2Connection>| {
            connection.slot(http.max_header_bytes, idle_timeout(http))
        };
        shared.iter().find_map(slot)
    }

    /// Whether the connection over HTTP/2 that the next request would share is idle.
    pub(super) fn has_idle_shared(&self) -> bool {
        self.shared
            .borrow()
            .first()
            .is_some_and(|shared| shared.is_idle())
    }

    /// Whether there is a connection on which a request could be written at once.
    pub(super) fn has_connection(&self) -> bool {
        !self.idle.borrow().is_empty() || !self.shared.borrow().is_empty()
    }

    /// Keeps a connection for another request, for at most `idle_timeout`, unless `max_idle` are kept
    /// already or the endpoint has left.
    pub(super) fn keep(
        &self,
        connection: Http1Connection<Stream>,
        max_idle: usize,
        idle_timeout: Duration,
    ) {
        let mut stack = self.idle.borrow_mut();
        // Whether the connection is quiet is checked when it is taken, or by the next sweep.
        if !self.has_left.get() && !idle_timeout.is_zero() && stack.len() < max_idle {
            stack.push(Idle {
                connection,
                until: self.now.get() + Micros::from(idle_timeout),
            });
        }
    }

    /// Takes a place on a shared connection, or else the idle connection that was used last. Asks the system about an
    /// idle connection, and drops it if the origin has closed it or sent unsolicited bytes.
    pub(super) fn take(&self, http: &HttpUpstream, offer: AlpnOffer) -> Option<UpstreamConnection> {
        if offer == AlpnOffer::Any
            && let Some(slot) = self.slot(http)
        {
            return Some(UpstreamConnection::Http2(slot));
        }
        loop {
            let Idle { connection, .. } = self.idle.borrow_mut().pop()?;
            if connection.is_quiet() {
                return Some(UpstreamConnection::Http1(connection));
            }
        }
    }
}

impl Unconnected {
    pub(super) fn new(origin: Rc<Origin>, error: ConnectError) -> Self {
        Self {
            origin,
            error,
            is_shared: false,
        }
    }
}

impl ConnectAttempt {
    /// Waits until the attempt ends, and returns its outcome.
    pub(super) async fn wait(&self) -> Option<Result<Rc<Origin>, Unconnected>> {
        let ended = self.ended.notified();
        if !self.has_ended.get() {
            ended.await;
        }
        self.outcome.borrow().clone()
    }
}

/// Returns how long a connection over HTTP/2 may be idle; not at all if `max_idle` is 0.
fn idle_timeout(http: &HttpUpstream) -> Duration {
    match http.max_idle {
        0 => Duration::ZERO,
        _ => http.idle_timeout,
    }
}
