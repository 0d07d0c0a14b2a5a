//! What HTTP/2 calls a failure, in a few plain words.

use std::io;

use h2::Reason;

/// Why a stream or a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The origin reset the stream.
    #[error("stream reset ({0:?})")]
    Reset(Reason),
    /// The origin ended the connection.
    #[error("connection ended by GOAWAY ({0:?})")]
    GoAway(Reason),
    /// What the origin sent breaks the rules.
    #[error("malformed HTTP/2 ({0:?})")]
    Malformed(Reason),
    /// A response that cannot have content has some.
    #[error("content where none can be")]
    Content,
    /// The origin closed the connection.
    #[error("closed without an answer")]
    Closed,
    /// The origin did not begin to speak HTTP/2 in time.
    #[error("handshake timed out")]
    Timeout,
    /// Nothing came from the origin, not even an answer to a PING.
    #[error("no answer to a PING")]
    Lost,
    /// The connection broke.
    #[error(transparent)]
    Broken(io::Error),
}

impl StreamError {
    /// Whether the origin says that it has not processed the request (RFC 9113, section 8.7).
    pub fn is_unprocessed(&self) -> bool {
        // Only streams that a GOAWAY leaves out end by it.
        matches!(self, Self::Reset(Reason::REFUSED_STREAM) | Self::GoAway(_))
    }

    /// Whether the connection ended, and nothing says what became of the request.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Closed | Self::Lost | Self::Broken(_))
    }
}

impl From<h2::Error> for StreamError {
    fn from(error: h2::Error) -> Self {
        match error.reason() {
            Some(reason) if error.is_remote() && error.is_go_away() => Self::GoAway(reason),
            Some(reason) if error.is_remote() => Self::Reset(reason),
            Some(reason) => Self::Malformed(reason),
            None => match error.into_io() {
                Some(error) if is_end(&error) => Self::Closed,
                Some(error) => Self::Broken(error),
                None => Self::Malformed(Reason::INTERNAL_ERROR),
            },
        }
    }
}

/// `h2` calls a connection that has ended a broken pipe.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}
