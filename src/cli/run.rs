//! `tollgate run`: a gateway, and the signals that it obeys.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::greeting::greet;
use super::systemd::{self, Watchdog};
use super::{EXIT_CONFIG, unreadable};
use crate::admin::{ReloadOutcome, ReloadReport, UpgradeReport, UpgradeRequest};
use crate::clock::Clock;
use crate::config::ConfigText;
use crate::gateway::{Gateway, Launch, Predecessor, StartError, Successor, UpgradeError, Upgrader};

/// Runs a gateway until a signal ends it, or another process has taken over.
pub fn run(file: &Path) -> ExitCode {
    let launch = Launch::of_this_process();
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime.and_then(|runtime| runtime.block_on(run_gateway(file, launch)));
    ended.unwrap_or_else(|error| {
        eprintln!("tollgate: {error}");
        ExitCode::FAILURE
    })
}

async fn run_gateway(file: &Path, launch: Option<Launch>) -> io::Result<ExitCode> {
    // Before the file is opened, so that no signal meets the default action: a SIGHUP may come as soon as
    // the file has been written.
    let mut signals = Signals::new()?;
    let mut predecessor = match Predecessor::of_this_process() {
        Ok(predecessor) => predecessor,
        Err(error) => {
            eprintln!("tollgate: cannot take over from the old process: {error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let (gateway, requests) = match start(file, predecessor.as_mut()) {
        Ok(started) => started,
        Err(failed) => {
            eprint!("{}", failed.message);
            if let Some(predecessor) = predecessor {
                predecessor.fail(failed.reason, failed.report);
            }
            return Ok(ExitCode::from(failed.status));
        }
    };
    drop(predecessor);
    tracing::info!("listening");
    systemd::ready("listening");
    let mut running = Running::new(gateway, requests, launch);
    let ended = running.until_ended(&mut signals).await;
    running.drain(ended, &mut signals).await
}

/// The signals that a gateway obeys.
struct Signals {
    reload: Signal,
    reopen: Signal,
    upgrade: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Why a gateway did not start.
struct NotStarted {
    status: u8,
    /// Text for standard error.
    message: String,
    /// Why the gateway did not start, in one line.
    reason: String,
    /// Mistakes of the file, if it has any.
    report: Option<String>,
}

impl NotStarted {
    fn new(status: u8, reason: String) -> Self {
        Self {
            status,
            message: format!("tollgate: {reason}\n"),
            reason,
            report: None,
        }
    }
}

/// Starts a gateway; returns it, and the requests for upgrades that come through its admin port.
fn start(
    file: &Path,
    predecessor: Option<&mut Predecessor>,
) -> Result<(Gateway, mpsc::Receiver<UpgradeRequest>), NotStarted> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| NotStarted::new(EXIT_CONFIG, unreadable(file, &error)))?;
    let mut requests = None;
    // Before anything runs, so that no event is lost, and no request for an upgrade is refused.
    let prepare = |gateway: &mut Gateway| {
        greet(gateway, file);
        gateway.log_events();
        requests = Some(gateway.upgrade_requests());
    };
    let config = ConfigText::of(file, &text);
    let clock = (predecessor.as_deref()).map_or_else(Clock::system, Predecessor::clock);
    let started = Gateway::start_with(config, clock, predecessor, prepare);
    let gateway = started.map_err(|error| match error {
        StartError::File(report) => {
            let name = file.display().to_string();
            let color = io::stderr().is_terminal();
            NotStarted {
                status: EXIT_CONFIG,
                message: report.render(&name, &text, color),
                reason: format!("{name} has mistakes: `tollgate check {name}` prints them"),
                report: Some(report.render(&name, &text, false)),
            }
        }
        error => NotStarted::new(1, format!("{:#}", anyhow::Error::from(error))),
    })?;
    Ok((gateway, requests.expect("it was prepared")))
}

/// What ends a gateway.
enum EndCause {
    Terminated,
    Interrupted,
    /// Another process has taken over.
    PassedOn(Successor),
}

/// A running gateway, and an upgrade of it if one is under way.
struct Running {
    gateway: Gateway,
    upgrader: Option<Arc<Upgrader>>,
    upgrade: Option<UpgradeUnderWay>,
    requests: mpsc::Receiver<UpgradeRequest>,
    watchdog: Option<Watchdog>,
}

/// An upgrade that is under way.
struct UpgradeUnderWay {
    task: JoinHandle<Result<Successor, UpgradeError>>,
    /// Request of a client of the admin port, if one asked for the upgrade.
    asked_by: Option<UpgradeRequest>,
    /// The last reload when the upgrade began: after another one, the new process may have read an older file.
    last_reload: Option<Arc<ReloadReport>>,
}

impl Running {
    fn new(
        gateway: Gateway,
        requests: mpsc::Receiver<UpgradeRequest>,
        launch: Option<Launch>,
    ) -> Self {
        Self {
            upgrader: launch.map(|launch| Arc::new(gateway.upgrader(launch))),
            upgrade: None,
            requests,
            watchdog: Watchdog::of_this_process(),
            gateway,
        }
    }

    async fn until_ended(&mut self, signals: &mut Signals) -> EndCause {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.gateway.pause_before_scan()) => {
                    self.gateway.reload_changed();
                }
                _ = signals.reload.recv() => self.reload(),
                _ = signals.reopen.recv() => self.gateway.reopen_log(),
                _ = signals.upgrade.recv() => self.begin_upgrade(None),
                Some(request) = self.requests.recv() => self.begin_upgrade(Some(request)),
                done = upgraded(&mut self.upgrade) => {
                    if let Some(successor) = self.end_upgrade(done) {
                        return EndCause::PassedOn(successor);
                    }
                }
                () = due(&mut self.watchdog) => feed(&mut self.watchdog, &self.gateway),
                _ = signals.terminate.recv() => return EndCause::Terminated,
                _ = signals.interrupt.recv() => return EndCause::Interrupted,
            }
        }
    }

    fn reload(&mut self) {
        systemd::reloading();
        let report = self.gateway.reload_file();
        systemd::ready(match report.outcome {
            ReloadOutcome::Applied { .. } => "listening",
            ReloadOutcome::Mistakes { .. } | ReloadOutcome::Unreadable { .. } => {
                "listening; the last reload failed, and the old configuration stays"
            }
        });
    }

    fn begin_upgrade(&mut self, asked_by: Option<UpgradeRequest>) {
        let by = asked_by.as_ref().map(|request| request.peer.to_string());
        let by = by.unwrap_or_else(|| "signal".to_owned());
        if self.upgrade.is_some() {
            tracing::warn!(source = by, "an upgrade is under way already");
            if let Some(request) = asked_by {
                let _ = request.report.send(UpgradeReport::UnderWay);
            }
            return;
        }
        let Some(upgrader) = self.upgrader.clone() else {
            tracing::error!(
                "it is not known how this process was started: it cannot be started again"
            );
            return;
        };
        tracing::info!(
            source = by,
            "upgrading: a new process starts, and this one goes on until that serves"
        );
        systemd::upgrading();
        let upgrade = move || upgrader.upgrade(systemd::main_process);
        self.upgrade = Some(UpgradeUnderWay {
            task: tokio::task::spawn_blocking(upgrade),
            asked_by,
            last_reload: self.gateway.last_reload(),
        });
    }

    /// Reports the result of an upgrade, to the log and to the client that asked for it.
    fn end_upgrade(&mut self, done: Result<Successor, UpgradeError>) -> Option<Successor> {
        let upgrade = self.upgrade.take()?;
        let report = match &done {
            Ok(successor) => {
                tracing::info!(
                    process = successor.id,
                    version = successor.version,
                    "another process has taken over: this one ends once its requests have"
                );
                if self.gateway.last_reload() != upgrade.last_reload {
                    pass_signal(successor, rustix::process::Signal::HUP);
                }
                UpgradeReport::TakenOver {
                    version: successor.version.clone(),
                    id: successor.id,
                }
            }
            Err(error) => {
                tracing::error!(%error, "the upgrade failed: this process goes on");
                systemd::upgrade_failed(&error.to_string());
                let report = match error {
                    UpgradeError::Failed { report, .. } => report.clone(),
                    _ => None,
                };
                UpgradeReport::Failed {
                    reason: error.to_string(),
                    report,
                }
            }
        };
        if let Some(request) = upgrade.asked_by {
            let _ = request.report.send(report);
        }
        done.ok()
    }

    /// Lets requests finish, and ends the gateway.
    async fn drain(mut self, ended: EndCause, signals: &mut Signals) -> io::Result<ExitCode> {
        let force = Arc::new(self.gateway.forcer());
        let mut successor = None;
        match ended {
            EndCause::PassedOn(new) => successor = Some(Arc::new(new)),
            EndCause::Terminated => {}
            EndCause::Interrupted => force(),
        }
        match &successor {
            None => {
                self.stop_upgrade().await;
                systemd::stopping();
                tracing::info!("draining: no longer ready; requests in progress finish");
            }
            Some(successor) => {
                let (successor, force) = (Arc::clone(successor), Arc::clone(&force));
                // The thread ends with the process.
                std::thread::spawn(move || {
                    if successor.wants_end() {
                        force();
                    }
                });
            }
        }
        // From now on, requests for an upgrade are refused.
        drop(self.requests);
        let mut watchdog = self.watchdog;
        let mut gateway = self.gateway;
        let mut drained = tokio::task::spawn_blocking(move || gateway.shutdown());
        loop {
            let passed = tokio::select! {
                done = &mut drained => {
                    done?;
                    return Ok(ExitCode::SUCCESS);
                }
                _ = signals.interrupt.recv() => {
                    force();
                    continue;
                }
                // Threads that are done make no progress, so the watchdog is fed regardless; the grace bounds this.
                () = due(&mut watchdog) => {
                    systemd::alive();
                    continue;
                }
                _ = signals.reload.recv() => rustix::process::Signal::HUP,
                _ = signals.reopen.recv() => rustix::process::Signal::USR1,
                _ = signals.upgrade.recv() => rustix::process::Signal::USR2,
            };
            if let Some(successor) = &successor {
                pass_signal(successor, passed);
            }
        }
    }

    /// Kills a new process that has not taken over.
    async fn stop_upgrade(&mut self) {
        if let Some(upgrader) = &self.upgrader
            && self.upgrade.is_some()
        {
            upgrader.abort();
            let done = upgraded(&mut self.upgrade).await;
            // The new process may just have taken over: then it is the one that has to stop.
            if let Some(successor) = self.end_upgrade(done) {
                pass_signal(&successor, rustix::process::Signal::TERM);
            }
        }
    }
}

/// Waits for an upgrade, if one is under way.
async fn upgraded(upgrade: &mut Option<UpgradeUnderWay>) -> Result<Successor, UpgradeError> {
    match upgrade {
        Some(upgrade) => match (&mut upgrade.task).await {
            Ok(done) => done,
            Err(error) => Err(UpgradeError::System(io::Error::other(error))),
        },
        None => std::future::pending().await,
    }
}

/// Waits until the watchdog is to be fed, if there is one.
async fn due(watchdog: &mut Option<Watchdog>) {
    match watchdog {
        Some(watchdog) => watchdog.due().await,
        None => std::future::pending().await,
    }
}

/// Feeds the watchdog if every thread has made progress since the last time.
fn feed(watchdog: &mut Option<Watchdog>, gateway: &Gateway) {
    if let Some(watchdog) = watchdog {
        watchdog.feed(gateway.progress());
    }
}

/// Passes a signal for the gateway on to the process that has taken over.
fn pass_signal(successor: &Successor, signal: rustix::process::Signal) {
    let id = i32::try_from(successor.id).ok();
    if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// Raises the limit of open files: each proxied request needs two descriptors, and the soft limit is often 1024.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        eprintln!("tollgate: cannot raise the limit of open files: {error}");
    }
}
