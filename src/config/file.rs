//! The file's mirror: exactly its shape, with the place of every value; no name is resolved yet.
//!
//! A key that the file leaves out already has its default; [`Table::has`] says whether the file gives it.
//! If a key can be understood without the others, the mirror holds its value in the snapshot's own type.

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
    /// Name from the file, or made of what a nameless route matches, or the key, as in `[log]`; empty if absent.
    pub name: Arc<str>,
    /// Place of the table's name or header.
    pub span: Range<usize>,
    /// Values of the table's keys.
    pub value: T,
    /// Keys and inner tables (`tls.ca`, `tls`) that the file gives correctly, each with its place.
    pub(super) places: Vec<(&'static str, Range<usize>)>,
    /// Titles of this table and of inner ones in which a value is wrong, was left out, or could not be read.
    pub(super) incomplete: Vec<&'static str>,
}

impl<T> Table<T> {
    /// Returns the place of a key's value, or `None` if the key is absent or wrong.
    pub fn place(&self, key: &str) -> Option<&Range<usize>> {
        let found = self.places.iter().find(|(name, _)| *name == key);
        found.map(|(_, span)| span)
    }

    /// Whether the file gives the key a value.
    pub fn has(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    /// Whether the file has the table, such as `[jwt]`; always true of listeners, upstreams, policies and routes.
    pub fn is_there(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether the table with this title is incomplete: a key that seems absent may be there, but wrong.
    pub fn is_incomplete(&self, title: &str) -> bool {
        self.incomplete.contains(&title)
    }
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Keys before the first table.
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
    /// Parts that could not be read at all.
    pub lost: UnreadParts,
}

/// Parts of a file that could not be read, so that nothing in them is reported as missing.
#[derive(Clone, Debug, Default)]
pub struct UnreadParts {
    /// Kinds of tables, such as `policies`, of which at least one has a header that cannot be read.
    pub headers: HashSet<&'static str>,
    /// Kinds of tables that the file misspells at least once, or gives a value that is not a table.
    pub misspelled: HashSet<&'static str>,
    /// Names of tables whose kind is misspelled, or whose value is not a table.
    pub names: HashSet<String>,
    /// Places of the headers of tables in which a statement cannot be read.
    pub unreadable_headers: Vec<Range<usize>>,
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

    /// Whether the table whose header is at `span` has a statement that cannot be read.
    pub fn has_unreadable_statement(&self, span: &Range<usize>) -> bool {
        let mut headers = self.unreadable_headers.iter();
        headers.any(|header| header.start <= span.start && span.end <= header.end)
    }
}

/// Keys before the first table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top {
    /// Keys that the snapshot takes as they are.
    pub general: General,
    /// `default_policies`
    pub default_policies: Vec<Spanned<String>>,
    /// `preflight_policies`; if absent, preflights are requests like any other
    pub preflight_policies: Option<Vec<Spanned<String>>>,
    /// `include`
    pub include: Vec<Spanned<String>>,
}

/// `[listeners.NAME]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawListener {
    /// The listener as the snapshot has it, except for its name and TLS.
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
    /// Settings as the snapshot has them, except for the store's location.
    pub settings: Settings,
}

/// `[jwt]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawJwt {
    /// `keys`: one or several
    pub keys: Vec<Spanned<Pem>>,
    /// `algorithms`; if empty, those of the keys
    pub algorithms: Vec<SigningAlgorithm>,
    /// Rules for tokens that the snapshot takes as they are.
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
    /// `anchor_time`, in minutes since midnight
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
    /// Keys that the snapshot takes as they are.
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
    /// Yields every quota of the policy, its candidates and its overrides, except for those in `overrides_file`.
    pub fn quotas(&self) -> impl Iterator<Item = &Spanned<RawQuota>> {
        let overrides = (self.overrides.0.iter()).flat_map(|one| &one.grant.value.quota);
        self.quota.iter().chain(&self.candidate).chain(overrides)
    }
}

/// `overrides`, in the file's order, which has no meaning.
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

/// One item of `overrides`.
#[derive(Clone, PartialEq)]
pub struct RawOverride {
    /// Pattern of the clients that the override applies to.
    pub pattern: Spanned<String>,
    /// What these clients may do.
    pub grant: Spanned<RawGrant>,
}

/// Leaves out the pattern, which may be a client's key.
impl std::fmt::Debug for RawOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawOverride({:?})", self.grant.value)
    }
}

/// Value of an override: the value of `quota`, or a table.
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

/// The file that `overrides_file` names, with its content.
#[derive(Clone)]
pub struct OverridesFile {
    /// Path of the file.
    pub path: String,
    /// Text of the file; emptied once it is compiled.
    pub content: String,
    /// BLAKE3 digest of the content, by which a reload sees whether the file has changed.
    pub digest: [u8; 32],
    /// Number of overrides in the file; 0 until it is compiled.
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
