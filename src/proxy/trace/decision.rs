//! What a trace says of a request's decision.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ptr;

use http::HeaderName;

use super::filter::{TraceClient, TraceFilter};
use super::request_trace::RequestTrace;
use super::traces::Traces;
use crate::clock::{Clock, Micros, Timestamp};
use crate::index::{PolicyIndex, RouteIndex};
use crate::limit::{PartitionId, Retry};
use crate::limiter::{Admission, Decided, LimitInfo, Limiter, PolicyResult};
use crate::metrics::PolicyOutcome;
use crate::proxy::connection_facts::ConnectionFacts;
use crate::request::{
    Facts, Identified, LatestPartition, claimed_address, redacted, redacted_address,
};
use crate::snapshot::{AppliedPolicy, Policy};
use crate::store::settings::Location;

/// A request that was decided.
pub(crate) struct TracedDecision<'r> {
    pub(crate) limiter: Limiter<'r>,
    pub(crate) sent_by: ConnectionFacts<'r>,
    pub(crate) route: RouteIndex,
    pub(crate) applied: &'r [AppliedPolicy],
    pub(crate) facts: &'r Facts<'r>,
    /// The partition of the connection's latest request.
    pub(crate) latest: &'r RefCell<LatestPartition>,
    pub(crate) decided: &'r Decided,
    pub(crate) admission: Admission,
    pub(crate) clock: &'r Clock,
}

impl RequestTrace {
    /// Notes the decision of a request, which may have a trace already; returns none if nobody wants the request.
    #[cold]
    pub(crate) fn decided(
        trace: Option<Box<Self>>,
        traces: &Traces,
        decision: &TracedDecision<'_>,
    ) -> Option<Box<Self>> {
        let facts = decision.facts;
        // The time of the decision is shown only if the request is traced already.
        let decided_at = trace.as_ref().map(|_| decision.clock.now());
        let path = trace.as_ref().map_or(facts.path, |trace| &trace.path);
        let wants = |filter: &TraceFilter| filter.wants_path(path) && decision.is_wanted(filter);
        let wanted_by = traces.wanted_by(wants);
        if wanted_by.is_empty() {
            return None;
        }
        let now = decided_at.unwrap_or_else(|| decision.clock.now());
        let mut trace = trace.unwrap_or_else(|| {
            let mut late = Self::new(now, facts.method, facts.path, facts.client);
            late.asked_for(facts.host);
            late
        });
        trace.set_watchers(wanted_by);
        trace.add_decision(now, decision);
        Some(trace)
    }

    fn add_decision(&mut self, now: Timestamp, decision: &TracedDecision<'_>) {
        let (identified_at, asked_at) = (self.identified_at, self.asked_at);
        self.add_head(decision.limiter.snapshot);
        self.add(identified_at, "client", decision.client());
        self.add(identified_at, "route", decision.route());
        for policy in decision.policies() {
            self.add(now, "quota", decision.policy(policy));
        }
        // If the trace began late, the time that the decision took is not known.
        let took = self.has_arrived().then(|| now.since(asked_at));
        let text = decision.decision(took);
        self.add(now, "decision", text);
    }
}

impl TracedDecision<'_> {
    fn is_wanted(&self, filter: &TraceFilter) -> bool {
        let is_refused = !matches!(self.admission, Admission::Admitted { .. });
        if filter.is_refused && !is_refused {
            return false;
        }
        let (client, name) = (filter.client.as_ref(), filter.policy.as_ref());
        let is_from = client.is_none_or(|client| self.is_from(client));
        let wants = |policy: &Policy| {
            let is_from = || is_from || client.is_some_and(|client| self.is_of(policy, client));
            name.is_none_or(|name| policy.name == *name) && is_from()
        };
        let policies = &self.limiter.snapshot.policies;
        is_from && name.is_none() || self.policies().any(|index| wants(&policies[index]))
    }

    /// Yields the policies that apply to the request, and others that took part in its decision.
    fn policies(&self) -> impl Iterator<Item = PolicyIndex> {
        let applied = || self.applied.iter().map(|applied| applied.policy);
        let decided = self.decided.policies.iter().map(|result| result.policy);
        applied().chain(decided.filter(move |one| !applied().any(|other| other == *one)))
    }

    /// Whether the log shows the request as this client's, whatever its policies count.
    fn is_from(&self, client: &TraceClient) -> bool {
        matches!(client, TraceClient::Shown(shown) if *shown == self.shown_client())
    }

    fn is_of(&self, policy: &Policy, client: &TraceClient) -> bool {
        match client {
            TraceClient::Id(id) => self.id_for(policy) == Some(*id),
            TraceClient::Shown(shown) => self.shown_for(policy) == *shown,
        }
    }

    fn id_for(&self, policy: &Policy) -> Option<PartitionId> {
        let (key, mut latest) = (self.limiter.partition_key, self.latest.borrow_mut());
        match latest.partition_id(key, &policy.partition, policy.missing, self.facts) {
            Identified::PartitionId(id) => Some(id),
            Identified::Skip | Identified::Unidentified { .. } => None,
        }
    }

    fn shown_for(&self, policy: &Policy) -> String {
        let names = self.limiter.snapshot.log.clients;
        redacted(
            self.limiter.digest_key,
            &policy.partition,
            self.facts,
            names,
        )
        .to_string()
    }

    fn shown_address(&self, address: Option<IpAddr>) -> String {
        let names = self.limiter.snapshot.log.clients;
        redacted_address(self.limiter.digest_key, address, names).to_string()
    }

    fn shown_client(&self) -> String {
        self.shown_address(self.facts.client)
    }

    /// Says which client sent the request, and how that is known.
    fn client(&self) -> String {
        let (client, identity) = (self.shown_client(), &self.sent_by.listener.identity);
        let peer = self.shown_address(self.sent_by.peer);
        let fields: Vec<_> = identity.believed_fields().map(HeaderName::as_str).collect();
        if !self.sent_by.trusts_peer() {
            return format!("{client}, the peer");
        }
        if fields.is_empty() || claimed_address(self.facts.headers, identity).is_none() {
            return format!("{client}, the peer: it is trusted, but names no client");
        }
        format!(
            "{client}, as the trusted peer {peer} says ({})",
            fields.join(", ")
        )
    }

    /// Says which route the request takes, and why the nearest others do not take it.
    fn route(&self) -> String {
        let (snapshot, facts) = (self.limiter.snapshot, self.facts);
        let route = &snapshot.routes[self.route];
        let mut text = format!(
            "{} → {}",
            route.name, snapshot.upstreams[route.upstream].name
        );
        let found = Some(self.route);
        let mut others = (snapshot.router).mismatches(
            found,
            facts.host,
            facts.method,
            facts.path,
            facts.headers,
        );
        others.sort_by(|(_, one), (_, other)| other.cmp(one));
        for (other, why) in others.iter().take(OTHER_ROUTES_MAX) {
            let name = &snapshot.routes[*other].name;
            write!(text, "\nnot {name}: {why}").expect("memory takes every byte");
        }
        text
    }

    /// Says what a policy decided about the request.
    fn policy(&self, index: PolicyIndex) -> String {
        let snapshot = self.limiter.snapshot;
        let policy = &snapshot.policies[index];
        let mut text = format!("{}: {}", policy.name, self.shown_for(policy));
        if let Some(id) = self.id_for(policy) {
            write!(text, " (id:{:032x})", id.bits()).expect("memory takes every byte");
        }
        let results = self.decided.policies.iter().enumerate();
        let is_own = |(_, result): &(usize, &PolicyResult)| result.policy == index;
        let Some((of, result)) = { results }.find(is_own) else {
            return text + ": not consulted";
        };
        write!(text, ": {}, cost {}", result.outcome.word(), result.asked)
            .expect("memory takes every byte");
        let tier = self.decided.tier(result);
        if !tier.is_empty() {
            write!(text, ", override {tier}").expect("memory takes every byte");
        }
        if result.penalty > Micros(0) {
            let left = result.penalty.secs_ceil();
            write!(text, "\n  its penalty runs for {left} s").expect("memory takes every byte");
        }
        let infos: Vec<_> = self.decided.infos_of(snapshot, of).collect();
        for info in &infos {
            text.push('\n');
            text += &quota(&policy.name, info);
        }
        // Quotas that the client is not told of: those that only watch, and candidates.
        for (refusing, quota, is_candidate) in self.decided.refusing(snapshot) {
            let is_said = infos.iter().any(|info| ptr::eq(info.quota, quota));
            if refusing == of && !is_said {
                let name = quota.short_name(&policy.name);
                let kind = if is_candidate { ", a candidate" } else { "" };
                write!(text, "\n  {name}: the request does not fit{kind}")
                    .expect("memory takes every byte");
            }
        }
        text
    }

    /// Says what was decided about the request, where, and how long that took.
    fn decision(&self, took: Option<Micros>) -> String {
        let mut text = match self.admission {
            Admission::Admitted { wait: Micros(0) } => "admitted".to_owned(),
            Admission::Admitted { wait } => {
                format!("admitted, and delayed by {} ms", wait.0 / 1_000)
            }
            Admission::Refused {
                retry: Retry::After(retry),
            } => {
                format!("refused; it fits in {} s", retry.secs_ceil())
            }
            Admission::Refused {
                retry: Retry::Never,
            } => "refused; it never fits".to_owned(),
            Admission::Unavailable { .. } => {
                "refused, because the store does not answer".to_owned()
            }
            Admission::Unidentified { .. } => {
                "refused: the request lacks what identifies its client".to_owned()
            }
            Admission::Blocked { .. } => "refused: the client is blocked".to_owned(),
            Admission::BadCost { .. } => {
                "refused: its cost is not a plain decimal number".to_owned()
            }
            Admission::UnknownPrice { .. } => "refused: there is no price for it".to_owned(),
        };
        let is_counted = |result: &PolicyResult| {
            use PolicyOutcome as Outcome;
            !matches!(
                result.outcome,
                Outcome::Unlimited
                    | Outcome::Blocked
                    | Outcome::Skipped
                    | Outcome::NotAsked
                    | Outcome::Unidentified
            )
        };
        if !self.decided.policies.iter().any(is_counted) {
            return text + "; no quota was consulted";
        }
        let is_redis = matches!(self.limiter.snapshot.store.location, Location::Redis(_));
        let how = match (is_redis, self.decided.is_degraded, self.decided.is_asked) {
            (true, true, _) => "without Redis, as on_store_failure says",
            (true, false, true) => "by Redis",
            (true, false, false) => "by this gateway's own counts, without a call to Redis",
            (false, true, _) => "in memory, which is full (max_memory)",
            (false, false, _) => "in memory",
        };
        text = text + "\n" + how;
        if let Some(took) = took {
            write!(text, ", in {} µs", took.0).expect("memory takes every byte");
        }
        text
    }
}

/// Says what a quota decided.
fn quota(policy: &str, info: &LimitInfo<'_>) -> String {
    let (name, decision) = (info.quota.short_name(policy), &info.decision);
    let mut text = format!("  {name}: {} left", decision.remaining);
    if let Some(next) = decision.next {
        write!(text, ", more in {} s", next.secs_ceil()).expect("memory takes every byte");
    }
    if !decision.admit {
        text.push_str(match decision.retry {
            Retry::After(_) => "; the request does not fit",
            Retry::Never => "; the request never fits",
        });
    }
    text
}

/// Most of the other routes that are named.
const OTHER_ROUTES_MAX: usize = 3;
