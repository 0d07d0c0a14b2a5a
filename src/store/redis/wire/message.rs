//! What is sent to a script, and what it replies: bytes.

use smallvec::SmallVec;

use super::script::Script;
use crate::clock::Timestamp;

/// A plan that is in one slot or on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The script that decides it in a call of its own; [`Script::Decide`] decides several in one.
    pub script: Script,
    /// One key per check.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// The script's argument.
    pub argument: Vec<u8>,
}

/// The decide script's reply to one [`Packed`]; [`verdict`](super::verdict) and
/// [`peeks`](super::peeks) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub Vec<u8>);

/// No script of this version gives such a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reply that no script of this version gives")]
pub struct BadReply;

/// Renders the first argument of the scripts that decide and settle: the time to decide at. It is left
/// out for the server's own.
pub fn time_argument(at: Option<Timestamp>) -> Option<Vec<u8>> {
    at.map(|at| at.0.to_string().into_bytes())
}
