//! Why a request got no head of a response, over each version of HTTP.

use super::bad_head::BadHead;
use crate::proxy::wire::body::BoxError;

/// Why a request got no head of a response. `E` is the error of a stream or connection that ended.
#[derive(Debug)]
pub enum ExchangeError<E> {
    /// The stream or the connection ended.
    Ended {
        /// Why.
        error: E,
        /// What that means for the request.
        repeat: Repeat,
    },
    /// The response is refused.
    BadHead(BadHead),
    /// The head took longer than it may.
    Elapsed,
    /// The request's body ended in an error of its own.
    Body(BoxError),
}

/// Whether a request that got no byte of a response may be sent on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing of it was written.
    Unwritten,
    /// The origin says that it has not processed it.
    Unprocessed,
    /// The origin may have acted on it, but it has no content and may be done twice.
    Idempotent,
    /// The origin may have acted on it.
    Never,
}

impl<E> ExchangeError<E> {
    /// Whether the request may be sent again.
    pub fn repeat(&self) -> Repeat {
        match self {
            Self::Ended { repeat, .. } => *repeat,
            Self::BadHead(_) | Self::Elapsed | Self::Body(_) => Repeat::Never,
        }
    }
}
