//! What only the access log tells of a request, and the line that is made of it.

use std::fmt::Write as _;
use std::net::IpAddr;

use http::header::USER_AGENT;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Uri, Version};
use smallvec::SmallVec;

use super::client::Client;
use super::process::ActiveConfig;
use super::upstream::{Attempts, UpstreamFailure};
use crate::access_log::{AccessEntry, AccessLog, PolicyEntry, RefusingEntry};
use crate::clock::{Micros, Timestamp};
use crate::fault::Reason;
use crate::index::RouteIndex;
use crate::limiter::{Decided, PolicyResult};
use crate::request::{ClientNames, Facts, is_whole_address, redacted, redacted_address};
use crate::snapshot::{AppliedPolicy, Snapshot};

/// What only the access log tells of a request.
pub(super) struct Logged {
    /// When the request's head had arrived.
    pub(super) began: Timestamp,
    /// The target as the client sent it; its path is logged.
    target: Uri,
    protocol: Version,
    user_agent: Option<HeaderValue>,
    /// The host asked for.
    pub(super) host: SmallVec<[u8; 32]>,
    /// The client's address, if it has one.
    pub(super) address: Option<IpAddr>,
    /// Whose quota each policy counts, in the form that may be shown, a line each; empty if all of them count the
    /// client's address.
    partitions: String,
    /// Id of the trace (W3C) that the request is part of; empty if it is part of none.
    pub(super) trace_id: SmallVec<[u8; 32]>,
    /// The endpoint that failed, and why; both texts come from the configuration and from this program.
    pub(super) failure: Option<Box<UpstreamFailure>>,
    pub(super) delayed_since: Option<Timestamp>,
    pub(super) delayed_us: Option<u64>,
    pub(super) retry_after_secs: Option<u64>,
}

/// What is known of a request whether there is an access log or not.
pub(super) struct Recorded<'r> {
    pub(super) client: &'r Client,
    pub(super) live: &'r ActiveConfig,
    pub(super) method: &'r Method,
    pub(super) route: Option<RouteIndex>,
    pub(super) status: Option<StatusCode>,
    pub(super) reason: Option<Reason>,
    pub(super) sent_bytes: u64,
    /// Time from the end of the request's head to the end of its answer.
    pub(super) took: Micros,
}

/// What is known of a request once it is over.
pub(crate) struct ExchangeEnd<'r> {
    pub(crate) decided: &'r Decided,
    pub(crate) attempts: &'r Attempts,
    pub(crate) id: Option<&'r HeaderValue>,
    pub(crate) received_bytes: u64,
}

impl Logged {
    /// Begins with the head of a request that has arrived.
    pub(super) fn begin(peer: Option<IpAddr>, began: Timestamp, head: &Parts) -> Self {
        Self {
            began,
            target: head.uri.clone(),
            protocol: head.version,
            user_agent: head.headers.get(USER_AGENT).cloned(),
            host: SmallVec::new(),
            address: peer,
            partitions: String::new(),
            trace_id: SmallVec::new(),
            failure: None,
            delayed_since: None,
            delayed_us: None,
            retry_after_secs: None,
        }
    }

    /// Notes whose quotas the request is to spend.
    pub(super) fn identified(
        &mut self,
        live: &ActiveConfig,
        policies: &[AppliedPolicy],
        facts: &Facts<'_>,
    ) {
        let policies = (policies.iter()).map(|applied| &live.snapshot.policies[applied.policy]);
        let partitions =
            (policies.filter(|policy| policy.mode.is_some())).map(|policy| &policy.partition);
        if partitions
            .clone()
            .all(|partition| is_whole_address(partition, facts))
        {
            return;
        }
        self.partitions.reserve(PARTITIONS_LEN);
        for partition in partitions {
            let names = live.snapshot.log.clients;
            let shown = redacted(&live.digest_key, partition, facts, names);
            writeln!(self.partitions, "{shown}").expect("memory takes every byte");
        }
    }

    /// Writes the line of a request that is over.
    pub(super) fn write(&self, recorded: &Recorded<'_>, ended: &ExchangeEnd<'_>) {
        let (live, decided, attempts) = (recorded.live, ended.decided, ended.attempts);
        let snapshot = &live.snapshot;
        let clock = &recorded.client.worker.process.clock;
        let names = snapshot.log.clients;
        let client =
            (recorded.client.shown.borrow_mut()).redacted(&live.digest_key, self.address, names);
        let failure = self.failure.as_deref();
        let (visited, broke_off) = (attempts.endpoint(), attempts.cause());
        let failed_at = failure.and_then(|failure| failure.endpoint.as_deref());
        let info = decided.decisive(snapshot);
        let windowed = info.filter(|info| !info.quota.quota.is_balance());
        let mut policies = SmallVec::<[_; 4]>::new();
        policies.extend(self.policies(snapshot, decided));
        let mut refusing = SmallVec::<[_; 2]>::new();
        refusing.extend(refusing_quotas(snapshot, decided));
        let is_capped = |one: &PolicyResult| {
            let settled = one.reservation.and_then(|one| one.settled);
            settled.is_some_and(|settled| settled.is_capped)
        };
        // A path may name the client, and so may a user agent; if only digests are shown, the route has to be enough.
        let (path, user_agent) = match names {
            ClientNames::Short => (self.target.path(), self.user_agent.as_ref()),
            ClientNames::Digest => ("", None),
        };
        let entry = AccessEntry {
            at: clock.wall_at(self.began),
            listener: &snapshot.listeners[recorded.client.listener].name,
            client: client.as_bytes(),
            method: recorded.method.as_str().as_bytes(),
            host: &self.host,
            path: path.as_bytes(),
            protocol: protocol(self.protocol),
            tls_version: tls_version(recorded.client),
            user_agent: user_agent.map(HeaderValue::as_bytes).unwrap_or_default(),
            route: recorded.route.map(|route| &*snapshot.routes[route].name),
            status: recorded.status.map(|status| status.as_u16()),
            reason: recorded.reason,
            retry_after_secs: self.retry_after_secs,
            endpoint: failed_at.or(visited.as_deref()),
            attempts: Some(attempts.count()),
            cause: failure
                .map(|failure| &*failure.cause)
                .or(broke_off.as_deref()),
            policies: &policies,
            refusing: &refusing,
            limit: windowed.map(|info| info.quota.quota.limit),
            remaining: info.map(|info| info.decision.remaining),
            cost_missing: decided.policies.iter().find_map(PolicyResult::missing_cost),
            is_cost_capped: decided.policies.iter().any(is_capped),
            duration_us: recorded.took.0,
            upstream_us: attempts.time_to_head().map(|took| took.0),
            delayed_us: self.delayed_us,
            received_bytes: ended.received_bytes,
            sent_bytes: recorded.sent_bytes,
            is_degraded: decided.is_degraded,
            request_id: ended.id.map(HeaderValue::as_bytes).unwrap_or_default(),
            trace_id: &self.trace_id,
        };
        let access_log = &recorded.client.worker.access_log;
        access_log.record(snapshot.log.access, live.access_format, &entry);
    }

    /// Yields what each policy did that was reached before the request was decided.
    fn policies<'l>(
        &'l self,
        snapshot: &'l Snapshot,
        decided: &'l Decided,
    ) -> impl Iterator<Item = PolicyEntry<'l>> {
        let mut partitions = self.partitions.lines();
        decided.policies.iter().map(move |one| PolicyEntry {
            name: &snapshot.policies[one.policy].name,
            outcome: one.outcome,
            partition: partitions.next().unwrap_or_default(),
            tier: decided.tier(one),
            cost: one.asked,
            charged: one.charged(),
        })
    }
}

/// Logs a head that never became a request, or a connection that failed before any; only its sender is known.
pub(crate) fn log_refused_head(
    client: &Client,
    reason: Reason,
    status: Option<StatusCode>,
    cause: Option<&str>,
) {
    let worker = &client.worker;
    let live = worker.live();
    let snapshot = &live.snapshot;
    let access = snapshot.log.access;
    if access == AccessLog::Off {
        return;
    }
    let shown = redacted_address(&live.digest_key, client.peer, snapshot.log.clients).to_string();
    let entry = AccessEntry {
        at: worker.process.clock.wall(),
        listener: &snapshot.listeners[client.listener].name,
        client: shown.as_bytes(),
        tls_version: tls_version(client),
        status: status.map(|status| status.as_u16()),
        reason: Some(reason),
        cause,
        ..AccessEntry::default()
    };
    worker.access_log.record(access, live.access_format, &entry);
}

/// Names the quotas that refused, or would have.
fn refusing_quotas<'l>(
    snapshot: &'l Snapshot,
    decided: &'l Decided,
) -> impl Iterator<Item = RefusingEntry<'l>> {
    let refusing = decided.refusing(snapshot);
    refusing.map(|(policy, quota, is_candidate)| RefusingEntry {
        policy,
        quota: &quota.log_name,
        is_candidate,
    })
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

fn tls_version(client: &Client) -> Option<&'static str> {
    client.tls.as_ref().map(|session| session.version.number())
}

/// Bytes that are reserved for partitions: enough for most requests.
const PARTITIONS_LEN: usize = 64;
