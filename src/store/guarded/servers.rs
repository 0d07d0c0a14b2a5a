//! The servers as the process sees them: for each a breaker, the workers' connections to it, whether it has
//! memory for more keys, and how far away it is.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;

use super::breaker::CircuitBreaker;
use super::call_metrics::CallMetrics;
use super::distance::Distance;
use crate::clock::{Clock, Micros, Timestamp};
use crate::store::redis::{Observer, Observers, ServerEvent};
use crate::store::settings::BreakerSettings;

/// The servers of a process, by name. A server is forgotten when no session uses it.
#[derive(Debug)]
pub(super) struct Servers {
    clock: Clock,
    settings: ArcSwap<BreakerSettings>,
    known: Mutex<BTreeMap<Arc<str>, Weak<Server>>>,
}

/// One server, shared by all workers.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) breaker: CircuitBreaker,
    clock: Clock,
    /// Connections of workers to the server.
    connections: AtomicU32,
    /// When the server last lacked memory for a key, in microseconds since 1970; 0 if that is over.
    full_at_us: AtomicU64,
    pub(super) distance: Distance,
    /// Whether the server may evict any key, so balances, too.
    evicts_all: AtomicBool,
    /// Whether the server is known not to append its changes to a file.
    is_forgetful: AtomicBool,
}

/// Makes the observers of the servers that one worker asks.
#[derive(Clone, Debug)]
pub(super) struct WorkerServers {
    servers: Arc<Servers>,
    worker: usize,
    metrics: Arc<CachePadded<CallMetrics>>,
}

/// Notes what happens on one worker's connection to a server.
#[derive(Debug)]
struct WorkerServer {
    server: Arc<Server>,
    worker: usize,
    metrics: Arc<CachePadded<CallMetrics>>,
}

impl Servers {
    pub(super) fn new(settings: BreakerSettings, clock: Clock) -> Self {
        Self {
            clock,
            settings: ArcSwap::from_pointee(settings),
            known: Mutex::default(),
        }
    }

    /// Returns a server, which stays known as long as it is in use.
    pub(super) fn server(&self, name: &str) -> Arc<Server> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = known.get(name).and_then(Weak::upgrade) {
            return server;
        }
        known.retain(|_, server| server.strong_count() > 0);
        let name: Arc<str> = name.into();
        let settings = **self.settings.load();
        let server = Arc::new(Server {
            breaker: CircuitBreaker::new(Arc::clone(&name), settings, self.clock.clone()),
            clock: self.clock.clone(),
            connections: AtomicU32::new(0),
            full_at_us: AtomicU64::new(0),
            distance: Distance::new(self.clock.now()),
            evicts_all: AtomicBool::new(false),
            is_forgetful: AtomicBool::new(false),
        });
        known.insert(name, Arc::downgrade(&server));
        server
    }

    /// Returns the servers that are in use.
    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(Weak::upgrade).collect()
    }

    /// Applies other breaker settings from now on.
    pub(super) fn set(&self, settings: BreakerSettings) {
        self.settings.store(Arc::new(settings));
        for server in self.all() {
            server.breaker.set(settings);
        }
    }

    /// Returns how long a server that fails is not asked.
    pub(super) fn cooldown(&self) -> Micros {
        self.settings.load().cooldown.into()
    }

    /// Does the periodic work of all servers; `timeout` is how long a decision may take. To be called several times a
    /// second.
    pub(super) fn sweep(&self, timeout: Duration) {
        for server in self.all() {
            server.breaker.sweep();
            server.note_room();
            let name = server.breaker.server();
            server.distance.sweep(self.clock.now(), timeout, name);
        }
    }
}

impl Server {
    /// Says whether the server may evict balances, as far as the last connection found.
    pub(super) fn evicts_all(&self) -> bool {
        self.evicts_all.load(Relaxed)
    }

    /// Says whether the server is known to lose its latest writes in a crash.
    pub(super) fn is_forgetful(&self) -> bool {
        self.is_forgetful.load(Relaxed)
    }

    /// Returns the number of open connections.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Relaxed).into()
    }

    fn note(&self, event: ServerEvent<'_>, worker: usize) {
        match event {
            ServerEvent::Connected => drop(self.connections.fetch_add(1, Relaxed)),
            ServerEvent::Keeps(keeping) => {
                self.evicts_all.store(keeping.evicts_all(), Relaxed);
                self.is_forgetful
                    .store(keeping.appends == Some(false), Relaxed);
            }
            ServerEvent::Disconnected => drop(self.connections.fetch_sub(1, Relaxed)),
            // A worker that cannot connect must not take Redis from those that are connected.
            ServerEvent::ConnectFailed(_) if self.connections.load(Relaxed) > 0 => {}
            ServerEvent::ConnectFailed(error) | ServerEvent::Failed(error) => {
                self.breaker.failed(error);
            }
            ServerEvent::Answered => self.breaker.succeeded(worker),
            ServerEvent::Full => self.note_full(),
        }
    }

    fn note_full(&self) {
        let now = self.clock.now();
        if self.full_at_us.swap(now.0, Relaxed) == 0 {
            let server = &**self.breaker.server();
            tracing::warn!(
                server,
                "Redis is out of memory: known clients are still counted, new ones follow on_store_failure"
            );
        }
    }

    /// Notes that the server has memory again, if it had none and that was a while ago.
    fn note_room(&self) {
        let full_at = Timestamp(self.full_at_us.load(Relaxed));
        if full_at.0 > 0 && self.clock.now().since(full_at) >= FULL_FOR {
            self.full_at_us.store(0, Relaxed);
            let server = &**self.breaker.server();
            tracing::info!(server, "Redis accepts new keys again");
        }
    }
}

impl WorkerServers {
    pub(super) fn new(
        servers: Arc<Servers>,
        worker: usize,
        metrics: Arc<CachePadded<CallMetrics>>,
    ) -> Self {
        Self {
            servers,
            worker,
            metrics,
        }
    }
}

impl Observers for WorkerServers {
    fn of(&self, server: &str) -> Rc<dyn Observer> {
        Rc::new(WorkerServer {
            server: self.servers.server(server),
            worker: self.worker,
            metrics: Arc::clone(&self.metrics),
        })
    }
}

impl Observer for WorkerServer {
    fn note(&self, event: ServerEvent<'_>) {
        if matches!(event, ServerEvent::Full) {
            self.metrics.out_of_memory();
        }
        self.server.note(event, self.worker);
    }
}

/// How long a server must not have lacked memory before it counts as having room again.
const FULL_FOR: Micros = Micros::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::metrics::BreakerState;
    use crate::store::settings::Settings;

    const START: Timestamp = Timestamp(1_700_000_000_000_000);

    #[test]
    fn attempts_to_connect_count_only_while_no_worker_has_a_connection() {
        let servers = Servers::new(Settings::default().breaker, Clock::manual(START));
        let server = servers.server("a.test:6379");
        let refuse = |times: u32| {
            (0..times).for_each(|_| server.note(ServerEvent::ConnectFailed(&"refused"), 0));
        };
        server.note(ServerEvent::Connected, 1);
        refuse(100);
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        server.note(ServerEvent::Disconnected, 1);
        refuse(4);
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        refuse(1);
        assert_eq!(server.breaker.state(), BreakerState::Open);
    }

    #[test]
    fn server_without_memory_is_no_failure_and_has_room_again_after_a_while() {
        let clock = Clock::manual(START);
        let servers = Servers::new(Settings::default().breaker, clock.clone());
        let server = servers.server("a.test:6379");
        let is_full = || server.full_at_us.load(Relaxed) > 0;
        (0..100).for_each(|_| server.note(ServerEvent::Full, 0));
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        clock.advance(Micros(FULL_FOR.0 - 1));
        servers.sweep(Duration::ZERO);
        assert!(is_full());
        clock.advance(Micros(1));
        servers.sweep(Duration::ZERO);
        assert!(!is_full());
    }
}
