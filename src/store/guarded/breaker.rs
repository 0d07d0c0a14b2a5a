//! A circuit breaker: a server that fails is not asked for a while, so that nobody waits for it.
//!
//! A closed breaker lets every call pass. Too many failures in a row, or too large a share of failures
//! within the window, open it: no call passes. After the cooldown it is half-open: one call at a time
//! passes as a probe. A probe that succeeds closes it; one that fails opens it for another cooldown.
//! Only a probe can close it.
//!
//! There is one per process and server. It counts events of the server, not decisions, because a call may carry many.
//! While it is closed, a success costs one uncontended add; state that is needed only when a call fails is behind a
//! lock.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::clock::{Clock, Micros, Timestamp};
use crate::metrics::BreakerState;
use crate::store::settings::BreakerSettings;

/// Decides whether a server is asked; shared by all workers.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// Name of the server, for logs and metrics.
    server: Arc<str>,
    clock: Clock,
    /// When the server may be probed, in microseconds since 1970; 0 while the breaker is closed.
    probe_from_us: AtomicU64,
    is_probed: AtomicBool,
    failures_in_row: AtomicU32,
    /// Successes since the start; workers are spread over the counters.
    successes: [CachePadded<AtomicU64>; LANES],
    record: Mutex<FailureRecord>,
}

/// Permission for one call.
#[derive(Debug)]
pub(super) enum Permit<'b> {
    /// The breaker is closed.
    Pass,
    /// The breaker is half-open, and the result of this call closes or reopens it.
    Probe(Probe<'b>),
}

/// The one call that a half-open breaker lets pass. If it is dropped, it counts as neither success nor failure.
#[derive(Debug)]
#[must_use = "the breaker goes by what becomes of the call"]
pub(super) struct Probe<'b> {
    breaker: &'b CircuitBreaker,
}

/// The failures, and the settings and earlier counts by which they are judged.
#[derive(Debug)]
struct FailureRecord {
    settings: BreakerSettings,
    /// Failures since the start.
    failures: u64,
    /// The counts at earlier times, oldest first; the window begins at the first.
    marks: VecDeque<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Timestamp,
    successes: u64,
    failures: u64,
}

impl CircuitBreaker {
    /// Makes a closed breaker for `server`.
    pub(super) fn new(server: Arc<str>, settings: BreakerSettings, clock: Clock) -> Self {
        let start = Mark {
            at: clock.now(),
            successes: 0,
            failures: 0,
        };
        Self {
            server,
            clock,
            probe_from_us: AtomicU64::new(0),
            is_probed: AtomicBool::new(false),
            failures_in_row: AtomicU32::new(0),
            successes: Default::default(),
            record: Mutex::new(FailureRecord {
                settings,
                failures: 0,
                marks: VecDeque::from([start]),
            }),
        }
    }

    /// Returns permission for a call, unless the server is not to be asked now.
    pub(super) fn permit(&self) -> Option<Permit<'_>> {
        match self.state() {
            BreakerState::Closed => return Some(Permit::Pass),
            BreakerState::Open => return None,
            BreakerState::HalfOpen => {}
        }
        if self.is_probed.swap(true, Relaxed) {
            return None;
        }
        let probe = Probe { breaker: self };
        // Another probe may have ended meanwhile; its result counts.
        (self.state() == BreakerState::HalfOpen).then_some(Permit::Probe(probe))
    }

    /// Returns the state, which says what the breaker lets pass.
    pub(super) fn state(&self) -> BreakerState {
        match self.probe_from_us.load(Relaxed) {
            0 => BreakerState::Closed,
            from_us if self.clock.now() < Timestamp(from_us) => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    /// Returns the name of its server.
    pub(super) fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Applies other settings from now on; an open breaker stays open no longer than the new cooldown.
    pub(super) fn set(&self, settings: BreakerSettings) {
        let mut record = self.record();
        record.settings = settings;
        let from_us = self.probe_from_us.load(Relaxed);
        let latest = self.clock.now() + Micros::from(settings.cooldown);
        self.probe_from_us.store(from_us.min(latest.0), Relaxed);
    }

    /// Moves the window forward. To be called several times a second.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        self.record().slide(now, self.successes());
    }

    /// Notes that the server answered a call.
    ///
    /// `worker` is any number. Threads that pass different numbers do not slow each other down.
    pub(super) fn succeeded(&self, worker: usize) {
        if self.probe_from_us.load(Relaxed) != 0 {
            return;
        }
        self.successes[worker % LANES].fetch_add(1, Relaxed);
        if self.failures_in_row.load(Relaxed) != 0 {
            self.failures_in_row.store(0, Relaxed);
        }
    }

    /// Notes that the server failed. While the breaker is not closed, this does nothing: only the result of a probe
    /// counts.
    pub(super) fn failed(&self, error: &dyn Display) {
        let now = self.clock.now();
        let mut record = self.record();
        if self.probe_from_us.load(Relaxed) != 0 {
            return;
        }
        let in_row = self.failures_in_row.fetch_add(1, Relaxed) + 1;
        record.slide(now, self.successes());
        record.failures += 1;
        let is_share_too_large = record.is_share_too_large(self.successes());
        if in_row < record.settings.failures && !is_share_too_large {
            return;
        }
        self.open(&record, now);
        drop(record);
        let server = &*self.server;
        tracing::warn!(server, %error, "Redis is failing: no calls are sent to it until the cooldown ends");
    }

    fn open(&self, record: &FailureRecord, now: Timestamp) {
        let cooldown = Micros::from(record.settings.cooldown);
        self.probe_from_us.store((now + cooldown).0.max(1), Relaxed);
    }

    fn close(&self) {
        let mut record = self.record();
        self.failures_in_row.store(0, Relaxed);
        let start = Mark {
            at: self.clock.now(),
            successes: self.successes(),
            failures: record.failures,
        };
        record.marks.clear();
        record.marks.push_back(start);
        self.probe_from_us.store(0, Relaxed);
        drop(record);
        tracing::info!(server = &*self.server, "Redis responds again");
    }

    fn successes(&self) -> u64 {
        self.successes.iter().map(|lane| lane.load(Relaxed)).sum()
    }

    fn record(&self) -> MutexGuard<'_, FailureRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe<'_> {
    /// Notes that the server answered.
    pub(super) fn succeed(self) {
        self.breaker.close();
    }

    /// Notes that the server did not answer, or only with an error.
    pub(super) fn fail(self) {
        let record = self.breaker.record();
        self.breaker.open(&record, self.breaker.clock.now());
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.breaker.is_probed.store(false, Relaxed);
    }
}

impl FailureRecord {
    /// Notes the current counts once per step, and drops those that are older than the window.
    fn slide(&mut self, now: Timestamp, successes: u64) {
        let window = Micros::from(self.settings.window);
        let step = Micros(window.0 / STEPS);
        let newest = self.marks.back().expect("there is always one");
        if now.since(newest.at) >= step {
            self.marks.push_back(Mark {
                at: now,
                successes,
                failures: self.failures,
            });
        }
        while self.marks.len() > 1 && now.since(self.marks[1].at) >= window {
            self.marks.pop_front();
        }
    }

    fn is_share_too_large(&self, successes: u64) -> bool {
        let start = self.marks.front().expect("there is always one");
        let failures = self.failures - start.failures;
        let calls = failures + successes.saturating_sub(start.successes);
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let is_over = failures as f64 > calls as f64 * self.settings.failure_ratio;
        calls >= CALLS_MIN && is_over
    }
}

/// Counters of successes: up to this many workers have one each.
const LANES: usize = 16;
/// Fewest calls in the window for which the share of failures is judged.
const CALLS_MIN: u64 = 20;
/// Steps per window: it moves forward by one at a time.
const STEPS: u64 = 10;

#[cfg(test)]
mod tests;
