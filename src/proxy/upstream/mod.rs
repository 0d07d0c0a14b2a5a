//! Sends a request to one of an upstream's origins and returns the head of its response.
//!
//! Endpoints take turns, and one that does not accept costs one of the upstream's `retries`. A
//! request whose connection came from the pool and ends without a byte of a response is sent once
//! more, on a fresh connection to the same endpoint: if nothing of it was written, or, unless
//! `retries` is 0, if it has no content and may be done twice. `http1` speaks with the origin, `body`
//! passes on the response's body.

mod body;
pub mod builtin;
mod endpoints;
pub mod http1;
mod origin;
mod pool;
mod stream;

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, StatusCode};

pub use self::body::UpstreamBody;
pub use self::endpoints::Endpoints;
use self::http1::{BadHead, BoxError, Connection, ExchangeError, Outgoing, Repeat};
pub use self::http1::{UploadBody, UpstreamBodyError};
pub use self::origin::ConnectError;
use self::origin::Origin;
use self::pool::Lease;
pub use self::pool::Pools;
pub use self::stream::Stream;
use crate::metrics::{UpstreamMetrics, WorkerIndex};
use crate::proxy::rewound::Rewound;
use crate::snapshot::{HttpUpstream, Upstream};

/// What a route asks of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long the response's head may take; time that the client takes over its body does not
    /// count.
    pub response_timeout: Duration,
    /// How long the response's body may stand still; none: for ever.
    pub body_timeout: Option<Duration>,
    /// Whose Host field the request has.
    pub host: HostField,
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
pub enum Received {
    /// Its body.
    Body(UpstreamBody),
    /// After a 101, bytes of the protocol that the request asked for.
    Switched(Switched),
}

/// A connection to an origin that speaks HTTP no more.
pub type Switched = Rewound<Stream>;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No endpoint has an address; the upstream's fault (503).
    #[error("no endpoint of the upstream has an address")]
    NoEndpoint(#[source] Option<ConnectError>),
    /// No endpoint accepted a connection; the upstream's fault (502).
    #[error("no endpoint of the upstream accepts connections")]
    Connect(#[source] ConnectError),
    /// The response's head took longer than `response_timeout`; the upstream's fault (504).
    #[error("the upstream did not answer in time")]
    Timeout,
    /// The origin closed without an answer, or its answer is not HTTP; the upstream's fault (502).
    #[error("the upstream did not answer properly")]
    BadResponse(#[source] BadResponse),
    /// The request's body ended in an error of its own; the client's fault.
    #[error("the request's body broke off")]
    ClientBody(#[source] BoxError),
}

/// Why there is no response, and which endpoint is to blame.
#[derive(Debug)]
pub struct UpstreamFailure {
    /// Host and port of the endpoint that was tried last; none if there was none to try.
    pub endpoint: Option<Box<str>>,
    /// Why, in a few words.
    pub cause: Box<str>,
    /// What went wrong.
    pub error: ForwardError,
}

/// What is wrong with a response.
#[derive(Debug, thiserror::Error)]
pub enum BadResponse {
    /// The origin closed the connection, and sent nothing.
    #[error("closed without an answer")]
    Closed,
    /// The connection broke before the head had come.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// Its head is refused.
    #[error(transparent)]
    Head(#[from] BadHead),
    /// Its body was already broken when its head came.
    #[error("body broken off")]
    Body(#[source] UpstreamBodyError),
}

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
) -> impl Future<Output = Result<Response<Received>, UpstreamFailure>> + use<'f, B> {
    let terms = *terms;
    let mut request = Outgoing::new(request);
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

impl UpstreamFailure {
    /// Blames an endpoint, unless the client is to blame.
    fn of(origin: &Origin, error: ForwardError) -> Self {
        let cause = error.cause().into_boxed_str();
        if !matches!(error, ForwardError::ClientBody(_)) {
            origin.failed(&cause);
        }
        Self {
            endpoint: Some(origin.authority().into()),
            cause,
            error,
        }
    }

    fn no_endpoint() -> Self {
        let error = ForwardError::NoEndpoint(None);
        Self {
            endpoint: None,
            cause: error.cause().into_boxed_str(),
            error,
        }
    }
}

impl ForwardError {
    /// Returns the error of the request's body, if that ended the request and is an `E`.
    pub fn body_error<E: StdError + 'static>(&self) -> Option<&E> {
        match self {
            Self::ClientBody(error) => error.downcast_ref(),
            Self::BadResponse(BadResponse::Body(error)) => error.body_error(),
            _ => None,
        }
    }

    /// Says why in a few words, for the log.
    fn cause(&self) -> String {
        match self {
            Self::NoEndpoint(None) => "no endpoint".into(),
            Self::NoEndpoint(Some(error)) | Self::Connect(error) => error.cause(),
            Self::Timeout => "no answer in time".into(),
            Self::ClientBody(error) => error.to_string(),
            Self::BadResponse(error) => error.to_string(),
        }
    }
}

impl From<ExchangeError> for ForwardError {
    fn from(error: ExchangeError) -> Self {
        Self::BadResponse(match error {
            ExchangeError::Body(error) => return Self::ClientBody(error),
            ExchangeError::Elapsed => return Self::Timeout,
            ExchangeError::Closed { error: None, .. } => BadResponse::Closed,
            ExchangeError::Closed {
                error: Some(error), ..
            } => error.into(),
            ExchangeError::BadHead(bad) => bad.into(),
        })
    }
}

/// Tries one endpoint: on a connection from the pool, and once more on a fresh one if the request
/// was lost with that connection.
async fn visit<B: UploadBody>(
    pools: &Pools,
    origin: &Rc<Origin>,
    http: &HttpUpstream,
    request: &mut Outgoing<B>,
    terms: &Terms,
    meter: Meter<'_>,
) -> Result<Response<Received>, ForwardError> {
    let host = match (terms.host, request.host()) {
        (HostField::Client, Some(host)) => host.clone(),
        _ => origin.host.clone(),
    };
    if origin.has_idle() {
        write_with_others().await;
    }
    let mut connection = origin.take();
    if connection.is_some() {
        meter.metrics.reused(meter.worker);
    }
    // Why the origin may have acted on a request that it did not answer.
    let mut lost = None;
    let response = loop {
        let is_reused = connection.is_some();
        let connection = match connection.take() {
            Some(connection) => connection,
            // Rare, and boxed so that other requests do not need room for it.
            None => (Box::pin(fresh(pools, origin, http, meter)).await)
                .map_err(|error| lost.take().unwrap_or(error))?,
        };
        let timeout = terms.response_timeout;
        let exchanged = connection.exchange(request, &host, timeout, meter.is_sent);
        match exchanged.await {
            Ok(response) => break response,
            Err(error) => match error.repeat() {
                Repeat::Unwritten if is_reused => {}
                Repeat::Idempotent if is_reused && http.retries > 0 => {
                    meter.metrics.retried(meter.worker);
                    lost = Some(error.into());
                }
                _ => {
                    if let (false, Some(failure)) = (is_reused, error.tls_failure()) {
                        meter.metrics.tls_failed(meter.worker, failure);
                    }
                    return Err(error.into());
                }
            },
        }
    };
    let (head, receiving) = response.into_parts();
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        // An origin that switches before it has read the whole head does not speak HTTP properly.
        let early = ForwardError::BadResponse(BadResponse::Head(BadHead::Upgrade));
        let (io, unread) = receiving.into_switched().ok_or(early)?;
        let switched = Received::Switched(Rewound { unread, io });
        return Ok(Response::from_parts(head, switched));
    }
    let mut lease = Lease::new(origin, http);
    if let Some(timeout) = receiving.keep_alive() {
        // The origin closes the connection then, and no request must be on its way at that moment.
        lease.limit_idle(timeout.saturating_sub(KEEP_ALIVE_MARGIN));
    }
    let body = UpstreamBody::begin(receiving, lease, terms.body_timeout).await;
    let body = body.map_err(|error| ForwardError::BadResponse(BadResponse::Body(error)))?;
    Ok(Response::from_parts(head, Received::Body(body)))
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

/// Opens a connection to an endpoint.
async fn fresh(
    pools: &Pools,
    origin: &Origin,
    http: &HttpUpstream,
    meter: Meter<'_>,
) -> Result<Connection<Stream>, ForwardError> {
    let connected = pools.connect(origin, http).await;
    let connection = connected.map_err(|error| match error {
        ConnectError::Resolve { .. } => ForwardError::NoEndpoint(Some(error)),
        ConnectError::Connect { .. } => ForwardError::Connect(error),
        ConnectError::Tls { source, .. } => {
            meter.metrics.tls_failed(meter.worker, source);
            ForwardError::Connect(error)
        }
    })?;
    meter.metrics.opened(meter.worker);
    Ok(connection)
}

/// How long before the origin the gateway closes an idle connection.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);
