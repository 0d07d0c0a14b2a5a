//! Keeps a pipeline connected, in an endless loop: connect, serve, log what broke, wait, connect again.
//!
//! Calls wait for the first attempt, and for the first one after the settings or the sentinels name
//! another server. While a connection that broke is replaced, they fail at once. The pause before an
//! attempt is drawn at random between nothing and a bound, so that the workers of a fleet do not come
//! back all at once; the bound grows up to [`PAUSE_MAX`]. The client library does not end a connection
//! whose server is mute, so the supervisor does, when the [`MuteDetector`] says so.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::batch::{Aftermath, exchange};
use super::mute_detector::{Liveness, MuteDetector};
use super::shared_state::{PLANS_PER_CALL, PipelineCore, PipelineState};
use crate::chance::fraction;
use crate::store::redis::call_error::CallError;
use crate::store::redis::connect::{DialError, ReadyConnection};
use crate::store::redis::observer::{ConnectedGuard, ServerEvent};
use crate::store::redis::sentinel::Locator;

/// What is kept from one connection to the next.
struct Supervisor {
    core: Rc<PipelineCore>,
    locator: Locator,
    /// Attempts in a row without a connection that lasted.
    failures: u32,
    /// The failure that was logged last, until a connection serves again.
    logged_reason: Option<String>,
    /// Whether there ever was a connection.
    was_connected: bool,
    /// The version of the password that was tried last.
    tried_password: u64,
}

/// Why there is no connection, or why it ended.
enum ConnectionEnd {
    /// The connection could not be made.
    Failed(DialError),
    /// The connection broke, or is useless.
    Broken(String),
    /// The settings name another server, or other credentials.
    Reconfigured,
    /// The sentinels name another primary.
    Moved,
}

/// Connects, serves the queue and connects again, until it is aborted.
pub(super) async fn supervise(core: Rc<PipelineCore>) {
    let locator = Locator::new(core.resolver.borrow().clone(), core.context.timeout);
    let mut supervisor = Supervisor {
        core,
        locator,
        failures: 0,
        logged_reason: None,
        was_connected: false,
        tried_password: 0,
    };
    loop {
        let end = supervisor.connect_and_serve().await;
        supervisor.recover_from(end).await;
    }
}

impl Supervisor {
    /// Makes one connection and uses it until its end.
    async fn connect_and_serve(&mut self) -> ConnectionEnd {
        self.tried_password = self.locator.password_version();
        let Some(attempt) = self.connect().await else {
            return ConnectionEnd::Reconfigured;
        };
        match attempt {
            Ok(connected) => {
                self.mark_up(&connected);
                let guard = ConnectedGuard::new(Rc::clone(&self.core.observer));
                let end = self.serve(connected).await;
                self.core.queue.all_ended();
                drop(guard);
                self.core.server.borrow_mut().take();
                end
            }
            Err(error) => ConnectionEnd::Failed(error),
        }
    }

    /// Tries once to make a connection; returns none if the settings change meanwhile.
    async fn connect(&mut self) -> Option<Result<ReadyConnection, DialError>> {
        let core = &self.core;
        let decision_timeout = core.context.timeout;
        let mut connecting = pin!(self.locator.connect(decision_timeout));
        loop {
            // Once there was a connection, calls wait for another no longer than a decision may take.
            let is_due = self.was_connected && core.state.get() == PipelineState::Connecting;
            tokio::select! {
                biased;
                () = core.reconfigured.notified() => return None,
                attempt = &mut connecting => return Some(attempt),
                () = sleep(decision_timeout), if is_due => core.stop_waiting(),
            }
        }
    }

    /// Sends what waits, until the connection ends or is useless.
    ///
    /// If the pipeline is to be pointed elsewhere, the calls that were sent are answered first.
    async fn serve(&mut self, connected: ReadyConnection) -> ConnectionEnd {
        let (connection, mut driver) = (connected.connection, connected.driver);
        let core = Rc::clone(&self.core);
        let (failures, logged_reason) = (&mut self.failures, &mut self.logged_reason);
        let mut moved = pin!(self.locator.moved());
        let mut in_flight = FuturesUnordered::new();
        let mut detector = MuteDetector::default();
        let mut inspect = interval(INSPECT_EVERY);
        inspect.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut leaving, mut is_denial_logged) = (None, false);
        loop {
            while leaving.is_none() && in_flight.len() < IN_FLIGHT_MAX {
                let Some(batch) = core.queue.take(PLANS_PER_CALL) else {
                    break;
                };
                in_flight.push(exchange(connection.clone(), batch, &core));
            }
            let (is_idle, has_room) = (in_flight.is_empty(), in_flight.len() < IN_FLIGHT_MAX);
            if is_idle && let Some(end) = leaving {
                return end;
            }
            tokio::select! {
                biased;
                Some(aftermath) = in_flight.next() => {
                    detector.has_progress = true;
                    core.is_suspect.set(false);
                    match aftermath {
                        Aftermath::Served => log_recovered(logged_reason, &core),
                        Aftermath::Erred => {}
                        Aftermath::Denied(error) => {
                            log_denial(&error, &mut is_denial_logged, &core);
                        }
                        Aftermath::Condemned(error) => {
                            return leaving.unwrap_or(ConnectionEnd::Broken(error.to_string()));
                        }
                    }
                }
                () = &mut driver => {
                    // Calls that were answered before the end get their answers; the others fail.
                    while in_flight.next().await.is_some() {}
                    return leaving.unwrap_or(ConnectionEnd::Broken(CLOSED.to_owned()));
                }
                () = core.reconfigured.notified(), if leaving.is_none() => {
                    leaving = Some(ConnectionEnd::Reconfigured);
                }
                () = &mut moved, if leaving.is_none() => leaving = Some(ConnectionEnd::Moved),
                () = core.queue.filled(), if leaving.is_none() && has_room => {}
                _ = inspect.tick() => {
                    // If no batch waits for its answer, no caller has reason to suspect the server any more.
                    core.is_suspect.set(core.is_suspect.get() && !is_idle);
                    let is_suspect = core.is_suspect.get() || leaving.is_some();
                    match detector.inspect(!is_idle, is_suspect) {
                        Liveness::Answers => {}
                        Liveness::Silence => inspect.reset_after(INSPECT_AGAIN),
                        Liveness::Mute => {
                            return leaving.unwrap_or(ConnectionEnd::Broken(MUTE.to_owned()));
                        }
                    }
                    if detector.inspections == INSPECTIONS_PROVING {
                        *failures = 0;
                        log_recovered(logged_reason, &core);
                    }
                }
            }
        }
    }

    /// Notes that there is a connection, and logs it.
    fn mark_up(&mut self, connected: &ReadyConnection) {
        self.was_connected = true;
        let PipelineCore {
            context,
            server,
            state,
            is_suspect,
            ..
        } = &*self.core;
        let name: Arc<str> = self.locator.server().into();
        if let Some(policy) = &connected.keeping.eviction {
            context.shared.evictions.note(&name, policy);
        }
        if connected.keeping.appends == Some(false) && context.shared.has_credits.load(Relaxed) {
            context.shared.evictions.note_forgetful(&name);
        }
        self.core
            .observer
            .note(ServerEvent::Keeps(&connected.keeping));
        if self.failures == 0 {
            self.logged_reason = None;
            tracing::info!(server = &*name, "connected to Redis");
        }
        *server.borrow_mut() = Some(name);
        is_suspect.set(false);
        state.set(PipelineState::Up);
    }

    /// Logs why the connection ended, and waits until it is time for the next attempt.
    async fn recover_from(&mut self, end: ConnectionEnd) {
        let is_refused = matches!(&end, ConnectionEnd::Failed(error) if error.is_refusal());
        let is_password_new = is_refused && self.is_password_new();
        if !is_password_new {
            self.log_failure(&end);
        }
        match &end {
            ConnectionEnd::Failed(error) => {
                self.core.observer.note(ServerEvent::ConnectFailed(error));
            }
            ConnectionEnd::Broken(reason) => {
                self.core.observer.note(ServerEvent::Failed(reason));
            }
            ConnectionEnd::Reconfigured | ConnectionEnd::Moved => {}
        }
        let pause = match &end {
            ConnectionEnd::Reconfigured => return self.follow_resolver(),
            ConnectionEnd::Moved => {
                tracing::info!("the sentinels report another primary");
                return self.core.state.set(PipelineState::Connecting);
            }
            ConnectionEnd::Failed(_) if is_refused && !is_password_new => {
                PAUSE_REFUSED.mul_f64(1.0 - fraction() / 2.0)
            }
            ConnectionEnd::Failed(_) | ConnectionEnd::Broken(_) => pause(self.failures),
        };
        self.failures = self.failures.saturating_add(1);
        self.core.stop_waiting();
        tokio::select! {
            biased;
            () = self.core.reconfigured.notified() => self.follow_resolver(),
            () = sleep(pause) => {}
        }
    }

    /// Reads the password again, and says whether it differs from the one that was refused.
    fn is_password_new(&self) -> bool {
        self.locator.refresh_password();
        self.locator.password_version() != self.tried_password
    }

    /// Starts afresh with the server and the credentials that the settings name now.
    fn follow_resolver(&mut self) {
        let resolver = self.core.resolver.borrow().clone();
        self.locator = Locator::new(resolver, self.core.context.timeout);
        self.failures = 0;
        self.logged_reason = None;
        self.core.state.set(PipelineState::Connecting);
    }

    /// Logs why there is no connection, unless the same reason was logged last, or any reason was and
    /// this one means only that the server is away.
    fn log_failure(&mut self, end: &ConnectionEnd) {
        let (reason, is_refusal, is_absence) = match end {
            ConnectionEnd::Failed(error) => {
                (error.to_string(), error.is_refusal(), error.is_absence())
            }
            ConnectionEnd::Broken(reason) => (reason.clone(), false, is_absence(reason)),
            ConnectionEnd::Reconfigured | ConnectionEnd::Moved => return,
        };
        match &self.logged_reason {
            Some(logged) if is_absence || *logged == reason => return,
            _ => {}
        }
        let server = self.locator.server();
        if is_refusal {
            tracing::error!(
                server,
                reason,
                "Redis rejects the gateway: check the user, the password and the permissions"
            );
        } else {
            tracing::warn!(server, reason, "no connection to Redis");
        }
        self.logged_reason = Some(reason);
    }
}

/// Logs that the connection works again, if a failure was logged before.
fn log_recovered(logged_reason: &mut Option<String>, core: &PipelineCore) {
    if logged_reason.take().is_some() {
        let server = core.server.borrow().clone();
        tracing::info!(server = server.as_deref(), "connected to Redis again");
    }
}

/// Logs that the gateway's user lacks permissions that a decision needs, once per connection.
fn log_denial(error: &CallError, is_logged: &mut bool, core: &PipelineCore) {
    if std::mem::replace(is_logged, true) {
        return;
    }
    let server = core.server.borrow().clone();
    tracing::error!(
        server = server.as_deref(),
        %error,
        "the gateway's Redis user lacks permissions that decisions need: grant the permissions listed in docs/redis.md"
    );
}

/// Draws how long to wait after this many failures: anything up to a bound, which doubles with each.
fn pause(failures: u32) -> Duration {
    let bound = PAUSE_FIRST.saturating_mul(1 << failures.min(16));
    bound.min(PAUSE_MAX).mul_f64(fraction())
}

/// Says whether the reason why a connection broke means only that the server is away.
fn is_absence(reason: &str) -> bool {
    matches!(reason, CLOSED | MUTE)
}

/// Why a connection broke: its driver ended.
const CLOSED: &str = "the connection was closed";
/// Why a connection broke: the server was found mute.
const MUTE: &str = "no answer";

/// Most batches under way on a connection. If there are more, callers wait and the batches get fuller.
const IN_FLIGHT_MAX: usize = 64;
/// How often a connection is inspected.
const INSPECT_EVERY: Duration = Duration::from_millis(500);
/// How soon a server that seems mute is inspected again. If only this worker was stalled, the answers
/// have been read by then; if the whole machine was, they have arrived.
const INSPECT_AGAIN: Duration = Duration::from_millis(100);
/// A connection that was up for this many inspections has lasted, used or not. An answer proves less: a
/// replica answers calls that write nothing, but its connection is given up at any other call.
const INSPECTIONS_PROVING: u32 = 4;
/// The bound of the pause after the first failure.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// The highest bound, so a server that is back is tried after at most this pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest pause after the server refused the credentials, shortened at random by up to half:
/// trying again is of no use until an operator acts.
const PAUSE_REFUSED: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets 200 workers lose their connection at the same moment to a server that is away for `outage`, and
    /// returns how many of them connect again within the busiest 100 ms.
    fn most_within_100_ms(outage: Duration) -> usize {
        let mut connected: Vec<_> = (0..200)
            .map(|_| {
                let (mut failures, mut at) = (0, pause(0));
                while at < outage {
                    failures += 1;
                    at += pause(failures);
                }
                at
            })
            .collect();
        connected.sort();
        let within = |first: &Duration| {
            let last = *first + Duration::from_millis(100);
            (connected.iter())
                .filter(|at| (*first..last).contains(*at))
                .count()
        };
        connected.iter().map(within).max().unwrap_or(0)
    }

    /// On average, 80 workers connect within any 100 of the first 250 ms, and 38 within any 100 ms later.
    #[test]
    fn workers_that_lost_a_server_together_do_not_come_back_together() {
        for (outage, most) in [(0, 130), (5_000, 80), (60_000, 80)] {
            let found = most_within_100_ms(Duration::from_millis(outage));
            assert!(found < most, "{found} of 200 after {outage} ms");
        }
    }

    #[test]
    fn pauses_stay_within_bounds_that_grow() {
        for (failures, most) in [
            (0, 250),
            (1, 500),
            (2, 1_000),
            (3, 1_000),
            (u32::MAX, 1_000),
        ] {
            let most = Duration::from_millis(most);
            let drawn: Vec<_> = (0..1_000).map(|_| pause(failures)).collect();
            assert!(drawn.iter().all(|pause| *pause < most), "{failures}");
            assert!(drawn.iter().any(|pause| *pause > most / 2), "{failures}");
        }
    }
}
