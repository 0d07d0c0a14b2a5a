//! The file's mirror: exactly its shape, with the place of every value; nothing resolved yet.
//!
//! A value that is absent is `None`: defaults are filled in by `compile`, in one place.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use ipnet::IpNet;

use super::value::{QuotaText, StoreUrl};
use crate::access_log::AccessLog;
use crate::limit::plan::OnStoreFailure;
use crate::limit::{Count, LeavingBucket};
use crate::logging::LogFormat;
use crate::request::{AddressSource, ClientNames, Missing, Partition};
use crate::snapshot::{EncodedSlash, RateLimitHeaders};
use crate::store::settings::Secret;

/// A value and where it stands in the file, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub span: Range<usize>,
}

/// A table that the file names: `[policies.NAME]`.
pub type Named<T> = (At<String>, T);

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// `workers`
    pub workers: Option<At<usize>>,
    /// `default_policies`
    pub default_policies: Vec<At<String>>,
    /// `ratelimit_headers`
    pub ratelimit_headers: Option<RateLimitHeaders>,
    /// `shutdown_delay`
    pub shutdown_delay: Option<Duration>,
    /// `shutdown_grace`
    pub shutdown_grace: Option<Duration>,
    /// `[listeners.NAME]`
    pub listeners: Vec<Named<Listener>>,
    /// `[admin]`
    pub admin: Admin,
    /// `[log]`
    pub log: Log,
    /// `[store]`
    pub store: Store,
    /// `[upstreams.NAME]`
    pub upstreams: Vec<Named<Upstream>>,
    /// `[policies.NAME]`
    pub policies: Vec<Named<Policy>>,
    /// `[[routes]]`, with the place of each table
    pub routes: Vec<At<Route>>,
    /// Whether a table, or a key outside of any, could not be read, so that a name may be lost.
    pub incomplete: bool,
}

/// `[listeners.NAME]`
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// `address`
    pub address: Option<At<SocketAddr>>,
    /// `trusted_proxies`
    pub trusted_proxies: Vec<IpNet>,
    /// `client_address`
    pub client_address: Option<At<AddressSource>>,
    /// `ipv6_prefix`
    pub ipv6_prefix: Option<u8>,
    /// `max_connections`
    pub max_connections: Option<usize>,
    /// `max_held`
    pub max_held: Option<usize>,
    /// `header_timeout`
    pub header_timeout: Option<Duration>,
    /// `idle_timeout`
    pub idle_timeout: Option<Duration>,
    /// `body_timeout`
    pub body_timeout: Option<Duration>,
    /// `max_header_bytes`
    pub max_header_bytes: Option<At<usize>>,
    /// `max_body_bytes`
    pub max_body_bytes: Option<u64>,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}

/// `[admin]`
#[derive(Clone, Debug, Default)]
pub struct Admin {
    /// `address`: none is the default, `Some(None)` is `"off"`
    pub address: Option<At<Option<SocketAddr>>>,
}

/// `[log]`
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// `level`
    pub level: Option<tracing::Level>,
    /// `format`
    pub format: Option<LogFormat>,
    /// `access`
    pub access: Option<AccessLog>,
    /// `file`
    pub file: Option<PathBuf>,
    /// `clients`
    pub clients: Option<ClientNames>,
}

/// `[store]`
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// `url`
    pub url: Option<At<StoreUrl>>,
    /// `username`
    pub username: Option<At<Box<str>>>,
    /// `password`
    pub password: Option<At<Secret>>,
    /// `sentinel_password`
    pub sentinel_password: Option<At<Secret>>,
    /// `[store.tls]`
    pub tls: Option<At<StoreTls>>,
    /// `prefix`
    pub prefix: Option<Box<str>>,
    /// `key_secret`
    pub key_secret: Option<Secret>,
    /// `timeout`
    pub timeout: Option<Duration>,
    /// `memory_max`
    pub memory_max: Option<u64>,
    /// `refusal_cache`
    pub refusal_cache: Option<Duration>,
    /// `[store.breaker]`
    pub breaker: Breaker,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}

/// `[store.tls]`
#[derive(Clone, Debug, Default)]
pub struct StoreTls {
    /// `ca`
    pub ca: Option<At<PathBuf>>,
    /// `certificate`
    pub certificate: Option<At<PathBuf>>,
    /// `key`
    pub key: Option<At<PathBuf>>,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}

/// `[store.breaker]`
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// `failures`
    pub failures: Option<u32>,
    /// `failure_ratio`
    pub failure_ratio: Option<f64>,
    /// `window`
    pub window: Option<Duration>,
    /// `cooldown`
    pub cooldown: Option<Duration>,
}

/// `[upstreams.NAME]`
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    /// `endpoints`
    pub endpoints: Option<At<Vec<At<Endpoint>>>>,
    /// `connect_timeout`
    pub connect_timeout: Option<Duration>,
    /// `response_timeout`
    pub response_timeout: Option<Duration>,
    /// `body_timeout`
    pub body_timeout: Option<Duration>,
    /// `retries`
    pub retries: Option<u32>,
    /// `pool.max_idle`
    pub max_idle: Option<usize>,
    /// `pool.idle_timeout`
    pub idle_timeout: Option<Duration>,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}

/// One of `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `http://host:port`
    Http(crate::snapshot::Endpoint),
    /// `builtin:echo`
    Echo,
    /// `builtin:status/204`
    Status(StatusCode),
}

/// `[policies.NAME]`
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// `quota`: one or several
    pub quota: Option<At<Vec<At<QuotaText>>>>,
    /// `algorithm`
    pub algorithm: Option<At<AlgorithmName>>,
    /// `buckets`
    pub buckets: Option<At<u32>>,
    /// `leaving`
    pub leaving: Option<At<LeavingBucket>>,
    /// `burst`
    pub burst: Option<At<u64>>,
    /// `queue`
    pub queue: Option<At<u64>>,
    /// `partition`
    pub partition: Option<At<Partition>>,
    /// `missing`
    pub missing: Option<Missing>,
    /// `cost`
    pub cost: Option<At<u64>>,
    /// `count`
    pub count: Option<At<Count>>,
    /// `mode`
    pub mode: Option<Mode>,
    /// `on_store_failure`
    pub on_store_failure: Option<OnStoreFailure>,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}

/// `algorithm`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlgorithmName {
    /// `fixed-window`
    FixedWindow,
    /// `sliding-window`
    #[default]
    SlidingWindow,
    /// `sliding-log`
    SlidingLog,
    /// `gcra`
    Gcra,
    /// `leaky-bucket`
    LeakyBucket,
}

/// `mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `enforce`
    #[default]
    Enforce,
    /// `shadow`
    Shadow,
    /// `off`
    Off,
}

/// `[[routes]]`
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// `path`, as written
    pub path: Option<At<String>>,
    /// `path_regex`, as written
    pub path_regex: Option<At<String>>,
    /// `host`, as written
    pub host: Option<At<String>>,
    /// `methods`
    pub methods: Vec<At<Method>>,
    /// `headers`: a value, or none for `"*"`
    pub headers: Vec<(HeaderName, Option<String>)>,
    /// `upstream`
    pub upstream: Option<At<String>>,
    /// `policies`
    pub policies: Vec<At<String>>,
    /// `strip_prefix`
    pub strip_prefix: Option<At<String>>,
    /// `preserve_host`
    pub preserve_host: Option<bool>,
    /// `cost`
    pub cost: Option<At<u64>>,
    /// `default_policies`
    pub default_policies: Option<bool>,
    /// `response_timeout`
    pub response_timeout: Option<Duration>,
    /// `body_timeout`
    pub body_timeout: Option<Duration>,
    /// `max_body_bytes`
    pub max_body_bytes: Option<u64>,
    /// `encoded_slash`
    pub encoded_slash: Option<EncodedSlash>,
    /// `case_insensitive`
    pub case_insensitive: Option<bool>,
    /// Whether a mistake was found in it, so that a key that is absent may be the wrong one.
    pub incomplete: bool,
}
