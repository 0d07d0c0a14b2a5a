//! `[upstreams.NAME]` as written in the file.

use std::time::Duration;

use http::StatusCode;
use http::uri::PathAndQuery;

use super::{RawTls, Spanned};
use crate::request::Partition;
use crate::snapshot::{Endpoint, Health, HttpUpstream};

/// `[upstreams.NAME]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawUpstream {
    /// `endpoints`
    pub endpoints: Vec<Spanned<RawEndpoint>>,
    /// `balance`
    pub balance: BalanceName,
    /// `hash_by`, if the file has it
    pub hash: Option<Partition>,
    /// `[upstreams.NAME.health] path`; if absent, endpoints are not checked
    pub health_path: Option<PathAndQuery>,
    /// `[upstreams.NAME.health]`, except for the path
    pub health: Health,
    /// Keys that the snapshot takes as they are.
    pub http: HttpUpstream,
    /// `[upstreams.NAME.tls]`
    pub tls: RawTls,
    /// `response_timeout` of routes that have none of their own.
    pub response_timeout: Duration,
    /// `body_timeout` of routes that have none of their own.
    pub body_timeout: Duration,
}

/// One item of `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawEndpoint {
    /// `http://host:port`, or another scheme, with its weight
    Http(Endpoint),
    /// `builtin:echo`
    Echo,
    /// `builtin:status/204`
    Status(StatusCode),
    /// `builtin:redirect-https`
    RedirectHttps,
    /// `builtin:usage`
    Usage,
}

/// `balance`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalanceName {
    /// `round-robin`
    #[default]
    RoundRobin,
    /// `least-requests`
    LeastRequests,
    /// `hash`
    Hash,
}
