//! Why the head of a response is refused.

use crate::proxy::wire::section::BadSection;

/// Why a head is refused; its connection is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// It is no head of HTTP/1.0 or 1.1.
    #[error("malformed HTTP head")]
    Malformed,
    /// The connection was closed within it.
    #[error("closed within its head")]
    Incomplete,
    /// It has more bytes or fields than it may have.
    #[error("head too large")]
    TooLarge,
    /// More interim answers (1xx) come before it, or larger ones, than may.
    #[error("too many interim responses")]
    Interim,
    /// It does not say in one way where its body ends (RFC 9112, section 6.3).
    #[error("ambiguous length")]
    Framing,
    /// It changes to another protocol, which nobody asked for.
    #[error("upgrade that was not requested")]
    Upgrade,
}

impl From<BadSection> for BadHead {
    fn from(bad: BadSection) -> Self {
        match bad {
            BadSection::BareLineFeed => Self::Malformed,
            BadSection::TooLong => Self::TooLarge,
        }
    }
}
