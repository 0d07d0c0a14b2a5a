//! Keeps a pipeline connected, without end: connect, serve, log what broke, wait, connect again.
//!
//! If a connection breaks after it has lasted for a while, it is replaced at once, and calls wait for
//! that one attempt. If the attempt fails, or if the new connection breaks soon, calls fail at once,
//! and the pauses between attempts grow up to [`PAUSE_MAX`]. The client library does not end a
//! connection whose server is mute. This does: when [`MUTE_INSPECTIONS_MAX`] inspections in a row find
//! calls that wait, and no answer.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::batch::{Aftermath, exchange};
use super::{PLANS_PER_CALL, PipelineCore, PipelineState};
use crate::store::redis::connect::{Connected, DialError};
use crate::store::redis::observer::{ServerEvent, StandingConnection};
use crate::store::redis::sentinel::Locator;

/// What is remembered from one connection to the next.
struct Supervisor {
    core: Rc<PipelineCore>,
    locator: Locator,
    /// Attempts in a row that led to no connection that lasted.
    failures: u32,
    /// The failure that was logged last, until a connection serves again.
    logged_reason: Option<String>,
}

/// Why there is no connection, or none any more.
enum ConnectionEnd {
    /// It could not be made.
    Failed(DialError),
    /// It broke, or is of no use.
    Broken(String),
    /// The settings name another server, or other credentials.
    Reconfigured,
    /// The sentinels name another primary.
    Moved,
}

/// Finds out whether the server says anything at all; it inspects every [`INSPECT_EVERY`].
#[derive(Default)]
struct MuteDetector {
    inspections: u32,
    /// Whether something was answered since the last inspection.
    has_progress: bool,
    /// Whether something waited for its answer at the last inspection.
    was_waiting: bool,
    /// Inspections in a row that found something waiting, and nothing answered.
    mute: u32,
    /// Whether the last inspection found the server mute.
    is_doubted: bool,
}

/// What an inspection finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Liveness {
    /// Nothing is wrong yet.
    Answers,
    /// Either the server is mute, or this worker stood still and has not read its answers yet.
    Silence,
    /// The server is mute.
    Mute,
}

/// Connects, serves the queue and connects again, until it is aborted.
pub(super) async fn supervise(core: Rc<PipelineCore>) {
    let locator = Locator::new(core.resolver.borrow().clone(), core.context.timeout);
    let mut supervisor = Supervisor {
        core,
        locator,
        failures: 0,
        logged_reason: None,
    };
    loop {
        let end = supervisor.connect_and_serve().await;
        supervisor.recover_from(end).await;
    }
}

impl Supervisor {
    /// Makes one connection and uses it until its end.
    async fn connect_and_serve(&mut self) -> ConnectionEnd {
        let decision_timeout = self.core.context.timeout;
        let attempt = tokio::select! {
            biased;
            () = self.core.reconfigured.notified() => return ConnectionEnd::Reconfigured,
            attempt = self.locator.connect(decision_timeout) => attempt,
        };
        match attempt {
            Ok(connected) => {
                self.mark_up(&connected);
                let standing = StandingConnection::new(Rc::clone(&self.core.observer));
                let end = self.serve(connected).await;
                drop(standing);
                self.core.server.borrow_mut().take();
                end
            }
            Err(error) => ConnectionEnd::Failed(error),
        }
    }

    /// Sends what waits, as long as the connection is of use.
    ///
    /// If the pipeline is to lead elsewhere, what was sent is answered first.
    async fn serve(&mut self, connected: Connected) -> ConnectionEnd {
        let (connection, mut driver) = (connected.connection, connected.driver);
        let core = Rc::clone(&self.core);
        let Self {
            locator,
            failures,
            logged_reason,
            ..
        } = self;
        let mut moved = pin!(locator.moved());
        let mut in_flight = FuturesUnordered::new();
        let mut detector = MuteDetector::default();
        let mut inspect = interval(INSPECT_EVERY);
        inspect.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leaving = None;
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
                        Aftermath::Condemned(error) => {
                            return leaving.unwrap_or(ConnectionEnd::Broken(error.to_string()));
                        }
                    }
                }
                () = &mut driver => {
                    // Calls that were answered before the end get their answers; the others fail.
                    while in_flight.next().await.is_some() {}
                    return leaving.unwrap_or(ConnectionEnd::Broken("the connection was closed".to_owned()));
                }
                () = core.reconfigured.notified(), if leaving.is_none() => {
                    leaving = Some(ConnectionEnd::Reconfigured);
                }
                () = &mut moved, if leaving.is_none() => leaving = Some(ConnectionEnd::Moved),
                () = core.queue.filled(), if leaving.is_none() && has_room => {}
                _ = inspect.tick() => {
                    if is_idle {
                        core.is_suspect.set(false);
                    }
                    let is_suspect = core.is_suspect.get() || leaving.is_some();
                    match detector.inspect(!is_idle, is_suspect) {
                        Liveness::Answers => {}
                        Liveness::Silence => inspect.reset_after(INSPECT_AGAIN),
                        Liveness::Mute => {
                            return leaving.unwrap_or(ConnectionEnd::Broken("no answer".to_owned()));
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
    fn mark_up(&mut self, connected: &Connected) {
        let PipelineCore {
            context,
            server,
            state,
            is_suspect,
            ..
        } = &*self.core;
        let name: Arc<str> = self.locator.server().into();
        if let Some(policy) = &connected.eviction
            && !context.shared.is_eviction_logged.swap(true, Relaxed)
        {
            tracing::warn!(
                server = &*name,
                policy,
                "Redis may evict keys and then forgets what clients spent: set maxmemory-policy to noeviction"
            );
        }
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
        self.log_failure(&end);
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
                tracing::info!("the sentinels name another primary");
                return self.core.state.set(PipelineState::Connecting);
            }
            ConnectionEnd::Broken(_) if self.failures == 0 => {
                self.failures = 1;
                return self.core.state.set(PipelineState::Connecting);
            }
            ConnectionEnd::Failed(error) if error.is_refusal() => PAUSE_REFUSED,
            ConnectionEnd::Failed(_) | ConnectionEnd::Broken(_) => pause(self.failures),
        };
        self.failures = self.failures.saturating_add(1);
        self.core.state.set(PipelineState::Down);
        self.core.queue.clear();
        tokio::select! {
            biased;
            () = self.core.reconfigured.notified() => self.follow_resolver(),
            () = sleep(pause) => {}
        }
    }

    /// Starts afresh with the server and the credentials that the settings name now.
    fn follow_resolver(&mut self) {
        let resolver = self.core.resolver.borrow().clone();
        self.locator = Locator::new(resolver, self.core.context.timeout);
        self.failures = 0;
        self.logged_reason = None;
        self.core.state.set(PipelineState::Connecting);
    }

    /// Logs why there is no connection, unless that was logged last.
    fn log_failure(&mut self, end: &ConnectionEnd) {
        let (reason, is_refusal) = match end {
            ConnectionEnd::Failed(error) => (error.to_string(), error.is_refusal()),
            ConnectionEnd::Broken(reason) => (reason.clone(), false),
            ConnectionEnd::Reconfigured | ConnectionEnd::Moved => return,
        };
        if self.logged_reason.as_ref() == Some(&reason) {
            return;
        }
        let server = self.locator.server();
        if is_refusal {
            tracing::error!(
                server,
                reason,
                "Redis refuses the gateway: check the user, the password and the permissions"
            );
        } else {
            tracing::warn!(server, reason, "no connection to Redis");
        }
        self.logged_reason = Some(reason);
    }
}

impl MuteDetector {
    /// Inspects once. A server that seems mute is inspected once more before it is called so.
    fn inspect(&mut self, is_waiting: bool, is_suspect: bool) -> Liveness {
        self.inspections = self.inspections.saturating_add(1);
        let is_silent = self.was_waiting && is_waiting && !self.has_progress;
        self.mute = if is_silent { self.mute + 1 } else { 0 };
        self.was_waiting = is_waiting;
        self.has_progress = false;
        let is_mute = self.mute >= if is_suspect { 1 } else { MUTE_INSPECTIONS_MAX };
        match (is_mute, std::mem::replace(&mut self.is_doubted, is_mute)) {
            (false, _) => Liveness::Answers,
            (true, false) => Liveness::Silence,
            (true, true) => Liveness::Mute,
        }
    }
}

/// Logs that a connection is of use again, if a failure was logged before.
fn log_recovered(logged_reason: &mut Option<String>, core: &PipelineCore) {
    if logged_reason.take().is_some() {
        let server = core.server.borrow().clone();
        tracing::info!(server = server.as_deref(), "connected to Redis again");
    }
}

/// Returns how long to wait after this many failures: twice as long each time, and up to half of it
/// less by chance, so that the workers of a fleet do not come back all at once.
fn pause(failures: u32) -> Duration {
    let whole = PAUSE_MIN
        .saturating_mul(1 << failures.min(16))
        .min(PAUSE_MAX);
    let permille = u32::try_from(RandomState::new().hash_one(failures) % 1_000).unwrap_or(0);
    whole * (2_000 - permille) / 2_000
}

/// Most batches under way on a connection. If there are more, callers wait and the batches get fuller.
const IN_FLIGHT_MAX: usize = 64;
/// How often a connection is inspected.
const INSPECT_EVERY: Duration = Duration::from_millis(500);
/// How soon a server that seems mute is inspected again. If only this worker stood still, the answers
/// have been read by then; if the whole machine did, they have arrived.
const INSPECT_AGAIN: Duration = Duration::from_millis(100);
/// After this many inspections in a row without an answer a connection is replaced; after one if a
/// caller suspects the server.
const MUTE_INSPECTIONS_MAX: u32 = 4;
/// A connection that stood for this many inspections has lasted, used or not. That it answered proves
/// less: a replica answers calls that write nothing, and breaks at each other.
const INSPECTIONS_PROVING: u32 = 4;
/// The shortest pause, before the second attempt in a row.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause, so also the longest that a server can be back unnoticed.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The pause after the server refused the credentials: trying is of no use until somebody acts.
const PAUSE_REFUSED: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_are_shortened_by_half_at_most() {
        for failures in 0..100 {
            let whole = PAUSE_MIN * 2_u32.pow(failures.min(10));
            let whole = whole.min(PAUSE_MAX);
            let pause = pause(failures);
            assert!(
                whole / 2 <= pause && pause <= whole,
                "{failures}: {pause:?}"
            );
        }
    }

    #[test]
    fn server_is_mute_only_if_something_waits_and_nothing_is_answered() {
        let inspections = |seen: &[(bool, bool)], is_suspect: bool| {
            let mut detector = MuteDetector::default();
            seen.iter()
                .map(|&(is_waiting, has_progress)| {
                    detector.has_progress = has_progress;
                    detector.inspect(is_waiting, is_suspect)
                })
                .collect::<Vec<_>>()
        };
        let (idle, busy, silent) = ((false, false), (true, true), (true, false));
        let (answers, silence, mute) = (Liveness::Answers, Liveness::Silence, Liveness::Mute);
        assert_eq!(inspections(&[idle; 9], true), [answers; 9]);
        assert_eq!(inspections(&[busy; 9], true), [answers; 9]);
        let most = [busy, silent, silent, silent, busy, silent, silent, silent];
        assert_eq!(inspections(&most, false), [answers; 8]);
        assert_eq!(
            inspections(&[silent; 6], false),
            [answers, answers, answers, answers, silence, mute]
        );
        assert_eq!(inspections(&[silent; 3], true), [answers, silence, mute]);
        // What is read at the second inspection was there at the first.
        let stalled = [busy, silent, busy, silent, silent];
        assert_eq!(
            inspections(&stalled, true),
            [answers, silence, answers, silence, mute]
        );
    }
}
