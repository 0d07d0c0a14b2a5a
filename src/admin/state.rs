//! What the admin port reads and acts on.

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

/// What the admin port reads and acts on.
#[derive(Debug)]
pub struct AdminState {
    /// Whether the gateway wants traffic: set once it listens, cleared when it drains.
    pub is_ready: AtomicBool,
    /// What is running.
    pub process: Arc<Process>,
    /// The file in force, and what operators ordered beside it.
    pub sources: Arc<ActiveSources>,
    /// Reloads the file, and remembers what came of it.
    pub(super) reloads: Arc<dyn ReloadControl>,
    /// When the gateway started, by wall time.
    pub(super) started: Timestamp,
    /// The last events, once they are logged.
    events: OnceLock<RecentEvents>,
    /// Hears of upgrades that are asked for, if anybody does.
    upgrades: OnceLock<mpsc::Sender<UpgradeRequest>>,
    /// What was counted lately, for those that watch.
    pub(super) live: LiveFeed,
    /// Held while metrics or what runs are rendered.
    pub(super) rendering: Mutex<()>,
    /// Held while a reload is under way, so that those that wait for one take no threads.
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

    /// Shows these events; the first call counts.
    pub fn show_events(&self, events: RecentEvents) {
        let _ = self.events.set(events);
    }

    /// Has upgrades done by whoever receives these requests; the first call counts.
    pub fn upgrade_by(&self, requests: mpsc::Sender<UpgradeRequest>) {
        let _ = self.upgrades.set(requests);
    }

    /// Asks for an upgrade; returns false if nobody hears.
    pub(super) fn ask_for_upgrade(&self, request: UpgradeRequest) -> bool {
        let upgrades = self.upgrades.get();
        upgrades.is_some_and(|requests| requests.try_send(request).is_ok())
    }

    /// Returns the last events; none are kept before they are logged.
    pub(super) fn events(&self) -> RecentEvents {
        self.events.get().cloned().unwrap_or_default()
    }

    /// Whether the gateway wants traffic.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Relaxed)
    }
}
