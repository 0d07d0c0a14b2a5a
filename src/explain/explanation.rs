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
    /// Path and query, as sent.
    pub target: String,
    /// The host, as hosts are compared; `None` if the request is refused before it is known.
    pub host: Option<String>,
    /// The path, normalised; `None` if the request is refused before it is known.
    pub path: Option<String>,
    /// The name of the listener.
    pub listener: Arc<str>,
    /// Why this listener was chosen.
    pub listener_choice: ListenerChoice,
    /// The client whose request it is.
    pub client: ClientView,
    /// How a CORS preflight is treated; `None` if the request is not a preflight.
    pub preflight: Option<PreflightView>,
    /// The route that takes the request.
    pub route: Option<RouteView>,
    /// Routes that do not take the request, the nearest first, and why.
    pub other_routes: Vec<(Arc<str>, Mismatch)>,
    /// How many more routes do not take the request.
    pub more_routes: usize,
    /// What each policy does, in order.
    pub policies: Vec<PolicyView>,
    /// What refuses the request; if the store was not asked, only what refuses it before any quota is asked.
    pub refused: Option<RefusedView>,
    /// What would happen now, if the store was asked.
    pub live: Option<LiveView>,
    /// Notes on what else should be known.
    pub notes: Vec<String>,
}

/// The client of a request, and how its address is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// Address of the client; `None` if it is behind a Unix socket and no field names it.
    pub address: Option<IpAddr>,
    /// Address of the other end of the connection.
    pub peer: Option<IpAddr>,
    /// Whether the peer's address was given, not assumed.
    pub is_peer_known: bool,
    /// Whether the listener trusts the peer.
    pub is_trusted: bool,
    /// Field in which trusted peers name the client, if the listener has one.
    pub field: Option<String>,
    /// Whether the peer is trusted and the field names the client.
    pub is_claimed: bool,
}

/// How a CORS preflight is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightView {
    /// As the request that it announces; policies for preflights decide it.
    Announced,
    /// As any other request, because the file names no policies for preflights.
    NoPolicies,
    /// As any other request, because it says more than a preflight does.
    SaysMore,
}

/// The route that takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// Name of the route.
    pub name: Arc<str>,
    /// Name of the route's upstream.
    pub upstream: Arc<str>,
    /// The path that is forwarded; `None` if the request is refused before that is known.
    pub forwarded: Option<String>,
    /// Whether the page that makes the request may read the gateway's own answers; `None` if no page makes it, or if
    /// the route has no `cors_origins`.
    pub is_readable_by_page: Option<bool>,
}

/// What a policy does to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyView {
    /// Name of the policy.
    pub name: Arc<str>,
    /// Mode of the policy; `None` if it is off.
    pub mode: Option<PolicyMode>,
    /// Partition of the policy, as written in the file; empty if all clients share one quota.
    pub partition: String,
    /// The client, as logs show it.
    pub client: String,
    /// Partition id of the client; `None` if it has none, or if this process does not know the key of ids.
    pub id: Option<String>,
    /// What the policy does; `None` if the request is refused before that is known.
    pub outcome: Option<PolicyOutcome>,
    /// Whether the policy refuses the request.
    pub is_refusing: bool,
    /// The override that matched, as logs show it.
    pub matched: Option<String>,
    /// Quotas that the request spends, and candidates.
    pub quotas: Vec<QuotaView>,
    /// What the request costs; `None` if nothing is counted.
    pub cost: Option<CostView>,
}

/// What a request costs, as far as its head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostView {
    /// Units that are charged first.
    pub units: u64,
    /// Name of a unit.
    pub unit: Arc<str>,
    /// Whether `units` is a minimum, because the request's body decides how many there are.
    pub is_at_least: bool,
    /// Parts of the cost that are known only from the body or the response.
    pub known_later: Vec<String>,
}

/// A quota of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaView {
    /// The quota.
    pub quota: Quota,
    /// Whether the quota is a candidate, tried beside the policy's own.
    pub is_candidate: bool,
    /// What is left of the quota, if the store was asked.
    pub left: Option<LeftView>,
}

/// What is left of a quota, and whether a request fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftView {
    /// Units that would be admitted now.
    pub remaining: u64,
    /// Units by which a balance is below 0.
    pub debt: u64,
    /// Time until more is left; `None` if the quota is whole.
    pub next: Option<Micros>,
    /// Time until the quota is whole; 0 if it is.
    pub reset: Micros,
    /// Whether the request fits.
    pub admit: bool,
    /// When the request would fit.
    pub retry: Retry,
    /// Whether the store did not answer, so that this is what the gateway would say in its place.
    pub is_degraded: bool,
}

/// What refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedView {
    /// Status of the refusal.
    pub status: StatusCode,
    /// Why the request is refused, in the word of logs and metrics.
    pub reason: Reason,
    /// What the client is told, if the refusal is a problem (RFC 9457).
    pub detail: Option<String>,
    /// Name of the policy that refuses, if one does; the first of several.
    pub policy: Option<String>,
    /// Names of the quotas that have no room.
    pub quotas: Vec<String>,
    /// Seconds after which the client is told to try again.
    pub retry_after_secs: Option<u64>,
}

/// What would happen to the request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveView {
    /// How long an admitted request would be delayed.
    pub wait: Micros,
    /// Whether the store did not answer for some quota.
    pub is_degraded: bool,
}
