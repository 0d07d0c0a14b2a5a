//! What is known of one request, gathered along its journey and recorded when it is over.
//!
//! An [`Exchange`] travels with the answer's body and is recorded on drop, so that a client that
//! left is recorded too.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::rc::Rc;

use http::{Method, StatusCode, Uri};
use smallvec::SmallVec;

use super::annotate::{LimitInfo, tightest};
use super::body::{RequestBodyError, ResponseBodyError};
use super::downstream::client_io::ClientSocket;
use super::downstream::connection::Connection;
use super::upstream::body::UpstreamBodyError;
use super::worker::InForce;
use crate::access_log::Record;
use crate::clock::Timestamp;
use crate::fault::Reason;
use crate::limit::Decision;
use crate::metrics::Outcome;
use crate::request::{ClientNames, redacted_address};
use crate::snapshot::{AccessLog, Snapshot};

/// One request and what became of it.
pub(crate) struct Exchange {
    connection: Rc<Connection>,
    live: Rc<InForce>,
    /// When its head had arrived, if the access log wants it; so with the other times.
    began: Option<Timestamp>,
    method: Method,
    /// The target as the client sent it; the path that is logged.
    target: Uri,
    /// The host asked for, if the access log wants it.
    host: SmallVec<[u8; 32]>,
    client: IpAddr,
    /// Whose quota it was, as it may be shown, if the access log wants it and it is not the client's address.
    partition: SmallVec<[u8; 32]>,
    /// Index of the route.
    route: Option<usize>,
    /// What each policy of the route did.
    outcomes: SmallVec<[(usize, Outcome); 4]>,
    /// What each enforced quota decided: indices of policy and quota.
    decisions: SmallVec<[(usize, usize, Decision); 2]>,
    cost: Option<u64>,
    status: Option<StatusCode>,
    reason: Option<Reason>,
    forwarded: Option<Timestamp>,
    upstream_us: Option<u64>,
    held_since: Option<Timestamp>,
    held_us: Option<u64>,
    sent_bytes: u64,
    is_degraded: bool,
}

impl Exchange {
    /// Begins the record of a request whose head has arrived.
    pub(crate) fn begin(
        connection: &Rc<Connection>,
        live: &Rc<InForce>,
        method: &Method,
        target: &Uri,
    ) -> Self {
        let is_logged = live.snapshot.log.access != AccessLog::Off;
        Self {
            began: is_logged.then(|| connection.worker.shared.clock.now()),
            method: method.clone(),
            target: target.clone(),
            client: connection.peer.ip(),
            connection: Rc::clone(connection),
            live: Rc::clone(live),
            host: SmallVec::new(),
            partition: SmallVec::new(),
            route: None,
            outcomes: SmallVec::new(),
            decisions: SmallVec::new(),
            cost: None,
            status: None,
            reason: None,
            forwarded: None,
            upstream_us: None,
            held_since: None,
            held_us: None,
            sent_bytes: 0,
            is_degraded: false,
        }
    }

    /// Notes the host asked for.
    pub(crate) fn asked(&mut self, host: &str) {
        if self.is_logged() {
            self.host.extend_from_slice(host.as_bytes());
        }
    }

    /// Notes whose request it is.
    pub(crate) fn sent_by(&mut self, client: IpAddr) {
        self.client = client;
    }

    /// Notes the route that was found.
    pub(crate) fn routed(&mut self, route: usize) {
        self.route = Some(route);
    }

    /// Notes what a policy did.
    pub(crate) fn outcome(&mut self, policy: usize, outcome: Outcome) {
        self.outcomes.push((policy, outcome));
    }

    /// Notes what an enforced quota decided.
    pub(crate) fn decided(&mut self, policy: usize, quota: usize, decision: Decision) {
        self.decisions.push((policy, quota, decision));
    }

    /// Notes what a quota that was noted says now; others are not told of.
    pub(crate) fn decided_anew(&mut self, policy: usize, quota: usize, decision: Decision) {
        for (of, index, noted) in &mut self.decisions {
            if (*of, *index) == (policy, quota) {
                *noted = decision;
            }
        }
    }

    /// Notes units that the request is to spend.
    pub(crate) fn cost(&mut self, cost: u64) {
        self.cost = Some(self.cost.map_or(cost, |most| most.max(cost)));
    }

    /// Notes whose quota it was, in a form that may be shown.
    pub(crate) fn partition(&mut self, shown: impl std::fmt::Display) {
        if !self.partition.is_empty() {
            self.partition.extend_from_slice(b"; ");
        }
        let mut text = Bytes(&mut self.partition);
        write!(text, "{shown}").expect("memory takes every byte");
    }

    /// Notes that a decision was made without what it should have come from.
    pub(crate) fn degraded(&mut self) {
        self.is_degraded = true;
    }

    /// Notes that the request begins to be held.
    pub(crate) fn held(&mut self) {
        self.held_since = Some(self.now());
    }

    /// Notes that the request is held no longer, if it was.
    pub(crate) fn let_go(&mut self) {
        if let Some(since) = self.held_since.take() {
            self.held_us = Some(self.now().since(since).0);
        }
    }

    /// Notes that the request goes to its upstream.
    pub(crate) fn forwarded(&mut self) {
        self.forwarded = self.is_logged().then(|| self.now());
    }

    /// Notes that the upstream answered.
    pub(crate) fn responded(&mut self) {
        self.upstream_us = self.forwarded.map(|since| self.now().since(since).0);
    }

    /// Notes the status of the answer, and what went wrong if it is a refusal.
    pub(crate) fn answered(&mut self, status: StatusCode, reason: Option<Reason>) {
        self.status = Some(status);
        self.reason = reason;
    }

    /// Notes bytes of the answer's body on their way.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Notes that the answer's body broke off.
    pub(crate) fn broke_off(&mut self, error: &ResponseBodyError) {
        let client = match error {
            ResponseBodyError::Client(error) => Some(error),
            ResponseBodyError::Upstream(error) => error.body_error(),
        };
        self.reason = Some(match (client, error) {
            (Some(RequestBodyError::TooLarge), _) => Reason::BodyTooLarge,
            (Some(RequestBodyError::TimedOut), _) => Reason::RequestBodyTimeout,
            (Some(RequestBodyError::Malformed), _) => Reason::BadFraming,
            (_, ResponseBodyError::Upstream(UpstreamBodyError::Timeout)) => {
                Reason::ResponseBodyTimeout
            }
            (_, ResponseBodyError::Upstream(UpstreamBodyError::Broken(_))) => {
                Reason::ResponseAborted
            }
            _ => Reason::ClientGone,
        });
    }

    /// Notes that the connection ended before the answer's body did; one to HEAD is never sent.
    pub(crate) fn left_unsent(&mut self) {
        if self.method != Method::HEAD {
            self.reason
                .get_or_insert(self.connection.worker.reason_to_end());
        }
    }

    /// Yields what the client is told of the quotas that enforce.
    pub(crate) fn told(&self) -> impl Iterator<Item = LimitInfo<'_>> + Clone {
        let snapshot = &self.live.snapshot;
        self.decisions
            .iter()
            .map(|&(policy, quota, decision)| LimitInfo {
                quota: &snapshot.policies[policy].quotas[quota],
                decision,
            })
    }

    /// Yields the names of the quotas that refused.
    pub(crate) fn violated(&self) -> impl Iterator<Item = &str> + Clone {
        self.told()
            .filter(|told| !told.decision.admit)
            .map(|told| &*told.quota.item)
    }

    /// Returns the socket of the client that asks.
    pub(crate) fn client(&self) -> &ClientSocket {
        &self.connection.socket
    }

    /// Whether the access log may have this request.
    pub(crate) fn is_logged(&self) -> bool {
        self.began.is_some()
    }

    fn now(&self) -> Timestamp {
        self.connection.worker.shared.clock.now()
    }

    fn count(&self) {
        let worker = &self.connection.worker;
        let handles = &self.live.handles;
        let route = self
            .route
            .map_or(&handles.unrouted, |route| &handles.routes[route]);
        match self.status {
            Some(status) => route.answered(worker.index, status),
            None => route.unanswered(worker.index),
        }
        for &(policy, outcome) in &self.outcomes {
            handles.policies[policy].decided(worker.index, outcome);
        }
        if let Some(reason) = self.reason {
            worker.shared.metrics.error(worker.index, reason);
        }
    }

    fn log(&self, began: Timestamp) {
        let snapshot: &Snapshot = &self.live.snapshot;
        let name =
            |&(policy, outcome): &(usize, Outcome)| (&*snapshot.policies[policy].name, outcome);
        let policies: SmallVec<[(&str, Outcome); 4]> = self.outcomes.iter().map(name).collect();
        let mut client = SmallVec::<[u8; 48]>::new();
        let (text, names) = (&mut Bytes(&mut client), snapshot.log.clients);
        let key = &self.live.partition_key;
        write!(text, "{}", redacted_address(key, self.client, names))
            .expect("memory takes every byte");
        let record = Record {
            at: began,
            listener: &snapshot.listeners[self.connection.place.listener].name,
            client: &client,
            partition: &self.partition,
            method: self.method.as_str().as_bytes(),
            host: &self.host,
            // A path may name the client; where only digests show, the route must do.
            path: match names {
                ClientNames::Short => self.target.path().as_bytes(),
                ClientNames::Digest => b"",
            },
            route: self.route.map(|route| &*snapshot.routes[route].name),
            status: self.status.map(|status| status.as_u16()),
            policies: &policies,
            remaining: tightest(self.told()).map(|told| told.decision.remaining),
            cost: self.cost,
            reason: self.reason,
            duration_us: self.now().since(began).0,
            upstream_us: self.upstream_us,
            held_us: self.held_us,
            sent_bytes: self.sent_bytes,
            is_degraded: self.is_degraded,
        };
        self.connection.worker.access_log.record(
            snapshot.log.access,
            self.live.log_format,
            &record,
        );
    }
}

/// Records a head that never became a request; who sent it is all that is known of its client.
pub(crate) fn refused_head(connection: &Connection, reason: Reason, status: Option<StatusCode>) {
    let worker = &connection.worker;
    worker.shared.metrics.error(worker.index, reason);
    let live = worker.live();
    let snapshot = &live.snapshot;
    let mut client = SmallVec::<[u8; 48]>::new();
    let shown = redacted_address(
        &live.partition_key,
        connection.peer.ip(),
        snapshot.log.clients,
    );
    write!(Bytes(&mut client), "{shown}").expect("memory takes every byte");
    let record = Record {
        at: worker.shared.clock.now(),
        listener: &snapshot.listeners[connection.place.listener].name,
        client: &client,
        partition: b"",
        method: b"",
        host: b"",
        path: b"",
        route: None,
        status: status.map(|status| status.as_u16()),
        policies: &[],
        remaining: None,
        cost: None,
        reason: Some(reason),
        duration_us: 0,
        upstream_us: None,
        held_us: None,
        sent_bytes: 0,
        is_degraded: false,
    };
    let access = snapshot.log.access;
    worker.access_log.record(access, live.log_format, &record);
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.connection.socket.end_request();
        self.let_go();
        if self.status.is_none() {
            self.reason
                .get_or_insert(self.connection.worker.reason_to_end());
        }
        self.count();
        if let Some(began) = self.began {
            self.log(began);
        }
    }
}

/// Writes text into bytes that live on the stack if they are few.
struct Bytes<'b, A: smallvec::Array<Item = u8>>(&'b mut SmallVec<A>);

impl<A: smallvec::Array<Item = u8>> std::fmt::Write for Bytes<'_, A> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
