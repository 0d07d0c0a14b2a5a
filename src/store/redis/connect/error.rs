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
    #[error("connecting took longer than {CONNECT_TIMEOUT:?}")]
    Elapsed,
    #[error("it speaks neither RESP3 nor RESP2")]
    Resp3Unsupported,
    /// The server does not accept the credentials, or they lack a permission that is needed.
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
    /// Says whether an operator has to act before another attempt can succeed.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Says whether the error means only that the server is away, or that no other has taken its place yet.
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
            ErrorKind::RESP3NotSupported => Self::Resp3Unsupported,
            _ if code == "NOPROTO" || detail.starts_with("unknown command 'HELLO'") => {
                Self::Resp3Unsupported
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

/// Longest time from the look-up of the server's name to its last answer about itself.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
