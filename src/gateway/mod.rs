//! A whole gateway: binds its ports, runs its threads, reloads, drains.
//!
//! `main` runs one and passes signals on to it; tests run several in one process. A gateway has one
//! thread per worker (`proxy::worker`) and one for control, which accepts, answers the admin port and
//! does the housekeeping.

mod control;
mod descriptors;
mod directives;
mod expiry;
mod file_watch;
mod handover;
mod memory_limit;
mod reload;
mod sockets;
mod start;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::admin::{AdminState, ReloadControl as _, ReloadReport, ReloadSource, UpgradeRequest};
use crate::clock::{Clock, Timestamp};
use crate::config::{ConfigText, Loaded, environment, load, report::Report};
use crate::logging::{Logging, Output};
use crate::metrics::{ConfigInfo, Metrics};
use crate::proxy::process::Process;
use crate::proxy::upstream::NameResolver;
use crate::snapshot::ListenAddress;
use crate::store::MemoryStore;
use control::Phase;
use file_watch::FileWatch;
pub use handover::{ChannelError, Launch, Predecessor, Successor, UpgradeError, Upgrader};
use handover::{Drainers, PassedSockets, TakeOver};
use reload::{Reloader, warn};
use sockets::GivenSockets;
pub use start::StartError;
use start::{new_process, process_key, worker_count};

/// A running gateway; it drains when it is dropped.
#[derive(Debug)]
pub struct Gateway {
    process: Arc<Process>,
    admin: Arc<AdminState>,
    reloader: Arc<Reloader>,
    /// Warnings about the file, kept until events are logged.
    warnings: Vec<String>,
    /// Names and bound addresses of the listeners.
    addresses: Vec<(Arc<str>, ListenAddress)>,
    admin_address: Option<SocketAddr>,
    phase: watch::Sender<Phase>,
    /// Sockets to pass to another process; `None` once this one no longer listens.
    sockets: Arc<Mutex<Option<PassedSockets>>>,
    /// Earlier processes that still drain.
    drainers: Drainers,
    workers: Vec<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts a gateway from the text of a file; no port is bound unless the file is valid.
    ///
    /// # Errors
    /// [`StartError`]: a second try fails too, unless something is changed.
    pub fn start(text: &str, clock: Clock) -> Result<Self, StartError> {
        Self::start_with(text, clock, None, |_| {})
    }

    /// Like [`start`](Self::start), but takes over from `predecessor`, if there is one. `prepare` is called when the
    /// ports are bound and nothing runs yet.
    ///
    /// # Errors
    /// The same as those of `start`.
    pub fn start_with<'t>(
        config: impl Into<ConfigText<'t>>,
        clock: Clock,
        predecessor: Option<&mut Predecessor>,
        prepare: impl FnOnce(&mut Self),
    ) -> Result<Self, StartError> {
        // Only the file says where counters live, and reading it needs ids of series: every store uses these.
        let memory = Arc::new(MemoryStore::new(clock.clone(), u64::MAX));
        let config = config.into();
        let path = Some(config.path).filter(|path| !path.as_os_str().is_empty());
        let loaded = load(config, &environment, &mut |series| memory.series_id(series))
            .map_err(StartError::File)?;
        Self::run(loaded, path, memory, clock, predecessor, prepare)
    }

    fn run(
        loaded: Loaded,
        path: Option<&Path>,
        memory: Arc<MemoryStore>,
        clock: Clock,
        mut predecessor: Option<&mut Predecessor>,
        prepare: impl FnOnce(&mut Self),
    ) -> Result<Self, StartError> {
        let (snapshot, mut warnings) = (loaded.snapshot, loaded.warnings);
        // The watch begins before a port is bound, so it sees every change made once the gateway can be reached.
        let watch = snapshot.general.watch.then(|| FileWatch::of(loaded.paths));
        let given = (predecessor.as_deref_mut())
            .map_or_else(GivenSockets::of_systemd, Predecessor::sockets);
        let mut sockets = given.complete(&snapshot)?;
        warnings.append(&mut sockets.unwanted);
        let passed = PassedSockets::of(&snapshot, &sockets)?;
        let worker_count = worker_count(&snapshot);
        let output = Output::open(snapshot.log.files())?;
        let addresses = sockets.addresses(&snapshot);
        let admin_address = sockets.admin_address()?;
        let given_as = sockets.given_as.clone();
        let metrics = Arc::new(Metrics::new(worker_count));
        metrics.observe_log(output.lines_dropped());
        metrics.started(ConfigInfo {
            hash: loaded.hash,
            since: clock.wall(),
        });
        let process_key = match &predecessor {
            Some(predecessor) => predecessor.random_key(),
            None => process_key()?,
        };
        let process = new_process(snapshot, memory, clock, metrics, process_key);
        let file = loaded.file;
        let reloader = Reloader::new(&process, output, path, worker_count, file, watch);
        let reloader = Arc::new(reloader);
        let sources = Arc::clone(&reloader.sources);
        let admin = AdminState::new(Arc::clone(&process), sources, reloader.clone());
        let admin = Arc::new(admin);
        let sockets_max = descriptors::bound(&process, worker_count);
        let (phase, seen_phase) = watch::channel(Phase::Paused);
        let mut gateway = Self {
            process,
            admin,
            reloader,
            warnings,
            addresses,
            admin_address,
            phase,
            sockets: Arc::new(Mutex::new(Some(passed))),
            drainers: Drainers::default(),
            workers: Vec::new(),
            control: None,
        };
        prepare(&mut gateway);
        descriptors::warn_if_few(sockets_max, &gateway.process);
        memory_limit::warn_if_low(&gateway.process.live().snapshot);
        let handles = (0..worker_count)
            .map(|index| gateway.spawn_worker(index))
            .collect::<io::Result<Vec<_>>>()?;
        // This comes before the admin port answers, because a metric that appears late looks like one that has
        // just begun.
        gateway.observe_store();
        gateway.observe_certificates();
        gateway.spawn_control(sockets, handles, seen_phase)?;
        match predecessor {
            None => gateway.accept(),
            Some(predecessor) => gateway.take_over(predecessor, &given_as)?,
        }
        Ok(gateway)
    }

    /// Takes everything that the old process passes, and then accepts.
    fn take_over(
        &self,
        predecessor: &mut Predecessor,
        given_as: &[Option<usize>],
    ) -> Result<(), ChannelError> {
        let gateway = TakeOver {
            process: &self.process,
            sources: &self.admin.sources,
            given_as,
            drainers: &self.drainers,
        };
        let taken = predecessor.take_over(&gateway, || self.accept());
        if taken.is_err() {
            // The given sockets, and the clients that wait there, belong to the old process.
            let is_given = given_as.iter().map(Option::is_some).collect();
            self.phase.send_replace(Phase::PassedOn(is_given));
        }
        taken
    }

    /// Starts accepting.
    fn accept(&self) {
        // The ports are bound and queue connections, so every client finds a gateway that is ready.
        self.admin.is_ready.store(true, Relaxed);
        self.phase.send_replace(Phase::Running);
    }

    /// Returns an [`Upgrader`], which starts a new process by `launch` and hands over to it.
    pub fn upgrader(&self, launch: Launch) -> Upgrader {
        let (process, phase) = (Arc::clone(&self.process), self.phase.clone());
        let sockets = Arc::clone(&self.sockets);
        Upgrader::new(launch, process, phase, sockets, self.drainers.clone())
    }

    /// Logs the process's events according to this gateway's log settings; takes effect once per process.
    pub fn log_events(&mut self) {
        let live = self.process.live();
        let level = live.snapshot.log.level;
        let (logging, subscriber) =
            Logging::new(self.reloader.output.clone(), level, live.log_format);
        if tracing::subscriber::set_global_default(subscriber).is_ok() {
            self.admin.show_events(logging.recent().clone());
            self.reloader.log_by(logging);
        }
        warn(&std::mem::take(&mut self.warnings));
        expiry::warn(&live.snapshot, self.process.clock.wall());
    }

    /// Returns the upgrade requests of the admin port's clients, for the caller to answer. If nobody calls this, such
    /// requests are refused.
    pub fn upgrade_requests(&self) -> mpsc::Receiver<UpgradeRequest> {
        let (requests, received) = mpsc::channel(UPGRADE_REQUESTS_MAX);
        self.admin.upgrade_by(requests);
        received
    }

    /// Returns a progress counter per thread: a thread whose counter stays the same for seconds is stuck.
    pub fn progress(&self) -> Vec<u64> {
        self.process.metrics.progress()
    }

    /// Resolves the names of endpoints with `resolver` instead of the system's.
    pub fn resolve_by(&self, resolver: NameResolver) {
        self.process.endpoints.resolve_by(resolver);
    }

    fn observe_store(&self) {
        let process = Arc::downgrade(&self.process);
        let usage = move || {
            process
                .upgrade()
                .map(|process| process.store.usage())
                .unwrap_or_default()
        };
        self.process.metrics.observe_store(usage);
    }

    fn observe_certificates(&self) {
        let process = Arc::downgrade(&self.process);
        self.process.metrics.observe_certificates(move || {
            let Some(process) = process.upgrade() else {
                return Vec::new();
            };
            let live = process.live();
            // Counted from 1970, so that `seconds_left` is the expiry date as a Unix timestamp.
            let expiries = live.snapshot.expiries(Timestamp(0));
            let certificates =
                expiries.map(|expiry| (expiry.listener, expiry.certificate, expiry.seconds_left));
            certificates.collect()
        });
    }

    /// Returns the address that the listener of this name is bound to, unless that is a Unix socket.
    pub fn address(&self, listener: &str) -> Option<SocketAddr> {
        let mut addresses = self.addresses.iter();
        match addresses.find(|(name, _)| **name == *listener)?.1 {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Returns the scheme of URLs that lead to the listener of this name.
    pub fn scheme(&self, listener: &str) -> &'static str {
        let live = self.process.live();
        let mut listeners = live.snapshot.listeners.iter();
        if listeners.any(|one| *one.name == *listener && one.tls.is_some()) {
            "https"
        } else {
            "http"
        }
    }

    /// Returns the names and bound addresses of all listeners, in file order.
    pub fn addresses(&self) -> &[(Arc<str>, ListenAddress)] {
        &self.addresses
    }

    /// Returns the address that the admin port is bound to, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Puts a configuration in force; requests under way keep the one they began with.
    ///
    /// Counters of unchanged series, connections and pools survive. The log says what changed, and
    /// its files are opened again.
    ///
    /// # Errors
    /// Returns the mistakes in the file; the old configuration stays in force as a whole.
    pub fn reload<'t>(&mut self, config: impl Into<ConfigText<'t>>) -> Result<(), Report> {
        self.reloader.reload_text(config.into())
    }

    /// Reads the gateway's file again and puts it in force; returns the result, which is also logged.
    pub fn reload_file(&mut self) -> Arc<ReloadReport> {
        self.reloader.reload(ReloadSource::Signal)
    }

    /// Returns the result of the last reload, whatever triggered it.
    pub fn last_reload(&self) -> Option<Arc<ReloadReport>> {
        self.reloader.last()
    }

    /// Returns how long to wait before the next call of [`reload_changed`](Self::reload_changed).
    pub fn pause_before_scan(&self) -> Duration {
        self.reloader.pause_before_scan()
    }

    /// Looks at the files that a reload reads, and reloads if one has changed; does nothing unless the configuration in
    /// force has `watch = true`.
    pub fn reload_changed(&mut self) {
        if let Some(changed) = self.reloader.changed_file() {
            let changed = changed.display().to_string();
            tracing::info!(file = changed, "a watched file has changed");
            self.reloader.reload(ReloadSource::Watch);
        }
    }

    /// Opens the log's files again, so that files that were rotated away are closed.
    pub fn reopen_log(&self) {
        self.reloader.reopen_log();
    }

    /// Stops being ready, waits out the delay, closes the listeners, lets requests finish within
    /// the grace, and joins every thread. If another process has taken over, there is no delay.
    pub fn shutdown(&mut self) {
        self.admin.is_ready.store(false, Relaxed);
        drop(self.sockets.lock().map(|mut sockets| sockets.take()));
        let delay = self.process.live().snapshot.general.shutdown_delay;
        let is_passed_on = matches!(*self.phase.borrow(), Phase::PassedOn(_));
        if !is_passed_on {
            self.phase.send_replace(Phase::Draining(delay));
        }
        for worker in self.workers.drain(..) {
            join(worker);
        }
        self.phase.send_replace(Phase::Done);
        if let Some(control) = self.control.take() {
            join(control);
            match self.process.unsettled() {
                0 => tracing::info!("stopped"),
                charges => tracing::warn!(
                    charges,
                    "stopped; some charges were not corrected, because Redis could not be reached in time"
                ),
            }
            if !is_passed_on {
                self.drainers.end();
            }
        }
        self.reloader.output.flush();
    }

    /// Returns a function that makes a shutdown, under way or still to come, stop waiting for requests.
    pub fn forcer(&self) -> impl Fn() + Send + 'static {
        let process = Arc::clone(&self.process);
        move || process.force_shutdown()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Most upgrade requests that may wait for an answer.
const UPGRADE_REQUESTS_MAX: usize = 4;

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the gateway panicked");
    }
}
