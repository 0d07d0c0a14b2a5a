//! Why there is no new connection to an endpoint.

use std::io;
use std::sync::Arc;

use super::http2::StreamError;
use super::system_error::plain;
use crate::fault::{EndpointFailure, TlsFailure};

/// Why there is no new connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The process has reached its bound of sockets, or the system has no file descriptor left.
    #[error("no file descriptor is left for a connection to {endpoint}")]
    NoDescriptors {
        /// The endpoint, to which no connection was tried.
        endpoint: Arc<str>,
    },
    /// No address accepted in time.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// The endpoint.
        endpoint: Arc<str>,
        /// Error of the last address; `TimedOut` if `connect_timeout` ran out.
        source: Arc<io::Error>,
    },
    /// The endpoint accepted a connection, but the TLS handshake failed.
    #[error("TLS with {endpoint} failed")]
    Tls {
        /// The endpoint.
        endpoint: Arc<str>,
        /// Why the handshake failed.
        source: TlsFailure,
    },
    /// The endpoint accepted a connection, but did not begin HTTP/2 on it.
    #[error("{endpoint} did not begin HTTP/2")]
    Http2 {
        /// The endpoint.
        endpoint: Arc<str>,
        /// Why HTTP/2 did not begin.
        source: Arc<StreamError>,
    },
}

impl ConnectError {
    /// Returns the cause in a few words, for the log.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::NoDescriptors { .. } => "no file descriptor left".into(),
            Self::Connect { source, .. } => plain(source),
            Self::Tls { source, .. } => source.to_string(),
            Self::Http2 { source, .. } => format!("no HTTP/2: {source}"),
        }
    }

    pub(super) fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Self::NoDescriptors { .. })
    }

    /// Returns the kind of endpoint failure that this is; none if the process is out of descriptors.
    pub(super) fn failure(&self) -> Option<EndpointFailure> {
        Some(match self {
            Self::NoDescriptors { .. } => return None,
            Self::Connect { source, .. } => match source.kind() {
                io::ErrorKind::TimedOut => EndpointFailure::ConnectTimeout,
                _ => EndpointFailure::Connect,
            },
            Self::Tls { .. } => EndpointFailure::Tls,
            Self::Http2 { .. } => EndpointFailure::Http2,
        })
    }
}
