//! Why there is no new connection to an endpoint.

use std::io;
use std::sync::Arc;

use super::http2::StreamError;
use super::system_error::plain;
use crate::fault::{EndpointFailure, TlsFailure};

/// Why there is no new connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The process has as many sockets as it may have, or the system has no descriptor more.
    #[error("no file descriptor is left for a connection to {endpoint}")]
    NoDescriptors {
        /// The endpoint, which has not been asked.
        endpoint: Arc<str>,
    },
    /// No address accepted in time.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// The endpoint.
        endpoint: Arc<str>,
        /// What the last address answered; `TimedOut` if `connect_timeout` was over.
        source: Arc<io::Error>,
    },
    /// There is a connection, but no TLS on it.
    #[error("no TLS with {endpoint}")]
    Tls {
        /// The endpoint.
        endpoint: Arc<str>,
        /// Why.
        source: TlsFailure,
    },
    /// There is a connection, but no HTTP/2 on it.
    #[error("no HTTP/2 with {endpoint}")]
    Http2 {
        /// The endpoint.
        endpoint: Arc<str>,
        /// Why.
        source: Arc<StreamError>,
    },
}

impl ConnectError {
    /// Says why in a few words, for the log.
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

    /// Says what kind of failure of an endpoint it is; none if the process is out of descriptors.
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
