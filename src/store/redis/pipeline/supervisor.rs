//! Keeps a pipeline connected, without end: connect, serve, say what broke, wait, connect again.
//!
//! A connection that broke after it had stood for a while is replaced at once, and calls wait for that
//! one attempt. When it fails, or breaks soon, calls fail at once too, and the pauses between attempts grow up to
//! [`PAUSE_MAX`]. The client library does not end a connection whose server is mute; here it is
//! ended when [`MUTE_INSPECTIONS_MAX`] inspections in a row see calls wait and no answer.

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
use crate::store::redis::sentinel::Locator;

/// What is remembered from one connection to the next.
struct Supervisor {
    core: Rc<PipelineCore>,
    locator: Locator,
    /// Attempts in a row that led to no connection that lasted.
    failures: u32,
    /// What was last said to be wrong, until a connection serves again.
    logged_reason: Option<String>,
}

/// Why there is no connection, or no longer.
enum End {
    /// None came about.
    Failed(DialError),
    /// It broke, or is of no use.
    Broken(String),
    /// Another server, or other credentials.
    Reconfigured,
    /// The sentinels name another primary.
    Moved,
}

/// Whether the server says anything at all, looked at every [`INSPECT_EVERY`].
#[derive(Default)]
struct MuteDetector {
    inspections: u32,
    /// Whether something was answered since the last inspect.
    has_progress: bool,
    /// Whether something waited for its answer at the last inspect.
    was_waiting: bool,
    /// Looks in a row that found something waiting, and nothing answered.
    mute: u32,
    /// Whether the last inspect found the server mute.
    is_doubted: bool,
}

/// What a inspect finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Liveness {
    /// Nothing is wrong yet.
    Answers,
    /// The server has been mute for too long, or this worker stood still and has not read its answers.
    Silence,
    /// The server has been mute for too long.
    Mute,
}

/// Connects, serves the queue and connects again; never ends by itself.
pub(super) async fn supervise(core: Rc<PipelineCore>) {
    let locator = Locator::new(core.resolver.borrow().clone());
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
    /// Makes one connection and serves with it until its end.
    async fn connect_and_serve(&mut self) -> End {
        let decision_timeout = self.core.context.timeout;
        let attempt = tokio::select! {
            biased;
            () = self.core.reconfigured.notified() => return End::Reconfigured,
            attempt = self.locator.connect(decision_timeout) => attempt,
        };
        match attempt {
            Ok(connected) => {
                self.mark_up(&connected);
                let end = self.serve(connected).await;
                self.core.server.borrow_mut().take();
                end
            }
            Err(error) => End::Failed(error),
        }
    }

    /// Sends what waits, as long as the connection is of use.
    ///
    /// When the pipeline is led elsewhere, what was sent is answered first.
    async fn serve(&mut self, connected: Connected) -> End {
        let (connection, mut driver) = (connected.connection, connected.driver);
        let core = Rc::clone(&self.core);
        let Self {
            locator,
            failures,
            logged_reason,
            ..
        } = self;
        let mut moved = pin!(locator.moved(core.context.timeout));
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
                in_flight.push(exchange(connection.clone(), batch, &core.context));
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
                            return leaving.unwrap_or(End::Broken(error.to_string()));
                        }
                    }
                }
                () = &mut driver => {
                    // What was answered before the end has its answer; the rest ends here.
                    while in_flight.next().await.is_some() {}
                    return leaving.unwrap_or(End::Broken("the connection was closed".to_owned()));
                }
                () = core.reconfigured.notified(), if leaving.is_none() => {
                    leaving = Some(End::Reconfigured);
                }
                () = &mut moved, if leaving.is_none() => leaving = Some(End::Moved),
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
                            return leaving.unwrap_or(End::Broken("no answer".to_owned()));
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

    /// Opens the pipeline for callers.
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
            && !context.is_eviction_told.swap(true, Relaxed)
        {
            tracing::warn!(
                server = &*name,
                policy,
                "Redis may evict keys: what clients spent is then forgotten"
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

    /// Says what happened, and waits until it is time for the next attempt.
    async fn recover_from(&mut self, end: End) {
        self.log_failure(&end);
        let pause = match &end {
            End::Reconfigured => return self.follow_resolver(),
            End::Moved => {
                tracing::info!("the sentinels name another primary");
                return self.core.state.set(PipelineState::Connecting);
            }
            End::Broken(_) if self.failures == 0 => {
                self.failures = 1;
                return self.core.state.set(PipelineState::Connecting);
            }
            End::Failed(error) if error.is_refusal() => PAUSE_REFUSED,
            End::Failed(_) | End::Broken(_) => pause(self.failures),
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

    /// Follows where the pipeline was led meanwhile.
    fn follow_resolver(&mut self) {
        self.locator = Locator::new(self.core.resolver.borrow().clone());
        self.failures = 0;
        self.logged_reason = None;
        self.core.state.set(PipelineState::Connecting);
    }

    /// Says what is wrong, once.
    fn log_failure(&mut self, end: &End) {
        let (reason, is_refusal) = match end {
            End::Failed(error) => (error.to_string(), error.is_refusal()),
            End::Broken(reason) => (reason.clone(), false),
            End::Reconfigured | End::Moved => return,
        };
        if self.logged_reason.as_ref() == Some(&reason) {
            return;
        }
        let server = self.locator.server();
        if is_refusal {
            tracing::error!(server, reason, "Redis refuses the gateway");
        } else {
            tracing::warn!(server, reason, "no connection to Redis");
        }
        self.logged_reason = Some(reason);
    }
}

impl MuteDetector {
    /// Looks; a server that seems mute is looked at once more before it is called so.
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

/// Says that a connection is of use, if one was missed.
fn log_recovered(logged_reason: &mut Option<String>, core: &PipelineCore) {
    if logged_reason.take().is_some() {
        let server = core.server.borrow().clone();
        tracing::info!(server = server.as_deref(), "connected to Redis again");
    }
}

/// How long to wait after so many failures: doubled each time, and up to half of it off by chance,
/// so that the workers of a fleet do not come back together.
fn pause(failures: u32) -> Duration {
    let whole = PAUSE_MIN
        .saturating_mul(1 << failures.min(16))
        .min(PAUSE_MAX);
    let permille = u32::try_from(RandomState::new().hash_one(failures) % 1_000).unwrap_or(0);
    whole * (2_000 - permille) / 2_000
}

/// Most batches under way on a connection. Beyond, callers wait and the batches get fuller.
const IN_FLIGHT_MAX: usize = 64;
/// How often it is looked whether the server says anything.
const INSPECT_EVERY: Duration = Duration::from_millis(500);
/// How soon it is looked again at a server that seems mute: what it sent while this worker stood still
/// has been read by then, or has arrived, if the whole machine stood still.
const INSPECT_AGAIN: Duration = Duration::from_millis(100);
/// Looks in a row without an answer after which a connection is replaced; one is enough if
/// somebody suspects the server.
const MUTE_INSPECTIONS_MAX: u32 = 4;
/// A connection that stood for so many inspections has lasted, whether or not it was asked for anything. One
/// that only answered may break each time: a replica answers what writes nothing.
const INSPECTIONS_PROVING: u32 = 4;
/// Before the second attempt in a row.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Before any other: so long at most a server is back before it is noticed.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// After the server refused the credentials: until somebody acts, trying is of no use.
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
        // What is read at the second inspect was there at the first.
        let stalled = [busy, silent, busy, silent, silent];
        assert_eq!(
            inspections(&stalled, true),
            [answers, silence, answers, silence, mute]
        );
    }
}
