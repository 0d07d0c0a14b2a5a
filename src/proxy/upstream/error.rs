//! Why an upstream gave no response.

use std::error::Error;
use std::io;
use std::sync::Arc;

use super::body_error::UpstreamBodyError;
use super::connect_error::ConnectError;
use super::endpoints::UpstreamState;
use super::http1::{BadHead, ExchangeError};
use super::http2::StreamError;
use super::system_error::plain;
use crate::fault::{EndpointFailure, TlsFailure};
use crate::proxy::wire::body::BoxError;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The upstream already has `max_requests` requests under way; the gateway's doing (503).
    #[error("the upstream already has `max_requests` requests")]
    Full,
    /// There is no endpoint to try; the upstream's fault (503).
    #[error("the upstream has no endpoint to try")]
    NoEndpoint(#[source] NoEndpoint),
    /// No endpoint accepted a connection; the upstream's fault (502).
    #[error("no endpoint of the upstream accepts connections")]
    Connect(#[source] ConnectError),
    /// The response's head took longer than `response_timeout`; the upstream's fault (504).
    #[error("the upstream did not respond in time")]
    Timeout,
    /// The origin closed without a response, or its answer is not HTTP; the upstream's fault (502).
    #[error("the upstream did not respond properly")]
    BadResponse(#[source] BadResponse),
    /// Reading the request's body failed; the client's fault.
    #[error("the request's body broke off")]
    ClientBody(#[source] BoxError),
}

/// Why there is no endpoint to try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEndpoint {
    /// Checks have found all endpoints unhealthy.
    #[error("no endpoint is healthy")]
    Unhealthy,
    /// None of the endpoints' names has an address; holds the resolver's error.
    #[error("name does not resolve: {0}")]
    Unresolved(Arc<str>),
    /// The resolver has not answered in time, and no address is known.
    #[error("name does not resolve: no response in time")]
    Resolving,
}

/// Why there is no response, and which endpoint is to blame.
#[derive(Debug)]
pub struct UpstreamFailure {
    /// The endpoint that was tried last, or one whose name does not resolve; none if there is neither.
    pub endpoint: Option<Arc<str>>,
    /// The cause in a few words, for the log.
    pub cause: Box<str>,
    /// What went wrong.
    pub error: ForwardError,
}

/// What is wrong with a response.
#[derive(Debug, thiserror::Error)]
pub enum BadResponse {
    /// The origin closed the connection without sending anything.
    #[error("closed without a response")]
    Closed,
    /// The connection broke before the head had come.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// The HTTP/2 stream, or its connection, ended before the head had come.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The head is refused.
    #[error(transparent)]
    Head(#[from] BadHead),
    /// The body was already broken when the head came.
    #[error("body broken off")]
    Body(#[source] UpstreamBodyError),
}

impl UpstreamFailure {
    /// Makes the failure of a request, at `endpoint` if one was tried.
    pub(super) fn of(endpoint: Option<Arc<str>>, error: ForwardError) -> Self {
        Self {
            endpoint,
            cause: error.cause().into_boxed_str(),
            error,
        }
    }

    /// Makes the failure of a request for which `upstream` has no endpoint to try.
    pub(super) fn no_endpoint(upstream: &UpstreamState) -> Self {
        let members = upstream.members();
        let (endpoint, why) = match &members.unresolved {
            Some(unresolved) if members.list.is_empty() => {
                let endpoint: Arc<str> = (&*unresolved.endpoint).into();
                let error = unresolved.error.clone();
                let why = error.map_or(NoEndpoint::Resolving, NoEndpoint::Unresolved);
                (Some(endpoint), why)
            }
            _ => (None, NoEndpoint::Unhealthy),
        };
        Self::of(endpoint, ForwardError::NoEndpoint(why))
    }

    /// Whether an origin may have acted on the request.
    pub(super) fn may_have_acted(&self) -> bool {
        matches!(
            self.error,
            ForwardError::BadResponse(_) | ForwardError::Timeout
        )
    }
}

impl ForwardError {
    /// Returns the error of the request's body, if that ended the request and is an `E`.
    pub fn request_error<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::ClientBody(error) => error.downcast_ref(),
            Self::BadResponse(BadResponse::Body(error)) => error.request_error(),
            _ => None,
        }
    }

    /// Returns the kind of endpoint failure that this is; none if no endpoint is to blame.
    pub(super) fn failure(&self) -> Option<EndpointFailure> {
        Some(match self {
            Self::Full | Self::NoEndpoint(_) | Self::ClientBody(_) => return None,
            Self::Connect(error) => return error.failure(),
            Self::Timeout => EndpointFailure::ResponseTimeout,
            Self::BadResponse(bad) => match bad {
                BadResponse::Broken(_) if self.tls_failure().is_some() => EndpointFailure::Tls,
                BadResponse::Stream(error) => return error.failure(EndpointFailure::Closed),
                BadResponse::Closed
                | BadResponse::Broken(_)
                | BadResponse::Head(BadHead::Incomplete) => EndpointFailure::Closed,
                BadResponse::Head(_) => EndpointFailure::Malformed,
                BadResponse::Body(error) => return error.failure(),
            },
        })
    }

    /// Returns the TLS failure that ended the connection, if one did: some servers refuse a client's
    /// certificate only after the handshake.
    pub(super) fn tls_failure(&self) -> Option<TlsFailure> {
        let Self::BadResponse(BadResponse::Broken(error)) = self else {
            return None;
        };
        error.get_ref()?.downcast_ref().copied()
    }

    /// Returns the cause in a few words, for the log.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::Full => "max_requests".into(),
            Self::NoEndpoint(why) => why.to_string(),
            Self::Connect(error) => error.cause(),
            Self::Timeout => "no response in time".into(),
            Self::ClientBody(error) => error.to_string(),
            Self::BadResponse(BadResponse::Body(error)) => error.cause(),
            Self::BadResponse(BadResponse::Broken(error)) => plain(error),
            Self::BadResponse(error) => error.to_string(),
        }
    }
}

impl From<ConnectError> for ForwardError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl<E: Into<BadResponse>> From<ExchangeError<E>> for ForwardError {
    fn from(error: ExchangeError<E>) -> Self {
        Self::BadResponse(match error {
            ExchangeError::Body(error) => return Self::ClientBody(error),
            ExchangeError::Elapsed => return Self::Timeout,
            ExchangeError::Ended { error, .. } => error.into(),
            ExchangeError::BadHead(bad) => bad.into(),
        })
    }
}

impl From<Option<io::Error>> for BadResponse {
    fn from(error: Option<io::Error>) -> Self {
        error.map_or(Self::Closed, Self::Broken)
    }
}
