//! The file's mirror: exactly its shape, with the place of every value; nothing resolved yet.
//!
//! A key that the file leaves out has its default already; [`Table::place`] says whether it is there.
//! Where a key means by itself what it says, the mirror holds the snapshot's own type.

mod prices;
mod quota;
mod route;
mod spanned;
mod tls;
mod upstream;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use typed_index_collections::TiVec;

pub use self::prices::{PriceText, RawPriceRow, RawPrices};
pub use self::quota::{AlgorithmName, RawQuota};
pub use self::route::{ForwardPath, RawRoute, RouteCost};
pub use self::spanned::Spanned;
pub use self::tls::{Pem, RawCertificate, RawServerTls, RawTls};
pub use self::upstream::{BalanceName, RawEndpoint, RawUpstream};
use super::value::{CostText, RefundOn, StoreUrl, Zone};
use crate::cost::{Amount, NumberSource};
use crate::index::{ListenerIndex, PolicyIndex, RouteIndex, UpstreamIndex};
use crate::limit::{Align, AnchorDay, Count, OldestBucket, Overshoot};
use crate::request::Choice;
use crate::request::jwt::{SigningAlgorithm, TokenRules};
use crate::snapshot::{self, Admin, General, Listener, Log, StatusRange, Threshold};
use crate::store::settings::{Password, Settings};

/// A table of the file.
#[derive(Clone, Debug, Default)]
pub struct Table<T> {
    /// Its name, if the file gives it one; a route's is made of what it matches.
    pub name: Arc<str>,
    /// Where its name or its header stands.
    pub span: Range<usize>,
    /// What its keys say.
    pub value: T,
    /// The keys that are there and right, those of tables in it as `tls.ca`.
    pub(super) places: Vec<(&'static str, Range<usize>)>,
    /// The titles of the tables, this one and those in it, that have a mistake of their own.
    pub(super) incomplete: Vec<&'static str>,
}

impl<T> Table<T> {
    /// Returns where the value of a key stands; none if the key is absent or wrong.
    pub fn place(&self, key: &str) -> Option<&Range<usize>> {
        let found = self.places.iter().find(|(name, _)| *name == key);
        found.map(|(_, span)| span)
    }

    /// Whether the file gives the key a value.
    pub fn has(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    /// Whether the file has the table; one that it has any number of always is.
    pub fn is_there(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether an absent key of the table with this title may be one that is wrong.
    pub fn is_incomplete(&self, title: &str) -> bool {
        self.incomplete.contains(&title)
    }
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// What stands before the first table.
    pub top: Table<Top>,
    /// `[listeners.NAME]`
    pub listeners: TiVec<ListenerIndex, Table<RawListener>>,
    /// `[admin]`
    pub admin: Table<Admin>,
    /// `[log]`
    pub log: Table<Log>,
    /// `[store]`
    pub store: Table<RawStore>,
    /// `[jwt]`
    pub jwt: Table<RawJwt>,
    /// `[upstreams.NAME]`
    pub upstreams: TiVec<UpstreamIndex, Table<RawUpstream>>,
    /// `[policies.NAME]`
    pub policies: TiVec<PolicyIndex, Table<RawPolicy>>,
    /// `[[routes]]`
    pub routes: TiVec<RouteIndex, Table<RawRoute>>,
    /// What could not be read at all.
    pub lost: UnreadParts,
}

/// What a file has that could not be read, so that it is not called missing.
#[derive(Clone, Debug, Default)]
pub struct UnreadParts {
    /// Kinds of tables of which one, at least, has a header that cannot be read.
    pub headers: HashSet<&'static str>,
    /// Kinds of tables of which one, at least, stands under a misspelled name.
    pub misspelled: HashSet<&'static str>,
    /// Names of tables that stand under a misspelled name, or are no tables.
    pub names: HashSet<String>,
    /// Headers of the tables in which a statement cannot be read.
    pub spoiled: Vec<Range<usize>>,
}

impl UnreadParts {
    /// Whether the file may have a table of this kind that was not read.
    pub fn may_be_any(&self, kind: &str) -> bool {
        self.headers.contains(kind) || self.misspelled.contains(kind)
    }

    /// Whether the file may have a table of this kind and name that was not read.
    pub fn may_be(&self, kind: &str, name: &str) -> bool {
        self.headers.contains(kind) || self.names.contains(name)
    }

    /// Whether the table whose header is at `span` lacks a statement that cannot be read.
    pub fn is_from(&self, span: &Range<usize>) -> bool {
        let mut headers = self.spoiled.iter();
        headers.any(|header| header.start <= span.start && span.end <= header.end)
    }
}

/// What stands before the first table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top {
    /// What the snapshot has of it.
    pub general: General,
    /// `default_policies`
    pub default_policies: Vec<Spanned<String>>,
    /// `preflight_policies`; none: preflights are requests like any other
    pub preflight_policies: Option<Vec<Spanned<String>>>,
    /// `include`
    pub include: Vec<Spanned<String>>,
}

/// `[listeners.NAME]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawListener {
    /// What the snapshot has of it, but for the name and TLS.
    pub listener: Listener,
    /// `[listeners.NAME.tls]`
    pub tls: RawServerTls,
}

/// `[store]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawStore {
    /// `url`
    pub url: StoreUrl,
    /// `username`, or the URL's
    pub username: Option<Box<str>>,
    /// `password`, or the URL's
    pub password: Option<Password>,
    /// `sentinel_username`
    pub sentinel_username: Option<Box<str>>,
    /// `sentinel_password`
    pub sentinel_password: Option<Password>,
    /// `[store.tls]`
    pub tls: RawTls,
    /// `prefix`
    pub prefix: Arc<str>,
    /// What the snapshot has of it, but for the location.
    pub settings: Settings,
}

/// `[jwt]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawJwt {
    /// `keys`: one or several
    pub keys: Vec<Spanned<Pem>>,
    /// `algorithms`; none: those of the keys
    pub algorithms: Vec<SigningAlgorithm>,
    /// What the snapshot has of it, but for the keys.
    pub rules: TokenRules,
}

/// `[policies.NAME]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawPolicy {
    /// `quota`: one or several
    pub quota: Vec<Spanned<RawQuota>>,
    /// `algorithm`
    pub algorithm: AlgorithmName,
    /// `buckets`
    pub buckets: u32,
    /// `oldest_bucket`
    pub oldest: OldestBucket,
    /// `align`
    pub align: Align,
    /// `time_zone`
    pub time_zone: Zone,
    /// `anchor_day`
    pub anchor_day: Option<AnchorDay>,
    /// `anchor_by`
    pub anchor_by: Option<Choice>,
    /// `anchor_time`, in minutes
    pub anchor_time: u16,
    /// `burst`
    pub burst: Option<u64>,
    /// `queue`
    pub queue: u64,
    /// `initial_credits`
    pub initial_credits: u64,
    /// `allow_loss`
    pub allow_loss: bool,
    /// `consistency`
    pub consistency: ConsistencyName,
    /// `overshoot`
    pub overshoot: Overshoot,
    /// `sync_interval`
    pub sync_interval: Duration,
    /// `spill`
    pub spill: Option<Spanned<String>>,
    /// `penalty`
    pub penalty: Option<Duration>,
    /// `penalty_growth`
    pub penalty_growth: u32,
    /// `cost`
    pub cost: CostText,
    /// `reserve`
    pub reserve: Amount<NumberSource>,
    /// `reserve_default`
    pub reserve_default: Option<u64>,
    /// `max_reserve_body`
    pub max_reserve_body: u64,
    /// `cost_unknown`
    pub cost_unknown: Option<Amount<NumberSource>>,
    /// `cost_by`
    pub cost_by: Option<Vec<NumberSource>>,
    /// `prices`
    pub prices: RawPrices,
    /// `min_cost`
    pub min_cost: Option<u64>,
    /// `max_cost`
    pub max_cost: Option<u64>,
    /// `count`
    pub count: Count,
    /// `count_status`
    pub count_status: Vec<Spanned<StatusRange>>,
    /// `refund_on`
    pub refund_on: Vec<Spanned<RefundOn>>,
    /// `notify`
    pub notify: Vec<Spanned<Threshold>>,
    /// `candidate`: any number
    pub candidate: Vec<Spanned<RawQuota>>,
    /// `[policies.NAME.refusal] body`
    pub refusal_body: Option<String>,
    /// `[policies.NAME.refusal] content_type`
    pub refusal_content_type: Option<HeaderValue>,
    /// `overrides`
    pub overrides: RawOverrides,
    /// `overrides_by`
    pub overrides_by: Option<Choice>,
    /// `overrides_file`
    pub overrides_file: Option<OverridesFile>,
    /// What the snapshot has of it, but for name, quotas and overrides.
    pub policy: snapshot::Policy,
}

/// A value of `consistency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsistencyName {
    /// `exact`
    #[default]
    Exact,
    /// `leased`
    Leased,
    /// `synced`
    Synced,
}

impl RawPolicy {
    /// Yields every quota of the policy, its candidates and overrides, but those of the file of overrides.
    pub fn quotas(&self) -> impl Iterator<Item = &Spanned<RawQuota>> {
        let overrides = (self.overrides.0.iter()).flat_map(|one| &one.grant.value.quota);
        self.quota.iter().chain(&self.candidate).chain(overrides)
    }
}

/// `overrides`, in the file's order, which means nothing.
#[derive(Clone, Debug, Default)]
pub struct RawOverrides(pub Vec<RawOverride>);

impl PartialEq for RawOverrides {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|Self(list)| {
            let mut sorted: Vec<&RawOverride> = list.iter().collect();
            sorted.sort_unstable_by(|a, b| a.pattern.value.cmp(&b.pattern.value));
            sorted
        });
        one == other
    }
}

/// One of `overrides`.
#[derive(Clone, PartialEq)]
pub struct RawOverride {
    /// Which clients it is about.
    pub pattern: Spanned<String>,
    /// What they may do.
    pub grant: Spanned<RawGrant>,
}

/// The pattern may be a client's key.
impl std::fmt::Debug for RawOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawOverride({:?})", self.grant.value)
    }
}

/// What an override says: the value of `quota`, or a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawGrant {
    /// `quota`: one or several
    pub quota: Vec<Spanned<RawQuota>>,
    /// `burst`
    pub burst: Option<Spanned<u64>>,
    /// `queue`
    pub queue: Option<Spanned<u64>>,
    /// `initial_credits`
    pub initial_credits: Option<Spanned<u64>>,
}

/// `overrides_file`, read.
#[derive(Clone)]
pub struct OverridesFile {
    /// Where it is.
    pub path: String,
    /// What is in it, until it is compiled.
    pub content: String,
    /// Tells its content from another one.
    pub digest: [u8; 32],
    /// How many overrides it has, once it is compiled.
    pub rows: usize,
}

impl PartialEq for OverridesFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.digest) == (&other.path, other.digest)
    }
}

impl std::fmt::Debug for OverridesFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OverridesFile({}, {} rows)", self.path, self.rows)
    }
}
