//! Sends a request to one of an upstream's origins and returns the head of its response.
//!
//! Endpoints take turns, and one that does not accept costs one of the upstream's `retries`. A
//! request whose connection came from the pool and ends without a byte of a response is sent once
//! more, on another connection to the same endpoint: if nothing of it was written, or, unless
//! `retries` is 0, if it has no content and may be done twice. One that the origin says it has not
//! processed is sent again too, unless its body has been begun. `connecting` finds a connection,
//! `http1` and `http2` speak with the origin, `body` passes on the response's body.

mod body;
pub mod builtin;
mod connecting;
mod due;
mod endpoints;
mod error;
pub mod http1;
pub mod http2;
mod origin;
mod pool;
mod stream;
mod upload;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode};

use self::body::Received;
pub use self::body::UpstreamBody;
use self::connecting::{Found, Link, connect};
pub use self::endpoints::Endpoints;
pub use self::error::{BadResponse, BrokenBody, ForwardError, UpstreamBodyError, UpstreamFailure};
pub use self::http1::UploadBody;
use self::http1::{BadHead, Outgoing, Receiving, Repeat};
pub use self::origin::ConnectError;
use self::origin::Origin;
use self::pool::Lease;
pub use self::pool::Pools;
pub use self::stream::Stream;
use crate::metrics::{UpstreamMetrics, WorkerIndex};
use crate::proxy::rewound::Rewound;
use crate::snapshot::{HttpUpstream, Upstream};

/// What is asked of the upstream, beside the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long the response's head may take; time that the client takes over its body does not
    /// count.
    pub response_timeout: Duration,
    /// How long the response's body may stand still; none: for ever.
    pub body_timeout: Option<Duration>,
    /// Whose Host field the request has.
    pub host: HostField,
    /// Whether the request asks for another protocol, by its field Upgrade.
    pub is_upgrade: bool,
}

/// What a caller learns beside the response.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'m> {
    /// The upstream's counters.
    pub metrics: &'m UpstreamMetrics,
    /// The worker that counts.
    pub worker: WorkerIndex,
    /// Whether an origin may have seen the request.
    pub is_sent: &'m Cell<bool>,
}

/// Whose Host field a request to an origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostField {
    /// The client's, or the endpoint's if the client sent none.
    Client,
    /// The endpoint's.
    Endpoint,
}

/// What follows the head of a response.
pub enum UpstreamAnswer {
    /// Its body.
    Body(UpstreamBody),
    /// After a 101, bytes of the protocol that the request asked for.
    Switched(Switched),
}

/// A connection to an origin that speaks HTTP no more.
pub type Switched = Rewound<Stream>;

/// Sends `request` to an endpoint of `upstream`, whose kind is `http`.
///
/// The request's target is in origin-form, and its fields are those that the origin must see,
/// except for Host. The response has no hop-by-hop fields any more. Dropping the future closes the
/// connection.
///
/// # Errors
///
/// The request is gone; what was worth retrying has been retried.
pub fn send<'f, B: UploadBody>(
    pools: &'f Pools,
    upstream: &'f Arc<Upstream>,
    http: &'f HttpUpstream,
    request: Request<B>,
    terms: &Terms,
    meter: Meter<'f>,
) -> impl Future<Output = Result<Response<UpstreamAnswer>, UpstreamFailure>> + use<'f, B> {
    let terms = *terms;
    let mut request = Outgoing::new(request);
    if terms.is_upgrade {
        request.ask_to_switch();
    }
    // Not an `async fn`, whose future would have room for the request twice.
    async move {
        let origins = pools.origins(upstream, http);
        let mut last = None;
        for (tries, origin) in (0..=http.retries).zip(origins.turn()) {
            if tries > 0 {
                meter.metrics.retried(meter.worker);
            }
            let error = match visit(pools, origin, http, &mut request, &terms, meter).await {
                Ok(response) => {
                    origin.answered();
                    return Ok(response);
                }
                Err(error) => error,
            };
            // Nothing was sent to an endpoint that does not accept.
            let is_retriable = matches!(
                error,
                ForwardError::Connect(_) | ForwardError::NoEndpoint(_)
            );
            let failure = UpstreamFailure::of(origin, error);
            if !is_retriable {
                return Err(failure);
            }
            last = Some(failure);
        }
        Err(last.unwrap_or_else(UpstreamFailure::no_endpoint))
    }
}

/// Tries one endpoint: on a connection that is there, and again on another one if the request was lost
/// with that, or was not processed.
async fn visit<B: UploadBody>(
    pools: &Pools,
    origin: &Rc<Origin>,
    http: &HttpUpstream,
    request: &mut Outgoing<B>,
    terms: &Terms,
    meter: Meter<'_>,
) -> Result<Response<UpstreamAnswer>, ForwardError> {
    let host = match (terms.host, request.host()) {
        (HostField::Client, Some(host)) => host.clone(),
        _ => origin.host.clone(),
    };
    if origin.has_idle() {
        write_with_others().await;
    } else if origin.has_idle_shared() {
        // The origin may just have ended it: this asks the system, and lets the connection's task see
        // the answer.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
    }
    let offer = origin.offer(terms.is_upgrade);
    let mut link = origin.take(http, offer);
    if link.is_some() {
        meter.metrics.reused(meter.worker);
    }
    // Why the origin may have acted on a request that it did not answer.
    let mut lost = None;
    let mut resends = 0;
    loop {
        let (link, found) = match link.take() {
            Some(link) => (link, Found::Kept),
            // Rare, and boxed so that other requests do not need room for it.
            None => (Box::pin(connect(pools, origin, http, offer, meter)).await)
                .map_err(|error| lost.take().unwrap_or(error))?,
        };
        let target = Target {
            origin,
            host: &host,
        };
        let exchanged = exchange(pools, link, request, target, (http, terms), meter.is_sent);
        let (error, repeat) = match exchanged.await {
            Ok(response) => return Ok(response),
            Err(Failed { error, repeat }) => (error, repeat),
        };
        match repeat {
            Repeat::Unwritten if found == Found::Kept => {}
            Repeat::Unprocessed if http.retries > 0 && resends < RESENDS_MAX => {
                resends += 1;
                meter.metrics.retried(meter.worker);
            }
            Repeat::Idempotent if found == Found::Kept && http.retries > 0 && lost.is_none() => {
                meter.metrics.retried(meter.worker);
                lost = Some(error);
            }
            _ => {
                if let (Found::New, Some(failure)) = (found, error.tls_failure()) {
                    meter.metrics.tls_failed(meter.worker, failure);
                }
                return Err(error);
            }
        }
    }
}

/// Which origin a request goes to, and for which host.
#[derive(Clone, Copy)]
struct Target<'t> {
    origin: &'t Rc<Origin>,
    host: &'t HeaderValue,
}

/// Why a connection brought no response, and what that means for the request.
struct Failed {
    error: ForwardError,
    repeat: Repeat,
}

/// Sends a request on a connection.
async fn exchange<B: UploadBody>(
    pools: &Pools,
    link: Link,
    request: &mut Outgoing<B>,
    Target { origin, host }: Target<'_>,
    (http, terms): (&HttpUpstream, &Terms),
    is_sent: &Cell<bool>,
) -> Result<Response<UpstreamAnswer>, Failed> {
    let timeout = terms.response_timeout;
    let response = match link {
        Link::Http1(connection) => {
            let exchanged = connection.exchange(request, host, timeout, is_sent).await;
            let response = exchanged.map_err(|error| {
                let repeat = error.repeat();
                let error = error.into();
                Failed { error, repeat }
            })?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return switched(response);
            }
            let mut lease = Lease::new(origin, http);
            if let Some(timeout) = response.body().keep_alive() {
                // The origin closes the connection then, and no request must be on its way at that
                // moment.
                lease.limit_idle(timeout.saturating_sub(KEEP_ALIVE_MARGIN));
            }
            response.map(|receiving| Received::Http1(receiving, lease))
        }
        Link::Http2(slot) => {
            let target = (host, origin.scheme());
            let exchanged = slot.exchange(request, target, pools.due(), timeout, is_sent);
            // Boxed so that requests over HTTP/1.1 do not need room for it.
            let response = Box::pin(exchanged).await.map_err(|error| {
                let repeat = error.repeat();
                let error = error.into();
                Failed { error, repeat }
            })?;
            response.map(Received::Http2)
        }
    };
    let (head, received) = response.into_parts();
    let body = UpstreamBody::begin(received, terms.body_timeout).await;
    let body = body.map_err(|error| Failed {
        error: ForwardError::BadResponse(BadResponse::Body(error)),
        repeat: Repeat::Never,
    })?;
    Ok(Response::from_parts(head, UpstreamAnswer::Body(body)))
}

/// Takes the connection of a 101. An origin that switches before it has read the whole head does not
/// speak HTTP properly.
fn switched(response: Response<Receiving<Stream>>) -> Result<Response<UpstreamAnswer>, Failed> {
    let (head, receiving) = response.into_parts();
    let (io, unread) = receiving.into_switched().ok_or(Failed {
        error: ForwardError::BadResponse(BadHead::Upgrade.into()),
        repeat: Repeat::Never,
    })?;
    let switched = UpstreamAnswer::Switched(Rewound { unread, io });
    Ok(Response::from_parts(head, switched))
}

/// Lets the tasks that are ready run first, up to the same point: so their requests are written
/// one after another, and an origin on the same machine is woken once for all of them.
///
/// With 64 busy connections that is a tenth of what a request costs.
async fn write_with_others() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // This puts the task behind all that are ready. `yield_now` would also ask the system for
        // events.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How long before the origin the gateway closes an idle connection.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// How often a request that an origin has not processed is sent to it again.
const RESENDS_MAX: u32 = 2;
