//! What is asked of an upstream, beside the request itself.

use std::time::Duration;

/// What is asked of the upstream, beside the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardOptions {
    /// How long the response's head may take; time that the client takes over its body does not
    /// count.
    pub response_timeout: Duration,
    /// How long the response's body may stand still; none: for ever.
    pub body_timeout: Option<Duration>,
    /// Whose Host field the request has.
    pub host: HostField,
    /// Whether the request asks for another protocol, by its field Upgrade.
    pub is_upgrade: bool,
    /// Whose request it is, if that decides where it goes.
    pub hash: Option<u64>,
}

/// Whose Host field a request to an origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostField {
    /// The client's, or the endpoint's if the client sent none.
    Client,
    /// The endpoint's.
    Endpoint,
}
