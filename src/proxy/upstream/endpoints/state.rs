//! The condition of one endpoint, as requests and checks have found it. Each change writes one line to
//! the log, not one for each request, however many workers see it.

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
    /// The endpoint as written in the file.
    pub(crate) endpoint: Endpoint,
    /// Addresses to connect to; more than one only for `localhost`.
    pub(crate) addresses: Box<[SocketAddr]>,
    /// The first 8 bytes of the name's digest, the same in every process; hash balancing ranks endpoints by it.
    pub(crate) id: u64,
    pub(crate) metrics: Arc<EndpointMetrics>,
    /// Requests under way; only counted if the upstream balances by least requests.
    pub(crate) requests: AtomicUsize,
    /// Time since which requests fail here, in microseconds; 0 while they are answered.
    failing_since: AtomicU64,
    /// How many requests have failed in a row.
    failures: AtomicU32,
    /// End of the ejection; or, while a request tries the endpoint after it, the time from which another
    /// may. In microseconds; 0 if the endpoint is not ejected.
    ejected_until: AtomicU64,
    /// End of the latest ejection, in microseconds; 0 if there was none.
    readmitted_at: AtomicU64,
    /// Whether a request is trying the endpoint after an ejection.
    is_tried: AtomicBool,
    is_healthy: AtomicBool,
    checks: Mutex<Checks>,
}

/// A request's failure at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'f> {
    pub(crate) kind: EndpointFailure,
    /// The cause in a few words, for the log.
    pub(crate) cause: &'f str,
    /// When the request was sent to the endpoint.
    pub(crate) began: Timestamp,
}

/// Results of the checks of an endpoint.
#[derive(Debug, Default)]
struct Checks {
    /// When the next check is due; none before the first check.
    due: Option<Timestamp>,
    is_under_way: bool,
    successes: u32,
    failures: u32,
}

/// How long an endpoint must have failed before it is logged as responding again, so that one that fails
/// now and then does not fill the log.
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
            failing_since: AtomicU64::new(UNSET),
            failures: AtomicU32::new(0),
            ejected_until: AtomicU64::new(UNSET),
            readmitted_at: AtomicU64::new(UNSET),
            is_tried: AtomicBool::new(false),
            is_healthy: AtomicBool::new(true),
            checks: Mutex::default(),
        }
    }

    /// Whether both have the same scheme and authority, so that they are addresses of one name.
    pub(crate) fn shares_name(&self, other: &Self) -> bool {
        let (own, other) = (&self.endpoint, &other.endpoint);
        own.scheme == other.scheme && own.authority == other.authority
    }

    /// Whether the endpoint is healthy; it is until checks find that it fails.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_healthy.load(Relaxed)
    }

    /// Whether the endpoint is healthy, and is not ejected or its ejection has run out.
    pub(crate) fn is_available(&self, now: Timestamp) -> bool {
        self.is_healthy() && self.ejected_until.load(Relaxed) <= now.0
    }

    /// Returns the end of the ejection, which may have passed if no request has been answered since;
    /// none if not ejected.
    pub(super) fn ejected_until(&self) -> Option<Timestamp> {
        Some(self.ejected_until.load(Relaxed))
            .filter(|until| *until != UNSET)
            .map(Timestamp)
    }

    /// Returns since when requests fail here; none while they are answered.
    pub(super) fn failing_since(&self) -> Option<Timestamp> {
        Some(self.failing_since.load(Relaxed))
            .filter(|since| *since != UNSET)
            .map(Timestamp)
    }

    /// Whether a request may go to this available endpoint: after an ejection, one at a time, until one
    /// is answered. If that one is neither answered nor fails, another may follow after `timeout`.
    pub(crate) fn admit(&self, timeout: Duration, now: Timestamp) -> bool {
        let until = self.ejected_until.load(Relaxed);
        if until == UNSET {
            return true;
        }
        let next = now + Micros::from(timeout);
        let is_next = until <= now.0 && change(&self.ejected_until, until, next.0);
        if is_next {
            self.is_tried.store(true, Relaxed);
        }
        is_next
    }

    /// Whether a failure may eject the endpoint: it is not ejected, or is being tried after an ejection.
    pub(super) fn is_in_use(&self) -> bool {
        self.ejected_until.load(Relaxed) == UNSET || self.is_tried.load(Relaxed)
    }

    /// Notes that the head of an answer has come.
    pub(crate) fn responded(&self, now: Timestamp) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        if self.ejected_until.load(Relaxed) != UNSET {
            self.readmit(now);
        }
    }

    /// Notes that a request has ended, that it got a head, and that nothing failed after that.
    pub(crate) fn answered(&self, now: Timestamp) {
        let since = self.failing_since.load(Relaxed);
        if since == UNSET || now.since(Timestamp(since)) < RECOVERY_MIN {
            return;
        }
        if change(&self.failing_since, since, UNSET) {
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                "an endpoint responds again"
            );
        }
    }

    /// Notes that a request failed here; returns whether `failures_max` have now failed in a row. Broken
    /// bodies and malformed responses do not count, because bodies may end in many ways, nor do requests
    /// that began before the latest ejection ended.
    pub(super) fn failed(
        &self,
        failure: &Failure<'_>,
        failures_max: u32,
        now: Timestamp,
        worker: WorkerIndex,
    ) -> bool {
        self.metrics.failed(worker, failure.kind);
        if change(&self.failing_since, UNSET, now.0.max(1)) {
            tracing::warn!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                cause = failure.cause,
                "an endpoint fails"
            );
        }
        let (closed, timeout) = (EndpointFailure::BodyClosed, EndpointFailure::BodyTimeout);
        if [closed, timeout, EndpointFailure::Malformed].contains(&failure.kind)
            || failure.began.0 < self.readmitted_at.load(Relaxed)
        {
            return false;
        }
        // The counter takes years to overflow, and that would only delay an ejection.
        self.failures.fetch_add(1, Relaxed) + 1 >= failures_max
    }

    /// Ejects the endpoint for a time. The first request after that ejects it again if it fails.
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
    fn readmit(&self, now: Timestamp) {
        // The lock is held so that an ejection at the same time cannot leave the metric wrong.
        let _checks = self.checks();
        if self.ejected_until.swap(UNSET, Relaxed) != UNSET {
            self.readmitted_at.store(now.0, Relaxed);
            self.metrics.set_ejected(false);
            tracing::info!(
                upstream = &*self.upstream,
                endpoint = &*self.name,
                "an ejected endpoint is used again"
            );
        }
    }

    /// Begins a check, if one is due and none is under way; the next one is due `interval` later.
    pub(crate) fn begin_check(&self, interval: Duration, now: Timestamp) -> bool {
        let mut checks = self.checks();
        let interval = Micros::from(interval);
        let until = now + interval;
        // A shorter interval also brings the next check forward.
        let due = checks.due.map(|due| due.min(until));
        if checks.is_under_way || due.is_some_and(|due| due > now) {
            checks.due = due;
            return false;
        }
        // The second check comes at a random moment, so that endpoints are not all checked at the same time.
        let soon = || now + Micros(chance::below(interval.0.max(1)));
        // A check that begins late by a tick does not delay the next one.
        let next = |due: Timestamp| Some(due + interval).filter(|next| *next > now);
        checks.due = Some(due.map_or_else(soon, |due| next(due).unwrap_or(until)));
        checks.is_under_way = true;
        true
    }

    /// Ends a check that says nothing about the endpoint.
    pub(crate) fn end_check(&self) {
        self.checks().is_under_way = false;
    }

    /// Notes the result of a check: why it failed, if it did. Enough successes in a row end an ejection
    /// early, but a request still has to try the endpoint, because some answer checks and nothing else.
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
                // If a request has ejected it again meanwhile, that ejection stays.
                change(&self.ejected_until, until, now.0);
            }
            self.mark_healthy();
        }
    }

    /// Marks the endpoint healthy, because nothing checks it any more.
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

/// Changes `value` from `from` to `to`; returns whether this caller made the change.
fn change(value: &AtomicU64, from: u64, to: u64) -> bool {
    (value.compare_exchange(from, to, Relaxed, Relaxed)).is_ok()
}

/// Value of a time that is not set.
const UNSET: u64 = 0;
