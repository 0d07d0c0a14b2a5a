//! The connections to origins that one worker keeps for the next request.
//!
//! Each endpoint of an upstream has a stack of idle connections, the one used last on top, bounded
//! in number and in time. Stacks belong to the endpoint, not to the snapshot: the first request
//! after a reload takes over the stacks of endpoints that are still there, and [`Pools::sweep`]
//! drops those that no snapshot names any more. The number of connections in use is not bounded
//! here.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::net::TcpStream;

use super::endpoints::{EndpointState, Endpoints};
use super::http1::{Buffers, Connection};
use crate::clock::{Micros, Timestamp};
use crate::proxy::deadline::{Elapsed, Sweep};
use crate::snapshot::{Endpoint, HttpUpstream, Upstream};

/// The upstream connections of one worker.
pub struct Pools {
    sweep: Rc<Sweep>,
    /// Which endpoints fail, as the whole process knows.
    states: Arc<Endpoints>,
    /// The time of the latest sweep.
    now: Rc<Cell<Timestamp>>,
    buffers: Rc<Buffers>,
    /// By the upstream's address, which is not used again while `Origins` holds the upstream. There
    /// are few, and a search costs less than a hash.
    upstreams: RefCell<BTreeMap<*const Upstream, Rc<Origins>>>,
}

/// The endpoints of an upstream as one snapshot has them.
pub(super) struct Origins {
    upstream: Arc<Upstream>,
    pub(super) endpoints: Vec<Rc<Origin>>,
    /// Requests so far, so that endpoints take turns.
    turns: Cell<usize>,
}

/// An endpoint, how to reach it, and its idle connections.
pub(super) struct Origin {
    endpoint: Endpoint,
    /// The endpoint's authority as the value of a Host field.
    pub(super) host: HeaderValue,
    /// Whether it fails, for the log.
    state: Arc<EndpointState>,
    /// The endpoint's addresses when it was last looked up.
    resolved: RefCell<Option<Resolved>>,
    idle: RefCell<Vec<Idle>>,
    now: Rc<Cell<Timestamp>>,
}

struct Resolved {
    addresses: Rc<[SocketAddr]>,
    until: Timestamp,
}

struct Idle {
    connection: Connection<TcpStream>,
    until: Timestamp,
}

/// Where a connection in use goes afterwards.
pub(super) struct Lease {
    origin: Rc<Origin>,
    max_idle: usize,
    idle_timeout: Duration,
}

/// Why there is no new connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint's name has no address.
    #[error("{host} does not resolve")]
    Resolve {
        /// The endpoint's host.
        host: Box<str>,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address accepted in time.
    #[error("cannot connect to {authority}")]
    Connect {
        /// The endpoint's host and port.
        authority: Box<str>,
        /// What the last address answered; `TimedOut` if `connect_timeout` was over.
        source: io::Error,
    },
}

impl Pools {
    /// Makes the pools of a worker whose deadlines are `sweep`'s.
    pub fn new(sweep: Rc<Sweep>, now: Timestamp, states: Arc<Endpoints>) -> Self {
        Self {
            sweep,
            states,
            now: Rc::new(Cell::new(now)),
            buffers: Rc::default(),
            upstreams: RefCell::default(),
        }
    }

    /// Closes what has been idle for too long at `now`, and forgets upstreams that no snapshot
    /// names any more.
    pub fn sweep(&self, now: Timestamp) {
        self.now.set(now);
        self.upstreams.borrow_mut().retain(|_, origins| {
            for origin in &origins.endpoints {
                origin.retire(now);
            }
            Arc::strong_count(&origins.upstream) > 1
        });
    }

    /// Counts the idle connections.
    pub fn idle(&self) -> usize {
        let upstreams = self.upstreams.borrow();
        let origins = upstreams.values().flat_map(|origins| &origins.endpoints);
        origins.map(|origin| origin.idle.borrow().len()).sum()
    }

    /// Finds the origins of `upstream`, whose kind is `http`.
    pub(super) fn origins(&self, upstream: &Arc<Upstream>, http: &HttpUpstream) -> Rc<Origins> {
        if let Some(origins) = self.upstreams.borrow().get(&Arc::as_ptr(upstream)) {
            return Rc::clone(origins);
        }
        let origins = Rc::new(self.adopt(upstream, http));
        self.upstreams
            .borrow_mut()
            .insert(Arc::as_ptr(upstream), Rc::clone(&origins));
        origins
    }

    /// Makes the origins of `upstream`; those that an upstream of this name already has are taken
    /// over.
    fn adopt(&self, upstream: &Arc<Upstream>, http: &HttpUpstream) -> Origins {
        let upstreams = self.upstreams.borrow();
        let known: Vec<_> = upstreams
            .values()
            .filter(|known| known.upstream.name == upstream.name)
            .flat_map(|known| &known.endpoints)
            .collect();
        let origin = |endpoint: &Endpoint| {
            known
                .iter()
                .find(|origin| origin.endpoint == *endpoint)
                .map_or_else(
                    || {
                        let state =
                            (self.states).state(&upstream.name, endpoint.authority.as_str());
                        Rc::new(Origin::new(endpoint.clone(), state, Rc::clone(&self.now)))
                    },
                    |origin| Rc::clone(origin),
                )
        };
        Origins {
            upstream: Arc::clone(upstream),
            endpoints: http.endpoints.iter().map(origin).collect(),
            turns: Cell::new(0),
        }
    }

    /// Opens a connection to `origin`.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        http: &HttpUpstream,
    ) -> Result<Connection<TcpStream>, ConnectError> {
        let deadline = self.sweep.deadline();
        let dialling = self.dial_or_make_room(origin);
        let dialled = deadline.within(http.connect_timeout, dialling).await;
        let stream = dialled
            .unwrap_or_else(|Elapsed| Err(origin.unreachable(io::ErrorKind::TimedOut.into())))?;
        Ok(Connection::new(stream, deadline, Rc::clone(&self.buffers)))
    }

    /// Dials; if the process is out of descriptors, closes this worker's idle connections and dials
    /// again.
    async fn dial_or_make_room(&self, origin: &Origin) -> Result<TcpStream, ConnectError> {
        let dialled = origin.dial().await;
        if !matches!(&dialled, Err(error) if error.is_out_of_descriptors()) {
            return dialled;
        }
        for origins in self.upstreams.borrow().values() {
            for origin in &origins.endpoints {
                origin.idle.borrow_mut().clear();
            }
        }
        origin.dial().await
    }
}

impl ConnectError {
    /// Says why in a few words, for the log.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::Resolve { source, .. } => format!("name does not resolve: {source}"),
            Self::Connect { source, .. } => match source.kind() {
                io::ErrorKind::Other => source.to_string(),
                kind => kind.to_string(),
            },
        }
    }

    fn is_out_of_descriptors(&self) -> bool {
        let (Self::Resolve { source, .. } | Self::Connect { source, .. }) = self;
        matches!(source.raw_os_error(), Some(ENFILE | EMFILE))
    }
}

impl Origins {
    /// Begins a turn: yields endpoints in the order in which a request tries them, again and again.
    pub(super) fn turn(&self) -> impl Iterator<Item = &Rc<Origin>> {
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        (turn..).map_while(|at| self.endpoints.get(at.checked_rem(self.endpoints.len())?))
    }
}

impl Origin {
    fn new(endpoint: Endpoint, state: Arc<EndpointState>, now: Rc<Cell<Timestamp>>) -> Self {
        Self {
            host: HeaderValue::from_str(endpoint.authority.as_str())
                .expect("an authority has no character that a field value cannot have"),
            endpoint,
            state,
            resolved: RefCell::default(),
            idle: RefCell::default(),
            now,
        }
    }

    /// Returns host and port as the file has them.
    pub(super) fn authority(&self) -> &str {
        self.endpoint.authority.as_str()
    }

    /// Notes that a request was answered.
    pub(super) fn answered(&self) {
        self.state.answered(self.now.get());
    }

    /// Notes that a request failed here.
    pub(super) fn failed(&self, cause: &str) {
        self.state.failed(cause, self.now.get());
    }

    /// Drops connections that have been idle for too long or were closed by the origin.
    fn retire(&self, now: Timestamp) {
        self.idle
            .borrow_mut()
            .retain(|idle| idle.until > now && idle.connection.seems_quiet());
    }

    /// Connects to the first of the endpoint's addresses that accepts.
    async fn dial(&self) -> Result<TcpStream, ConnectError> {
        let addresses = self.addresses().await?;
        let stream = TcpStream::connect(&*addresses).await;
        stream
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| self.unreachable(error))
    }

    /// Looks up the endpoint's host, at most once per [`RESOLVE_EVERY`] while it accepts.
    async fn addresses(&self) -> Result<Rc<[SocketAddr]>, ConnectError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Rc::new([SocketAddr::new(address, *port)]));
        }
        if let Some(resolved) = &*self.resolved.borrow()
            && resolved.until > self.now.get()
        {
            return Ok(Rc::clone(&resolved.addresses));
        }
        let found = tokio::net::lookup_host((&**host, *port)).await;
        let addresses: Rc<[_]> = found
            .map_err(|source| ConnectError::Resolve {
                host: host.clone(),
                source,
            })?
            .collect();
        *self.resolved.borrow_mut() = Some(Resolved {
            addresses: Rc::clone(&addresses),
            until: self.now.get() + Micros::from(RESOLVE_EVERY),
        });
        Ok(addresses)
    }

    /// Makes the error of an endpoint that does not accept; its name may have moved, so it is
    /// looked up again.
    fn unreachable(&self, source: io::Error) -> ConnectError {
        self.resolved.take();
        ConnectError::Connect {
            authority: self.endpoint.authority.as_str().into(),
            source,
        }
    }

    /// Whether there is an idle connection.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    /// Takes the connection that was used last, unless the origin has closed it, or sent what
    /// nobody asked for: the system is asked.
    pub(super) fn take(&self) -> Option<Connection<TcpStream>> {
        loop {
            let Idle { connection, .. } = self.idle.borrow_mut().pop()?;
            if connection.is_quiet() {
                return Some(connection);
            }
        }
    }
}

impl Lease {
    pub(super) fn new(origin: &Rc<Origin>, http: &HttpUpstream) -> Self {
        Self {
            origin: Rc::clone(origin),
            max_idle: http.max_idle,
            idle_timeout: http.idle_timeout,
        }
    }

    /// Lets the connection be idle for at most `timeout`; zero closes it after this response.
    pub(super) fn limit_idle(&mut self, timeout: Duration) {
        self.idle_timeout = self.idle_timeout.min(timeout);
    }

    /// Keeps a connection that can carry another request, if there is room.
    pub(super) fn release(&self, connection: Connection<TcpStream>) {
        let mut stack = self.origin.idle.borrow_mut();
        if !self.idle_timeout.is_zero() && stack.len() < self.max_idle && connection.seems_quiet() {
            stack.push(Idle {
                connection,
                until: self.origin.now.get() + Micros::from(self.idle_timeout),
            });
        }
    }
}

/// The system has no more descriptors; the same number on every Unix.
const ENFILE: i32 = 23;
/// The process has no more descriptors; the same number on every Unix.
const EMFILE: i32 = 24;

/// How long an endpoint's addresses are used before they are looked up again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);
