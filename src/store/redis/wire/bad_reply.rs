//! A reply that cannot be read.

/// No script of this version gives such a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply that no script of this version returns")]
pub struct BadReply;
