//! How many connections and delayed requests there may be, for each listener and for all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;
use typed_index_collections::{TiSlice, TiVec};

use super::per_client::ClientConnections;
use crate::clock::{Micros, Timestamp};
use crate::fault::HandshakeFailure;
use crate::index::ListenerIndex;
use crate::metrics::{ListenerMetrics, Metrics, WorkerIndex};
use crate::proxy::wire::sockets::Sockets;
use crate::snapshot::Listener;

/// How many connections and delayed requests the listeners of a process have, and may have.
#[derive(Debug)]
pub(crate) struct Capacity {
    /// Loads of the listeners, in the snapshot's order.
    listeners: TiVec<ListenerIndex, ListenerLoad>,
    /// Sockets of all listeners together, and those towards origins.
    pub(crate) sockets: Arc<Sockets>,
    /// The index under which acceptors count in the metrics.
    acceptor: WorkerIndex,
}

/// The connections, delayed requests and buffered bytes that a listener has at the moment.
#[derive(Debug)]
pub(crate) struct ListenerLoad {
    metrics: Arc<ListenerMetrics>,
    open: AtomicUsize,
    /// The listener's `max_connections`.
    open_max: AtomicUsize,
    delayed: AtomicUsize,
    buffered_bytes: AtomicUsize,
    freed: Notify,
    /// The second in which a failed handshake was last logged.
    handshake_logged_secs: AtomicU64,
    /// Connections of each client, if the listener bounds them.
    pub(crate) clients: Arc<ClientConnections>,
}

/// The load of a listener, and how many connections it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    /// Open connections.
    pub open: usize,
    /// The listener's `max_connections`.
    pub open_max: usize,
    /// Requests that wait for their turn in a leaky bucket.
    pub delayed: usize,
    /// Bytes of bodies that were read before a decision.
    pub buffered_bytes: usize,
}

/// The connections of which there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictFrom {
    /// Connections of this listener.
    Listener(ListenerIndex),
    /// Connections of all listeners together.
    All,
}

/// A connection's place among those of its listener and its worker; freed when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    /// Index of the listener.
    pub(crate) listener: ListenerIndex,
    worker: WorkerIndex,
    capacity: Arc<Capacity>,
    worker_load: Arc<AtomicUsize>,
}

/// A request's place among those that its listener delays; freed when dropped.
#[derive(Debug)]
pub(crate) struct DelayPermit<'l>(&'l ListenerLoad);

/// Room for a request's body among those that its listener buffers; freed when dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    capacity: Arc<Capacity>,
    listener: ListenerIndex,
    bytes: usize,
    /// Most bytes that all bodies of the listener may take up together.
    bytes_max: usize,
}

impl Capacity {
    /// Makes a capacity with no connections yet.
    pub(crate) fn new(
        listeners: &TiSlice<ListenerIndex, Arc<Listener>>,
        sockets: Arc<Sockets>,
        metrics: &Metrics,
    ) -> Self {
        let load = |listener: &Arc<Listener>| ListenerLoad {
            metrics: metrics.listener(&listener.name),
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(listener.max_connections),
            delayed: AtomicUsize::new(0),
            buffered_bytes: AtomicUsize::new(0),
            freed: Notify::new(),
            handshake_logged_secs: AtomicU64::new(u64::MAX),
            clients: Arc::default(),
        };
        Self {
            listeners: listeners.iter().map(load).collect(),
            sockets,
            acceptor: metrics.control(),
        }
    }

    /// Returns the load of one listener.
    pub(crate) fn listener(&self, index: ListenerIndex) -> &ListenerLoad {
        &self.listeners[index]
    }

    /// Returns room for a body, as yet empty; the bodies of this listener may take up `bytes_max` together.
    pub(crate) fn buffered_bytes(
        self: &Arc<Self>,
        listener: ListenerIndex,
        bytes_max: usize,
    ) -> HeldBytes {
        HeldBytes {
            capacity: Arc::clone(self),
            listener,
            bytes: 0,
            bytes_max,
        }
    }

    /// Applies these listeners' `max_connections` from now on.
    pub(crate) fn reload(&self, listeners: &TiSlice<ListenerIndex, Arc<Listener>>) {
        for (load, listener) in self.listeners.iter().zip(listeners) {
            load.open_max.store(listener.max_connections, Relaxed);
        }
        self.reconsider();
    }

    /// Bounds the sockets towards clients and origins.
    pub(crate) fn bound(&self, sockets_max: usize) {
        self.sockets.bound(sockets_max);
        self.reconsider();
    }

    /// Returns the connections of which one must be evicted before this listener can take another; `None` if there is
    /// room.
    pub(crate) fn full(&self, listener: ListenerIndex) -> Option<EvictFrom> {
        let load = &self.listeners[listener];
        if load.open.load(Relaxed) >= load.open_max.load(Relaxed) {
            return Some(EvictFrom::Listener(listener));
        }
        self.sockets.is_full_for_clients().then_some(EvictFrom::All)
    }

    /// Waits until this listener has room.
    pub(crate) async fn freed(&self, listener: ListenerIndex) {
        while self.full(listener).is_some() {
            self.listeners[listener].freed.notified().await;
        }
    }

    /// Counts a connection that a listener accepted and a worker is to serve.
    pub(crate) fn admit(
        self: &Arc<Self>,
        listener: ListenerIndex,
        worker: WorkerIndex,
        worker_load: &Arc<AtomicUsize>,
    ) -> ConnectionPermit {
        let load = &self.listeners[listener];
        load.open.fetch_add(1, Relaxed);
        load.metrics.accepted(self.acceptor);
        self.sockets.add_client();
        worker_load.fetch_add(1, Relaxed);
        ConnectionPermit {
            listener,
            worker,
            capacity: Arc::clone(self),
            worker_load: Arc::clone(worker_load),
        }
    }

    /// Makes every acceptor check again how many connections there may be.
    fn reconsider(&self) {
        for load in &self.listeners {
            load.freed.notify_one();
        }
    }
}

impl ListenerLoad {
    /// Counts a connection that was evicted.
    pub(crate) fn evicted(&self, worker: WorkerIndex) {
        self.metrics.evicted(worker);
    }

    /// Counts a handshake that failed; returns whether it is the first in this second, which is to be logged.
    pub(crate) fn handshake_failed(
        &self,
        worker: WorkerIndex,
        failure: HandshakeFailure,
        now: Timestamp,
    ) -> bool {
        self.metrics.handshake_failed(worker, failure);
        let secs = now.0 / Micros::from_secs(1).0;
        self.handshake_logged_secs.swap(secs, Relaxed) != secs
    }

    /// Returns the load, for those that display it.
    pub(crate) fn status(&self) -> ListenerStatus {
        ListenerStatus {
            open: self.open.load(Relaxed),
            open_max: self.open_max.load(Relaxed),
            delayed: self.delayed.load(Relaxed),
            buffered_bytes: self.buffered_bytes.load(Relaxed),
        }
    }

    /// Takes a place among at most `delayed_max` delayed requests; `None` if all are taken.
    pub(crate) fn delay(&self, delayed_max: usize) -> Option<DelayPermit<'_>> {
        if self.delayed.fetch_add(1, Relaxed) < delayed_max {
            return Some(DelayPermit(self));
        }
        self.delayed.fetch_sub(1, Relaxed);
        None
    }
}

impl EvictFrom {
    /// Whether it includes the connections of this listener.
    pub(crate) fn includes(self, listener: ListenerIndex) -> bool {
        match self {
            Self::Listener(index) => index == listener,
            Self::All => true,
        }
    }
}

impl HeldBytes {
    /// Grows the room to `bytes` in total, which must not be fewer than before; returns whether there was enough.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let buffered = &self.capacity.listeners[self.listener].buffered_bytes;
        let more = bytes - self.bytes;
        if buffered.fetch_add(more, Relaxed) + more > self.bytes_max {
            buffered.fetch_sub(more, Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let buffered = &self.capacity.listeners[self.listener].buffered_bytes;
        buffered.fetch_sub(self.bytes, Relaxed);
    }
}

impl Drop for DelayPermit<'_> {
    fn drop(&mut self) {
        self.0.delayed.fetch_sub(1, Relaxed);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let load = &self.capacity.listeners[self.listener];
        load.metrics.closed(self.worker);
        load.open.fetch_sub(1, Relaxed);
        let was_full = self.capacity.sockets.is_full_for_clients();
        self.capacity.sockets.remove_client();
        self.worker_load.fetch_sub(1, Relaxed);
        if was_full {
            self.capacity.reconsider();
        } else {
            load.freed.notify_one();
        }
    }
}
