//! What becomes of a request, and why: plain facts, for people and for programs.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;

use super::asked::ListenerChoice;
use crate::clock::Micros;
use crate::fault::Reason;
use crate::limit::{Quota, Retry};
use crate::metrics::PolicyOutcome;
use crate::request::route::Mismatch;
use crate::snapshot::PolicyMode;

/// What becomes of a request, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The method.
    pub method: String,
    /// Path and query, as they come.
    pub target: String,
    /// The host, as it is compared; none if it is refused for it.
    pub host: Option<String>,
    /// The path, normalised; none if it is refused for it.
    pub path: Option<String>,
    /// The name of the listener.
    pub listener: Arc<str>,
    /// Why it is this one.
    pub listener_choice: ListenerChoice,
    /// Whose request it is.
    pub client: ClientView,
    /// What a CORS preflight is taken for; none if the request is none.
    pub preflight: Option<PreflightView>,
    /// The route that takes it.
    pub route: Option<RouteView>,
    /// Routes that do not, the nearest first.
    pub other_routes: Vec<(Arc<str>, Mismatch)>,
    /// How many more do not.
    pub more_routes: usize,
    /// What each policy does, in order.
    pub policies: Vec<PolicyView>,
    /// What refuses the request; if nobody asked the store, before any quota is asked.
    pub refused: Option<RefusedView>,
    /// What the store says, if it was asked.
    pub live: Option<LiveView>,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// Whose request it is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// The address; none of a client behind a Unix socket that says none.
    pub address: Option<IpAddr>,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
    /// Whether it was said who that is.
    pub is_peer_known: bool,
    /// Whether that is believed.
    pub is_trusted: bool,
    /// The field in which trusted peers are believed, if there is one.
    pub field: Option<String>,
    /// Whether the field says who the client is.
    pub is_claimed: bool,
}

/// What a CORS preflight is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightView {
    /// For the request that it announces; policies for preflights decide it.
    Announced,
    /// For a request like any other, because the file names no policies for preflights.
    NoPolicies,
    /// For a request like any other, because it says more than a preflight does.
    SaysMore,
}

/// The route that takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its upstream.
    pub upstream: Arc<str>,
    /// The path that is forwarded; none if the request is refused before that is known.
    pub forwarded: Option<String>,
    /// Whether the page that makes the request may read what the gateway answers; none if no page does, or if the
    /// route has no `cors_origins`.
    pub is_readable_by_page: Option<bool>,
}

/// What a policy does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyView {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it refuses; none: it is off.
    pub mode: Option<PolicyMode>,
    /// Its partition, as the file has it; empty: one quota for all.
    pub partition: String,
    /// The client, as logs show it.
    pub client: String,
    /// The digest that the client is counted under, if it is the same in every process that counts it.
    pub id: Option<String>,
    /// What it does; none if the request is refused before that is known.
    pub outcome: Option<PolicyOutcome>,
    /// Whether it refuses the request.
    pub is_refusing: bool,
    /// The override that matched, as logs show it.
    pub matched: Option<String>,
    /// The quotas, and those that are tried beside them.
    pub quotas: Vec<QuotaView>,
    /// What the request costs; none if nothing is counted.
    pub cost: Option<CostView>,
}

/// What a request costs, as far as its head tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostView {
    /// Units that are charged first.
    pub units: u64,
    /// What a unit is called.
    pub unit: Arc<str>,
    /// Whether that is the least that the request's body could make of it.
    pub is_at_least: bool,
    /// What is known only from the body or the answer.
    pub known_later: Vec<String>,
}

/// A quota of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaView {
    /// The quota.
    pub quota: Quota,
    /// Whether it is tried beside the policy's own.
    pub is_candidate: bool,
    /// What is left of it, if the store was asked.
    pub left: Option<LeftView>,
}

/// What is left of a quota, and what a request meets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftView {
    /// Units that would be admitted now.
    pub remaining: u64,
    /// Units by which a balance is below 0.
    pub debt: u64,
    /// When there is more; none if it is whole.
    pub next: Option<Micros>,
    /// When it is whole; 0 if it is.
    pub reset: Micros,
    /// Whether the request fits.
    pub admit: bool,
    /// When it would.
    pub retry: Retry,
    /// Whether the store did not say so: it is what this gateway would say in its place.
    pub is_degraded: bool,
}

/// What refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedView {
    /// The status.
    pub status: StatusCode,
    /// Why, in the word that logs and metrics have.
    pub reason: Reason,
    /// What the client is told, if it is a problem of RFC 9457.
    pub detail: Option<String>,
    /// The policy that refuses, if one does: the first of several.
    pub policy: Option<String>,
    /// The names of the quotas that have no room.
    pub quotas: Vec<String>,
    /// When it is worth trying again.
    pub retry_after_secs: Option<u64>,
}

/// What would happen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveView {
    /// How long an admitted request would be delayed.
    pub wait: Micros,
    /// Whether some quota was not asked in the store, which did not answer.
    pub is_degraded: bool,
}
