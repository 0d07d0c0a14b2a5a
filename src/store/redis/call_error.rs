//! How a call without an answer ended.

use redis::ServerErrorKind as Kind;

use super::one_line::one_line;
use super::wire::{BadReply, PlanError};

/// Why a call has no answer.
///
/// A call is sent again only if its error says that it was not executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The connection broke before the answer came: the call may have been executed.
    #[error("the connection was closed before the reply")]
    Disconnected,
    /// There is no connection: the call was never sent.
    #[error("not connected")]
    Unsent,
    /// Too many calls wait already: the call was never sent.
    #[error("too many calls are waiting")]
    Overloaded,
    /// The keys live elsewhere from now on: at `host:port`, or at `:port` of the same host.
    #[error("moved to {0}")]
    Moved(String),
    /// The keys are on their way elsewhere; this call is to be made there, after `ASKING`.
    #[error("the keys are being moved to {0}")]
    Ask(String),
    /// Some of the keys are on their way elsewhere.
    #[error("keys are being moved")]
    TryAgain,
    /// The keys are in several slots, and the server keeps slots apart: nothing was executed.
    #[error("keys in several slots")]
    CrossSlot,
    /// The server is a replica, which takes no writes.
    #[error("read only")]
    ReadOnly,
    /// Any other error that the server answered: BUSY, OOM, LOADING, NOAUTH, …
    #[error("{0}")]
    Server(String),
    /// The reply does not have the form of an answer.
    #[error("an unexpected reply")]
    BadReply,
    /// The reply has the form of an answer, but no script of this version gives it.
    #[error(transparent)]
    Unreadable(#[from] BadReply),
}

impl From<PlanError> for CallError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Failed(text) if text.starts_with("READONLY ") => Self::ReadOnly,
            PlanError::Failed(text) => Self::Server(one_line(&text)),
            PlanError::Bad => Self::BadReply,
        }
    }
}

impl CallError {
    /// Reads an error that the server answered.
    pub(super) fn from_server(error: &redis::ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        let place = || one_line(details.split(' ').nth(1).unwrap_or_default());
        match error.kind() {
            Some(Kind::Moved) => Self::Moved(place()),
            Some(Kind::Ask) => Self::Ask(place()),
            Some(Kind::TryAgain) => Self::TryAgain,
            Some(Kind::ReadOnly) => Self::ReadOnly,
            Some(Kind::CrossSlot) => Self::CrossSlot,
            _ => Self::Server(one_line(&format!("{} {details}", error.code()))),
        }
    }

    /// Says whether the error makes the connection useless, although another one may work.
    pub(super) fn condemns_connection(&self) -> bool {
        match self {
            Self::ReadOnly | Self::BadReply => true,
            Self::Server(text) => text.starts_with("NOAUTH"),
            // If the connection broke, its driver ends, and the supervisor notices that.
            Self::Disconnected
            | Self::Unsent
            | Self::Overloaded
            | Self::Moved(_)
            | Self::Ask(_)
            | Self::TryAgain
            | Self::CrossSlot
            | Self::Unreadable(_) => false,
        }
    }

    /// Says whether the server is at fault: it answered, but it would not execute any call.
    pub(super) fn is_of_the_server(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::BadReply | Self::Server(_)) && !self.is_of_the_plan()
    }

    /// Says whether the gateway's user lacks a permission, so that an operator has to act.
    pub(super) fn is_denial(&self) -> bool {
        let Self::Server(text) = self else {
            return false;
        };
        // For a command inside a script, Redis 7.0 answers the second of these, later versions the third.
        text.starts_with("NOPERM")
            || text.contains("user executing the script can't")
            || text.contains("ACL failure in script")
    }

    /// Says whether the server works and only this plan cannot be decided there, because one of its
    /// keys holds a value that no script of this version wrote.
    pub(crate) fn is_of_the_plan(&self) -> bool {
        let is_of_a_key = |text: &str| {
            ["WRONGTYPE", "UNREADABLE", "ERR user_script"]
                .iter()
                .any(|code| text.starts_with(code))
        };
        match self {
            Self::Unreadable(_) => true,
            Self::Server(text) => is_of_a_key(text),
            _ => false,
        }
    }
}
