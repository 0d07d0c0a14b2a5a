//! What is sent to a script, and what it replies: bytes.

use smallvec::SmallVec;

use crate::clock::Timestamp;

/// A plan, or the part of one that is kept on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// One key per check.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// What the script is told of it.
    pub argument: Vec<u8>,
}

/// What the decide script says to one [`Packed`]: bytes that [`verdict`](super::verdict) and [`peeks`](super::peeks) read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub Vec<u8>);

/// The reply is nothing that the script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply that no script of this version gives")]
pub struct BadReply;

/// Renders the first argument of decide and settle: the time to decide at, or that the server's counts.
pub fn time_argument(at: Option<Timestamp>) -> Vec<u8> {
    at.map_or_else(Vec::new, |at| at.0.to_string().into_bytes())
}
