//! Gets the connection for a request: a kept or shared one, or a new one.
//!
//! While an endpoint may speak HTTP/2, one request connects and others wait for it, because its connection may carry
//! them all. If it turns out to speak HTTP/1.1, each of them then connects by itself.
//!
//! If an endpoint is slow to accept, the gateway does not wait for it alone: after [`NEXT_AFTER`] it
//! also tries the next endpoint of the same name, and uses the first to accept (RFC 8305, section 5).

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::balance::{Origins, Tried};
use super::connect_error::ConnectError;
use super::endpoints::Failure;
use super::meter::UpstreamMeter;
use super::origin::{AlpnOffer, ConnectAttempt, Origin, Unconnected};
use super::pool::Pools;
use super::stream::TcpConnection;
use super::upstream_connection::UpstreamConnection;
use crate::fault::EndpointFailure;
use crate::proxy::wire::deadline::Elapsed;
use crate::proxy::wire::sockets::SocketPermit;
use crate::snapshot::HttpUpstream;

/// Whether a connection is kept or new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It was open already, so the origin may have closed it meanwhile.
    Kept,
    /// It was opened for this request.
    New,
}

/// Finds or opens the connection for one request.
pub(super) struct Connector<'c> {
    pub(super) pools: &'c Pools,
    pub(super) origins: &'c Origins,
    pub(super) http: &'c HttpUpstream,
    pub(super) offer: AlpnOffer,
    pub(super) hash: Option<u64>,
    /// The endpoints that the request has tried before this one.
    pub(super) tried: &'c [Rc<Origin>],
    pub(super) meter: UpstreamMeter<'c>,
}

/// A connection, and the endpoint to which it leads.
pub(super) struct ConnectedOrigin {
    pub(super) origin: Rc<Origin>,
    pub(super) link: UpstreamConnection,
    pub(super) freshness: Freshness,
}

/// Guard of the request that makes a shared attempt to connect; dropping it ends the attempt.
struct Attempting<'o> {
    origin: &'o Origin,
    attempt: Rc<ConnectAttempt>,
}

/// How long an endpoint may take to accept before the next one of its name is tried too.
const NEXT_AFTER: Duration = Duration::from_millis(250);

impl Drop for Attempting<'_> {
    fn drop(&mut self) {
        self.origin.attempt().take();
        self.attempt.has_ended.set(true);
        self.attempt.ended.notify_waiters();
    }
}

impl Connector<'_> {
    /// Takes a place on a shared connection to `origin`, or opens a connection to it or to another
    /// endpoint of its name.
    pub(super) async fn connect(
        &self,
        origin: &Rc<Origin>,
    ) -> Result<ConnectedOrigin, Unconnected> {
        let mut origin = Rc::clone(origin);
        loop {
            if self.offer == AlpnOffer::Any
                && let Some(slot) = origin.slot(self.http)
            {
                self.meter.metrics.reused(self.meter.worker);
                return Ok(ConnectedOrigin {
                    origin,
                    link: UpstreamConnection::Http2(slot),
                    freshness: Freshness::Kept,
                });
            }
            if !origin.may_share(self.offer) {
                return self.open(&origin).await;
            }
            let attempt = origin.attempt().clone();
            let Some(attempt) = attempt else {
                let attempt = Rc::<ConnectAttempt>::default();
                *origin.attempt() = Some(Rc::clone(&attempt));
                let attempting = Attempting {
                    origin: &origin,
                    attempt,
                };
                let opened = self.open(&origin).await;
                let outcome = match &opened {
                    Ok(connected) => Ok(Rc::clone(&connected.origin)),
                    Err(unconnected) => Err(Unconnected {
                        is_shared: true,
                        ..unconnected.clone()
                    }),
                };
                attempting.attempt.outcome.replace(Some(outcome));
                return opened;
            };
            match attempt.wait().await {
                Some(Ok(accepted)) => origin = accepted,
                Some(Err(unconnected)) => return Err(unconnected),
                None => {}
            }
        }
    }

    /// Opens a connection to `origin`, or to another endpoint of its name, within `connect_timeout`.
    async fn open(&self, origin: &Rc<Origin>) -> Result<ConnectedOrigin, Unconnected> {
        let Some(room) = self.pools.socket_permit().await else {
            let error = origin.no_descriptors();
            return Err(Unconnected::new(Rc::clone(origin), error));
        };
        let deadline = self.pools.deadline();
        let trying = RefCell::new(Tried::from_iter([Rc::clone(origin)]));
        // The error to report if time runs out during the TLS or HTTP/2 handshake.
        let late = Cell::new(None);
        let opening = async {
            let (origin, tcp) = self.accepted(&trying, room).await?;
            let opened = self.pools.open(&origin, tcp, self.http, self.offer, &late);
            match opened.await {
                Ok(link) => Ok((origin, link)),
                Err(error) => Err(Unconnected::new(origin, error)),
            }
        };
        let opened = deadline.within(self.http.connect_timeout, opening).await;
        let opened = opened.unwrap_or_else(|Elapsed| {
            let timed_out =
                |origin: &Rc<Origin>| origin.unreachable(io::ErrorKind::TimedOut.into());
            let mut trying = trying.take();
            let origin = trying.remove(0);
            // The endpoint that was tried last may have had too little time, so it is not blamed.
            trying.pop();
            for other in &trying {
                self.failed(other, &timed_out(other));
            }
            let error = late.take().unwrap_or_else(|| timed_out(&origin));
            Err(Unconnected::new(origin, error))
        });
        let (meter, worker) = (self.meter.metrics, self.meter.worker);
        match opened {
            Ok((origin, link)) => {
                meter.opened(worker);
                Ok(ConnectedOrigin {
                    origin,
                    link,
                    freshness: Freshness::New,
                })
            }
            Err(unconnected) => {
                if let ConnectError::Tls { source, .. } = &unconnected.error {
                    meter.tls_failed(worker, *source);
                }
                Err(unconnected)
            }
        }
    }

    /// Connects to the endpoint in `trying`, and to others of its name if that takes long. `trying`
    /// holds the endpoints that are being tried and have not failed, oldest first; it is never empty.
    /// Afterwards it holds only the endpoint that accepted.
    async fn accepted(
        &self,
        trying: &RefCell<Tried>,
        room: SocketPermit,
    ) -> Result<(Rc<Origin>, TcpConnection), Unconnected> {
        let connect = async |origin: Rc<Origin>, room| {
            let connected = origin.connect(room).await;
            (origin, connected)
        };
        let first = Rc::clone(&trying.borrow()[0]);
        let mut tried = Tried::from_iter([Rc::clone(&first)]);
        tried.extend(self.tried.iter().cloned());
        let mut connecting = FuturesUnordered::new();
        connecting.push(connect(first, room));
        let pending = self.pools.deadline();
        loop {
            let ended = match pending.within(NEXT_AFTER, connecting.next()).await {
                Ok(ended) => ended,
                Err(Elapsed) => match self.next_of_name(&tried) {
                    Some((next, room)) => {
                        tried.push(Rc::clone(&next));
                        trying.borrow_mut().push(Rc::clone(&next));
                        connecting.push(connect(next, room));
                        continue;
                    }
                    None => connecting.next().await,
                },
            };
            let (origin, connected) = ended.expect("one is being tried");
            let is_other = |one: &mut Rc<Origin>| !Rc::ptr_eq(one, &origin);
            let error = match connected {
                Ok(tcp) => {
                    let tried = trying.replace(Tried::from_iter([Rc::clone(&origin)]));
                    // Endpoints that were tried later may be as fast, so only earlier ones are blamed.
                    for slow in tried.iter().take_while(|one| !Rc::ptr_eq(one, &origin)) {
                        let cause = "slower to accept than another address";
                        self.blame(slow, EndpointFailure::ConnectTimeout, cause);
                    }
                    return Ok((origin, tcp));
                }
                Err(error) if connecting.is_empty() => return Err(Unconnected::new(origin, error)),
                Err(error) => error,
            };
            self.failed(&origin, &error);
            trying.borrow_mut().retain(is_other);
        }
    }

    /// Chooses an endpoint of the same name to be tried as well, if there is room for its socket.
    fn next_of_name(&self, tried: &[Rc<Origin>]) -> Option<(Rc<Origin>, SocketPermit)> {
        let room = self.pools.try_socket_permit()?;
        let next = self.origins.choose_of_name(tried, self.hash)?;
        Some((Rc::clone(next), room))
    }

    /// Notes that an endpoint failed to accept, while the request still has others or reports another failure.
    fn failed(&self, origin: &Origin, error: &ConnectError) {
        if let Some(kind) = error.failure() {
            self.blame(origin, kind, &error.cause());
        }
    }

    fn blame(&self, origin: &Origin, kind: EndpointFailure, cause: &str) {
        let failure = Failure {
            kind,
            cause,
            began: self.pools.clock.now(),
        };
        (self.origins).failed(origin, &failure, self.meter.worker);
    }
}
