//! Why a request got no head of a response, over either version of HTTP.

use super::bad_head::BadHead;
use crate::proxy::wire::body::BoxError;

/// Why a request got no head of a response. `E` is the error of a stream or connection that ended.
#[derive(Debug)]
pub enum ExchangeError<E> {
    /// The stream or the connection ended.
    Ended {
        /// Why it ended.
        error: E,
        /// Whether the request may be sent again.
        repeat: Repeat,
    },
    /// The head of the response is refused.
    BadHead(BadHead),
    /// The head of the response took too long.
    Elapsed,
    /// Reading the request's body failed.
    Body(BoxError),
}

/// Whether a request that got no byte of a response may be sent on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing of the request was written.
    Unwritten,
    /// The origin says that it has not processed the request.
    Unprocessed,
    /// The origin may have acted on the request, which is idempotent and has no content.
    Idempotent,
    /// The origin may have acted on the request, which must not be sent again.
    Never,
}

impl<E> ExchangeError<E> {
    /// Returns whether the request may be sent again, and why.
    pub fn repeat(&self) -> Repeat {
        match self {
            Self::Ended { repeat, .. } => *repeat,
            Self::BadHead(_) | Self::Elapsed | Self::Body(_) => Repeat::Never,
        }
    }
}
