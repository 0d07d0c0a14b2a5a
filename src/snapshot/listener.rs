//! What a port or a Unix socket does with the clients that connect to it.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::request::ClientIdentity;
use crate::tls::ServerTls;

/// Where clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenAddress {
    /// A port of an address.
    Tcp(SocketAddr),
    /// A Unix socket at a path. Whoever connects to it has no address, and is trusted.
    Unix(PathBuf),
}

/// A port or a Unix socket that accepts clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name in the file.
    pub name: Arc<str>,
    /// Where it listens.
    pub address: ListenAddress,
    /// How its connections are encrypted, if they are.
    pub tls: Option<ServerTls>,
    /// Whether it speaks HTTP/2 too.
    pub http2: bool,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// How it tells who its clients are.
    pub identity: ClientIdentity,
    /// Most connections at once; more wait to be accepted.
    pub max_connections: usize,
    /// Most connections of one client at once.
    pub max_connections_per_client: Option<usize>,
    /// Most requests delayed by leaky-bucket policies at once.
    pub max_delayed: usize,
    /// Most bytes of request bodies at once that are read before they are decided.
    pub max_buffered_bytes: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a head may take, from its first byte (or from the accept) to its end.
    pub header_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How long a client may make no progress when it reads or writes a body.
    pub body_timeout: Duration,
    /// How long an upgraded connection may be silent.
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
    /// Writes it as in the file.
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

    /// Whether all peers are believed in what they say of their clients: those of a Unix socket, unless a
    /// header of the PROXY protocol takes their place.
    pub fn trusts_every_peer(&self) -> bool {
        self.is_unix() && !self.proxy_protocol
    }

    /// Whether there are peers that are believed in what they say of their clients.
    pub fn trusts_peers(&self) -> bool {
        self.trusts_every_peer() || !self.identity.trusted_proxies.is_empty()
    }

    /// Returns the digest of its `client_ca`, if its clients must have a certificate.
    pub fn client_ca(&self) -> Option<&blake3::Hash> {
        self.tls.as_ref()?.client_ca()
    }
}
