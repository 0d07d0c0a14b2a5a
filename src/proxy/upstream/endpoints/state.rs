//! The condition of one endpoint, as requests and checks show it. Each change is one line in the log,
//! not one per request, however many workers see it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::chance;
use crate::clock::{Micros, Timestamp};
use crate::fault::EndpointFailure;
use crate::metrics::{EndpointMetrics, WorkerIndex};
use crate::snapshot::{Eject, Endpoint, Health};

/// An endpoint as the whole process knows it.
#[derive(Debug)]
pub(crate) struct EndpointState {
    upstream: Arc<str>,
    /// Host and port, and its address if the host can have several: `api.internal:80 (10.0.0.7)`.
    pub(crate) name: Arc<str>,
    /// As the file has it.
    pub(crate) endpoint: Endpoint,
    /// Where it is. More than one only for `localhost`.
    pub(crate) addresses: Box<[SocketAddr]>,
    /// A number that other endpoints do not have, the same in every process.
    pub(crate) id: u64,
    pub(crate) metrics: Arc<EndpointMetrics>,
    /// Requests under way, while they decide where the next one goes.
    pub(crate) requests: AtomicUsize,
    /// Since when it fails, in microseconds; 0 while it answers.
    failing_since: AtomicU64,
    /// How many requests have failed in a row.
    failures: AtomicU32,
    /// Until when it is ejected, or gets no request but the one that tries it, in microseconds; 0 if it
    /// is not ejected.
    ejected_until: AtomicU64,
    /// When its latest ejection ended, in microseconds; 0 if there was none.
    taken_in_at: AtomicU64,
    /// Whether a request tries it after an ejection.
    is_tried: AtomicBool,
    is_healthy: AtomicBool,
    checks: Mutex<Checks>,
}

/// How a request failed at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'f> {
    pub(crate) kind: EndpointFailure,
    /// Why, in a few words.
    pub(crate) cause: &'f str,
    /// When the request came to the endpoint.
    pub(crate) began: Timestamp,
}

/// What checks have shown.
#[derive(Debug, Default)]
struct Checks {
    /// When it is checked again; none before the first check.
    due: Option<Timestamp>,
    is_under_way: bool,
    successes: u32,
    failures: u32,
}

/// How long an endpoint must have failed before it is logged as answering again: one that fails now
/// and then does not fill the log.
const RECOVERY_MIN: Micros = Micros::from_secs(1);

impl EndpointState {
    pub(super) fn new(
        upstream: &Arc<str>,
        name: Arc<str>,
        endpoint: &Endpoint,
        addresses: Vec<SocketAddr>,
        metrics: Arc<EndpointMetrics>,
    ) -> Self {
        let digest = blake3::hash(name.as_bytes());
        let id = digest.as_bytes().first_chunk();
        metrics.set_healthy(true);
        metrics.set_ejected(false);
        Self {
            upstream: Arc::clone(upstream),
            name,
            endpoint: endpoint.clone(),
            addresses: addresses.into(),
            id: u64::from_le_bytes(*id.expect("a digest has 32 bytes")),
            metrics,
            requests: AtomicUsize::new(0),
            failing_since: AtomicU64::new(NOT),
            failures: AtomicU32::new(0),
            ejected_until: AtomicU64::new(NOT),
            taken_in_at: AtomicU64::new(NOT),
            is_tried: AtomicBool::new(false),
            is_healthy: AtomicBool::new(true),
            checks: Mutex::default(),
        }
    }

    /// Whether it is another address of the same name, and spoken to in the same way.
    pub(crate) fn shares_name(&self, other: &Self) -> bool {
        let (own, other) = (&self.endpoint, &other.endpoint);
        own.scheme == other.scheme && own.authority == other.authority
    }

    /// Whether checks have not shown that it fails.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_healthy.load(Relaxed)
    }

    /// Whether it is healthy and not ejected, or ejected long enough.
    pub(crate) fn is_available(&self, now: Timestamp) -> bool {
        self.is_healthy() && self.ejected_until.load(Relaxed) <= now.0
    }

    /// Returns until when it is ejected; none if it is not, or was and has not been tried since.
    pub(super) fn ejected_until(&self) -> Option<Timestamp> {
        Some(self.ejected_until.load(Relaxed))
            .filter(|until| *until != NOT)
            .map(Timestamp)
    }

    /// Returns since when it fails; none while it answers.
    pub(super) fn failing_since(&self) -> Option<Timestamp> {
        Some(self.failing_since.load(Relaxed))
            .filter(|since| *since != NOT)
            .map(Timestamp)
    }

    /// Lets a request go to an endpoint that is available: one at a time after an ejection, until one is
    /// answered. If nothing is heard of that, another follows after `timeout`.
    pub(crate) fn admit(&self, timeout: Duration, now: Timestamp) -> bool {
        let until = self.ejected_until.load(Relaxed);
        if until == NOT {
            return true;
        }
        let next = now + Micros::from(timeout);
        let is_next = until <= now.0 && change(&self.ejected_until, until, next.0);
        if is_next {
            self.is_tried.store(true, Relaxed);
        }
        is_next
    }

    /// Whether a failure may eject it: it is not ejected, or is being tried after that.
    pub(super) fn is_in_use(&self) -> bool {
        self.ejected_until.load(Relaxed) == NOT || self.is_tried.load(Relaxed)
    }

    /// Notes the head of an answer.
    pub(crate) fn responded(&self, now: Timestamp) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        if self.ejected_until.load(Relaxed) != NOT {
            self.take_in(now);
        }
    }

    /// Notes that a request was answered to its end.
    pub(crate) fn answered(&self, now: Timestamp) {
        let since = self.failing_since.load(Relaxed);
        if since == NOT || now.since(Timestamp(since)) < RECOVERY_MIN {
            return;
        }
        if change(&self.failing_since, since, NOT) {
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                "an endpoint responds again"
            );
        }
    }

    /// Notes that a request failed here; returns whether that is one too many in a row. Only what keeps
    /// the head of an answer from coming counts for that, as bodies may end in many ways, and only what
    /// began when the endpoint had been taken in again.
    pub(super) fn failed(
        &self,
        failure: &Failure<'_>,
        failures_max: u32,
        now: Timestamp,
        worker: WorkerIndex,
    ) -> bool {
        self.metrics.failed(worker, failure.kind);
        if change(&self.failing_since, NOT, now.0.max(1)) {
            tracing::warn!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                cause = failure.cause,
                "an endpoint fails"
            );
        }
        let (closed, timeout) = (EndpointFailure::BodyClosed, EndpointFailure::BodyTimeout);
        if [closed, timeout, EndpointFailure::Malformed].contains(&failure.kind)
            || failure.began.0 < self.taken_in_at.load(Relaxed)
        {
            return false;
        }
        // It takes years to overflow, and then an endpoint is ejected later.
        self.failures.fetch_add(1, Relaxed) + 1 >= failures_max
    }

    /// Leaves it out for a time. Afterwards the next request that fails ejects it again.
    pub(super) fn eject(&self, eject: Eject, now: Timestamp, worker: WorkerIndex) {
        let until = now + Micros::from(eject.time);
        let mut checks = self.checks();
        self.ejected_until.store(until.0, Relaxed);
        self.is_tried.store(false, Relaxed);
        self.metrics.set_ejected(true);
        checks.successes = 0;
        drop(checks);
        self.metrics.ejected(worker);
        tracing::warn!(
            upstream = &*self.upstream,
            endpoint = &*self.name,
            failures = self.failures.load(Relaxed),
            seconds = eject.time.as_secs_f64(),
            "an endpoint is ejected"
        );
    }

    /// Ends an ejection.
    fn take_in(&self, now: Timestamp) {
        // Held, so that the metric cannot say otherwise in the end.
        let _checks = self.checks();
        if self.ejected_until.swap(NOT, Relaxed) != NOT {
            self.taken_in_at.store(now.0, Relaxed);
            self.metrics.set_ejected(false);
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                "an ejected endpoint is used again"
            );
        }
    }

    /// Begins a check, if one is due and none is under way; the next is due `interval` later.
    pub(crate) fn begin_check(&self, interval: Duration, now: Timestamp) -> bool {
        let mut checks = self.checks();
        let interval = Micros::from(interval);
        let until = now + interval;
        // A shorter interval applies to the check that is awaited.
        let due = checks.due.map(|due| due.min(until));
        if checks.is_under_way || due.is_some_and(|due| due > now) {
            checks.due = due;
            return false;
        }
        // After the first check, endpoints are not all checked at the same moment.
        let soon = || now + Micros(chance::below(interval.0.max(1)));
        // Late by a tick, the next is not late too.
        let next = |due: Timestamp| Some(due + interval).filter(|next| *next > now);
        checks.due = Some(due.map_or_else(soon, |due| next(due).unwrap_or(until)));
        checks.is_under_way = true;
        true
    }

    /// Ends a check that has shown nothing.
    pub(crate) fn end_check(&self) {
        self.checks().is_under_way = false;
    }

    /// Notes what a check has shown: why it failed, if it did. After enough successes in a row, a request
    /// may try the endpoint although its ejection is not over: some answer checks and nothing else.
    pub(crate) fn checked(
        &self,
        failed: Option<&str>,
        health: &Health,
        now: Timestamp,
        worker: WorkerIndex,
    ) {
        self.metrics.checked(worker, failed.is_none());
        let mut checks = self.checks();
        checks.is_under_way = false;
        if let Some(cause) = failed {
            checks.successes = 0;
            checks.failures = checks.failures.saturating_add(1);
            if checks.failures >= health.unhealthy_after && self.is_healthy.swap(false, Relaxed) {
                self.metrics.set_healthy(false);
                tracing::warn!(
                    upstream = &*self.upstream,
                    endpoint = &*self.name,
                    cause,
                    "an endpoint is unhealthy"
                );
            }
            return;
        }
        checks.failures = 0;
        checks.successes = checks.successes.saturating_add(1);
        let is_enough = checks.successes >= health.healthy_after;
        drop(checks);
        if is_enough {
            let until = self.ejected_until.load(Relaxed);
            if until > now.0 {
                // A request that ejects it meanwhile is right.
                change(&self.ejected_until, until, now.0);
            }
            self.mark_healthy();
        }
    }

    /// Takes it for healthy, as nobody checks it.
    pub(super) fn assume_healthy(&self) {
        if !self.is_healthy() {
            self.checks().failures = 0;
            self.mark_healthy();
        }
    }

    fn mark_healthy(&self) {
        if !self.is_healthy.swap(true, Relaxed) {
            self.failures.store(0, Relaxed);
            self.metrics.set_healthy(true);
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                "an endpoint is healthy again"
            );
        }
    }

    fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether this caller made the change.
fn change(value: &AtomicU64, from: u64, to: u64) -> bool {
    (value.compare_exchange(from, to, Relaxed, Relaxed)).is_ok()
}

/// The time of what is not so.
const NOT: u64 = 0;
