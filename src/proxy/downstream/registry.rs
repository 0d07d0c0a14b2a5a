//! A worker's open connections: whom draining wakes, and who gives way when there is no more room.
//!
//! Nothing is kept in order while requests come and go. Only when newcomers find no room are the
//! connections looked through, at most once per period of the sweep; those that wait for a request
//! are remembered, and the one that has waited longest gives way first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::client_io::ClientSocket;
use super::listener::Among;
use crate::clock::{Micros, Timestamp};

/// The open connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    connections: RefCell<HashMap<u64, Option<Entry>>>,
    next: Cell<u64>,
    /// Who waited when last looked, by listener; the longest wait last.
    waiting: RefCell<HashMap<usize, Vec<Waiting>>>,
    /// Whether the connections may be looked through again.
    may_look: Cell<bool>,
}

/// One open connection; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Rc<Registry>,
    id: u64,
}

#[derive(Debug)]
struct Entry {
    waker: Waker,
    socket: Arc<ClientSocket>,
    /// Index of its listener.
    listener: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Timestamp,
    id: u64,
}

/// How long a connection has waited for a request before it may have to give way: a request that
/// its client has just sent is still let in.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);

impl Registry {
    /// Enters a connection, so that draining waits for it.
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

    /// Wakes the task of every connection that runs.
    pub(crate) fn wake_all(&self) {
        for entry in self.connections.borrow().values().flatten() {
            entry.waker.wake_by_ref();
        }
    }

    /// Lets the next one who finds no room have the connections looked through.
    pub(crate) fn tend(&self) {
        self.may_look.set(true);
        self.waiting.borrow_mut().clear();
    }

    /// Ends the connection that has waited longest for a request. Returns its listener, or none if
    /// nobody has waited for long.
    pub(crate) fn make_room(&self, among: Among, now: Timestamp) -> Option<usize> {
        loop {
            while let Some((at, found)) = self.longest(among) {
                if self.give_way(found) {
                    return Some(at);
                }
            }
            if !self.may_look.replace(false) {
                return None;
            }
            self.look(now);
        }
    }

    /// Takes the longest wait that is remembered, and the index of its listener.
    fn longest(&self, among: Among) -> Option<(usize, Waiting)> {
        let mut waiting = self.waiting.borrow_mut();
        let lists = waiting
            .iter_mut()
            .filter(|(at, list)| among.includes(**at) && !list.is_empty());
        let (at, list) = lists.min_by_key(|(_, list)| list.last().map(|it| it.since))?;
        list.pop().map(|it| (*at, it))
    }

    /// Ends a connection unless it has had a request since it was looked at.
    fn give_way(&self, waiting: Waiting) -> bool {
        let connections = self.connections.borrow();
        let Some(Some(entry)) = connections.get(&waiting.id) else {
            return false;
        };
        let waits_still = entry.socket.waiting_since() == Some(waiting.since);
        if waits_still {
            entry.socket.give_way();
        }
        waits_still
    }

    /// Remembers who has waited for long.
    fn look(&self, now: Timestamp) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.clear();
        for (&id, entry) in &*self.connections.borrow() {
            let Some(entry) = entry else { continue };
            let Some(since) = entry.socket.waiting_since() else {
                continue;
            };
            if now.since(since) >= Micros::from(WAIT_MIN) {
                let list = waiting.entry(entry.listener).or_default();
                list.push(Waiting { since, id });
            }
        }
        for list in waiting.values_mut() {
            list.sort_unstable_by_key(|it| std::cmp::Reverse(it.since));
        }
    }
}

impl Registration {
    /// Says whose task it is, whose socket and whose listener.
    pub(crate) fn runs(&self, waker: Waker, socket: Arc<ClientSocket>, listener: usize) {
        let entry = Entry {
            waker,
            socket,
            listener,
        };
        let mut connections = self.registry.connections.borrow_mut();
        connections.insert(self.id, Some(entry));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.connections.borrow_mut().remove(&self.id);
    }
}
