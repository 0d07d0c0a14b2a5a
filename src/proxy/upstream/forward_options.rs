//! How a request is to be forwarded.

use std::time::Duration;

/// How a request is to be forwarded to its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardOptions {
    /// How long the response's head may take; time spent waiting for the client's request body does not
    /// count.
    pub response_timeout: Duration,
    /// How long the origin may send nothing of the response's body; no limit if none.
    pub body_timeout: Option<Duration>,
    /// Which Host field the origin gets.
    pub host: HostField,
    /// Whether the request asks for another protocol, by its field Upgrade.
    pub is_upgrade: bool,
    /// Hash of the client's partition, if the upstream balances by hash.
    pub hash: Option<u64>,
}

/// Which Host field a request to an origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostField {
    /// The client's, or the endpoint's if the client sent none.
    Client,
    /// The endpoint's.
    Endpoint,
}
