//! Why the body of a response is refused.

use crate::proxy::wire::chunks::BadChunk;
use crate::proxy::wire::section::BadSection;

/// Why a body is refused; its connection is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// The connection ended, or the HTTP/2 stream was reset, before the body's end.
    #[error("closed before the body's end")]
    Incomplete,
    /// A chunk's size, extension or line end is wrong.
    #[error("malformed chunk")]
    Chunk,
    /// A trailer is not a field, or its line does not end in CRLF.
    #[error("malformed trailer")]
    Trailer,
    /// Chunk extensions, the white space before them, or trailers have too many bytes.
    #[error("chunk extensions or trailers too large")]
    TooLong,
}

impl From<BadSection> for BadBody {
    fn from(bad: BadSection) -> Self {
        match bad {
            BadSection::BareLineFeed => Self::Trailer,
            BadSection::TooLong => Self::TooLong,
        }
    }
}

impl From<BadChunk> for BadBody {
    fn from(bad: BadChunk) -> Self {
        match bad {
            BadChunk::Malformed => Self::Chunk,
            BadChunk::TooLong => Self::TooLong,
        }
    }
}
