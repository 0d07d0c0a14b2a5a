//! What the tasks that accept connections are told to do.

/// What an acceptor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepting {
    /// Accept.
    Yes,
    /// Leave connections in the queue for a while.
    Paused,
    /// Take what is queued, and close the port.
    Stopped,
    /// Leave the port, and the connections queued there, to another process that listens on it too.
    PassedOn,
}
