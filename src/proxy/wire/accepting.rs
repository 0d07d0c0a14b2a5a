//! What those are told who accept connections.

/// What an acceptor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepting {
    /// Accept.
    Yes,
    /// Leave connections in the queue for a while.
    Paused,
    /// Take what is queued, and close the port.
    Stopped,
    /// Leave the port, and what is queued, to another process, which has it too.
    PassedOn,
}
