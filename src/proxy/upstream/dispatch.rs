//! Sends one request: tries endpoints until one answers.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Response, StatusCode};

use super::balance::{Origins, Tried};
use super::body::Received;
use super::connecting::{ConnectedOrigin, Connector, Freshness};
use super::http1::{BadHead, ExchangeError, Http1Receiving, Repeat};
use super::origin::{AlpnOffer, Origin, Unconnected};
use super::pool::{PoolReturn, Pools};
use super::stream::Stream;
use super::upstream_connection::UpstreamConnection;
use super::{
    Attempts, BadResponse, ForwardError, ForwardOptions, HostField, UpstreamAnswer, UpstreamBody,
    UpstreamFailure, UpstreamMeter, UpstreamState,
};
use crate::proxy::wire::body::UploadBody;
use crate::proxy::wire::outgoing::Outgoing;
use crate::proxy::wire::rewound::Rewound;
use crate::snapshot::HttpUpstream;

/// Sends one request; holds what all its attempts share.
pub(super) struct Dispatch<'s> {
    pub(super) pools: &'s Pools,
    pub(super) upstream: &'s Arc<UpstreamState>,
    pub(super) http: &'s HttpUpstream,
    pub(super) terms: &'s ForwardOptions,
    pub(super) meter: UpstreamMeter<'s>,
    pub(super) attempts: &'s Attempts,
}

/// Why an endpoint brought no response, whether the request may be sent again, and who is to blame.
pub(super) struct Failed {
    pub(super) error: ForwardError,
    repeat: Repeat,
    blame: Blame,
}

/// Who is to blame for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    Endpoint,
    /// The endpoint, unless the request is sent again: origins may close kept connections at any time.
    EndpointUnlessRetried,
    /// Nobody any more: the request that made the attempt has already blamed the endpoint.
    Nobody,
}

impl Dispatch<'_> {
    /// Tries endpoints until one answers, or the request may not be sent again.
    pub(super) async fn send<B: UploadBody>(
        &self,
        request: &mut Outgoing<B>,
    ) -> Result<UpstreamAnswer, UpstreamFailure> {
        let mut tried = Tried::new();
        let mut last: Option<UpstreamFailure> = None;
        loop {
            let mut origins = self.pools.origins(self.upstream);
            if origins.is_empty() {
                origins = Box::pin(self.first_origins()).await;
            }
            let Some(origin) = origins.choose(&tried, self.terms.hash).cloned() else {
                let no_endpoint = || UpstreamFailure::no_endpoint(self.upstream);
                return Err(self.given_up(last.unwrap_or_else(no_endpoint)));
            };
            let failed = match self.visit(&origins, &origin, &tried, request).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            tried.push(origin);
            // The request may have gone to another endpoint of the same name, which then has been tried too.
            tried.extend(self.attempts.origin());
            let is_retried = self.may_retry(&failed);
            let is_blamed = match failed.blame {
                Blame::Endpoint => true,
                Blame::EndpointUnlessRetried => !is_retried,
                Blame::Nobody => false,
            };
            let failure = self.failed(failed.error, is_blamed);
            // If an endpoint may have acted on the request, that failure is reported rather than a later
            // failure to connect.
            last = Some(match last {
                Some(last)
                    if matches!(failure.error, ForwardError::Connect(_))
                        && last.may_have_acted() =>
                {
                    last
                }
                _ => failure,
            });
            if !is_retried {
                return Err(self.given_up(last.expect("it has failed")));
            }
            self.meter.metrics.retried(self.meter.worker);
        }
    }

    /// Releases the request's permit at the upstream, because the gateway answers it.
    fn given_up(&self, failure: UpstreamFailure) -> UpstreamFailure {
        self.attempts.permit.take();
        failure
    }

    /// Waits until the upstream's names have been looked up for the first time, at most for `connect_timeout`.
    async fn first_origins(&self) -> Rc<Origins> {
        let deadline = self.pools.deadline();
        let resolved = deadline.within(self.http.connect_timeout, self.upstream.resolved());
        // Whatever the outcome, the request uses the endpoints known by then. If there are none, it
        // fails and says why.
        let _ = resolved.await;
        self.pools.origins(self.upstream)
    }

    /// Ends the latest attempt, and notes that its endpoint failed if it is to blame.
    fn failed(&self, error: ForwardError, is_blamed: bool) -> UpstreamFailure {
        self.attempts.end();
        let kind = error.failure().filter(|_| is_blamed);
        let endpoint = self.attempts.endpoint().map(|name| (&*name).into());
        let failure = UpstreamFailure::of(endpoint, error);
        if let Some(kind) = kind {
            self.attempts.failed(kind, &failure.cause);
        }
        failure
    }

    fn may_retry(&self, failed: &Failed) -> bool {
        if failed.repeat == Repeat::Never || self.attempts.count() > self.http.retries {
            return false;
        }
        let is_allowed = self.upstream.take_retry(self.pools.clock.now());
        if !is_allowed {
            self.meter.metrics.retry_denied(self.meter.worker);
        }
        is_allowed
    }

    /// Tries one endpoint: on a kept connection if there is one, and on another one if that turns out to
    /// be closed.
    async fn visit<B: UploadBody>(
        &self,
        origins: &Rc<Origins>,
        origin: &Rc<Origin>,
        tried: &[Rc<Origin>],
        request: &mut Outgoing<B>,
    ) -> Result<UpstreamAnswer, Failed> {
        let now = self.pools.clock.now();
        (self.attempts).begin(origins, origin, self.meter.worker, now);
        // While this yields, the gateway notices whether the client has left, so that it writes nothing
        // for one that is gone.
        if origin.has_idle_shared() {
            // The origin may just have ended this connection. Yielding lets the runtime ask the system,
            // and the connection's task see the answer.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        } else if origin.has_connection() {
            write_with_others().await;
        }
        let offer = origin.offer(self.terms.is_upgrade);
        // A retry takes no idle connection: where one connection broke, others that were kept may be broken too.
        let is_retry = self.attempts.count() > 1;
        let mut link = (!is_retry).then(|| origin.take(self.http, offer)).flatten();
        if link.is_some() {
            self.meter.metrics.reused(self.meter.worker);
        }
        let mut resends = 0;
        loop {
            let connected = match link.take() {
                Some(link) => ConnectedOrigin {
                    origin: Rc::clone(origin),
                    link,
                    freshness: Freshness::Kept,
                },
                // Boxed because it is rare, so that other requests need no room for it.
                None => Box::pin(self.connect(origins, origin, tried, offer)).await?,
            };
            let freshness = connected.freshness;
            let mut failed = match self.exchange(connected, request).await {
                Ok(response) => {
                    self.attempts.answered(self.pools.clock.now());
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            if freshness == Freshness::Kept {
                failed.blame = Blame::EndpointUnlessRetried;
            }
            let is_stale = freshness == Freshness::Kept
                && match failed.repeat {
                    Repeat::Unwritten => resends < STALE_MAX,
                    Repeat::Unprocessed => resends == 0 && self.http.retries > 0,
                    Repeat::Idempotent | Repeat::Never => false,
                };
            if let (Freshness::New, Some(failure)) = (freshness, failed.error.tls_failure()) {
                (self.meter.metrics).tls_failed(self.meter.worker, failure);
            }
            if !is_stale {
                return Err(failed);
            }
            resends += 1;
        }
    }

    /// Connects to `origin`, or to another endpoint of its name.
    async fn connect(
        &self,
        origins: &Origins,
        origin: &Rc<Origin>,
        tried: &[Rc<Origin>],
        offer: AlpnOffer,
    ) -> Result<ConnectedOrigin, Failed> {
        let connector = Connector {
            pools: self.pools,
            origins,
            http: self.http,
            offer,
            hash: self.terms.hash,
            tried,
            meter: self.meter,
        };
        let connected = connector.connect(origin).await;
        let (Ok(ConnectedOrigin { origin, .. }) | Err(Unconnected { origin, .. })) = &connected;
        self.attempts.move_to(origin, self.pools.clock.now());
        connected.map_err(|unconnected| Failed {
            // Without a descriptor, no other endpoint can be connected to either.
            repeat: if unconnected.error.is_out_of_descriptors() {
                Repeat::Never
            } else {
                Repeat::Unwritten
            },
            error: unconnected.error.into(),
            blame: if unconnected.is_shared {
                Blame::Nobody
            } else {
                Blame::Endpoint
            },
        })
    }

    /// Sends a request on a connection, and waits for the head of its response and the body that came with it.
    pub(super) async fn exchange<B: UploadBody>(
        &self,
        ConnectedOrigin { origin, link, .. }: ConnectedOrigin,
        request: &mut Outgoing<B>,
    ) -> Result<UpstreamAnswer, Failed> {
        let host = match (self.terms.host, request.host()) {
            (HostField::Client, Some(host)) => host.clone(),
            _ => origin.host.clone(),
        };
        let timeout = self.terms.response_timeout;
        let is_sent = &self.attempts.is_sent;
        let response = match link {
            UpstreamConnection::Http1(connection) => {
                let bounds = (timeout, self.http.max_header_bytes);
                let exchanged = connection.exchange(request, &host, bounds, is_sent);
                let response = exchanged.await.map_err(Failed::from)?;
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return switched(response);
                }
                let mut pool_return = PoolReturn::new(&origin, self.http);
                if let Some(timeout) = response.body().keep_alive() {
                    // The origin closes the connection after that time, and no request must be on its
                    // way at that moment.
                    pool_return.limit_idle(timeout.saturating_sub(KEEP_ALIVE_MARGIN));
                }
                response.map(|receiving| Received::Http1(receiving, pool_return))
            }
            UpstreamConnection::Http2(slot) => {
                let target = (&host, origin.scheme());
                let due = self.pools.due();
                let exchanged = slot.exchange(request, target, due, timeout, is_sent);
                // Boxed so that requests over HTTP/1.1 do not need room for it.
                let response = Box::pin(exchanged).await.map_err(Failed::from)?;
                response.map(Received::Http2)
            }
        };
        let body = |received| UpstreamBody::new(received, self.terms.body_timeout);
        let mut response = Box::new(response.map(body));
        let begun = poll_fn(|cx| Poll::Ready(response.body_mut().read_first(cx))).await;
        begun.map_err(|error| Failed {
            error: ForwardError::BadResponse(BadResponse::Body(error)),
            repeat: Repeat::Never,
            blame: Blame::Endpoint,
        })?;
        Ok(UpstreamAnswer::Body(response))
    }
}

impl<E> From<ExchangeError<E>> for Failed
where
    ForwardError: From<ExchangeError<E>>,
{
    fn from(error: ExchangeError<E>) -> Self {
        Self {
            repeat: error.repeat(),
            error: error.into(),
            blame: Blame::Endpoint,
        }
    }
}

/// Takes the connection of a 101. An origin that switches before the request's whole head has been
/// written does not speak HTTP properly.
fn switched(response: Response<Http1Receiving<Stream>>) -> Result<UpstreamAnswer, Failed> {
    let (head, receiving) = response.into_parts();
    let (io, unread) = receiving.into_switched().ok_or(Failed {
        error: ForwardError::BadResponse(BadHead::Upgrade.into()),
        repeat: Repeat::Never,
        blame: Blame::Endpoint,
    })?;
    let response = Response::from_parts(head, Rewound { unread, io });
    Ok(UpstreamAnswer::Switched(Box::new(response)))
}

/// Lets the tasks that are ready run up to the same point first. Their requests are then written one
/// after another, and an origin on the same machine is woken once for all of them.
///
/// With 64 busy connections this saves a tenth of the cost of a request.
async fn write_with_others() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // Waking itself queues the task after all that are ready. `yield_now` would also ask the system
        // for events.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Most times that a request takes another connection to an endpoint because a kept one was closed.
const STALE_MAX: u32 = 16;

/// How much earlier than the origin the gateway closes an idle connection.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);
