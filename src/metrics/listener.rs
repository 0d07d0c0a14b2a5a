//! What is counted per listener, and how it is rendered.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;

use super::shard::{Sharded, WorkerIndex};
use super::text::{count, counters, gauges};
use crate::fault::HandshakeFailure;

/// What is counted per listener. A counter may have several writers: a connection may end before its worker has it.
#[derive(Debug)]
pub struct ListenerMetrics(Sharded<ListenerShard>);

#[derive(Debug, Default)]
struct ListenerShard {
    accepted: AtomicU64,
    closed: AtomicU64,
    evicted: AtomicU64,
    handshake_failures: [AtomicU64; HandshakeFailure::ALL.len()],
}

impl ListenerMetrics {
    pub(super) fn new(shards: usize) -> Self {
        Self(Sharded::new(shards))
    }

    /// Counts a connection that was accepted.
    pub fn accepted(&self, worker: WorkerIndex) {
        self.0.of(worker).accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection that was accepted and has ended.
    pub fn closed(&self, worker: WorkerIndex) {
        self.0.of(worker).closed.fetch_add(1, Relaxed);
    }

    /// Counts a connection that was evicted.
    pub fn evicted(&self, worker: WorkerIndex) {
        self.0.of(worker).evicted.fetch_add(1, Relaxed);
    }

    /// Counts a TLS handshake that failed.
    pub fn handshake_failed(&self, worker: WorkerIndex, failure: HandshakeFailure) {
        self.0.of(worker).handshake_failures[failure.index()].fetch_add(1, Relaxed);
    }
}

/// Renders the series of every listener.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    listeners: &[(Arc<str>, Arc<ListenerMetrics>)],
) -> Result<(), Error> {
    let help = "Open client connections, by listener.";
    let mut family = gauges(encoder, "connections_open", help)?;
    for (name, listener) in listeners {
        let labels = [("listener", &**name)];
        let open = (listener.0).current(|shard| &shard.accepted, |shard| &shard.closed);
        family.encode_family(&labels)?.encode_gauge(&open)?;
    }
    let help = "Accepted client connections, by listener.";
    let mut family = counters(encoder, "connections_accepted", help)?;
    for (name, listener) in listeners {
        let accepted = listener.0.sum(|shard| &shard.accepted);
        count(&mut family, &[("listener", &**name)], accepted)?;
    }
    let help = "Client connections closed between requests to make room for others.";
    let mut family = counters(encoder, "connections_evicted", help)?;
    for (name, listener) in listeners {
        let evicted = listener.0.sum(|shard| &shard.evicted);
        count(&mut family, &[("listener", &**name)], evicted)?;
    }
    let help = "TLS handshakes of clients that failed, by listener and reason.";
    let mut family = counters(encoder, "handshake_failures", help)?;
    for (name, listener) in listeners {
        for failure in HandshakeFailure::ALL {
            let failed = (listener.0).sum(|shard| &shard.handshake_failures[failure.index()]);
            let labels = [("listener", &**name), ("reason", failure.word())];
            count(&mut family, &labels, failed)?;
        }
    }
    Ok(())
}
