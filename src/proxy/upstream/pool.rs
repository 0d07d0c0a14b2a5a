//! The connections to origins that one worker keeps for the next request.
//!
//! Each endpoint of an upstream has a stack of idle connections, the one used last on top, bounded in
//! number and in time. Stacks belong to the endpoint, not to the snapshot: when the endpoints of an
//! upstream change, those that stay keep theirs, and [`Pools::sweep`] drops those that no snapshot names
//! any more. The sockets of all workers share one bound ([`Sockets`]): idle connections are closed
//! before a request is refused because of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::balance::Origins;
use super::connect_error::ConnectError;
use super::endpoints::UpstreamState;
use super::http1::{Buffers, Http1Connection};
use super::http2::{self, StreamError};
use super::origin::{AlpnOffer, Origin, Protocol};
use super::origin_deadline::OriginDeadline;
use super::stream::{Stream, TcpConnection};
use super::upstream_connection::UpstreamConnection;
use crate::clock::{Clock, Timestamp};
use crate::fault::TlsFailure;
use crate::metrics::WorkerIndex;
use crate::proxy::wire::deadline::{self, Deadline, Sweep};
use crate::proxy::wire::sockets::{SocketPermit, Sockets};
use crate::snapshot::{HttpUpstream, Scheme};

/// The upstream connections of one worker.
pub struct Pools {
    sweep: Rc<Sweep>,
    pub(super) clock: Clock,
    worker: WorkerIndex,
    sockets: Arc<Sockets>,
    /// The count of [`Sockets::wants`] at the latest sweep; a change means that a socket is needed.
    wants: Cell<usize>,
    /// The time of the latest sweep.
    now: Rc<Cell<Timestamp>>,
    buffers: Rc<Buffers>,
    /// Keyed by the upstream's address, which is not used again while `Origins` holds the upstream.
    /// There are few upstreams, so searching costs less than hashing.
    upstreams: RefCell<BTreeMap<*const UpstreamState, Rc<Origins>>>,
}

/// How many sweeps a request without room for a socket waits for: each worker sweeps once in that time.
const ROOM_SWEEPS: u32 = 2;

/// Where a connection goes after its response.
pub(super) struct PoolReturn {
    origin: Rc<Origin>,
    max_idle: usize,
    idle_timeout: Duration,
}

impl Pools {
    /// Makes the pools of `worker`, whose deadlines belong to `sweep`, and whose connections count
    /// towards `sockets`.
    pub fn new(sweep: Rc<Sweep>, clock: Clock, worker: WorkerIndex, sockets: Arc<Sockets>) -> Self {
        Self {
            sweep,
            wants: Cell::new(sockets.wants()),
            sockets,
            now: Rc::new(Cell::new(clock.now())),
            clock,
            worker,
            buffers: Rc::default(),
            upstreams: RefCell::default(),
        }
    }

    /// Closes connections that have been idle for too long at `now`, or all idle ones if a socket is
    /// wanted, and forgets endpoints that have left.
    pub fn sweep(&self, now: Timestamp) {
        self.now.set(now);
        let wants = self.sockets.wants();
        if self.wants.replace(wants) != wants {
            self.close_idle();
        }
        let upstreams = self.upstreams.borrow_mut();
        for origins in upstreams.values() {
            origins.report_requests();
            for origin in origins.iter() {
                origin.retire(now);
            }
        }
        let is_retired = |one: &&Rc<Origins>| !one.upstream.is_in_force();
        let retired: SmallVec<[_; 8]> = upstreams.values().filter(is_retired).cloned().collect();
        let has_changed = |one: &&Rc<Origins>| one.upstream.is_in_force() && !one.is_current();
        let changed = upstreams.values().filter(has_changed);
        let changed: SmallVec<[_; 8]> = changed.cloned().collect();
        drop(upstreams);
        for upstream in retired.iter().filter_map(|one| one.upstream.successor()) {
            // This moves the connections to the successor.
            self.origins(&upstream);
        }
        for one in &changed {
            self.origins(&one.upstream);
        }
        let mut upstreams = self.upstreams.borrow_mut();
        upstreams.retain(|_, one| one.upstream.is_in_force());
        drop(upstreams);
        for origin in retired.iter().flat_map(|one| one.iter()) {
            self.leave_unless_used(origin);
        }
    }

    /// Closes the connections of an endpoint, unless another upstream still has it.
    fn leave_unless_used(&self, origin: &Rc<Origin>) {
        let upstreams = self.upstreams.borrow();
        let mut all = upstreams.values().flat_map(|one| one.iter());
        if !all.any(|one| Rc::ptr_eq(one, origin)) {
            origin.leave();
        }
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        let upstreams = self.upstreams.borrow();
        let origins = upstreams.values().flat_map(|origins| origins.iter());
        origins.map(|origin| origin.idle()).sum()
    }

    /// Returns the endpoints of `upstream` as they are now.
    pub(super) fn origins(&self, upstream: &Arc<UpstreamState>) -> Rc<Origins> {
        if let Some(origins) = self.upstreams.borrow().get(&Arc::as_ptr(upstream))
            && origins.is_current()
        {
            return Rc::clone(origins);
        }
        let origins = Rc::new(self.adopt(upstream));
        let mut upstreams = self.upstreams.borrow_mut();
        let old = upstreams.insert(Arc::as_ptr(upstream), Rc::clone(&origins));
        drop(upstreams);
        if let Some(old) = old {
            old.report_requests();
            for origin in old.iter() {
                self.leave_unless_used(origin);
            }
        }
        origins
    }

    /// Makes the origins of `upstream`; those that an upstream of the same name already has are taken
    /// over.
    fn adopt(&self, upstream: &Arc<UpstreamState>) -> Origins {
        let upstreams = self.upstreams.borrow();
        let known: Vec<_> = upstreams
            .values()
            .filter(|known| known.upstream.name() == upstream.name())
            .flat_map(|known| known.iter())
            .collect();
        // The version is read before the members, so endpoints that change in between are read again later.
        let version = upstream.version();
        let members = Arc::clone(&upstream.members());
        let list = members.list.iter().map(|member| {
            let endpoint = &member.state.endpoint;
            let tls = upstream.http().tls.as_ref();
            let tls = tls.filter(|_| endpoint.scheme == Scheme::Https);
            // Connections that were encrypted in another way are not used any more.
            let same = known
                .iter()
                .find(|origin| origin.is_same(&member.state, tls));
            let origin = same.map_or_else(
                || {
                    let now = Rc::clone(&self.now);
                    Rc::new(Origin::new(&member.state, tls, self.worker, now))
                },
                |origin| Rc::clone(origin),
            );
            (origin, member.weight)
        });
        Origins::new(upstream, version, list, Rc::clone(&self.now))
    }

    /// Returns a deadline that is not armed.
    pub(super) fn deadline(&self) -> Rc<Deadline> {
        self.sweep.deadline()
    }

    /// Performs the handshakes on a new connection to `origin`, and takes it for one request. Before
    /// each handshake, the error to report if it takes too long is set in `late`.
    pub(super) async fn open(
        &self,
        origin: &Origin,
        tcp: TcpConnection,
        http: &HttpUpstream,
        offer: AlpnOffer,
        late: &Cell<Option<ConnectError>>,
    ) -> Result<UpstreamConnection, ConnectError> {
        late.set(Some(origin.no_tls(TlsFailure::Timeout)));
        let stream = origin.secured(tcp, offer).await?;
        match origin.protocol(&stream, offer) {
            Protocol::Http1 => {
                let (deadline, buffers) = (self.sweep.deadline(), Rc::clone(&self.buffers));
                Ok(UpstreamConnection::Http1(Http1Connection::new(
                    stream, deadline, buffers,
                )))
            }
            Protocol::Http2 => {
                late.set(Some(origin.no_http2(StreamError::Timeout)));
                let deadline = self.sweep.deadline();
                let begun = http2::Http2Connection::begin(stream, http.max_header_bytes, deadline);
                let connection = begun.await.map_err(|no| match no.tls_failure {
                    Some(failure) => origin.no_tls(failure),
                    None => origin.no_http2(no.error),
                })?;
                let slot = origin.share(connection, http);
                let closed = || origin.no_http2(StreamError::Closed);
                slot.map(UpstreamConnection::Http2).ok_or_else(closed)
            }
        }
    }

    /// Makes the deadline of one exchange, in which the origin owes nothing yet.
    pub(super) fn due(&self) -> Rc<OriginDeadline> {
        Rc::new(OriginDeadline::new(self.sweep.deadline()))
    }

    /// Takes a permit for a socket. If there is no room, idle connections are closed, those of other
    /// workers by their next sweeps; none if there is still no room after that.
    pub(super) async fn socket_permit(&self) -> Option<SocketPermit> {
        let room = self.sockets.take();
        if room.is_some() {
            return room;
        }
        self.close_idle();
        let deadline = self.deadline();
        for _ in 0..ROOM_SWEEPS {
            let room = self.sockets.take();
            if room.is_some() {
                return room;
            }
            self.sockets.want();
            // Nothing but the deadline, which the sweep checks, ends this wait.
            let _ = deadline.within(deadline::PERIOD, pending::<()>()).await;
        }
        self.sockets.take()
    }

    /// Takes a permit for a socket, without closing anything and without waiting.
    pub(super) fn try_socket_permit(&self) -> Option<SocketPermit> {
        self.sockets.take()
    }

    fn close_idle(&self) {
        for origins in self.upstreams.borrow().values() {
            for origin in origins.iter() {
                origin.close_idle();
            }
        }
    }
}

impl PoolReturn {
    pub(super) fn new(origin: &Rc<Origin>, http: &HttpUpstream) -> Self {
        Self {
            origin: Rc::clone(origin),
            max_idle: http.max_idle,
            idle_timeout: http.idle_timeout,
        }
    }

    /// Limits the connection's idle time to `timeout`; zero closes it after this response.
    pub(super) fn limit_idle(&mut self, timeout: Duration) {
        self.idle_timeout = self.idle_timeout.min(timeout);
    }

    /// Keeps the connection for another request, unless enough are kept.
    pub(super) fn release(&self, connection: Http1Connection<Stream>) {
        (self.origin).keep(connection, self.max_idle, self.idle_timeout);
    }
}
