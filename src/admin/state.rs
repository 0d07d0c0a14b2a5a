//! The state that the admin port reads and acts on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, mpsc};

use super::live::LiveFeed;
use super::reloads::ReloadControl;
use super::upgrades::UpgradeRequest;
use crate::clock::Timestamp;
use crate::keys::ActiveSources;
use crate::logging::RecentEvents;
use crate::proxy::process::Process;

/// State that the admin port reads and acts on.
#[derive(Debug)]
pub struct AdminState {
    /// Whether the gateway wants traffic: set once it listens, cleared when it drains.
    pub is_ready: AtomicBool,
    /// The running gateway: configuration, store, metrics.
    pub process: Arc<Process>,
    /// File and directives in force.
    pub sources: Arc<ActiveSources>,
    /// Reloads the file, and remembers the result of the last reload.
    pub(super) reloads: Arc<dyn ReloadControl>,
    /// When the gateway started, by wall time.
    pub(super) started: Timestamp,
    /// Latest events of the log, once events are logged.
    events: OnceLock<RecentEvents>,
    /// Takes requests for an upgrade to the process's main loop, if it receives them.
    upgrades: OnceLock<mpsc::Sender<UpgradeRequest>>,
    /// Recent counts, for clients that watch them.
    pub(super) live: LiveFeed,
    /// Locked while metrics or an answer of the API are rendered.
    pub(super) rendering: Mutex<()>,
    /// Locked while a reload or a preview is under way, so that those that wait for their turn take no threads.
    pub(super) reloading: Mutex<()>,
}

impl AdminState {
    /// Makes the state of a gateway that is not ready yet.
    pub fn new(
        process: Arc<Process>,
        sources: Arc<ActiveSources>,
        reloads: Arc<dyn ReloadControl>,
    ) -> Self {
        Self {
            is_ready: AtomicBool::new(false),
            started: process.clock.wall(),
            process,
            sources,
            reloads,
            events: OnceLock::new(),
            upgrades: OnceLock::new(),
            live: LiveFeed::default(),
            rendering: Mutex::default(),
            reloading: Mutex::default(),
        }
    }

    /// Shows these events; only the first call has an effect.
    pub fn show_events(&self, events: RecentEvents) {
        let _ = self.events.set(events);
    }

    /// Sends requests for an upgrade to `requests`; only the first call has an effect.
    pub fn upgrade_by(&self, requests: mpsc::Sender<UpgradeRequest>) {
        let _ = self.upgrades.set(requests);
    }

    /// Asks for an upgrade; returns false if nobody receives the request.
    pub(super) fn ask_for_upgrade(&self, request: UpgradeRequest) -> bool {
        let upgrades = self.upgrades.get();
        upgrades.is_some_and(|requests| requests.try_send(request).is_ok())
    }

    /// Returns the latest events; there are none before events are logged.
    pub(super) fn events(&self) -> RecentEvents {
        self.events.get().cloned().unwrap_or_default()
    }

    /// Whether the gateway wants traffic.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Relaxed)
    }
}
