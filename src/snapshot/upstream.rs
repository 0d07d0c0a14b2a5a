//! Where requests go: origins, or an answer of the gateway's own.

use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use rustls::pki_types::ServerName;

use crate::tls::ClientTls;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name in the file.
    pub name: Arc<str>,
    /// What answers.
    pub kind: UpstreamKind,
}

/// What answers the requests of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamKind {
    /// The gateway itself: echoes the request.
    Echo,
    /// The gateway itself: an empty answer with this status.
    Status(http::StatusCode),
    /// Origins, taken in turn.
    Http(HttpUpstream),
}

/// Origins that speak HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpUpstream {
    /// The origins; at least one.
    pub endpoints: Vec<Endpoint>,
    /// What TLS to those is made of that are spoken to over it; none if none is.
    pub tls: Option<UpstreamTls>,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How many more endpoints or connections are tried when nothing was sent.
    pub retries: u32,
    /// Most idle connections per endpoint and worker.
    pub max_idle: usize,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
}

/// One origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Host and port as written, without the port if it is the scheme's. It is the Host of requests
    /// unless the client's is kept.
    pub authority: Authority,
    /// Host to resolve, without brackets.
    pub host: Box<str>,
    /// Port to connect to.
    pub port: u16,
}

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP/1.1 in clear.
    #[default]
    Http,
    /// Over TLS; the handshake says whether it is HTTP/1.1 or HTTP/2.
    Https,
    /// HTTP/2 in clear, without asking (RFC 9113, section 3.3).
    H2c,
}

/// How an upstream's connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Who is trusted, and who the gateway is.
    pub client: ClientTls,
    /// The name that origins have; none: each its endpoint's.
    pub server_name: Option<ServerName<'static>>,
}

impl Scheme {
    /// Returns the scheme as endpoints have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }

    /// Returns the port of endpoints without one.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http | Self::H2c => 80,
            Self::Https => 443,
        }
    }
}
