//! What a port or a Unix socket does with the clients that connect to it.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::request::ClientIdentity;
use crate::tls::ServerTls;

/// The address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A Unix socket at a path. A peer that connects to it has no address, and is trusted.
    Unix(PathBuf),
}

/// A port or a Unix socket that accepts clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The listener's name in the file.
    pub name: Arc<str>,
    /// The address that it listens on.
    pub address: ListenAddress,
    /// How its connections are encrypted, if they are.
    pub tls: Option<ServerTls>,
    /// Whether it accepts HTTP/2 as well as HTTP/1.
    pub http2: bool,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// How it tells who its clients are.
    pub identity: ClientIdentity,
    /// Most connections at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// Most connections of one client at once, if they are limited.
    pub max_connections_per_client: Option<usize>,
    /// Most requests delayed by leaky-bucket policies at once.
    pub max_delayed: usize,
    /// Most bytes of request bodies that are buffered at once to decide their requests.
    pub max_buffered_bytes: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a request's head may take, from its first byte (or from the accept) to its end.
    pub header_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How long a client may make no progress while it reads or writes a body.
    pub body_timeout: Duration,
    /// How long an upgraded connection may carry no byte.
    pub tunnel_timeout: Duration,
    /// Most bytes of a request's head.
    pub max_header_bytes: usize,
    /// Most bytes of a request's body, unless the route says otherwise.
    pub max_body_bytes: Option<u64>,
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl Display for ListenAddress {
    /// Writes the address as in the file.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listener {
    /// Whether it accepts on a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.address, ListenAddress::Unix(_))
    }

    /// Whether every peer is trusted to say who its client is: on a Unix socket, unless connections
    /// begin with a header of the PROXY protocol.
    pub fn trusts_every_peer(&self) -> bool {
        self.is_unix() && !self.proxy_protocol
    }

    /// Whether there may be peers that are trusted to say who their client is.
    pub fn trusts_peers(&self) -> bool {
        self.trusts_every_peer() || !self.identity.trusted_proxies.is_empty()
    }

    /// Returns the digest of the listener's `client_ca`, if its clients must have a certificate.
    pub fn client_ca(&self) -> Option<&blake3::Hash> {
        self.tls.as_ref()?.client_ca()
    }
}
