//! The configuration as the data plane sees it: compiled once, immutable, and without mistakes.
//!
//! `config::compile` makes a [`Snapshot`]; a request holds one for its whole life. Names have become indices and
//! handles, texts that go out with every answer are rendered, durations and sizes are numbers. Settings that need a
//! restart (addresses, workers, the store's scheme) are in here too; a reload keeps their running values.

mod answering;
mod expiry;
mod grant;
mod listener;
mod policy;
mod settling;
mod temporary;
mod threshold;
mod upstream;

use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use answering::{FieldChanges, Jitter, PagePart, RefusalPage, RefusalStyle, RouteChanges};
pub use expiry::Expiry;
pub use grant::{Grant, PolicyQuota, QuotaItems};
use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;
pub use listener::{ListenAddress, Listener};
pub use policy::{Override, OverrideOrigin, Overrides, Policy, PolicyMode};
pub use settling::{
    CostSource, CountedAnswers, HeaderCost, ReportedCost, RouteBodies, StatusRange, UpstreamFault,
};
use smallvec::SmallVec;
pub use temporary::{BLOCKED, TemporaryClients, TemporaryOverrides};
pub use threshold::Threshold;
use typed_index_collections::TiVec;
pub use upstream::{
    Balance, Eject, Endpoint, Health, HttpUpstream, Scheme, Upstream, UpstreamKind,
};

use crate::access_log::AccessLog;
use crate::cost::{BodyCost, NumberIndex};
use crate::index::{ListenerIndex, PolicyIndex, RouteIndex, UpstreamIndex};
use crate::logging::{LogFiles, LogFormat};
use crate::request::jwt::TokenVerifier;
use crate::request::route::Router;
use crate::request::target::PathChange;
use crate::request::{Ambiguous, ClientNames, NameFilter, Reads};

/// Everything a request needs to know of the configuration.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Ports that accept clients, in file order.
    pub listeners: TiVec<ListenerIndex, Arc<Listener>>,
    /// Finds the route of a request, as an index into `routes`.
    pub router: Arc<Router>,
    /// Routes, in file order.
    pub routes: TiVec<RouteIndex, Route>,
    /// Policies, in file order.
    pub policies: TiVec<PolicyIndex, Policy>,
    /// Policies that decide CORS preflights; `None` if a preflight is a request like any other.
    pub preflight_policies: Option<Vec<AppliedPolicy>>,
    /// Verifies the tokens of requests, if the file says how.
    pub tokens: Option<Arc<TokenVerifier>>,
    /// Headers that listeners, routes and policies go by, and those that a route changes in requests.
    pub decisive_headers: Arc<[HeaderName]>,
    /// Filter that passes the names of the fields that matter when a head arrives.
    pub head_filter: NameFilter,
    /// Whether a route, a policy or an upstream goes by `X-Forwarded-Proto`, or a route changes it.
    pub reads_scheme: bool,
    /// Upstreams, in file order.
    pub upstreams: TiVec<UpstreamIndex, Arc<Upstream>>,
    /// What is logged, how and where.
    pub log: Log,
    /// The admin port.
    pub admin: Admin,
    /// The store.
    pub store: crate::store::Settings,
    /// Settings that belong to no table of the file.
    pub general: General,
}

/// Settings that come before the first table of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct General {
    /// Number of worker threads; `None` means one per core.
    pub workers: Option<usize>,
    /// Which limit headers answers carry.
    pub ratelimit_headers: RateLimitHeaders,
    /// The field that carries each request's id, if requests are given one.
    pub request_id: Option<HeaderName>,
    /// Networks of the clients whose responses say how their request was decided.
    pub debug_from: Vec<IpNet>,
    /// How long the gateway still accepts connections after SIGTERM while it reports that it is not ready.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after `shutdown_delay`.
    pub shutdown_grace: Duration,
    /// Whether the configuration is reloaded when its file, or another one that it names, changes.
    pub watch: bool,
}

/// What happens to the requests that match one pattern.
///
/// There may be thousands, so what most requests read comes first, on three cache lines; what few routes have is boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Route {
    /// Policies that apply: the default ones and the route's own, each once, in order.
    pub policies: SmallVec<[AppliedPolicy; 1]>,
    /// The upstream that requests are forwarded to.
    pub upstream: UpstreamIndex,
    /// What the route's policies read of a request, and whether its upstream reads claims; `None` if neither.
    pub reads: Option<Box<Reads>>,
    /// What the route's policies read from bodies, if any of them does.
    pub bodies: Option<Arc<RouteBodies>>,
    /// Changes to the fields of requests and answers, if there are any.
    pub changes: Option<Box<RouteChanges>>,
    /// What is done to the path before it is forwarded.
    pub path_change: PathChange,
    /// How long the upstream's response head may take.
    pub response_timeout: Duration,
    /// How long the upstream's response body may make no progress; `None` means for ever.
    pub body_timeout: Option<Duration>,
    /// Whether the client's Host goes to the upstream; otherwise the endpoint's does.
    pub preserve_host: bool,
    /// Whether the path may contain an encoded slash or backslash (`%2F`, `%5C`).
    pub encoded_slash: EncodedSlash,
    /// Most bytes of a request's body; `None` leaves that to the listener.
    pub max_body_bytes: Option<u64>,
    /// Web origins whose pages may read the gateway's own answers, as spelled in `Origin`, or `*`.
    pub cors_origins: Box<[HeaderValue]>,
    /// Protocols that a connection may be upgraded to, in lower case.
    pub upgrades: Box<[Box<str>]>,
    /// The pattern as written in the file, with method and host if any: the route's name in log and metrics.
    pub name: Arc<str>,
    /// Headers that the route, its policies or its upstream go by, which `Connection` must not name.
    pub decisive_headers: Vec<HeaderName>,
}

const _: () = assert!(mem::offset_of!(Route, decisive_headers) <= 3 * 64);

impl Route {
    /// Whether the route's policies or its upstream read claims of tokens.
    pub fn reads_claims(&self) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.has_claims())
    }

    /// Refuses a request if origins could read a value that the route's policies read differently; `joined` are the
    /// headers whose several lines have become one.
    ///
    /// # Errors
    /// The same as those of [`Reads::check`].
    pub fn check_reads(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        joined: &[HeaderName],
    ) -> Result<(), Ambiguous> {
        match &self.reads {
            Some(reads) => reads.check(headers, query, joined),
            None => Ok(()),
        }
    }
}

/// Whether a route's path may contain an encoded slash or backslash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// The request is refused with 400.
    #[default]
    Reject,
    /// The slash stays encoded and separates no segments.
    Keep,
}

/// A policy on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedPolicy {
    /// The policy.
    pub policy: PolicyIndex,
    /// Units that a request costs here: the route's cost, or the policy's.
    pub cost: u64,
    /// How bodies report the cost on this route, if they do.
    pub body_cost: Option<Arc<BodyCost<NumberIndex>>>,
}

/// What a unit is called if the file does not name it.
pub const REQUESTS: &str = "requests";

/// Which limit headers answers carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimitHeaders {
    /// `RateLimit-Policy` and `RateLimit`.
    #[default]
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    X,
    /// Both kinds.
    Both,
    /// No limit headers.
    Off,
}

/// What is logged, how and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least severe level of events that are logged.
    pub level: tracing::Level,
    /// The format of lines; `None` means text on a terminal and JSON elsewhere.
    pub format: Option<LogFormat>,
    /// Which requests are in the access log.
    pub access: AccessLog,
    /// The file that events go to; `None` means standard output. It is reopened on SIGHUP and SIGUSR1.
    pub file: Option<PathBuf>,
    /// The file that the access log goes to; `None` means where events go.
    pub access_file: Option<PathBuf>,
    /// How much is shown of client values that may be secret, such as headers.
    pub clients: ClientNames,
}

impl Log {
    /// Returns the files to open.
    pub fn files(&self) -> LogFiles<'_> {
        LogFiles {
            events: self.file.as_deref(),
            access: self.access_file.as_deref(),
        }
    }
}

/// The admin port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Where the admin port listens; `None` means that it is off.
    pub address: Option<SocketAddr>,
    /// The token that is required to change anything through the port, or to look up clients.
    pub token: Option<crate::store::Secret>,
}
