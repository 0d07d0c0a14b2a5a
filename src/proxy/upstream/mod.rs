//! Sends a request to one of an upstream's origins and returns the head of its response.
//!
//! Endpoints take turns. A request goes elsewhere only if nothing of it was sent: a connection from
//! the pool that turns out to be closed is replaced by a fresh one to the same endpoint, and an
//! endpoint that does not accept costs one of the upstream's `retries`. What was sent is never sent
//! twice. A response may come before the request's body has been sent: it is passed on, and if it
//! ends first, the connection is closed. `body` passes on the response's body.

mod body;
pub mod builtin;
mod connection;
mod endpoints;
mod io;
mod pool;

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use smallvec::SmallVec;

use self::body::FirstFrame;
pub use self::body::{UpstreamBody, UpstreamBodyError};
pub use self::connection::UploadBody;
use self::connection::{SendError, Upload};
pub use self::endpoints::Endpoints;
pub use self::pool::{ConnectError, Pools};
use self::pool::{Lease, Origin};
use crate::metrics::{UpstreamMetrics, WorkerIndex};
use crate::request::hop_by_hop;
use crate::snapshot::{HttpUpstream, Upstream};

/// What a route asks of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long the response's head may take; time that the client takes over its body does not
    /// count.
    pub response_timeout: Duration,
    /// How long the response's body may stand still.
    pub body_timeout: Duration,
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

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No endpoint has an address; the upstream's fault (503).
    #[error("no endpoint of the upstream has an address")]
    NoEndpoint(#[source] Option<ConnectError>),
    /// No endpoint accepted a connection; the upstream's fault (502).
    #[error("no endpoint of the upstream accepts connections")]
    Connect(#[source] ConnectError),
    /// An endpoint closed a fresh connection before anything was sent; the upstream's fault (502).
    #[error("an endpoint of the upstream closes its connections")]
    Closed(#[source] hyper::Error),
    /// The response's head took longer than `response_timeout`; the upstream's fault (504).
    #[error("the upstream did not answer in time")]
    Timeout,
    /// The origin closed without an answer, or its answer is not HTTP; the upstream's fault (502).
    #[error("the upstream did not answer properly")]
    BadResponse(#[source] BadResponse),
    /// The request's body ended in an error of its own; the client's fault.
    #[error("the request's body broke off")]
    ClientBody(#[source] hyper::Error),
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
    /// It ended early or cannot be parsed.
    #[error("closed or malformed")]
    Http(#[from] hyper::Error),
    /// Its length is stated twice or in an unknown way (RFC 9112, section 6.3).
    #[error("ambiguous length")]
    Framing,
    /// It changes to another protocol, which nobody asked for.
    #[error("upgrade that nobody asked for")]
    Upgrade,
    /// Its body was already broken when its head came.
    #[error("body broken off")]
    Body(#[source] UpstreamBodyError),
}

/// Where a request waits to be sent. It is handed on by reference, because it is large. An attempt
/// that failed before anything was sent puts it back.
type Outbox = Option<Request<Upload>>;

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
) -> impl Future<Output = Result<Response<UpstreamBody>, UpstreamFailure>> + use<'f, B> {
    let terms = *terms;
    let keeps_host = terms.host == HostField::Client && request.headers().contains_key(HOST);
    let mut outbox = Some(prepare(request));
    // Not an `async fn`, whose future would have room for the request twice.
    async move {
        let origins = pools.origins(upstream, http);
        let mut last = None;
        for (tries, origin) in (0..=http.retries).zip(origins.turn()) {
            if tries > 0 {
                meter.metrics.retried(meter.worker);
            }
            if !keeps_host && let Some(request) = &mut outbox {
                request.headers_mut().insert(HOST, origin.host.clone());
            }
            let error = match visit(pools, origin, http, &mut outbox, &terms, meter).await {
                Ok(response) => {
                    origin.answered();
                    return Ok(response);
                }
                Err(error) => error,
            };
            let failure = UpstreamFailure::of(origin, error);
            // A request that is back in the outbox can go elsewhere.
            if outbox.is_none() {
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
            Self::ClientBody(error) => error.source()?.downcast_ref(),
            Self::BadResponse(BadResponse::Body(error)) => error.body_error(),
            _ => None,
        }
    }

    /// Says why in a few words, for the log.
    fn cause(&self) -> String {
        match self {
            Self::NoEndpoint(None) => "no endpoint".into(),
            Self::NoEndpoint(Some(error)) | Self::Connect(error) => error.cause(),
            Self::Closed(_) => "connection closed".into(),
            Self::Timeout => "no answer in time".into(),
            Self::BadResponse(BadResponse::Http(error)) | Self::ClientBody(error) => {
                error.to_string()
            }
            Self::BadResponse(error) => error.to_string(),
        }
    }
}

impl From<SendError> for ForwardError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Unsent(error) => Self::Closed(error),
            SendError::Broken(error) if error.is_user() => Self::ClientBody(error),
            SendError::Broken(error) => Self::BadResponse(error.into()),
            SendError::Elapsed => Self::Timeout,
        }
    }
}

/// Makes `request` one that hyper sends as it is.
fn prepare(request: Request<impl UploadBody>) -> Request<Upload> {
    let mut request = request.map(Upload::new);
    *request.version_mut() = Version::HTTP_11;
    let body = request.body();
    let length = body.size_hint().exact();
    if !body.is_end_stream() && length.is_none() {
        // Left to itself, hyper drops the body of a GET whose length is not known.
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
    if let Some(length) = length
        && let Some(told) = request.headers_mut().get_mut(CONTENT_LENGTH)
        && matches!(told.as_bytes(), [b'0', _, ..])
    {
        // Some read a number with a leading zero as octal.
        *told = HeaderValue::from(length);
    }
    if is_body_unexpected(&request) {
        let is_listed = request.headers().contains_key(CONNECTION);
        // hyper does not use the connection again either. `hop_by_hop` leaves no other option than
        // `te`.
        let options = if is_listed { "te, close" } else { "close" };
        let options = HeaderValue::from_static(options);
        request.headers_mut().insert(CONNECTION, options);
    }
    request
}

/// Whether an origin is likely to leave the body unread and take it for the next request: content
/// of these methods means nothing (RFC 9110, sections 9.3.1, 9.3.2 and 9.3.5). So the request is
/// the last on its connection.
fn is_body_unexpected(request: &Request<Upload>) -> bool {
    matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::DELETE
    ) && !request.body().is_end_stream()
}

/// Tries one endpoint: on a connection from the pool, and on a fresh one if that was closed.
async fn visit(
    pools: &Pools,
    origin: &Rc<Origin>,
    http: &HttpUpstream,
    outbox: &mut Outbox,
    terms: &Terms,
    meter: Meter<'_>,
) -> Result<Response<UpstreamBody>, ForwardError> {
    if let Some(lease) = origin.take(http).await {
        meter.metrics.reused(meter.worker);
        match exchange(lease, outbox, terms, meter).await {
            Err(_) if outbox.is_some() => {}
            answered => return answered,
        }
    }
    // Rare, and boxed so that other requests do not need room for it.
    match Box::pin(pools.connect(origin, http)).await {
        Ok(lease) => {
            meter.metrics.opened(meter.worker);
            exchange(lease, outbox, terms, meter).await
        }
        Err(error @ ConnectError::Resolve { .. }) => Err(ForwardError::NoEndpoint(Some(error))),
        Err(error) => Err(ForwardError::Connect(error)),
    }
}

/// Sends the request on `lease`'s connection; takes the head of its response, and the part of its
/// body that came with it.
async fn exchange(
    mut lease: Lease,
    outbox: &mut Outbox,
    terms: &Terms,
    meter: Meter<'_>,
) -> Result<Response<UpstreamBody>, ForwardError> {
    let timeout = terms.response_timeout;
    meter.is_sent.set(true);
    let sent = lease.connection.send(outbox, timeout).await;
    meter.is_sent.set(outbox.is_none());
    let mut response = sent?;
    let first = poll_fn(|cx| Poll::Ready(FirstFrame::poll(response.body_mut(), &lease, cx)));
    let error = match first.await {
        Ok(first) => match accept(response, first, lease, terms.body_timeout) {
            Ok(response) => return Ok(response),
            Err(error) => error,
        },
        Err(error) => BadResponse::Body(error),
    };
    Err(ForwardError::BadResponse(error))
}

/// Checks the head of a response; if it is refused, its connection is closed.
fn accept(
    mut response: Response<Incoming>,
    first: FirstFrame,
    mut lease: Lease,
    body_timeout: Duration,
) -> Result<Response<UpstreamBody>, BadResponse> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(BadResponse::Upgrade);
    }
    check_framing(response.headers())?;
    if response.version() != Version::HTTP_11 {
        // hyper would drop chunked bodies on a connection that once answered in HTTP/1.0.
        lease.limit_idle(Duration::ZERO);
    }
    if let Some(timeout) = hop_by_hop::keep_alive_timeout(response.headers()) {
        // The origin closes the connection then, and no request must be on its way at that moment.
        lease.limit_idle(timeout.saturating_sub(KEEP_ALIVE_MARGIN));
    }
    hop_by_hop::strip_response(response.headers_mut());
    if response.status() == StatusCode::NO_CONTENT {
        // RFC 9110, section 8.6.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    *response.version_mut() = Version::HTTP_11;
    Ok(response.map(|incoming| UpstreamBody::new(incoming, first, lease, body_timeout)))
}

/// Refuses a response whose end the client could see in another place than the gateway does.
///
/// hyper goes by the last of several codings, and by Transfer-Encoding if there is a Content-Length
/// too. What it passes on no longer says so.
fn check_framing(headers: &HeaderMap) -> Result<(), BadResponse> {
    let (mut codings, mut lengths) = (SmallVec::<[_; 2]>::new(), SmallVec::<[_; 2]>::new());
    // One look at all fields is less work than a search for each.
    for (name, value) in headers {
        match *name {
            TRANSFER_ENCODING => codings.push(value),
            CONTENT_LENGTH => lengths.push(value),
            _ => {}
        }
    }
    let is_clear = match (&codings[..], &lengths[..]) {
        ([], []) => true,
        ([coding], []) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        ([], [length]) => length.as_bytes().iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_clear.then_some(()).ok_or(BadResponse::Framing)
}

/// How long before the origin the gateway closes an idle connection.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);
