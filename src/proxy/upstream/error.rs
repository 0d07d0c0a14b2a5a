//! Why there is no response, or no more of it.

use std::error::Error;
use std::io;

use super::http1::{self, BadBody, BadHead, BoxError};
use super::http2::{self, StreamError};
use super::origin::{ConnectError, Origin};
use crate::fault::TlsFailure;

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
    /// Its stream, or its connection with many, ended before the head had come.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Its head is refused.
    #[error(transparent)]
    Head(#[from] BadHead),
    /// Its body was already broken when its head came.
    #[error("body broken off")]
    Body(#[source] UpstreamBodyError),
}

/// Why a response ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The origin sent nothing for `body_timeout`.
    #[error("the upstream stopped sending its response")]
    Timeout,
    /// The origin closed early, or broke the rules of HTTP.
    #[error("the upstream broke its response off")]
    Broken(#[source] BrokenBody),
    /// The client's request failed while it was still being sent.
    #[error("the request's body broke off while its response was being sent")]
    Request(#[source] BoxError),
}

/// How a response broke off.
#[derive(Debug, thiserror::Error)]
pub enum BrokenBody {
    /// Its body is incomplete or malformed.
    #[error(transparent)]
    Bad(#[from] BadBody),
    /// Its connection failed.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// Its stream or its connection ended.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl UpstreamBodyError {
    /// Returns the error of the request's body, if that ended the response and is an `E`.
    pub fn body_error<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Request(error) => error.downcast_ref(),
            Self::Timeout | Self::Broken(_) => None,
        }
    }
}

impl UpstreamFailure {
    /// Blames an endpoint, unless the client is to blame.
    pub(super) fn of(origin: &Origin, error: ForwardError) -> Self {
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

    pub(super) fn no_endpoint() -> Self {
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
    pub fn body_error<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::ClientBody(error) => error.downcast_ref(),
            Self::BadResponse(BadResponse::Body(error)) => error.body_error(),
            _ => None,
        }
    }

    /// What went wrong in TLS, if that ended the connection: some servers refuse a client's certificate
    /// only after the handshake.
    pub(super) fn tls_failure(&self) -> Option<TlsFailure> {
        let Self::BadResponse(BadResponse::Broken(error)) = self else {
            return None;
        };
        error.get_ref()?.downcast_ref().copied()
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

impl From<ConnectError> for ForwardError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Resolve { .. } => Self::NoEndpoint(Some(error)),
            _ => Self::Connect(error),
        }
    }
}

impl From<http1::ExchangeError> for ForwardError {
    fn from(error: http1::ExchangeError) -> Self {
        use http1::ExchangeError;
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

impl From<http2::ExchangeError> for ForwardError {
    fn from(error: http2::ExchangeError) -> Self {
        use http2::ExchangeError;
        Self::BadResponse(match error {
            ExchangeError::Body(error) => return Self::ClientBody(error),
            ExchangeError::Elapsed => return Self::Timeout,
            ExchangeError::Ended {
                error: StreamError::Closed,
                ..
            } => BadResponse::Closed,
            ExchangeError::Ended { error, .. } => error.into(),
            ExchangeError::BadHead(bad) => bad.into(),
        })
    }
}
