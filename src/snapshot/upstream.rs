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
    /// The upstream's name in the file.
    pub name: Arc<str>,
    /// What answers its requests.
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
    /// Origins that speak HTTP.
    Http(HttpUpstream),
}

/// Origins that speak HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpUpstream {
    /// The origins; at least one.
    pub endpoints: Vec<Endpoint>,
    /// How an endpoint is chosen if there are several.
    pub balance: Balance,
    /// TLS settings for the endpoints that are reached over it; `None` if there are no such endpoints.
    pub tls: Option<ClientTls>,
    /// How long connecting to an endpoint may take.
    pub connect_timeout: Duration,
    /// How many times a request may be tried again, on another endpoint if there is one.
    pub retries: u32,
    /// Most retries, as a fraction of the requests of the last ten seconds.
    pub retry_budget: f64,
    /// Most requests at once, in the whole process; `None` means any number.
    pub max_requests: Option<usize>,
    /// Most bytes of the head of a response, and of its trailers.
    pub max_header_bytes: usize,
    /// Most idle connections per endpoint and worker.
    pub max_idle: usize,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// How endpoints are checked; `None` if only requests show whether they work.
    pub health: Option<Health>,
    /// When an endpoint is left out because requests fail there.
    pub eject: Eject,
    /// How often the names of endpoints are resolved.
    pub resolve_every: Duration,
}

/// How an endpoint is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Endpoints take turns, in proportion to their weights.
    #[default]
    RoundRobin,
    /// Of two endpoints, the one with fewer requests in flight for its weight.
    LeastRequests,
    /// Requests of one partition go to one endpoint.
    Hash(Partition),
}

/// How the endpoints of an upstream are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The target of a check: a path and perhaps a query.
    pub path: PathAndQuery,
    /// The Host field of a check; `None` means the endpoint's.
    pub host: Option<HeaderValue>,
    /// Statuses of a healthy endpoint.
    pub status: Vec<StatusRange>,
    /// The time between two checks.
    pub interval: Duration,
    /// How long the answer to a check may take.
    pub timeout: Duration,
    /// How many checks in a row must succeed before the endpoint is used again.
    pub healthy_after: u32,
    /// How many checks in a row must fail before the endpoint is not used any more.
    pub unhealthy_after: u32,
}

/// When an endpoint is left out because requests fail there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eject {
    /// How many requests in a row must fail.
    pub failures: u32,
    /// How long the endpoint is left out.
    pub time: Duration,
}

/// One origin, or several that share a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How the endpoint is spoken to.
    pub scheme: Scheme,
    /// Host and port as written, without the port if it is the scheme's. Requests have it as their Host unless the
    /// client's is kept.
    pub authority: Authority,
    /// Host to resolve, without brackets.
    pub host: Box<str>,
    /// Port to connect to.
    pub port: u16,
    /// How many requests the endpoint gets for each one that an endpoint of weight 1 gets.
    pub weight: u32,
}

impl HttpUpstream {
    /// Returns how long a client should wait if no endpoint can be tried: until the next check, or until an ejected
    /// endpoint is back.
    pub fn retry_after(&self) -> Duration {
        let health = self.health.as_ref();
        health.map_or(self.eject.time, |health| health.interval)
    }
}

impl Upstream {
    /// Returns the hash by which an endpoint is chosen, if the upstream balances by one: requests of one partition
    /// share it. A request that lacks a part of the partition may go anywhere.
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

/// The key is the same everywhere, so every gateway of a fleet chooses the same endpoint for a client.
const HASH_KEY: &[u8; 32] = b"tollgate balance by hash 2026-11";

/// Placeholders, apart from the path `/`: the defaults are in the table of options.
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
    /// HTTP/2 in clear, without negotiation (prior knowledge: RFC 9113, section 3.3).
    H2c,
}

impl Scheme {
    /// Returns the scheme as written in endpoints.
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
