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
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::connecting::Link;
use super::due::Due;
use super::endpoints::Endpoints;
use super::http1::{Buffers, Connection};
use super::http2::{self, StreamError};
use super::origin::{ConnectError, Offer, Origin, Protocol};
use super::stream::Stream;
use crate::clock::Timestamp;
use crate::fault::TlsFailure;
use crate::proxy::deadline::{Elapsed, Sweep};
use crate::snapshot::{Endpoint, HttpUpstream, Scheme, Upstream};

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

/// A connection as it was made.
enum Connected {
    Http1(Stream),
    Http2(http2::Connection),
}

/// Where a connection in use goes afterwards.
pub(super) struct Lease {
    origin: Rc<Origin>,
    max_idle: usize,
    idle_timeout: Duration,
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
        origins.map(|origin| origin.idle()).sum()
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
            let tls = http
                .tls
                .as_ref()
                .filter(|_| endpoint.scheme == Scheme::Https);
            // What was encrypted in another way is not used any more.
            let same = known.iter().find(|origin| origin.is_same(endpoint, tls));
            same.map_or_else(
                || {
                    let state = (self.states).state(&upstream.name, endpoint.authority.as_str());
                    let now = Rc::clone(&self.now);
                    Rc::new(Origin::new(endpoint.clone(), tls, state, now))
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

    /// Opens a connection to `origin`, and takes it for one request.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        http: &HttpUpstream,
        offer: Offer,
    ) -> Result<Link, ConnectError> {
        let deadline = self.sweep.deadline();
        // What is late if time is over.
        let late = Cell::new(None);
        let connecting = async {
            let tcp = self.dial_or_make_room(origin).await?;
            late.set(Some(origin.no_tls(TlsFailure::Timeout)));
            let stream = origin.secured(tcp, offer).await?;
            match origin.protocol(&stream, offer) {
                Protocol::Http1 => Ok(Connected::Http1(stream)),
                Protocol::Http2 => {
                    late.set(Some(origin.no_http2(StreamError::Timeout)));
                    let begun = http2::Connection::begin(stream, self.sweep.deadline()).await;
                    begun
                        .map(Connected::Http2)
                        .map_err(|no| match no.tls_failure {
                            Some(failure) => origin.no_tls(failure),
                            None => origin.no_http2(no.error),
                        })
                }
            }
        };
        let connected = deadline.within(http.connect_timeout, connecting).await;
        let connected = connected.unwrap_or_else(|Elapsed| {
            let unreachable = || origin.unreachable(io::ErrorKind::TimedOut.into());
            Err(late.take().unwrap_or_else(unreachable))
        })?;
        match connected {
            Connected::Http1(stream) => {
                let buffers = Rc::clone(&self.buffers);
                Ok(Link::Http1(Connection::new(stream, deadline, buffers)))
            }
            Connected::Http2(connection) => {
                let slot = origin.share(connection, http);
                let closed = || origin.no_http2(StreamError::Closed);
                slot.map(Link::Http2).ok_or_else(closed)
            }
        }
    }

    /// Returns what an origin owes to a request; nothing yet.
    pub(super) fn due(&self) -> Rc<Due> {
        Rc::new(Due::new(self.sweep.deadline()))
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
                origin.close_idle();
            }
        }
        origin.dial().await
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
    pub(super) fn release(&self, connection: Connection<Stream>) {
        (self.origin).keep(connection, self.max_idle, self.idle_timeout);
    }
}
