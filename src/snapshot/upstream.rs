//! Where requests go: origins, or an answer of the gateway's own.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::{Authority, PathAndQuery};

use super::StatusRange;
use crate::request::{Facts, Identified, Missing, Partition, partition_id};
use crate::tls::ClientTls;

/// Where requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Its name in the file.
    pub name: Arc<str>,
    /// What answers.
    pub kind: UpstreamKind,
}

/// What answers the requests of an upstream.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
pub enum UpstreamKind {
    /// The gateway itself: echoes the request.
    Echo,
    /// The gateway itself: an empty answer with this status.
    Status(http::StatusCode),
    /// The gateway itself: sends the client to the same target over HTTPS.
    RedirectHttps,
    /// The gateway itself: tells the client what is left of its quotas.
    Usage,
    /// Origins.
    Http(HttpUpstream),
}

/// Origins that speak HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpUpstream {
    /// The origins; at least one.
    pub endpoints: Vec<Endpoint>,
    /// How one of several is chosen.
    pub balance: Balance,
    /// What TLS to those is made of that are spoken to over it; none if none is.
    pub tls: Option<ClientTls>,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How often a request is tried again, on another endpoint if there is one.
    pub retries: u32,
    /// Which part of the requests of the last seconds may be tries of requests that had failed.
    pub retry_budget: f64,
    /// Most requests at once, in the whole process; none: any number.
    pub max_requests: Option<usize>,
    /// Most bytes of the head of a response, and of its trailers.
    pub max_header_bytes: usize,
    /// Most idle connections per endpoint and worker.
    pub max_idle: usize,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// How endpoints are checked; none: requests alone show whether they work.
    pub health: Option<Health>,
    /// When an endpoint is left out because requests fail there.
    pub eject: Eject,
    /// How often the names of endpoints are resolved.
    pub resolve_every: Duration,
}

/// How an endpoint is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// They take turns, as often as their weights say.
    #[default]
    RoundRobin,
    /// The one of two with fewer requests for its weight.
    LeastRequests,
    /// Requests of one partition go to one endpoint.
    Hash(Partition),
}

/// How the endpoints of an upstream are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is asked for: a path and perhaps a query.
    pub path: PathAndQuery,
    /// Whose Host field a check has; none: the endpoint's.
    pub host: Option<HeaderValue>,
    /// The statuses of endpoints that are well.
    pub status: Vec<StatusRange>,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How many checks in a row must succeed before the endpoint is used again.
    pub healthy_after: u32,
    /// How many must fail before it is not used any more.
    pub unhealthy_after: u32,
}

/// When an endpoint is left out because requests fail there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eject {
    /// How many requests in a row must fail.
    pub failures: u32,
    /// How long it is left out.
    pub time: Duration,
}

/// One origin, or several that share a name.
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
    /// How many requests it gets for each one that an endpoint of weight 1 gets.
    pub weight: u32,
}

impl HttpUpstream {
    /// Returns when it is worth trying again if no endpoint can be tried: after the next check, or when an
    /// ejected endpoint is back.
    pub fn retry_after(&self) -> Duration {
        let health = self.health.as_ref();
        health.map_or(self.eject.time, |health| health.interval)
    }
}

impl Upstream {
    /// Returns a number that requests of one partition share, if that decides where they go. A request
    /// that lacks a part of it may go anywhere.
    pub fn hash(&self, facts: &Facts<'_>) -> Option<u64> {
        let UpstreamKind::Http(http) = &self.kind else {
            return None;
        };
        let Balance::Hash(partition) = &http.balance else {
            return None;
        };
        match partition_id(HASH_KEY, partition, Missing::Skip, facts) {
            Identified::PartitionId(id) => Some(id.low()),
            Identified::Skip | Identified::Unidentified { .. } => None,
        }
    }
}

/// Every gateway of a fleet chooses the same endpoint for a client.
const HASH_KEY: &[u8; 32] = b"tollgate balance by hash 2026-11";

/// A check of which nothing is known but that it asks for `/`; each key has its default in the table.
impl Default for Health {
    fn default() -> Self {
        Self {
            path: PathAndQuery::from_static("/"),
            host: None,
            status: Vec::new(),
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            healthy_after: 0,
            unhealthy_after: 0,
        }
    }
}

impl Default for Eject {
    fn default() -> Self {
        Self {
            failures: 5,
            time: Duration::from_secs(10),
        }
    }
}

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1 in clear.
    #[default]
    Http,
    /// Over TLS; the handshake says whether it is HTTP/1.1 or HTTP/2.
    Https,
    /// HTTP/2 in clear, without asking (RFC 9113, section 3.3).
    H2c,
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
