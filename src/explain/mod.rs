//! Explains what becomes of a request, and why: the answer to `tollgate explain` and `POST /api/explain`.
//!
//! The request takes the first phases of a journey ([`dry_run`](crate::proxy)), so it meets there what a client's
//! request meets. The result is an [`Explanation`], which is displayed for people and, as [`json`](Explanation::json),
//! given to programs. Nothing is spent, and nothing is counted.

mod asked;
mod explanation;
mod json;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, ORIGIN, TRANSFER_ENCODING};
use http::{HeaderValue, Method};
use serde_json::Value;
use smallvec::SmallVec;

pub use self::asked::{AskedRequest, BadQuestion, ListenerChoice};
pub use self::explanation::{
    ClientView, CostView, Explanation, LeftView, LiveView, PolicyView, PreflightView, QuotaView,
    RefusedView, RouteView,
};
use crate::clock::{Micros, Timestamp};
use crate::config::{display, guarantee};
use crate::limit::PartitionId;
use crate::limiter::{Decided, Limiter, PeekedCost, PolicyResult, Preview};
use crate::proxy::admitted::admitted;
use crate::proxy::connection_facts::ConnectionFacts;
use crate::proxy::dry_run::{AnnouncedBody, Course, DryRun};
use crate::proxy::process::is_partition_key_known;
use crate::proxy::refusal::{Dialect, Refusal};
use crate::request::route::Mismatch;
use crate::request::{AddressSource, Facts, Identified, claimed_address, partition_id, redacted};
use crate::snapshot::{AppliedPolicy, Override, OverrideOrigin, Policy, Snapshot};
use crate::store::PeekedCheck;

/// Whether the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainMode {
    /// The store is not asked: the explanation holds whatever has been spent.
    File,
    /// The store is asked what is left now.
    Live,
}

/// Explains what becomes of a request that arrives at `now`, by wall time.
///
/// # Errors
/// If the request names a listener that does not exist.
pub async fn explain(
    limiter: Limiter<'_>,
    asked: &AskedRequest,
    now: Timestamp,
    mode: ExplainMode,
) -> Result<Explanation, BadQuestion> {
    let (listener, listener_choice) = asked.listener(limiter.snapshot)?;
    let mut head = asked.head();
    let target = head.uri.to_string();
    let dry_run = DryRun {
        sent_by: ConnectionFacts {
            snapshot: limiter.snapshot,
            listener,
            peer: asked.peer(listener),
            is_client_known: true,
            certificate: None,
            is_tls: listener.tls.is_some(),
        },
        limiter,
        body: announced_body(&head.headers),
        now,
    };
    let client = client(&dry_run.sent_by, asked, &head.headers);
    let is_preflight = is_preflight(&head.method, &head.headers);
    let (mut course, mut clients) = (Course::default(), Vec::new());
    let refused = dry_run.run(&mut head, &mut course, |facts, policies| {
        let applied = policies.iter();
        clients.extend(applied.map(|one| AppliedClient::of(&limiter, one, facts)));
    });
    let mut refused = refused.err().map(RefusedView::of);
    let (mut left, mut live) = (SmallVec::new(), None);
    if mode == ExplainMode::Live && refused.is_none() {
        let preview = course.preview.as_mut().expect("nothing refuses its plan");
        (left, live, refused) = peek(&limiter, preview).await;
    }
    let store = &limiter.snapshot.store;
    let findings = PolicyFindings {
        limiter: &limiter,
        preview: course.preview.as_ref(),
        left,
        refusing: refused.as_ref().and_then(|one| one.policy.as_deref()),
        is_id_known: mode == ExplainMode::Live || is_partition_key_known(store),
    };
    let (other_routes, more_routes) = other_routes(limiter.snapshot, &course);
    Ok(Explanation {
        method: head.method.to_string(),
        target,
        host: course.host.as_deref().map(str::to_owned),
        path: course.path.clone(),
        listener: Arc::clone(&listener.name),
        listener_choice,
        client,
        preflight: is_preflight.then(|| preflight(limiter.snapshot, &course)),
        route: route(limiter.snapshot, &course, head.headers.contains_key(ORIGIN)),
        other_routes,
        more_routes,
        policies: clients.iter().map(|one| findings.policy(one)).collect(),
        refused,
        live,
        notes: notes(&dry_run, mode),
    })
}

/// A policy that applies to a request, and the client whose quota the request spends there.
struct AppliedClient {
    applied: AppliedPolicy,
    client: String,
    partition_id: Option<PartitionId>,
}

impl AppliedClient {
    fn of(limiter: &Limiter<'_>, applied: &AppliedPolicy, facts: &Facts<'_>) -> Self {
        let policy = &limiter.snapshot.policies[applied.policy];
        let names = limiter.snapshot.log.clients;
        let client = redacted(limiter.digest_key, &policy.partition, facts, names);
        let key = limiter.partition_key;
        let identified = partition_id(key, &policy.partition, policy.missing, facts);
        Self {
            applied: applied.clone(),
            client: client.to_string(),
            partition_id: match identified {
                Identified::PartitionId(id) => Some(id),
                Identified::Skip | Identified::Unidentified { .. } => None,
            },
        }
    }
}

/// Each quota as it was peeked at: for no units, and for the request's cost.
type PeekedQuotas = SmallVec<[(PeekedCheck, PeekedCheck); 4]>;

/// Asks the store what is left of the quotas, and how it would decide the request.
async fn peek(
    limiter: &Limiter<'_>,
    preview: &mut Preview<'_>,
) -> (PeekedQuotas, Option<LiveView>, Option<RefusedView>) {
    let now = preview.peek(limiter.store, PeekedCost::Nothing).await;
    let then = preview.peek(limiter.store, PeekedCost::Request).await;
    let admission = preview.decide(limiter, &then);
    let decided = admitted(limiter.snapshot, preview.decided(), admission);
    let is_degraded = now.iter().chain(&then).any(|check| check.is_degraded);
    let live = LiveView {
        wait: *decided.as_ref().unwrap_or(&Micros(0)),
        is_degraded,
    };
    let refused = decided.err().map(|refusal| {
        let (snapshot, decided) = (limiter.snapshot, preview.decided());
        let view = RefusedView::of(refusal);
        let quotas = decided.violated(snapshot);
        let first = decided.first_refusing(snapshot);
        RefusedView {
            quotas: quotas
                .map(|quota| quota.items.name().trim_matches('"').to_owned())
                .collect(),
            policy: first.map(|policy| policy.name.to_string()).or(view.policy),
            ..view
        }
    });
    (now.into_iter().zip(then).collect(), Some(live), refused)
}

fn announced_body(headers: &HeaderMap) -> AnnouncedBody {
    let length = headers.get(CONTENT_LENGTH).map(HeaderValue::to_str);
    let bytes = length.and_then(|length| length.ok()?.parse().ok());
    AnnouncedBody {
        is_present: headers.contains_key(TRANSFER_ENCODING) || bytes.is_some_and(|bytes| bytes > 0),
        bytes,
    }
}

fn client(sent_by: &ConnectionFacts<'_>, asked: &AskedRequest, headers: &HeaderMap) -> ClientView {
    let identity = &sent_by.listener.identity;
    let is_trusted = sent_by.trusts_peer();
    ClientView {
        address: sent_by.client(headers),
        peer: sent_by.peer,
        is_peer_known: asked.is_from_known(),
        is_trusted,
        field: (identity.source != AddressSource::Peer)
            .then(|| display::address_source(&identity.source)),
        is_claimed: is_trusted && claimed_address(headers, identity).is_some(),
    }
}

/// Whether the request is one that browsers send ahead of another one (a CORS preflight).
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(snapshot: &Snapshot, course: &Course<'_>) -> PreflightView {
    if course.is_preflight {
        PreflightView::Announced
    } else if snapshot.preflight_policies.is_none() {
        PreflightView::NoPolicies
    } else {
        PreflightView::SaysMore
    }
}

fn route(snapshot: &Snapshot, course: &Course<'_>, has_origin: bool) -> Option<RouteView> {
    let route = &snapshot.routes[course.route?];
    Some(RouteView {
        name: Arc::clone(&route.name),
        upstream: Arc::clone(&snapshot.upstreams[route.upstream].name),
        forwarded: course.forwarded.clone(),
        is_readable_by_page: (!route.cors_origins.is_empty() && has_origin)
            .then_some(course.is_readable_by_page),
    })
}

/// Returns why the nearest of the other routes do not take the request, and how many more routes there are.
fn other_routes(snapshot: &Snapshot, course: &Course<'_>) -> (Vec<(Arc<str>, Mismatch)>, usize) {
    let (Some(host), Some(path), Some((method, headers))) =
        (&course.host, &course.path, &course.looked_up)
    else {
        return (Vec::new(), 0);
    };
    let router = &snapshot.router;
    let mut others = router.mismatches(course.route, host, method, path, headers);
    others.sort_by(|(_, one), (_, other)| other.cmp(one));
    let more = others.len().saturating_sub(OTHER_ROUTES_MAX);
    let others = others.into_iter().take(OTHER_ROUTES_MAX);
    let named = others.map(|(route, why)| (Arc::clone(&snapshot.routes[route].name), why));
    (named.collect(), more)
}

/// What is known about the policies that apply.
struct PolicyFindings<'p, 's> {
    limiter: &'p Limiter<'s>,
    preview: Option<&'p Preview<'s>>,
    left: PeekedQuotas,
    /// Name of the policy that refuses the request.
    refusing: Option<&'p str>,
    /// Whether partition ids can be shown: this process counts by them, or they are the same in all that do.
    is_id_known: bool,
}

impl PolicyFindings<'_, '_> {
    fn policy(&self, client: &AppliedClient) -> PolicyView {
        let policy = &self.limiter.snapshot.policies[client.applied.policy];
        let decided = self.preview.map(Preview::decided);
        let results = decided
            .iter()
            .flat_map(|decided| decided.policies.iter().enumerate());
        let is_own = |(_, result): &(_, &PolicyResult)| result.policy == client.applied.policy;
        let own = { results }.find(is_own);
        let quotas = own.map_or(Vec::new(), |(of, _)| self.quotas(of));
        let matched = own.filter(|(_, result)| result.matched.is_some());
        let matched = matched.zip(decided);
        let id = client.partition_id.filter(|_| self.is_id_known);
        PolicyView {
            name: Arc::clone(&policy.name),
            mode: policy.mode,
            partition: match &*policy.partition.0 {
                [] => String::new(),
                _ => display::partition(&policy.partition),
            },
            client: client.client.clone(),
            id: id.map(|id| format!("id:{:032x}", id.bits())),
            outcome: own.map(|(_, result)| result.outcome),
            is_refusing: self.refusing.is_some_and(|name| name == &*policy.name),
            matched: matched.map(|((_, result), decided)| shown_override(decided, result)),
            cost: own
                .filter(|_| !quotas.is_empty())
                .map(|(_, result)| CostView::of(policy, &client.applied, result)),
            quotas,
        }
    }

    /// Returns the quotas of the policy at index `of` in the plan.
    fn quotas(&self, of: usize) -> Vec<QuotaView> {
        let Some(preview) = self.preview else {
            return Vec::new();
        };
        let quotas = preview.quotas(self.limiter).enumerate();
        let own = quotas.filter(|(_, quota)| quota.of == of);
        own.map(|(at, quota)| QuotaView {
            quota: quota.quota.quota,
            is_candidate: quota.is_candidate,
            left: self.left.get(at).map(LeftView::of),
        })
        .collect()
    }
}

impl LeftView {
    fn of((now, then): &(PeekedCheck, PeekedCheck)) -> Self {
        Self {
            remaining: now.decision.remaining,
            debt: now.decision.debt,
            next: now.decision.next,
            reset: now.decision.reset,
            admit: then.decision.admit,
            retry: then.decision.retry,
            is_degraded: now.is_degraded || then.is_degraded,
        }
    }
}

impl CostView {
    fn of(policy: &Policy, applied: &AppliedPolicy, result: &PolicyResult) -> Self {
        let is_replaced = policy.body_cost().is_some() && applied.body_cost.is_none();
        let reported = policy.reported_cost.as_deref().filter(|_| !is_replaced);
        let reported = reported.map(guarantee::reported_cost);
        let answers = (policy.counted_answers.as_deref()).map(guarantee::counted_answers);
        let needs_body = applied.body_cost.as_ref().is_some_and(|cost| {
            let need = cost.request_need();
            need.reads_json || need.bytes_max > 0
        });
        Self {
            units: result.asked,
            unit: Arc::clone(&policy.unit),
            is_at_least: needs_body,
            known_later: reported.into_iter().flatten().chain(answers).collect(),
        }
    }
}

impl RefusedView {
    fn of(refusal: Refusal) -> Self {
        let (reason, retry_after_secs) = (refusal.reason(), refusal.retry_after_secs());
        let status = refusal.status();
        let headers = HeaderMap::new();
        let response = refusal.into_response(Dialect::of(&headers), headers);
        let text = |body: &Bytes, key: &str| {
            let body: Value = serde_json::from_slice(body).ok()?;
            Some(body.get(key)?.as_str()?.to_owned())
        };
        Self {
            status,
            reason,
            detail: text(response.body(), "detail"),
            policy: text(response.body(), "policy"),
            quotas: Vec::new(),
            retry_after_secs,
        }
    }
}

fn notes(dry_run: &DryRun<'_>, mode: ExplainMode) -> Vec<String> {
    let mut notes = Vec::new();
    let (listener, store) = (dry_run.sent_by.listener, &dry_run.limiter.snapshot.store);
    if listener.client_ca().is_some() {
        notes.push("the listener asks for a client's certificate; none is assumed".to_owned());
    }
    if store.key_secret.is_none() && mode == ExplainMode::File {
        notes.push(
            "`[store] key_secret` is not set, so digests have a key that is random at each start of the gateway: those \
             above are valid only here"
                .to_owned(),
        );
    }
    notes
}

/// Most routes listed that do not take a request.
const OTHER_ROUTES_MAX: usize = 10;

/// Returns the name of the override that matched, and whether it ends by itself.
fn shown_override(decided: &Decided, result: &PolicyResult) -> String {
    let tier = decided.tier(result);
    match result.matched {
        Some(Override {
            origin: OverrideOrigin::Operator,
            ..
        }) => format!("{tier}, for a time (`tollgate keys list`)"),
        _ => tier.to_owned(),
    }
}
