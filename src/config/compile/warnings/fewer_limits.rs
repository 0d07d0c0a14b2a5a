//! Routes that take requests from a broader one, and limit them less.
//!
//! A limit on `/v1/*` does not apply to `/v1/login` once that is a route of its own. What the broader route's
//! policies enforce must be enforced by the narrower one, too: by the same policy, or by one whose clients are
//! the same or groups of them, and that does not admit more in every window.

use std::collections::HashSet;

use super::removed::never_arrives;
use crate::config::display;
use crate::config::file::File;
use crate::index::RouteIndex;
use crate::limit::Algorithm;
use crate::snapshot::{
    AppliedPolicy, Grant, Policy, PolicyMode, PolicyQuota, Route, Snapshot, UpstreamKind,
};

/// Adds the warnings about routes that do not say `fewer_limits = true`.
pub(super) fn warn(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    let by_default = &file.top.value.default_policies;
    for (index, (table, route)) in file.routes.iter().zip(&snapshot.routes).enumerate() {
        let mut asked = table.value.headers.iter();
        let matches_nothing = asked.any(|(name, _)| never_arrives(name));
        if table.value.fewer_limits || matches_nothing || reaches_nothing(snapshot, route) {
            continue;
        }
        // With `default_policies = false`, the route has said already that it does without them.
        let is_refused = |policy: &Policy| {
            let mut names = by_default.iter();
            !table.value.default_policies && names.any(|name| *name.value == *policy.name)
        };
        for broader in snapshot.router.next_broader(RouteIndex::from(index)) {
            let broader = &snapshot.routes[broader];
            let limits = broader
                .policies
                .iter()
                .map(|applied| (applied, &snapshot.policies[applied.policy]));
            let less =
                limits
                    .filter(|(_, policy)| !is_refused(policy))
                    .find_map(|(applied, policy)| {
                        Some((policy, how_much_less(snapshot, (applied, policy), route)?))
                    });
            found.extend(less.map(|(policy, less)| say(route, broader, policy, &less)));
        }
    }
}

/// How a route limits less than a policy.
enum Less<'s> {
    /// The route has no policy of its own that covers the same clients.
    Without,
    /// All policies of the route that cover the same clients admit more; this is the first.
    Looser(&'s Policy),
}

fn say(route: &Route, broader: &Route, policy: &Policy, less: &Less<'_>) -> String {
    let (name, other) = (&route.name, &broader.name);
    let (limit, clients) = (&policy.name, display::partition(&policy.partition));
    let what = match less {
        Less::Without => format!("and no policy of its own is by {clients}"),
        Less::Looser(looser) => format!("and its own policy `{}` admits more", looser.name),
    };
    format!(
        "route `{name}` takes requests that route `{other}` limits by policy `{limit}`, {what}: if that is meant, say \
         `fewer_limits = true`"
    )
}

/// Whether a route answers by itself, without any work that a limit could spare.
fn reaches_nothing(snapshot: &Snapshot, route: &Route) -> bool {
    matches!(
        snapshot.upstreams[route.upstream].kind,
        UpstreamKind::Status(_) | UpstreamKind::RedirectHttps | UpstreamKind::Usage
    )
}

/// Compares a policy of a broader route with those of `route`, or returns `None` if that limits no less.
fn how_much_less<'s>(
    snapshot: &'s Snapshot,
    (applied, policy): (&AppliedPolicy, &Policy),
    route: &Route,
) -> Option<Less<'s>> {
    let is_same = |own: &AppliedPolicy| own.policy == applied.policy;
    if policy.mode != Some(PolicyMode::Enforce) || route.policies.iter().any(is_same) {
        return None;
    }
    let own = route
        .policies
        .iter()
        .map(|own| (own, &snapshot.policies[own.policy]));
    let mut like_it = own
        .filter(|(_, own)| own.mode == Some(PolicyMode::Enforce) && covers_clients(own, policy))
        .peekable();
    let Some((_, first)) = like_it.peek() else {
        return Some(Less::Without);
    };
    let first = *first;
    let is_looser = |(own_applied, own): (&AppliedPolicy, &Policy)| {
        is_looser((own_applied.cost, own), (applied.cost, policy))
    };
    like_it.all(is_looser).then_some(Less::Looser(first))
}

/// Whether each client of `policy` belongs, with all its requests, to one client of `own`.
fn covers_clients(own: &Policy, policy: &Policy) -> bool {
    own.partition
        .0
        .iter()
        .all(|choice| policy.partition.0.contains(choice))
}

/// Whether `own` admits more requests than `policy`, in every window of either.
fn is_looser((own_cost, own): (u64, &Policy), (cost, policy): (u64, &Policy)) -> bool {
    match (&own.grant, &policy.grant) {
        (Grant::Blocked, _) | (_, Grant::Unlimited) => false,
        (_, Grant::Blocked) | (Grant::Unlimited, Grant::Quotas(_)) => true,
        (Grant::Quotas(own_quotas), Grant::Quotas(quotas)) => {
            let is_comparable = own.reported_cost.is_none()
                && policy.reported_cost.is_none()
                && own.unit == policy.unit;
            let all = own_quotas.iter().chain(quotas);
            let windowed = all.filter(|part| part.quota.has_window());
            let windows: HashSet<u64> = windowed.map(|part| part.quota.window.0).collect();
            let admits_more = |window: u64| {
                // Requests are compared, each of which may cost several units: a / b > c / d.
                admitted(own_quotas, window).saturating_mul(cost.into())
                    > admitted(quotas, window).saturating_mul(own_cost.into())
            };
            is_comparable && !windows.is_empty() && windows.into_iter().all(admits_more)
        }
    }
}

/// Returns how many units quotas admit in a stretch of this many microseconds that begins with a window.
fn admitted(quotas: &[PolicyQuota], stretch_us: u64) -> u128 {
    let of_one = |PolicyQuota { quota, .. }: &PolicyQuota| {
        let limit = u128::from(quota.limit);
        let paced = || u128::from(stretch_us / quota.interval_us().max(1));
        match quota.algorithm {
            Algorithm::Gcra { burst } => paced().max(u128::from(burst)),
            Algorithm::LeakyBucket { .. } => paced().max(1),
            Algorithm::Credits { .. } | Algorithm::InFlight => u128::MAX,
            _ => limit.saturating_mul(stretch_us.div_ceil(quota.window.0).into()),
        }
    };
    quotas.iter().map(of_one).min().unwrap_or(u128::MAX)
}
