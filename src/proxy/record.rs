//! What is known of one request, gathered along its journey and recorded when it is over.
//!
//! A [`Record`] observes: it is told what happens, and nothing is decided by it. It is written
//! once, when the request's exchange is dropped, so a request whose client left is recorded too.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::rc::Rc;

use http::{HeaderValue, Method, StatusCode, Uri};
use smallvec::SmallVec;

use super::client::Client;
use super::upstream::{Attempts, UpstreamFailure};
use super::worker::WorkerConfig;
use crate::access_log::{AccessEntry, AccessLog};
use crate::clock::Timestamp;
use crate::fault::Reason;
use crate::index::RouteIndex;
use crate::limiter::{Decided, PolicyResult, Settler, tightest};
use crate::metrics::PolicyOutcome;
use crate::request::{
    ClientNames, Facts, Missing, Part, Partition, has_all, redacted, redacted_address,
};
use crate::snapshot::{Route, Snapshot};

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
    /// What only the access log tells; none if there is none.
    logged: Option<Box<Logged>>,
}

/// What only the access log tells of a request.
struct Logged {
    /// When its head had arrived.
    began: Timestamp,
    /// The target as the client sent it; its path is logged.
    target: Uri,
    /// The host asked for.
    host: SmallVec<[u8; 32]>,
    address: IpAddr,
    /// Whose quota it was, in the form that may be shown; empty if the client's address says it.
    partition: SmallVec<[u8; 32]>,
    /// The trace that the request is part of; empty if it is part of none.
    trace_id: SmallVec<[u8; 32]>,
    /// The endpoint that failed, and why; texts of the configuration and of this program.
    failure: Option<Box<UpstreamFailure>>,
    delayed_since: Option<Timestamp>,
    delayed_us: Option<u64>,
}

impl Record {
    /// Begins the record of a request whose head has arrived.
    pub(crate) fn begin(
        client: &Rc<Client>,
        live: &Rc<WorkerConfig>,
        method: &Method,
        target: &Uri,
    ) -> Self {
        let is_logged = live.snapshot.log.access != AccessLog::Off;
        let logged = || Logged {
            began: client.worker.process.clock.now(),
            target: target.clone(),
            host: SmallVec::new(),
            address: client.peer,
            partition: SmallVec::new(),
            trace_id: SmallVec::new(),
            failure: None,
            delayed_since: None,
            delayed_us: None,
        };
        Self {
            method: method.clone(),
            client: Rc::clone(client),
            live: Rc::clone(live),
            route: None,
            status: None,
            reason: None,
            sent_bytes: 0,
            logged: is_logged.then(|| Box::new(logged())),
        }
    }

    /// Notes the host asked for.
    pub(crate) fn asked(&mut self, host: &str) {
        if let Some(logged) = &mut self.logged {
            logged.host.extend_from_slice(host.as_bytes());
        }
    }

    /// Notes whose request it is.
    pub(crate) fn sent_by(&mut self, client: IpAddr) {
        if let Some(logged) = &mut self.logged {
            logged.address = client;
        }
    }

    /// Notes the trace that the request is part of, if it says which.
    pub(crate) fn traced<'t>(&mut self, trace_id: impl FnOnce() -> Option<&'t [u8]>) {
        if let Some(logged) = &mut self.logged {
            (logged.trace_id).extend_from_slice(trace_id().unwrap_or_default());
        }
    }

    /// Notes the route that was found.
    pub(crate) fn routed(&mut self, route: RouteIndex) {
        self.route = Some(route);
    }

    /// Returns where its charge is settled.
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
    pub(crate) fn identified(&mut self, route: &Route, facts: &Facts<'_>) {
        let Some(logged) = &mut self.logged else {
            return;
        };
        let (snapshot, key) = (&self.live.snapshot, &self.live.partition_key);
        let mut text = Bytes(&mut logged.partition);
        for applied in &route.policies {
            let policy = &snapshot.policies[applied.policy];
            let applies = policy.missing == Missing::Share || has_all(&policy.partition, facts);
            if policy.mode.is_none() || !applies || !names_more_than_address(&policy.partition) {
                continue;
            }
            let separator = if text.0.is_empty() { "" } else { "; " };
            let shown = redacted(key, &policy.partition, facts, snapshot.log.clients);
            write!(text, "{separator}{shown}").expect("memory takes every byte");
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
    pub(crate) fn let_go(&mut self) {
        let clock = &self.client.worker.process.clock;
        if let Some(logged) = &mut self.logged
            && let Some(since) = logged.delayed_since.take()
        {
            logged.delayed_us = Some(clock.now().since(since).0);
        }
    }

    /// Notes which endpoint failed, and why.
    pub(crate) fn failed(&mut self, failure: UpstreamFailure) {
        if let Some(logged) = &mut self.logged {
            logged.failure = Some(Box::new(failure));
        }
    }

    /// Notes the status of the answer, and what went wrong if it is a refusal.
    pub(crate) fn answered(&mut self, status: StatusCode, reason: Option<Reason>) {
        self.status = Some(status);
        self.reason = reason;
    }

    /// Counts bytes of the answer's body on their way.
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
    pub(crate) fn finish(
        &mut self,
        decided: &Decided,
        attempts: &Attempts,
        id: Option<&HeaderValue>,
    ) {
        self.let_go();
        if self.status.is_none() {
            self.reason
                .get_or_insert(self.client.worker.reason_to_end());
        }
        self.count(decided);
        if let Some(logged) = &self.logged {
            self.log(logged, decided, attempts, id);
        }
    }

    fn now(&self) -> Timestamp {
        self.client.worker.process.clock.now()
    }

    fn count(&self, decided: &Decided) {
        let worker = &self.client.worker;
        let handles = &self.live.handles;
        let route = self
            .route
            .map_or(&handles.unrouted, |route| &handles.routes[route]);
        match self.status {
            Some(status) => route.answered(worker.index, status),
            None => route.unanswered(worker.index),
        }
        for decision in &decided.policies {
            let metrics = &handles.policies[decision.policy];
            metrics.decided(worker.index, decision.outcome);
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
        if let Some(reason) = self.reason {
            worker.process.metrics.error(worker.index, reason);
        }
    }

    fn log(
        &self,
        logged: &Logged,
        decided: &Decided,
        attempts: &Attempts,
        id: Option<&HeaderValue>,
    ) {
        let (snapshot, key): (&Snapshot, _) = (&self.live.snapshot, &self.live.partition_key);
        let mut policies = SmallVec::<[(&str, PolicyOutcome); 4]>::new();
        for decision in &decided.policies {
            let name = &*snapshot.policies[decision.policy].name;
            policies.push((name, decision.outcome));
            if decision.is_candidate_refused {
                policies.push((name, PolicyOutcome::CandidateRefused));
            }
        }
        let reservations = || {
            let all = decided.policies.iter().filter_map(|one| one.reservation);
            all.filter_map(|all| Some((all.units, all.settled?)))
        };
        let names = snapshot.log.clients;
        let client = (self.client.shown.borrow_mut()).redacted(key, logged.address, names);
        let failure = logged.failure.as_deref();
        let (visited, broke_off) = (attempts.endpoint(), attempts.cause());
        let failed_at = failure.and_then(|failure| failure.endpoint.as_deref());
        let entry = AccessEntry {
            at: self.client.worker.process.clock.wall_at(logged.began),
            listener: &snapshot.listeners[self.client.listener].name,
            client: client.as_bytes(),
            partition: &logged.partition,
            method: self.method.as_str().as_bytes(),
            host: &logged.host,
            // A path may name the client; if only digests are shown, the route must do.
            path: match names {
                ClientNames::Short => logged.target.path().as_bytes(),
                ClientNames::Digest => b"",
            },
            route: self.route.map(|route| &*snapshot.routes[route].name),
            status: self.status.map(|status| status.as_u16()),
            policies: &policies,
            remaining: tightest(decided.infos(snapshot)).map(|info| info.decision.remaining),
            cost: decided.cost(),
            cost_missing: decided.policies.iter().find_map(PolicyResult::missing_cost),
            reserved: reservations().map(|(reserved, _)| reserved).max(),
            is_cost_capped: reservations().any(|(_, settled)| settled.is_capped),
            overrides: decided.tiers.as_bytes(),
            reason: self.reason,
            endpoint: failed_at.or(visited.as_deref()),
            attempts: Some(attempts.count()),
            cause: failure
                .map(|failure| &*failure.cause)
                .or(broke_off.as_deref()),
            duration_us: self.now().since(logged.began).0,
            upstream_us: attempts.took().map(|took| took.0),
            delayed_us: logged.delayed_us,
            sent_bytes: self.sent_bytes,
            is_degraded: decided.is_degraded,
            request_id: id.map(HeaderValue::as_bytes).unwrap_or_default(),
            trace_id: &logged.trace_id,
        };
        self.client
            .worker
            .access_log
            .record(snapshot.log.access, self.live.access_format, &entry);
    }
}

/// Logs a head that never became a request, or a connection that got no further; only its sender is known.
pub(crate) fn log_refused_head(
    client: &Client,
    reason: Reason,
    status: Option<StatusCode>,
    cause: Option<&str>,
) {
    let worker = &client.worker;
    let live = worker.live();
    let snapshot = &live.snapshot;
    let mut address = SmallVec::<[u8; 48]>::new();
    let shown = redacted_address(&live.partition_key, client.peer, snapshot.log.clients);
    write!(Bytes(&mut address), "{shown}").expect("memory takes every byte");
    let entry = AccessEntry {
        at: worker.process.clock.wall(),
        listener: &snapshot.listeners[client.listener].name,
        client: &address,
        partition: b"",
        method: b"",
        host: b"",
        path: b"",
        route: None,
        status: status.map(|status| status.as_u16()),
        policies: &[],
        remaining: None,
        cost: None,
        cost_missing: None,
        reserved: None,
        is_cost_capped: false,
        overrides: b"",
        reason: Some(reason),
        endpoint: None,
        attempts: None,
        cause,
        duration_us: 0,
        upstream_us: None,
        delayed_us: None,
        sent_bytes: 0,
        is_degraded: false,
        request_id: b"",
        trace_id: b"",
    };
    let access = snapshot.log.access;
    worker.access_log.record(access, live.access_format, &entry);
}

/// Whether the partition names more than the log's `client` does.
fn names_more_than_address(partition: &Partition) -> bool {
    partition.0.iter().any(|choice| choice.0 != [Part::Ip])
}

/// Writes text into bytes that stay on the stack while they are few.
struct Bytes<'b, A: smallvec::Array<Item = u8>>(&'b mut SmallVec<A>);

impl<A: smallvec::Array<Item = u8>> std::fmt::Write for Bytes<'_, A> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
