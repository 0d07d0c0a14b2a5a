//! The configuration as the data plane sees it: compiled once, immutable, and without mistakes.
//!
//! `config::compile` makes a [`Snapshot`]; a request holds one for its whole life. Names have
//! become indices and handles, texts that go out with every answer are rendered, durations and
//! sizes are numbers. What needs a restart (addresses, workers, the store's scheme) is in here too;
//! a reload keeps the running value.

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
    /// The policies that decide CORS preflights; none: a preflight is a request like any other.
    pub preflight_policies: Option<Vec<AppliedPolicy>>,
    /// Verifies the tokens of requests, if the file says how.
    pub tokens: Option<Arc<TokenVerifier>>,
    /// Headers that any route, partition or listener looks at to tell requests apart, or that a route
    /// changes.
    pub decisive_headers: Arc<[HeaderName]>,
    /// Passes the names of fields that are looked at when a head arrives.
    pub head_filter: NameFilter,
    /// Whether a route or a partition looks at `X-Forwarded-Proto`.
    pub reads_scheme: bool,
    /// Upstreams, in file order.
    pub upstreams: TiVec<UpstreamIndex, Arc<Upstream>>,
    /// What is logged, how and where.
    pub log: Log,
    /// The admin port.
    pub admin: Admin,
    /// The store.
    pub store: crate::store::Settings,
    /// What belongs to none of these.
    pub general: General,
}

/// What stands before the first table of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct General {
    /// Worker threads; none means one per core.
    pub workers: Option<usize>,
    /// Which limit headers answers carry.
    pub ratelimit_headers: RateLimitHeaders,
    /// The field in which each request is given an id, if any.
    pub request_id: Option<HeaderName>,
    /// Callers whose responses say how the request was decided.
    pub debug_from: Vec<IpNet>,
    /// How long the gateway is not ready but still accepts after SIGTERM.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after that.
    pub shutdown_grace: Duration,
    /// Whether the file is read again when it, or another one that it names, changes.
    pub watch: bool,
}

/// What happens to the requests that match one pattern.
///
/// There may be thousands, so what most requests read comes first, on three cache lines; what few routes have is boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Route {
    /// The policies that apply, the default ones and its own, each once, in order.
    pub policies: SmallVec<[AppliedPolicy; 1]>,
    /// Where it forwards to.
    pub upstream: UpstreamIndex,
    /// What these policies read of a request, if anything.
    pub reads: Option<Box<Reads>>,
    /// What they read of bodies, if any of them does.
    pub bodies: Option<Arc<RouteBodies>>,
    /// What is changed in the fields of messages, if anything.
    pub changes: Option<Box<RouteChanges>>,
    /// What is done to the path before it is forwarded.
    pub path_change: PathChange,
    /// How long the upstream's response head may take.
    pub response_timeout: Duration,
    /// How long the upstream's response body may stand still; none: for ever.
    pub body_timeout: Option<Duration>,
    /// Whether the client's Host goes to the upstream; otherwise the endpoint's does.
    pub preserve_host: bool,
    /// Whether `%2F` may stand in the path.
    pub encoded_slash: EncodedSlash,
    /// Most bytes of a request's body, if the route says so.
    pub max_body_bytes: Option<u64>,
    /// Origins whose pages may read what the gateway itself answers, as `Origin` has them, or `*`.
    pub cors_origins: Box<[HeaderValue]>,
    /// What a connection may be upgraded to, in lower case.
    pub upgrades: Box<[Box<str>]>,
    /// The pattern as the file has it, with method and host if any: the route's name in log and metrics.
    pub name: Arc<str>,
    /// Headers that the route, its policies or its upstream go by, which `Connection` must not name.
    pub decisive_headers: Vec<HeaderName>,
}

const _: () = assert!(mem::offset_of!(Route, decisive_headers) <= 3 * 64);

impl Route {
    /// Whether its policies or its upstream read claims of tokens.
    pub fn reads_claims(&self) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.has_claims())
    }

    /// Looks for what origins could read differently of what its policies read; `joined` are the headers that had several
    /// lines and have one now.
    ///
    /// # Errors
    /// As [`Reads::check`].
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

/// Whether an encoded slash may stand in a route's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// 400.
    #[default]
    Reject,
    /// It stays encoded and is no separator.
    Keep,
}

/// A policy on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedPolicy {
    /// Which one.
    pub policy: PolicyIndex,
    /// Units that a request costs here: the route's cost, or the policy's.
    pub cost: u64,
    /// How bodies tell it here, if they do.
    pub body_cost: Option<Arc<BodyCost<NumberIndex>>>,
}

/// What a unit is called where the file does not say it.
pub const REQUESTS: &str = "requests";

/// Which limit headers answers carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimitHeaders {
    /// `RateLimit-Policy` and `RateLimit`.
    #[default]
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    X,
    /// Both.
    Both,
    /// None.
    Off,
}

/// What is logged, how and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least severe level of events that are logged.
    pub level: tracing::Level,
    /// The shape of lines; none means text on a terminal, and JSON otherwise.
    pub format: Option<LogFormat>,
    /// Which requests the access log has.
    pub access: AccessLog,
    /// Where events go; none means standard output. Reopened on SIGHUP and SIGUSR1.
    pub file: Option<PathBuf>,
    /// Where the access log goes; none means where events go.
    pub access_file: Option<PathBuf>,
    /// How much of a client's headers is shown.
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
    /// Where it listens; none means that it is off.
    pub address: Option<SocketAddr>,
    /// The token required to change anything there, or to ask for clients.
    pub token: Option<crate::store::Secret>,
}
