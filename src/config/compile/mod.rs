//! From the file's mirror to the snapshot: names are resolved, and every mistake that one value alone
//! cannot show is collected.
//!
//! A table in which the reader found a mistake is still compiled, but nothing is reported as missing
//! from it, because an absent key may be the wrong one. The store is asked for series only
//! once nothing is wrong, so a bad file leaves no trace there.

mod algorithm_key;
mod arithmetic;
mod bodies;
mod consistency;
mod cors;
mod costs;
mod counting;
mod credits;
mod hashed;
mod in_flight;
mod inventable;
mod jwt;
mod listeners;
mod names;
mod overrides;
mod paths;
mod policies;
mod prices;
mod quotas;
mod route_costs;
mod route_mistakes;
mod routes;
mod rows;
mod spills;
mod store;
mod temporary;
mod tls;
mod upstreams;
mod warnings;

pub(super) use listeners::listener;
pub use temporary::{GrantsBeside, checks_left_for, temporary_grant};
pub use warnings::warnings;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderName;
use http::header::CONTENT_ENCODING;
use typed_index_collections::{TiSlice, TiVec};

use self::hashed::hashed;
use super::file::{File, RawRoute};
use super::report::Report;
use crate::index::PolicyIndex;
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, Quota};
use crate::request::{AddressSource, Part, Reads, SeenNames};
use crate::snapshot::{Grant, Listener, Policy, PolicyQuota, Route, Snapshot};
use crate::store::settings::Location;
use crate::store::{Series, SeriesRole};

/// Refuses policies that the store in force cannot count, even if the file names another store, which needs a restart.
pub fn check_store_in_force(
    file: &File,
    snapshot: &Snapshot,
    running: &Location,
    report: &mut Report,
) {
    for (table, policy) in file.policies.iter().zip(&snapshot.policies) {
        credits::check_store_in_force(table, policy, running, report);
    }
}

/// Compiles a file, or reports everything that is wrong with it.
///
/// If the reader found a mistake in the file, compiling it only serves to find further ones.
/// `series_id_of` is the store's: it is called once for each series of a policy, and only if nothing is wrong.
pub fn compile(
    file: &File,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Snapshot, Report> {
    let mut report = Report::default();
    let listeners = listeners::compile(file, &mut report);
    let upstreams = upstreams::compile(file, &mut report);
    let mut policies: TiVec<PolicyIndex, _> = policies::compile(file, &mut report).into();
    spills::compile(file, &mut policies, &mut report);
    let mut routing = routes::compile(file, &policies, &mut report);
    let preflight_policies = cors::preflight_policies(file, &policies, &mut report);
    let store = store::compile(&file.store, &mut report);
    listeners::lacking_client_ca(file, &policies.raw, &mut report);
    let tokens = jwt::compile(file, &policies.raw, &mut report);
    if !report.is_empty() {
        return Err(report);
    }
    let holds_requests = holds_requests(&policies);
    for policy in &mut policies {
        let can_come_back = holds_requests || policy.is_settled();
        assign(policy, can_come_back, series_id_of);
    }
    let token_header = &file.jwt.value.rules.header;
    for (route, table) in routing.routes.iter_mut().zip(&file.routes) {
        let mut reads = reads(route, &policies, token_header);
        let hashed = || hashed(&file.upstreams[route.upstream]);
        if hashed().any(|part| matches!(part, Part::Claim(_))) {
            reads = reads.with_claims();
        }
        route.reads = (reads != Reads::default()).then(|| Box::new(reads));
        let hashed = hashed().filter_map(|part| part.header(Some(token_header)));
        route.decisive_headers = decisive_headers_of(route, &table.value, hashed);
    }
    let decisive_headers = decisive_headers(&listeners, &routing, &policies, token_header);
    let read = routing
        .routes
        .iter()
        .filter_map(|route| route.reads.as_ref());
    let mut read = read.flat_map(|reads| reads.headers());
    debug_assert!(read.all(|name| decisive_headers.contains(name)));
    let general = file.top.value.general.clone();
    let believed = listeners
        .iter()
        .flat_map(|listener| listener.identity.believed_fields());
    let own = believed.chain(&general.request_id);
    let head_filter = SeenNames::filter(own.chain(&*decisive_headers));
    let mut hashed = file.upstreams.iter().flat_map(hashed);
    let is_scheme = |name: &HeaderName| *name == "x-forwarded-proto";
    let reads_scheme = decisive_headers.iter().any(is_scheme)
        || hashed.any(|part| part.header(None).is_some_and(is_scheme));
    Ok(Snapshot {
        listeners: listeners.into(),
        router: Arc::new(routing.router),
        routes: routing.routes.into(),
        policies,
        preflight_policies,
        tokens,
        decisive_headers,
        head_filter,
        reads_scheme,
        upstreams: upstreams.into(),
        log: file.log.value.clone(),
        admin: file.admin.value.clone(),
        store,
        general,
    })
}

/// Whether any policy delays requests: if there is no place for one to wait, its charges under all policies come
/// back.
fn holds_requests(policies: &TiSlice<PolicyIndex, Policy>) -> bool {
    policies.iter().any(|policy| {
        let mut quotas = policy.grants().flat_map(Grant::quotas);
        quotas.any(|part| matches!(part.quota.algorithm, Algorithm::LeakyBucket { .. }))
    })
}

/// Collects what the policies of a route, and those that they spill to, read from requests.
fn reads(
    route: &Route,
    policies: &TiSlice<PolicyIndex, Policy>,
    token_header: &HeaderName,
) -> Reads {
    let applied = || {
        route
            .policies
            .iter()
            .flat_map(|applied| [Some(applied.policy), policies[applied.policy].spill])
            .flatten()
            .map(|policy| &policies[policy])
    };
    let reads = Reads::of(applied().flat_map(Policy::parts), Some(token_header));
    let costs = applied().filter_map(Policy::request_cost_header);
    costs.fold(reads, Reads::with_header)
}

/// Collects the headers that a route depends on: those that it matches on, those that its policies read, and those
/// that its upstream hashes.
fn decisive_headers_of<'n>(
    route: &'n Route,
    raw: &'n RawRoute,
    hashed: impl Iterator<Item = &'n HeaderName>,
) -> Vec<HeaderName> {
    let asked = raw.headers.iter().map(|(name, _)| name);
    // Content-Encoding says whether a body can be read.
    let reads_requests = route
        .bodies
        .as_ref()
        .is_some_and(|body| body.reads_requests);
    let coding = reads_requests.then_some(&CONTENT_ENCODING);
    let read = route.reads.iter().flat_map(|reads| reads.headers());
    let read = read.chain(coding);
    let names: HashSet<&HeaderName> = read.chain(asked).chain(hashed).collect();
    names.into_iter().cloned().collect()
}

/// Gives all quotas of a policy their series ids, the same to quotas that share a series, and notes whether
/// their charges can come back.
fn assign(
    policy: &mut Policy,
    can_come_back: bool,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) {
    let (name, mut known) = (&policy.name, HashMap::new());
    let mut number = |part: &mut PolicyQuota, role| {
        number(part, can_come_back, &mut |quota| {
            let series = Series::of(Arc::clone(name), role, quota);
            let known = known.entry(series);
            let found = known.or_insert_with_key(&mut *series_id_of);
            *found
        });
    };
    let others = policy.overrides.iter_mut().flat_map(|overrides| {
        let overrides = Arc::get_mut(overrides);
        &mut overrides.expect("no snapshot has the policy yet").grants
    });
    for grant in [&mut policy.grant].into_iter().chain(others) {
        if let Grant::Quotas(quotas) = grant {
            for part in quotas {
                number(part, SeriesRole::Real);
            }
        }
    }
    for part in &mut policy.candidates {
        number(part, SeriesRole::Candidate);
    }
    if let Some(penalty) = &mut policy.penalty {
        number(penalty, SeriesRole::Real);
    }
}

/// Gives a quota, and its variants for clients with days of their own, their series ids.
fn number(
    part: &mut PolicyQuota,
    can_come_back: bool,
    series_id_of: &mut dyn FnMut(&Quota) -> SeriesId,
) {
    let own = part
        .own
        .iter_mut()
        .map(|(quota, series_id)| (quota, series_id));
    for (quota, series_id) in [(&mut part.quota, &mut part.series_id)]
        .into_iter()
        .chain(own)
    {
        quota.can_come_back = can_come_back;
        *series_id = series_id_of(quota);
    }
}

/// Collects the headers that tell requests apart, and those that a route changes, each once.
fn decisive_headers(
    listeners: &[Arc<Listener>],
    routing: &routes::Routing,
    policies: &TiSlice<PolicyIndex, Policy>,
    token_header: &HeaderName,
) -> Arc<[HeaderName]> {
    let sources = listeners.iter().map(|listener| &listener.identity.source);
    let addresses = sources.filter_map(|source| match source {
        AddressSource::Header(name) => Some(name),
        _ => None,
    });
    let parts = policies.iter().flat_map(Policy::parts);
    let parts = parts.filter_map(|part| part.header(Some(token_header)));
    let costs = policies.iter().filter_map(Policy::request_cost_header);
    let read = addresses.chain(parts).chain(costs);
    let changed = routing.routes.iter().flat_map(|route| &route.changes);
    let changed = changed.flat_map(|changes| changes.request.names());
    let all = read.chain(routing.router.header_names()).chain(changed);
    let names: HashSet<&HeaderName> = all.collect();
    names.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    const FILE: &str = r#"
        [listeners.public]
        address = "127.0.0.1:8080"
        [upstreams.api]
        endpoints = ["http://127.0.0.1:9000"]
        [policies.two]
        quota = ["500 per 2s", "2000 per 10s"]
        [policies.even]
        quota = "10 per second"
        algorithm = "gcra"
        mode = "off"
        [[routes]]
        path = "/*"
        upstream = "api"
        policies = ["two", "even"]
    "#;

    /// A claim that chooses an endpoint must have been verified, but no request is refused because of it.
    #[test]
    fn a_route_verifies_the_tokens_that_its_upstream_hashes() {
        let file = |hash: &str| {
            let keys = "[jwt]\nkeys = ['tests/config/tls/issuer.pem']\n[policies.even]";
            let hash = format!("balance = 'hash'\nhash_by = ['{hash}']\n[policies.two]");
            let text = FILE.replace("[policies.even]", keys);
            let loaded = load(
                &text.replace("[policies.two]", &hash),
                &|_| None,
                &mut |_| SeriesId(0),
            );
            loaded.expect("a good file").snapshot.routes.raw[0]
                .reads
                .clone()
        };
        let claims = Reads::default().with_claims();
        assert_eq!(file("jwt:sub | ip").as_deref(), Some(&claims));
        assert_eq!(
            file("cookie:session | query:key | header:authorization"),
            None
        );
    }

    #[test]
    fn charges_can_come_back_if_the_policy_is_settled_or_requests_are_delayed() {
        let can_come_back = |policies: &str| -> Vec<bool> {
            let file = format!("{FILE}\n{policies}");
            let loaded = load(&file, &|_| None, &mut |_| SeriesId(0)).expect("a good file");
            let policies = &loaded.snapshot.policies;
            let quotas = policies.iter().flat_map(|policy| policy.grant.quotas());
            quotas.map(|part| part.quota.can_come_back).collect()
        };
        let gcra = "[policies.z]\nquota = \"5 per second\"\nalgorithm =";
        let cases = [
            ("\"gcra\"", [false, false, false, false]),
            ("\"gcra\"\nrefund_on = [503]", [false, false, false, true]),
            ("\"leaky-bucket\"", [true, true, true, true]),
        ];
        for (rest, expected) in cases {
            assert_eq!(can_come_back(&format!("{gcra} {rest}")), expected, "{rest}");
        }
    }
}
