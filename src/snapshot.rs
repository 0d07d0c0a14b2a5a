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
mod settling;
mod temporary;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use answering::{FieldChanges, Jitter, PagePart, RefusalPage, RefusalStyle};
pub use expiry::Expiry;
pub use grant::{Grant, PolicyQuota};
use http::{HeaderName, HeaderValue};
pub use listener::{ListenAddress, Listener};
pub use settling::{
    CostSource, CountedAnswers, HeaderCost, ReportedCost, RouteBodies, StatusRange, UpstreamFault,
};
pub use temporary::{BLOCKED, TemporaryClients, TemporaryOverrides};
use typed_index_collections::TiVec;
pub use upstream::{
    Balance, Eject, Endpoint, Health, HttpUpstream, Scheme, Upstream, UpstreamKind,
};

use crate::access_log::AccessLog;
use crate::cost::{BodyCost, NumberIndex, NumberSource};
use crate::index::{ListenerIndex, PolicyIndex, RouteIndex, UpstreamIndex};
use crate::limit::PartitionId;
use crate::limit::plan::OnStoreFailure;
use crate::logging::{LogFiles, LogFormat};
use crate::request::jwt::TokenVerifier;
use crate::request::route::Router;
use crate::request::target::PathChange;
use crate::request::{ClientNames, Facts, Missing, Part, Partition, Patterns, Reads};

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
    /// How long the gateway is not ready but still accepts after SIGTERM.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after that.
    pub shutdown_grace: Duration,
    /// Whether the file is read again when it, or another one that it names, changes.
    pub watch: bool,
}

/// What happens to the requests that match one pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The pattern as the file has it, with method and host if any: the route's name in log and metrics.
    pub name: Arc<str>,
    /// The policies that apply, the default ones and its own, each once, in order.
    pub policies: Vec<AppliedPolicy>,
    /// What these policies read of a request.
    pub reads: Reads,
    /// Headers that the route, its policies or its upstream go by, which `Connection` must not name.
    pub decisive_headers: Vec<HeaderName>,
    /// What they read of bodies, if any of them does.
    pub bodies: Option<Arc<RouteBodies>>,
    /// Where it forwards to.
    pub upstream: UpstreamIndex,
    /// What is done to the path before it is forwarded.
    pub path_change: PathChange,
    /// Whether the client's Host goes to the upstream; otherwise the endpoint's does.
    pub preserve_host: bool,
    /// What a connection may be upgraded to, in lower case.
    pub upgrades: Vec<Box<str>>,
    /// How long the upstream's response head may take.
    pub response_timeout: Duration,
    /// How long the upstream's response body may stand still; none: for ever.
    pub body_timeout: Option<Duration>,
    /// Most bytes of a request's body, if the route says so.
    pub max_body_bytes: Option<u64>,
    /// Whether `%2F` may stand in the path.
    pub encoded_slash: EncodedSlash,
    /// What is changed in the fields of requests, the gateway's own among them.
    pub request_headers: FieldChanges,
    /// What is changed in the fields of answers, the gateway's own among them.
    pub response_headers: FieldChanges,
    /// Origins whose pages may read what the gateway itself answers, as `Origin` has them, or `*`.
    pub cors_origins: Vec<HeaderValue>,
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

/// Whose quota, how much, and what happens around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Its name in the file.
    pub name: Arc<str>,
    /// What a client may do that has no override.
    pub grant: Grant,
    /// Whose quota it is.
    pub partition: Partition,
    /// What happens to a request without one of the partition's parts.
    pub missing: Missing,
    /// Whether it refuses; none means that it is off and in no plan.
    pub mode: Option<PolicyMode>,
    /// What happens when the store cannot answer.
    pub on_store_failure: OnStoreFailure,
    /// Quotas that are tried beside the real ones.
    pub candidates: Vec<PolicyQuota>,
    /// Who tells what a request costs; none: [`AppliedPolicy::cost`] says it.
    pub reported_cost: Option<ReportedCost>,
    /// Which answers count.
    pub counted_answers: CountedAnswers,
    /// How it refuses.
    pub refusal: RefusalStyle,
    /// What a unit is called.
    pub unit: Arc<str>,
    /// What single clients may do instead.
    pub overrides: Option<Arc<Overrides>>,
    /// What operators let single clients do instead for a time, before the file's overrides.
    pub temporary: Option<Arc<TemporaryOverrides>>,
}

/// What a policy does to a request that its quotas have no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyMode {
    /// It refuses.
    #[default]
    Enforce,
    /// It counts and reports.
    Shadow,
    /// It admits, and tells the upstream and the client.
    Mark,
}

/// What single clients, or those of a tier, may do instead of what their policy grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// What chooses the override; none: the policy's partition.
    pub by: Option<Partition>,
    /// Which clients they are about.
    pub patterns: Patterns,
    /// What they may do, each grant once.
    pub grants: Vec<Grant>,
    /// For each pattern, the index of its grant.
    pub grant_of: Vec<u32>,
    /// How many of the patterns come from `overrides_file`.
    pub file_rows: usize,
    /// A part that clients can send as they like, of which a glob grants something.
    pub inventable_glob: Option<Part>,
}

/// The override of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// Who says so.
    pub origin: OverrideOrigin,
    /// What it grants, as an index into the grants of its origin.
    pub grant: usize,
}

/// Who says what a client may do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideOrigin {
    /// The file: this pattern of the policy's [`Overrides`].
    File(usize),
    /// An operator, for a time: [`TemporaryOverrides`].
    Operator,
}

impl Policy {
    /// Returns what chooses a client's override: what `overrides_by` says, or the partition.
    pub fn overrides_by(&self) -> &Partition {
        let by = self
            .overrides
            .as_ref()
            .and_then(|overrides| overrides.by.as_ref());
        by.unwrap_or(&self.partition)
    }

    /// Yields every part of a request that the policy reads.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let by = self
            .overrides
            .iter()
            .filter_map(|overrides| overrides.by.as_ref());
        self.partition.parts().chain(by.flat_map(Partition::parts))
    }

    /// Returns the header in which clients tell what their requests cost.
    pub fn request_cost_header(&self) -> Option<&HeaderName> {
        let reported = self
            .reported_cost
            .as_ref()?
            .header_of(CostSource::Request)?;
        Some(&reported.header)
    }

    /// Whether any client may do anything else than others.
    pub fn has_overrides(&self) -> bool {
        self.overrides.is_some() || self.temporary.is_some()
    }

    /// Finds the override that the policy has for a request, whose partition has this id.
    pub fn find_override(&self, facts: &Facts<'_>, partition_id: PartitionId) -> Option<Override> {
        if let Some(temporary) = &self.temporary
            && let Some(grant) = temporary.find(&self.partition, facts, partition_id)
        {
            let origin = OverrideOrigin::Operator;
            return Some(Override { origin, grant });
        }
        let overrides = self.overrides.as_ref()?;
        let pattern = overrides.patterns.find(self.overrides_by(), facts)?;
        let grant = overrides.grant_of[pattern] as usize;
        let origin = OverrideOrigin::File(pattern);
        Some(Override { origin, grant })
    }

    /// Returns what a client may do that has this override.
    pub fn grant_of(&self, one: Option<Override>) -> &Grant {
        let Some(one) = one else {
            return &self.grant;
        };
        let grants = match one.origin {
            OverrideOrigin::File(_) => self.overrides.as_ref().map(|of| &of.grants),
            OverrideOrigin::Operator => self.temporary.as_ref().map(|of| &of.grants),
        };
        grants.map_or(&self.grant, |grants| &grants[one.grant])
    }

    /// Whether an answer can change what a request was charged.
    pub fn is_settled(&self) -> bool {
        self.is_settled_by_head() || self.body_cost().is_some()
    }

    /// Whether the head of an answer can change what a request was charged.
    pub fn is_settled_by_head(&self) -> bool {
        let reported = self.reported_cost.as_ref();
        let by_header = reported.and_then(|reported| reported.header_of(CostSource::Response));
        by_header.is_some() || !self.counted_answers.is_all()
    }

    /// Returns how bodies tell what requests cost, if they do.
    pub fn body_cost(&self) -> Option<&BodyCost<NumberSource>> {
        self.reported_cost.as_ref()?.body()
    }

    /// Returns how many quotas a request is decided by at most; candidates are tried where no override
    /// applies.
    pub fn quotas_max(&self) -> usize {
        let own = self.grant.quotas().len() + self.candidates.len();
        let others = self.grants().map(|grant| grant.quotas().len()).max();
        own.max(others.unwrap_or(0))
    }

    /// Yields the policy's own grant, and those of its overrides.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        let others = self
            .overrides
            .iter()
            .flat_map(|overrides| &overrides.grants);
        let temporary = self.temporary.iter().flat_map(|of| &of.grants);
        [&self.grant].into_iter().chain(others).chain(temporary)
    }

    /// Yields every quota that a client may be counted in, candidates too.
    pub fn every_quota(&self) -> impl Iterator<Item = &PolicyQuota> {
        self.grants()
            .flat_map(Grant::quotas)
            .chain(&self.candidates)
    }
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
    /// What whoever changes something there, or asks for clients, must show.
    pub token: Option<crate::store::Secret>,
}
