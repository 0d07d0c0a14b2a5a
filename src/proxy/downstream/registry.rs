//! A worker's open connections: which of them end when the gateway drains, and which is evicted
//! when there is no more room.
//!
//! Nothing is kept in order while requests come and go. The connections are scanned only when a
//! newcomer finds no room, and at most once per period of the sweep. Those that wait for a request
//! are remembered, and the one that has waited longest is evicted first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::task::AbortHandle;
use typed_index_collections::TiSlice;

use super::awaited::Awaited;
use super::capacity::EvictFrom;
use super::http1::Http1State;
use super::http2::Http2State;
use super::socket::Socket;
use crate::clock::{Micros, Timestamp};
use crate::index::ListenerIndex;
use crate::snapshot::Listener;

/// The open connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    connections: RefCell<HashMap<u64, RegisteredConnection>>,
    next: Cell<u64>,
    /// The connections that waited at the latest scan, by listener; the longest wait comes last.
    waiting: RefCell<HashMap<ListenerIndex, Vec<WaitingConnection>>>,
    /// Whether the connections may be scanned again.
    may_scan: Cell<bool>,
    /// How many periods of the sweep have passed.
    ticks: Cell<u64>,
    /// While the gateway drains: connections with a place up to this one end after their next answer.
    drained_share: Cell<Option<u32>>,
    /// Whether connections that wait for a request end too.
    closes_idle: Cell<bool>,
}

/// One open connection; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Rc<Registry>,
    id: u64,
}

#[derive(Debug)]
struct RegisteredConnection {
    /// Index of its listener.
    listener: ListenerIndex,
    /// The listener as it was when it accepted the connection.
    accepted_by: Arc<Listener>,
    /// What the connection does, and the waker of its task; `None` before it has begun.
    served: Option<ServedConnection>,
    /// The task that serves the connection, so that it can be aborted.
    task: Option<AbortHandle>,
}

#[derive(Debug)]
struct ServedConnection {
    waker: Waker,
    state: ConnectionState,
    /// Whether the client had sent nothing in this state at the latest `evict_silent`.
    was_silent: bool,
}

/// What a connection does at the moment.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionState {
    /// It reads a PROXY header or performs the TLS handshake, within a timeout.
    Opening {
        socket: Rc<Socket>,
        timeout: Duration,
    },
    Http1(Rc<Http1State>),
    Http2(Rc<Http2State>),
    /// It carries the bytes of another protocol.
    Tunnel,
    /// The gateway closed its side at `since`, and its client may still be sending.
    Lingering {
        socket: Rc<Socket>,
        since: Timestamp,
    },
}

#[derive(Clone, Copy, Debug)]
struct WaitingConnection {
    since: Timestamp,
    id: u64,
}

/// Returns a connection's place in the order in which connections learn that they end. Consecutive connections have
/// places that are far apart, and the places of any few hundred are spread evenly.
fn place(id: u64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the places repeat after 2^32"
    )]
    let id = id as u32;
    id.wrapping_mul(GOLDEN_RATIO)
}

/// 2^32 divided by the golden ratio.
const GOLDEN_RATIO: u32 = 0x9E37_79B9;

/// How long a connection must have waited for a request before it may be evicted, so that a request
/// that its client has just sent is still let in.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);
/// How many periods of the sweep lie between two looks for idle connections: a second.
const IDLE_TICKS: u64 = 10;
/// How long a lingering connection is safe from eviction, so that its client can read an early answer.
const LINGER_MIN: Duration = Duration::from_millis(200);

impl Registry {
    /// Registers a connection of the listener with this index, so that draining waits for it.
    pub(crate) fn register(
        self: &Rc<Self>,
        listener: ListenerIndex,
        accepted_by: Arc<Listener>,
    ) -> Registration {
        let id = self.next.get();
        self.next.set(id + 1);
        let registered = RegisteredConnection {
            listener,
            accepted_by,
            served: None,
            task: None,
        };
        self.connections.borrow_mut().insert(id, registered);
        Registration {
            registry: Rc::clone(self),
            id,
        }
    }

    /// Notes the task that serves a connection, unless the connection has ended.
    pub(crate) fn note_task(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.connections.borrow_mut().get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// Aborts the tasks of all connections, whatever they do.
    pub(crate) fn cut(&self) {
        for connection in self.connections.borrow().values() {
            if let Some(task) = &connection.task {
                task.abort();
            }
        }
    }

    /// Counts the open connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Ends a share of the connections, given in parts of 2^32, after their next answers. To be called with larger and
    /// larger shares, so that not all clients reconnect at once.
    pub(crate) fn drain(&self, share: u32) {
        let before = self.drained_share.replace(Some(share));
        let is_new = |place| place <= share && before.is_none_or(|before| place > before);
        for (id, entry) in &*self.connections.borrow() {
            let Some(served) = &entry.served else {
                continue;
            };
            if let ConnectionState::Lingering { socket, .. } = &served.state {
                if before.is_none() {
                    socket.hasten_close();
                }
            } else if is_new(place(*id)) {
                served.waker.wake_by_ref();
            }
        }
    }

    /// Ends the connections that wait for a request too.
    pub(crate) fn close_idle(&self) {
        if self.closes_idle.replace(true) {
            return;
        }
        let connections = self.connections.borrow();
        let served = connections.values().filter_map(|one| one.served.as_ref());
        served.for_each(|served| served.waker.wake_by_ref());
    }

    /// Ends, after their current requests, the connections whose clients were let in by a `client_ca` that is no longer
    /// their listener's.
    pub(crate) fn end_outdated(&self, listeners: &TiSlice<ListenerIndex, Arc<Listener>>) {
        for entry in self.connections.borrow().values() {
            let client_ca = entry.accepted_by.client_ca();
            if client_ca != listeners[entry.listener].client_ca()
                && let Some(served) = &entry.served
            {
                served.state.end();
                served.waker.wake_by_ref();
            }
        }
    }

    /// Ends the connections whose clients had not sent their first byte at the previous call, and still have not.
    pub(crate) fn evict_silent(&self) {
        let mut connections = self.connections.borrow_mut();
        for served in connections
            .values_mut()
            .filter_map(|values_mut| values_mut.served.as_mut())
        {
            let is_silent = served.state.is_silent();
            if std::mem::replace(&mut served.was_silent, is_silent) && is_silent {
                served.state.evict();
            }
        }
    }

    /// Notes that a period of the sweep is over, so the next newcomer that finds no room may have the connections
    /// scanned once.
    pub(crate) fn tick(&self) {
        self.may_scan.set(true);
        self.waiting.borrow_mut().clear();
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get().is_multiple_of(IDLE_TICKS) {
            self.drop_idle_buffers();
        }
    }

    /// Wakes connections that have been idle for a while, to drop their buffers.
    fn drop_idle_buffers(&self) {
        for served in (self.connections.borrow().values()).filter_map(|one| one.served.as_ref()) {
            if let ConnectionState::Http1(state) = &served.state
                && state.check_idle()
            {
                served.waker.wake_by_ref();
            }
        }
    }

    /// Evicts the connection that has waited longest for a request. Returns its listener, or `None` if no connection
    /// has waited long enough.
    pub(crate) fn evict_longest(&self, from: EvictFrom, now: Timestamp) -> Option<ListenerIndex> {
        loop {
            while let Some((at, found)) = self.longest(from) {
                if self.evict(found) {
                    return Some(at);
                }
            }
            if !self.may_scan.replace(false) {
                return None;
            }
            self.scan(now);
        }
    }

    /// Takes the connection with the longest remembered wait, and the index of its listener.
    fn longest(&self, from: EvictFrom) -> Option<(ListenerIndex, WaitingConnection)> {
        let mut waiting = self.waiting.borrow_mut();
        let lists = waiting
            .iter_mut()
            .filter(|(at, list)| from.includes(**at) && !list.is_empty());
        let (at, list) = lists.min_by_key(|(_, list)| list.last().map(|list| list.since))?;
        list.pop().map(|pop| (*at, pop))
    }

    /// Evicts a connection unless it has had a request since the scan; returns whether it was evicted.
    fn evict(&self, waiting: WaitingConnection) -> bool {
        let connections = self.connections.borrow();
        let entry = connections.get(&waiting.id);
        let Some(served) = entry.and_then(|entry| entry.served.as_ref()) else {
            return false;
        };
        let waits_still = served.state.waiting_since() == Some(waiting.since);
        if waits_still {
            served.state.evict();
        }
        waits_still
    }

    /// Remembers the connections that have waited long enough to be evicted.
    fn scan(&self, now: Timestamp) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.clear();
        for (&id, entry) in &*self.connections.borrow() {
            let Some(state) = entry.served.as_ref().map(|served| &served.state) else {
                continue;
            };
            let Some(since) = state.waiting_since() else {
                continue;
            };
            if now.since(since) >= Micros::from(state.wait_min()) {
                let list = waiting.entry(entry.listener).or_default();
                list.push(WaitingConnection { since, id });
            }
        }
        for list in waiting.values_mut() {
            list.sort_unstable_by_key(|list| std::cmp::Reverse(list.since));
        }
    }
}

impl Registration {
    /// Returns the number of the connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Notes what the connection does from now on. The task that does it must call this, so that it can be woken.
    pub(crate) async fn begins(&self, state: ConnectionState) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let mut connections = self.registry.connections.borrow_mut();
        if let Some(entry) = connections.get_mut(&self.id) {
            entry.served = Some(ServedConnection {
                waker,
                state,
                was_silent: false,
            });
        }
    }

    /// Whether the gateway drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.registry.drained_share.get().is_some()
    }

    /// Whether the connection ends after its next answer.
    pub(crate) fn ends_after_answer(&self) -> bool {
        let share = self.registry.drained_share.get();
        share.is_some_and(|share| place(self.id) <= share)
    }

    /// Whether the connection ends if it waits for a request.
    pub(crate) fn closes_idle(&self) -> bool {
        self.registry.closes_idle.get()
    }
}

impl ConnectionState {
    /// Returns since when the connection has waited for its client; `None` if there is work to do.
    fn waiting_since(&self) -> Option<Timestamp> {
        match self {
            Self::Opening { socket, timeout } => {
                let due = socket.read.due();
                due.map(|due| due - Micros::from(*timeout))
            }
            Self::Tunnel => None,
            Self::Http1(state) => state.waiting_since(),
            Self::Http2(state) => state.waiting_since(),
            Self::Lingering { since, .. } => Some(*since),
        }
    }

    /// Lets the connection end after its current requests. If none has come, the first ends it (`Journey::check_tls`).
    fn end(&self) {
        match self {
            Self::Http1(state) => state.end_connection(),
            Self::Http2(state) => state.end_connection(),
            Self::Opening { .. } | Self::Tunnel | Self::Lingering { .. } => {}
        }
    }

    /// Whether the client has not sent the first byte of what is awaited first.
    fn is_silent(&self) -> bool {
        match self {
            Self::Opening { socket, .. } => !socket.has_received(),
            Self::Http1(state) => state.awaited() == Awaited::FirstByte,
            Self::Http2(state) => state.awaited() == Awaited::FirstByte,
            Self::Tunnel | Self::Lingering { .. } => false,
        }
    }

    /// Returns how long the connection must have waited before it may be evicted.
    fn wait_min(&self) -> Duration {
        match self {
            Self::Opening { .. } | Self::Http1(_) | Self::Tunnel => WAIT_MIN,
            Self::Http2(state) => state.taken_within().unwrap_or(WAIT_MIN),
            Self::Lingering { .. } => LINGER_MIN,
        }
    }

    /// Ends the connection's wait to make room for another. A request that has come in the meantime is still answered.
    fn evict(&self) {
        let socket = match self {
            Self::Opening { socket, .. } | Self::Lingering { socket, .. } => socket,
            Self::Tunnel => return,
            Self::Http1(state) => &state.socket,
            Self::Http2(state) => &state.socket,
        };
        socket.evict();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.connections.borrow_mut().remove(&self.id);
    }
}
