//! Failures of HTTP/2, in a few plain words.

use std::io;

use h2::Reason;

use crate::fault::EndpointFailure;

/// Why a stream or a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The origin reset the stream.
    #[error("stream reset ({0:?})")]
    Reset(Reason),
    /// The origin ended the connection.
    #[error("connection ended by GOAWAY ({0:?})")]
    GoAway(Reason),
    /// What the origin sent on the stream breaks the rules.
    #[error("malformed HTTP/2 ({0:?})")]
    Malformed(Reason),
    /// A head or trailers exceed `max_header_bytes`, or trailers have too many fields.
    #[error("head or trailers too large")]
    TooLarge,
    /// What the origin sent makes the connection useless for all requests on it.
    #[error("malformed HTTP/2 ({0:?}), so the connection is retired")]
    Retired(Reason),
    /// A response that cannot have content has some.
    #[error("content where none is allowed")]
    Content,
    /// The origin closed the connection.
    #[error("closed by the origin")]
    Closed,
    /// The origin did not begin to speak HTTP/2 in time.
    #[error("handshake timed out")]
    Timeout,
    /// Nothing came from the origin, not even an answer to a PING.
    #[error("no reply to a PING")]
    Lost,
    /// The connection broke.
    #[error(transparent)]
    Broken(io::Error),
    /// The connection ended, and another request on it has already reported that.
    #[error(transparent)]
    Shared(Box<Self>),
}

impl StreamError {
    /// Whether the origin says that it has not processed the request (RFC 9113, section 8.7).
    pub fn is_unprocessed(&self) -> bool {
        // A GOAWAY ends only the streams that it leaves out as unprocessed.
        matches!(self, Self::Reset(Reason::REFUSED_STREAM) | Self::GoAway(_))
    }

    /// Whether the connection ended, and nothing says what became of the request.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Closed | Self::Lost | Self::Broken(_) | Self::Retired(_) => true,
            Self::Shared(error) => error.is_loss(),
            _ => false,
        }
    }

    /// Returns the kind of endpoint failure that this is, which is `ended` for the end of a stream or
    /// connection; none if this request has not shown that the endpoint fails.
    pub fn failure(&self, ended: EndpointFailure) -> Option<EndpointFailure> {
        match self {
            // Another request has reported it. If a head cannot be decoded or has no end (COMPRESSION_ERROR,
            // ENHANCE_YOUR_CALM), `h2` first ends the stream of that head, and then the connection.
            Self::Shared(_)
            | Self::Retired(Reason::COMPRESSION_ERROR | Reason::ENHANCE_YOUR_CALM) => None,
            // "Requests that have not been processed have not failed" (RFC 9113, section 8.7).
            _ if self.is_unprocessed() => None,
            Self::Malformed(_) | Self::TooLarge | Self::Content => Some(EndpointFailure::Malformed),
            _ => Some(ended),
        }
    }
}

impl From<h2::Error> for StreamError {
    fn from(error: h2::Error) -> Self {
        match error.reason() {
            Some(reason) if error.is_remote() && error.is_go_away() => Self::GoAway(reason),
            Some(reason) if error.is_remote() => Self::Reset(reason),
            Some(reason) if error.is_go_away() => Self::Retired(reason),
            // For other faults of a stream, `h2` has other codes: this one means a head that is too large.
            Some(Reason::ENHANCE_YOUR_CALM) => Self::TooLarge,
            Some(reason) => Self::Malformed(reason),
            None => match error.into_io() {
                Some(error) if is_end(&error) => Self::Closed,
                Some(error) => Self::Broken(error),
                None => Self::Malformed(Reason::INTERNAL_ERROR),
            },
        }
    }
}

/// Whether the connection has ended, which `h2` calls a broken pipe.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}
