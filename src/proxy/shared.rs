//! What the workers of one process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use arc_swap::{ArcSwap, Guard};
use http::HeaderValue;
use tokio::sync::Notify;

use super::listener::Load;
use super::via;
use crate::clock::Clock;
use crate::logging;
use crate::metrics::{Handles, Metrics};
use crate::snapshot::{LogFormat, Snapshot};
use crate::store::Store;

/// What the workers of one process share; the configuration in it is swapped whole.
#[derive(Debug)]
pub struct Shared {
    live: ArcSwap<Live>,
    /// The time.
    pub clock: Clock,
    /// The counters.
    pub store: Store,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// What each listener carries, in the snapshot's order.
    pub(crate) loads: Vec<Load>,
    /// Open client connections of all listeners.
    pub(crate) connections: AtomicUsize,
    /// Most of them at once.
    connections_max: AtomicUsize,
    /// The key of partitions' tags.
    pub(crate) tag_key: [u8; 32],
    /// This process's entry in Via.
    pub(crate) via: HeaderValue,
    is_hurried: AtomicBool,
    hurried: Notify,
}

/// A configuration and the handles that measure its parts.
#[derive(Debug)]
pub struct Live {
    /// The configuration.
    pub snapshot: Snapshot,
    /// What measures its parts.
    pub handles: Handles,
    /// The shape of log lines: settled here, for asking whether there is a terminal is a system call.
    pub log_format: LogFormat,
}

impl Live {
    /// Finds the handles of `snapshot`'s parts.
    pub fn new(snapshot: Snapshot, metrics: &Metrics) -> Self {
        let handles = metrics.handles(
            snapshot.routes.iter().map(|route| &route.name),
            snapshot.policies.iter().map(|policy| &policy.name),
            snapshot.upstreams.iter().map(|upstream| &upstream.name),
        );
        Self {
            log_format: logging::format_of(&snapshot.log),
            snapshot,
            handles,
        }
    }
}

impl Shared {
    /// Begins with `live`.
    pub fn new(
        live: Live,
        clock: Clock,
        store: Store,
        metrics: Arc<Metrics>,
        tag_key: [u8; 32],
    ) -> Self {
        let listeners = live.snapshot.listeners.iter();
        let loads = listeners
            .map(|it| Load::new(metrics.listener(&it.name)))
            .collect();
        Self {
            live: ArcSwap::from_pointee(live),
            clock,
            store,
            metrics,
            loads,
            connections: AtomicUsize::new(0),
            connections_max: AtomicUsize::new(usize::MAX),
            via: via::entry(&tag_key),
            tag_key,
            is_hurried: AtomicBool::new(false),
            hurried: Notify::new(),
        }
    }

    /// Has a shutdown wait for nothing more.
    pub fn hurry(&self) {
        self.is_hurried.store(true, Relaxed);
        self.hurried.notify_one();
    }

    /// Waits until a shutdown is to wait for nothing more; for one task.
    pub(crate) async fn hurried(&self) {
        if !self.is_hurried() {
            self.hurried.notified().await;
        }
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.is_hurried.load(Relaxed)
    }

    /// Returns the configuration as it is now.
    pub fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Bounds the client connections of all listeners together.
    pub fn bound_connections(&self, max: usize) {
        self.connections_max.store(max, Relaxed);
        self.reconsider_room();
    }

    /// Whether there are as many client connections as all listeners together may have.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.load(Relaxed) >= self.connections_max.load(Relaxed)
    }

    /// Has every acceptor look again how many connections there may be.
    pub(crate) fn reconsider_room(&self) {
        for load in &self.loads {
            load.reconsider();
        }
    }

    /// Puts `live` in force and returns what was; requests that began with that keep it.
    pub fn swap(&self, live: Live) -> Arc<Live> {
        let old = self.live.swap(Arc::new(live));
        self.reconsider_room();
        old
    }
}
