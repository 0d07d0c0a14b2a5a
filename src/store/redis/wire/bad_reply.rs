//! The error for a reply that cannot be read.

/// A reply that no script of this version gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply that no script of this version returns")]
pub struct BadReply;
