//! How long a listener waits for its clients.

use std::time::Duration;

use crate::snapshot::Listener;

/// How long a listener waits for a client's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// How long it waits for the rest of a head.
    pub(super) header: Duration,
    /// How long it waits for the next request.
    pub(super) idle: Duration,
    /// How long it waits for more of a body, and for the client to take more of an answer.
    pub(super) body: Duration,
    /// How long it waits for a byte through a tunnel.
    pub(super) tunnel: Duration,
}

impl Timeouts {
    /// Returns the timeouts of `listener`.
    pub(super) fn of(listener: &Listener) -> Self {
        Self {
            header: listener.header_timeout,
            idle: listener.idle_timeout,
            body: listener.body_timeout,
            tunnel: listener.tunnel_timeout,
        }
    }
}
