//! What is known of one request, gathered along its journey and recorded when it is over.
//!
//! A [`Record`] observes: it is told what happens, and nothing is decided by it. It is written
//! once, when the request's exchange is dropped, so a request whose client left is recorded too.

use std::net::IpAddr;
use std::rc::Rc;

use http::request::Parts;
use http::{Method, StatusCode};

use super::client::Client;
pub(crate) use super::logged::ExchangeEnd;
use super::logged::{Logged, Recorded};
use super::trace::{EndedRequest, RequestTrace};
use super::upstream::UpstreamFailure;
use super::worker_config::WorkerConfig;
use crate::access_log::AccessLog;
use crate::clock::{Micros, Timestamp};
use crate::fault::Reason;
use crate::index::RouteIndex;
use crate::limiter::{Decided, Settler};
use crate::metrics::PolicyOutcome;
use crate::request::Facts;
use crate::snapshot::{AppliedPolicy, Route};

/// One request and what became of it.
pub(crate) struct Record {
    pub(super) client: Rc<Client>,
    pub(super) live: Rc<WorkerConfig>,
    method: Method,
    /// Index of the route.
    route: Option<RouteIndex>,
    status: Option<StatusCode>,
    reason: Option<Reason>,
    sent_bytes: u64,
    /// What only the access log tells; none if there is no access log.
    logged: Option<Box<Logged>>,
    /// The trace of the request for those who watch, if there is one.
    pub(super) trace: Option<Box<RequestTrace>>,
}

impl Record {
    /// Begins the record of a request whose head has arrived.
    pub(crate) fn begin(client: &Rc<Client>, live: &Rc<WorkerConfig>, head: &Parts) -> Self {
        let is_logged = live.snapshot.log.access != AccessLog::Off;
        let began = || client.worker.process.clock.now();
        Self {
            method: head.method.clone(),
            client: Rc::clone(client),
            live: Rc::clone(live),
            route: None,
            status: None,
            reason: None,
            sent_bytes: 0,
            logged: is_logged.then(|| Box::new(Logged::begin(client.peer, began(), head))),
            trace: if client.worker.process.traces.is_watched() {
                let (process, copies) = (&client.worker.process, &client.worker.head_copies);
                RequestTrace::begin(head, client.peer, &process.traces, (&process.clock, copies))
            } else {
                None
            },
        }
    }

    /// Notes the host asked for.
    pub(crate) fn asked(&mut self, host: &str) {
        if let Some(logged) = &mut self.logged {
            logged.host.extend_from_slice(host.as_bytes());
        }
        if let Some(trace) = &mut self.trace {
            trace.asked_for(host);
        }
    }

    /// Notes the address of the request's client.
    pub(crate) fn sent_by(&mut self, client: Option<IpAddr>) {
        if let Some(logged) = &mut self.logged {
            logged.address = client;
        }
        if let Some(trace) = &mut self.trace {
            trace.sent_by(client);
        }
    }

    /// Notes the id of the trace (W3C) that the request is part of, if it names one.
    pub(crate) fn note_trace_id<'t>(&mut self, trace_id: impl FnOnce() -> Option<&'t [u8]>) {
        if let Some(logged) = &mut self.logged {
            (logged.trace_id).extend_from_slice(trace_id().unwrap_or_default());
        }
    }

    /// Notes the route that was found.
    pub(crate) fn routed(&mut self, route: RouteIndex) {
        self.route = Some(route);
    }

    /// Returns what settles the request's charge.
    pub(super) fn settler(&self) -> Settler<'_> {
        Settler {
            store: &self.client.worker.store,
            metrics: &self.live.handles.policies,
            worker: self.client.worker.index,
        }
    }

    /// Returns the route that was found.
    pub(super) fn route(&self) -> Option<&Route> {
        self.route.map(|route| &self.live.snapshot.routes[route])
    }

    /// Returns the request's method.
    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Notes whose quotas the request is to spend, in a form that may be shown.
    pub(crate) fn identified(&mut self, policies: &[AppliedPolicy], facts: &Facts<'_>) {
        if let Some(logged) = &mut self.logged {
            logged.identified(&self.live, policies, facts);
        }
        let clock = &self.client.worker.process.clock;
        if let Some(trace) = &mut self.trace {
            trace.identified(clock.now());
        }
    }

    /// Notes that the request is delayed from now on.
    pub(crate) fn delayed(&mut self) {
        let now = self.now();
        if let Some(logged) = &mut self.logged {
            logged.delayed_since = Some(now);
        }
    }

    /// Notes that there was no place to delay the request.
    pub(crate) fn not_delayed(&mut self) {
        if let Some(logged) = &mut self.logged {
            logged.delayed_since = None;
        }
    }

    /// Notes that the request is delayed no longer, if it was.
    pub(crate) fn delay_ended(&mut self) {
        let clock = &self.client.worker.process.clock;
        if let Some(logged) = &mut self.logged
            && let Some(since) = logged.delayed_since.take()
        {
            logged.delayed_us = Some(clock.now().since(since).0);
        }
    }

    /// Notes which endpoint failed, and why.
    pub(crate) fn failed(&mut self, failure: UpstreamFailure) {
        let now = self.now();
        if let Some(trace) = &mut self.trace {
            trace.failed(now, failure.endpoint.as_deref(), &failure.cause);
        }
        if let Some(logged) = &mut self.logged {
            logged.failure = Some(Box::new(failure));
        }
    }

    /// Notes when the client is told to try again.
    pub(crate) fn retry_after(&mut self, secs: Option<u64>) {
        if let Some(logged) = &mut self.logged {
            logged.retry_after_secs = secs;
        }
    }

    /// Notes the status of the answer, and what went wrong if it is a refusal.
    pub(crate) fn answered(&mut self, status: StatusCode, reason: Option<Reason>) {
        if let Some(reason) = reason {
            let worker = &self.client.worker;
            (worker.process.metrics).refused(worker.index, status, reason);
        }
        self.status = Some(status);
        self.reason = reason;
    }

    /// Counts bytes of the answer's body that are on their way to the client.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Counts bytes that a tunnel has carried to the client.
    pub(crate) fn carried(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Notes why the answer's body broke off.
    pub(crate) fn broke_off(&mut self, reason: Reason) {
        self.reason = Some(reason);
    }

    /// Notes that the connection ended before the answer's body did; the body of an answer to HEAD
    /// is never sent.
    pub(crate) fn left_unsent(&mut self) {
        if self.method != Method::HEAD {
            self.reason
                .get_or_insert(self.client.worker.reason_to_end());
        }
    }

    /// Writes the record of a request that is over.
    pub(crate) fn finish(&mut self, ended: &ExchangeEnd<'_>) {
        self.delay_ended();
        if self.status.is_none() {
            self.reason
                .get_or_insert(self.client.worker.reason_to_end());
        }
        let took = (self.logged.as_ref()).map(|logged| self.now().since(logged.began));
        self.count(ended.decided, took);
        if let Some(trace) = self.trace.take() {
            self.end_trace(trace, ended);
        }
        if let (Some(logged), Some(took)) = (&self.logged, took) {
            let recorded = Recorded {
                client: &self.client,
                live: &self.live,
                method: &self.method,
                route: self.route,
                status: self.status,
                reason: self.reason,
                sent_bytes: self.sent_bytes,
                took,
            };
            logged.write(&recorded, ended);
        }
    }

    #[cold]
    fn end_trace(&self, trace: Box<RequestTrace>, ended: &ExchangeEnd<'_>) {
        let process = &self.client.worker.process;
        let request = EndedRequest {
            snapshot: &self.live.snapshot,
            digest_key: &self.live.digest_key,
            route: self.route,
            status: self.status,
            reason: self.reason,
            decided: ended.decided,
            attempts: ended.attempts,
            id: ended.id,
            sent_bytes: self.sent_bytes,
            now: self.now(),
            wall: process.clock.wall(),
        };
        trace.end(&process.traces, &request);
    }

    fn now(&self) -> Timestamp {
        self.client.worker.process.clock.now()
    }

    fn count(&self, decided: &Decided, took: Option<Micros>) {
        let worker = &self.client.worker;
        let handles = &self.live.handles;
        let route = self
            .route
            .map_or(&handles.unrouted, |route| &handles.routes[route]);
        match self.status {
            Some(status) => route.answered(worker.index, status),
            None => route.unanswered(worker.index),
        }
        if let Some(status) = self.status
            && self.reason.is_some_and(Reason::is_limit)
        {
            route.refused(worker.index, status);
        }
        if let Some(took) = took {
            (worker.process.metrics).took(worker.index, route, took);
        }
        for decision in &decided.policies {
            let metrics = &handles.policies[decision.policy];
            metrics.decided(worker.index, decision.outcome);
            if decision.is_near_limit && decision.outcome == PolicyOutcome::Admitted {
                metrics.near_limit(worker.index);
            }
            if decision.is_candidate_refused {
                metrics.decided(worker.index, PolicyOutcome::CandidateRefused);
            }
            if decision.is_cost_header_missing {
                metrics.cost_header_missing(worker.index);
            }
            if let Some(reservation) = decision.reservation
                && let Some(settled) = reservation.settled
            {
                metrics.settled(worker.index, settled);
                // What exceeds a plan is billed by its cost, but charged to no quota.
                if decision.outcome != PolicyOutcome::Marked {
                    metrics.charged(worker.index, reservation.units, settled.units);
                }
            }
        }
        for (policy, client, change) in decided.changed_units() {
            self.live.top_clients[policy].correct(worker.index, client, change);
        }
        if let Some(reason) = self.reason {
            worker.process.metrics.error(worker.index, reason);
        }
    }
}
