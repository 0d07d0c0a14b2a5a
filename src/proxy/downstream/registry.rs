//! A worker's open connections: which of them end when the gateway drains, and which is evicted
//! when there is no more room.
//!
//! Nothing is kept in order while requests come and go. The connections are scanned only when a
//! newcomer finds no room, and at most once per period of the sweep. Those that wait for a request
//! are remembered, and the one that has waited longest is evicted first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use super::capacity::Among;
use super::http1::{Awaited, RequestState};
use crate::clock::{Micros, Timestamp};

/// The open connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    connections: RefCell<HashMap<u64, Option<ServedConnection>>>,
    next: Cell<u64>,
    /// The connections that waited at the latest scan, by listener; the longest wait comes last.
    waiting: RefCell<HashMap<usize, Vec<WaitingConnection>>>,
    /// Whether the connections may be scanned again.
    may_scan: Cell<bool>,
    draining: Cell<Draining>,
}

/// Which connections end after their current request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Draining {
    /// None: the gateway runs.
    #[default]
    No,
    /// Those that have sent something. The first request of a new one may be on its way.
    Begun,
    /// New ones too.
    New,
}

/// One open connection; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Rc<Registry>,
    id: u64,
}

#[derive(Debug)]
struct ServedConnection {
    waker: Waker,
    state: Rc<RequestState>,
    /// Index of its listener.
    listener: usize,
}

#[derive(Clone, Copy, Debug)]
struct WaitingConnection {
    since: Timestamp,
    id: u64,
}

/// How long a connection must have waited for a request before it may be evicted, so that a request
/// that its client has just sent is still let in.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);

impl Registry {
    /// Registers a connection, so that draining waits for it.
    pub(crate) fn register(self: &Rc<Self>) -> Registration {
        let id = self.next.get();
        self.next.set(id + 1);
        self.connections.borrow_mut().insert(id, None);
        Registration {
            registry: Rc::clone(self),
            id,
        }
    }

    /// Counts the open connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Ends these connections after their current requests.
    pub(crate) fn drain(&self, draining: Draining) {
        self.draining.set(draining);
        for entry in self.connections.borrow().values().flatten() {
            entry.waker.wake_by_ref();
        }
    }

    /// Allows one scan of the connections to the next newcomer that finds no room.
    pub(crate) fn tick(&self) {
        self.may_scan.set(true);
        self.waiting.borrow_mut().clear();
    }

    /// Evicts the connection that has waited longest for a request. Returns its listener, or none
    /// if no connection has waited for long.
    pub(crate) fn evict_longest(&self, among: Among, now: Timestamp) -> Option<usize> {
        loop {
            while let Some((at, found)) = self.longest(among) {
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

    /// Takes the longest wait that is remembered, and the index of its listener.
    fn longest(&self, among: Among) -> Option<(usize, WaitingConnection)> {
        let mut waiting = self.waiting.borrow_mut();
        let lists = waiting
            .iter_mut()
            .filter(|(at, list)| among.includes(**at) && !list.is_empty());
        let (at, list) = lists.min_by_key(|(_, list)| list.last().map(|it| it.since))?;
        list.pop().map(|it| (*at, it))
    }

    /// Evicts a connection unless it has had a request since the scan.
    fn evict(&self, waiting: WaitingConnection) -> bool {
        let connections = self.connections.borrow();
        let Some(Some(entry)) = connections.get(&waiting.id) else {
            return false;
        };
        let waits_still = entry.state.waiting_since() == Some(waiting.since);
        if waits_still {
            entry.state.evict();
        }
        waits_still
    }

    /// Remembers the connections that have waited for long.
    fn scan(&self, now: Timestamp) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.clear();
        for (&id, entry) in &*self.connections.borrow() {
            let Some(entry) = entry else { continue };
            let Some(since) = entry.state.waiting_since() else {
                continue;
            };
            if now.since(since) >= Micros::from(WAIT_MIN) {
                let list = waiting.entry(entry.listener).or_default();
                list.push(WaitingConnection { since, id });
            }
        }
        for list in waiting.values_mut() {
            list.sort_unstable_by_key(|it| std::cmp::Reverse(it.since));
        }
    }
}

impl Registration {
    /// Says which task serves it, what it waits for, and which listener accepted it.
    pub(crate) fn is_served(&self, waker: Waker, state: Rc<RequestState>, listener: usize) {
        let entry = ServedConnection {
            waker,
            state,
            listener,
        };
        let mut connections = self.registry.connections.borrow_mut();
        connections.insert(self.id, Some(entry));
    }

    /// Whether a connection that waits for this ends after its current request.
    pub(crate) fn is_draining(&self, awaited: Awaited) -> bool {
        match self.registry.draining.get() {
            Draining::No => false,
            Draining::Begun => awaited != Awaited::FirstByte,
            Draining::New => true,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.connections.borrow_mut().remove(&self.id);
    }
}
