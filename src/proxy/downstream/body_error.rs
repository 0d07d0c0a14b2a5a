//! Why a client's body broke off.

use std::error::Error as _;
use std::io;

/// Why a client's body broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestBodyError {
    /// The client left.
    #[error("the client broke off its request")]
    Aborted,
    /// The body's chunks, frames or trailers break the rules of the framing.
    #[error("the client's body is malformed")]
    Malformed,
    /// The client sent nothing for the listener's `body_timeout`.
    #[error("the client sent no more of its body within body_timeout")]
    TimedOut,
    /// The body is longer than `max_body_bytes`.
    #[error("the client's body is too large")]
    TooLarge,
}

impl RequestBodyError {
    /// Distinguishes a body that breaks the rules of its framing from a client that left while it sent a good one.
    pub(super) fn of(error: &hyper::Error) -> Self {
        let source = error.source().and_then(|source| source.downcast_ref());
        match source.map(io::Error::kind) {
            Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Self::Malformed,
            _ => Self::Aborted,
        }
    }
}
