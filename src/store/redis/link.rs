//! One worker's way to one server: a queue, batches of what is ready together, one supervised
//! connection.

/// Why a call has no answer.
///
/// Nothing of this is retried but what says that it was not executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinkError {
    /// There is no connection, or it broke before the answer came.
    #[error("not connected")]
    Disconnected,
    /// As many calls wait as may.
    #[error("too many calls wait")]
    Overloaded,
    /// The keys live elsewhere from now on.
    #[error("moved to {0}")]
    Moved(String),
    /// The keys are on their way elsewhere; this call is to be made there, after `ASKING`.
    #[error("asked to go to {0}")]
    Ask(String),
    /// Some of the keys are on their way elsewhere.
    #[error("keys are being moved")]
    TryAgain,
    /// A replica: it takes no writes.
    #[error("read only")]
    ReadOnly,
    /// What the server said: BUSY, OOM, LOADING, NOAUTH, …
    #[error("{0}")]
    Server(String),
    /// The server said what no script says.
    #[error("an answer that is none")]
    BadReply,
}
