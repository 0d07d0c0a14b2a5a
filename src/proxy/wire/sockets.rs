//! How many sockets the process has towards clients and origins, and how many it may have.
//!
//! The bound is the limit of open files less what is set aside (`gateway::descriptors`). At most half of
//! it is for clients, because a client needs an origin as well. Origins may have the rest, except for an eighth
//! of the bound: so clients can always connect, and be told why they are refused.
//! Idle connections to origins count too; they are closed when a connection finds no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The sockets of a process, whoever opens them.
#[derive(Debug)]
pub struct Sockets {
    clients: AtomicUsize,
    origins: AtomicUsize,
    max: AtomicUsize,
    /// Whether some of the bound is for clients.
    has_clients: bool,
    /// How often idle connections were to be closed because there was no room.
    wants: AtomicUsize,
}

/// A place for a socket towards an origin; it is free again when this is dropped.
#[derive(Debug)]
pub struct SocketPermit(Arc<Sockets>);

/// The bound divided by this is the most that clients may have.
const CLIENTS_PART: usize = 2;

/// The bound divided by this is never for origins.
const CLIENTS_ALONE_PART: usize = 8;

impl Sockets {
    /// Begins with no sockets; there may be `max`, towards clients and origins.
    pub fn new(max: usize) -> Self {
        Self {
            has_clients: true,
            ..Self::for_origins(max)
        }
    }

    /// Begins with no sockets; there may be `max`, towards origins alone.
    pub fn for_origins(max: usize) -> Self {
        Self {
            has_clients: false,
            clients: AtomicUsize::new(0),
            origins: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
            wants: AtomicUsize::new(0),
        }
    }

    /// Bounds the sockets from now on.
    pub fn bound(&self, max: usize) {
        self.max.store(max, Relaxed);
    }

    /// Returns how many clients there may be, if origins leave them room.
    pub fn clients_max(&self) -> usize {
        self.max.load(Relaxed) / CLIENTS_PART
    }

    /// Whether one more client would be too many.
    pub(crate) fn is_full_for_clients(&self) -> bool {
        let clients = self.clients.load(Relaxed);
        let all = clients.saturating_add(self.origins.load(Relaxed));
        clients >= self.clients_max() || all >= self.max.load(Relaxed)
    }

    /// Counts a client.
    pub(crate) fn add_client(&self) {
        self.clients.fetch_add(1, Relaxed);
    }

    /// Counts one client fewer.
    pub(crate) fn remove_client(&self) {
        self.clients.fetch_sub(1, Relaxed);
    }

    /// Takes a place for a socket towards an origin; none if there is no room.
    pub(crate) fn take(self: &Arc<Self>) -> Option<SocketPermit> {
        let permit = SocketPermit(Arc::clone(self));
        let origins = self.origins.fetch_add(1, Relaxed) + 1;
        let max = self.max.load(Relaxed);
        let clients = if self.has_clients {
            self.clients.load(Relaxed).max(max / CLIENTS_ALONE_PART)
        } else {
            0
        };
        (origins.saturating_add(clients) <= max).then_some(permit)
    }

    /// Asks all workers to close their idle connections to origins.
    pub(crate) fn want(&self) {
        self.wants.fetch_add(1, Relaxed);
    }

    /// As [`want`](Self::want), if it is because of origins that there is no room for one more client.
    pub(crate) fn want_for_clients(&self) {
        if self.clients.load(Relaxed) < self.clients_max() {
            self.want();
        }
    }

    /// Returns how often idle connections were to be closed; workers close theirs when this number has changed.
    pub(crate) fn wants(&self) -> usize {
        self.wants.load(Relaxed)
    }
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.0.origins.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_origins_share_the_bound_and_an_eighth_stays_for_clients() {
        let sockets = Arc::new(Sockets::new(80));
        let mut origins: Vec<_> = (0..70).map(|_| sockets.take().expect("room")).collect();
        assert!(sockets.take().is_none(), "ten are for clients alone");
        for _ in 0..10 {
            assert!(!sockets.is_full_for_clients());
            sockets.add_client();
        }
        assert!(sockets.is_full_for_clients());
        origins.truncate(20);
        for _ in 0..30 {
            assert!(!sockets.is_full_for_clients());
            sockets.add_client();
        }
        assert!(sockets.is_full_for_clients(), "half is for origins");
        origins.extend((0..20).map(|_| sockets.take().expect("room")));
        assert!(sockets.take().is_none());
        sockets.remove_client();
        assert!(sockets.take().is_some());
    }
}
