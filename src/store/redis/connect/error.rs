//! Why there is no connection.

use std::io;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::store::redis::one_line::one_line;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("the name cannot be looked up: {0}")]
    Resolve(io::Error),
    #[error("{0}")]
    Connect(io::Error),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("it took longer than {CONNECT_TIMEOUT:?}")]
    Elapsed,
    #[error("it does not speak RESP3")]
    Unspoken,
    /// The server does not accept the credentials, or they lack a right that is needed.
    #[error("refused: {0}")]
    Refused(String),
    /// The server answered with another error, or broke off.
    #[error("{0}")]
    Server(String),
    #[error("it is not a primary")]
    NotPrimary,
    #[error("no sentinel knows the primary: {0}")]
    NoSentinel(String),
}

impl DialError {
    /// Says whether somebody has to act before another attempt can succeed.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Says whether it tells no more than that the server is away, or another is not in its place yet.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Connect(_) | Self::Elapsed | Self::NotPrimary | Self::NoSentinel(_)
        )
    }

    /// Reads an error that the server answered.
    pub(crate) fn from_server(error: &redis::ServerError) -> Self {
        let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
        let text = one_line(&text);
        match error.code() {
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Refused(text),
            _ => Self::Server(text),
        }
    }
}

impl From<RedisError> for DialError {
    fn from(error: RedisError) -> Self {
        let code = error.code().unwrap_or_default();
        let detail = error.detail().unwrap_or_default();
        match error.kind() {
            ErrorKind::RESP3NotSupported => Self::Unspoken,
            _ if code == "NOPROTO" || detail.starts_with("unknown command 'HELLO'") => {
                Self::Unspoken
            }
            ErrorKind::AuthenticationFailed => Self::Refused(one_line(&error.to_string())),
            _ if matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM") => {
                Self::Refused(one_line(&format!("{code} {detail}")))
            }
            _ if !code.is_empty() => Self::Server(one_line(&format!("{code} {detail}"))),
            _ => Self::Server(one_line(&error.to_string())),
        }
    }
}

/// Longest from the name's look-up to the last answer about the server.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
