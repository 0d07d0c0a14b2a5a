//! How long a listener waits for its clients.

use std::time::Duration;

use crate::snapshot::Listener;

/// How long a listener waits for a client's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For the rest of a head.
    pub(super) header: Duration,
    /// For the next request.
    pub(super) idle: Duration,
    /// For more of a body, and for room to send more.
    pub(super) body: Duration,
    /// For a byte through a tunnel.
    pub(super) tunnel: Duration,
}

impl Timeouts {
    /// Returns what `listener` says.
    pub(super) fn of(listener: &Listener) -> Self {
        Self {
            header: listener.header_timeout,
            idle: listener.idle_timeout,
            body: listener.body_timeout,
            tunnel: listener.tunnel_timeout,
        }
    }
}
