//! Why a response broke off before its end.

use std::error::Error;
use std::io;

use super::http1::BadBody;
use super::http2::StreamError;
use super::system_error::plain;
use crate::fault::EndpointFailure;
use crate::proxy::wire::body::BoxError;

/// Why a response broke off before its end.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The origin sent nothing for `body_timeout`.
    #[error("the upstream stopped sending its response")]
    Timeout,
    /// The origin closed early, or broke the rules of HTTP.
    #[error("the upstream broke its response off")]
    Broken(#[source] BrokenBody),
    /// The body of the client's request failed while it was still being sent.
    #[error("the request's body broke off while its response was being sent")]
    Request(#[source] BoxError),
}

/// How a response broke off.
#[derive(Debug, thiserror::Error)]
pub enum BrokenBody {
    /// The body is incomplete or malformed.
    #[error(transparent)]
    Bad(#[from] BadBody),
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// The HTTP/2 stream, or its connection, ended.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl UpstreamBodyError {
    /// Returns the error of the request's body, if that ended the response and is an `E`.
    pub fn request_error<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Request(error) => error.downcast_ref(),
            Self::Timeout | Self::Broken(_) => None,
        }
    }

    /// Returns the kind of endpoint failure that this is; none if no endpoint is to blame.
    pub(super) fn failure(&self) -> Option<EndpointFailure> {
        Some(match self {
            Self::Request(_) => return None,
            Self::Timeout => EndpointFailure::BodyTimeout,
            Self::Broken(BrokenBody::Bad(BadBody::Incomplete) | BrokenBody::Connection(_)) => {
                EndpointFailure::BodyClosed
            }
            Self::Broken(BrokenBody::Bad(_)) => EndpointFailure::Malformed,
            Self::Broken(BrokenBody::Stream(error)) => {
                return error.failure(EndpointFailure::BodyClosed);
            }
        })
    }

    /// Returns the cause in a few words, for the log.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::Broken(BrokenBody::Connection(error)) => plain(error),
            Self::Broken(broken) => broken.to_string(),
            Self::Timeout => "no more data in time".into(),
            Self::Request(error) => error.to_string(),
        }
    }
}
