//! `[[routes]]` as written in the file.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use super::Spanned;
use crate::cost::BodyFormat;
use crate::request::route::HeaderMatch;
use crate::snapshot;

/// `[[routes]]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawRoute {
    /// `name`; if absent, the route is named after what it matches.
    pub name: Option<Spanned<String>>,
    /// `path`, as written
    pub path: Option<Spanned<String>>,
    /// `path_regex`, as written
    pub path_regex: Option<Spanned<String>>,
    /// `host`, as written
    pub host: Option<Spanned<String>>,
    /// `methods`
    pub methods: Vec<Spanned<Method>>,
    /// `headers`
    pub headers: Vec<(HeaderName, HeaderMatch)>,
    /// `upstream`
    pub upstream: Option<Spanned<String>>,
    /// `policies`
    pub policies: Vec<Spanned<String>>,
    /// `strip_prefix`
    pub strip_prefix: Option<Spanned<String>>,
    /// `rewrite`, as written
    pub rewrite: Option<Spanned<String>>,
    /// `forward_path`
    pub forward_path: ForwardPath,
    /// `cost`; if absent, the policies' own
    pub cost: Option<RouteCost>,
    /// `default_policies`
    pub default_policies: bool,
    /// `fewer_limits`
    pub fewer_limits: bool,
    /// `response_timeout`; if absent, the upstream's
    pub response_timeout: Option<Duration>,
    /// `body_timeout`; if absent, the upstream's; `Some(None)` is `"off"`.
    pub body_timeout: Option<Option<Duration>>,
    /// `response_format`; if absent, the Content-Type decides
    pub response_format: Option<BodyFormat>,
    /// `stream_end`
    pub stream_end: Option<Arc<str>>,
    /// `case_insensitive`
    pub case_insensitive: bool,
    /// `cors_origins`: one or several
    pub cors_origins: Vec<Spanned<HeaderValue>>,
    /// `[routes.request_headers] set`
    pub request_headers_set: Vec<(HeaderName, HeaderValue)>,
    /// `[routes.request_headers] remove`
    pub request_headers_removed: Vec<Spanned<HeaderName>>,
    /// `[routes.response_headers] set`
    pub response_headers_set: Vec<(HeaderName, HeaderValue)>,
    /// `[routes.response_headers] remove`
    pub response_headers_removed: Vec<Spanned<HeaderName>>,
    /// Keys that the snapshot takes as they are.
    pub route: snapshot::Route,
}

/// `forward_path`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardPath {
    /// `as-matched`
    #[default]
    AsMatched,
    /// `as-sent`
    AsSent,
}

/// `cost` of a route
#[derive(Clone, Debug, PartialEq)]
pub enum RouteCost {
    /// Units that a request costs in each policy.
    Each(u64),
    /// Units that a request costs in the policies with these names.
    OfPolicies(Vec<(Spanned<String>, u64)>),
}

impl RawRoute {
    /// Returns `path` or `path_regex`, whichever the route has.
    pub fn pattern(&self) -> Option<&Spanned<String>> {
        self.path.as_ref().or(self.path_regex.as_ref())
    }
}
