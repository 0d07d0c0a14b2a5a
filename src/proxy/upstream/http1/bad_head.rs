//! Why the head of a response is refused.

use crate::proxy::wire::section::BadSection;

/// Why a head is refused; its connection is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// The bytes are not a head of HTTP/1.0 or 1.1.
    #[error("malformed HTTP head")]
    Malformed,
    /// The connection was closed within the head.
    #[error("closed before the head was complete")]
    Incomplete,
    /// The head has too many bytes or fields.
    #[error("head too large")]
    TooLarge,
    /// Too many interim responses (1xx), or too many bytes of them, come before the head.
    #[error("too many interim responses")]
    Interim,
    /// The head does not say in exactly one way where the body ends (RFC 9112, section 6.3).
    #[error("ambiguous length")]
    Framing,
    /// The origin switches protocols without being asked to, or before it has the whole request head.
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
