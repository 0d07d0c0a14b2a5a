//! Phase 1 of the journey: which route a request takes, and which policies decide it.
//!
//! A CORS preflight takes the route of the request that it announces, if the file names policies for preflights:
//! these then decide it in place of the route's own.

use http::request::Parts;
use http::{HeaderMap, Method};
use http_body::Body;

use super::journey_state::Journey;
use super::refusal::Refusal;
use crate::request::path::Normalised;
use crate::request::route::{Found, Lookup};
use crate::request::target::PathChange;
use crate::request::{announced_method, with_announced_headers};
use crate::snapshot::{AppliedPolicy, EncodedSlash, Snapshot};

impl<'r> Journey<'r> {
    /// Phase 1: finds the route, and the policies of preflights if the request is one.
    #[expect(clippy::inline_always, reason = "one caller, and a large result")]
    #[inline(always)]
    pub(super) fn find_route(
        &self,
        host: &str,
        head: &Parts,
        path: &Normalised<'_>,
    ) -> Result<(Found, Option<&'r [AppliedPolicy]>), Refusal> {
        let has_body = || self.body.as_ref().is_some_and(|body| !body.is_end_stream());
        let is_escaped = || self.exchange.request().is_target_escaped();
        find_route(
            &self.live.snapshot,
            (host, head, path),
            has_body,
            is_escaped,
        )
    }
}

/// Finds the route of a request by its host, head and path, and the policies of preflights if it is one.
/// `is_escaped` says whether the target arrived with characters that had to be escaped.
#[expect(clippy::inline_always, reason = "one busy caller, and a large result")]
#[inline(always)]
pub(super) fn find_route<'r>(
    snapshot: &'r Snapshot,
    (host, head, path): (&str, &Parts, &Normalised<'_>),
    has_body: impl FnOnce() -> bool,
    is_escaped: impl FnOnce() -> bool,
) -> Result<(Found, Option<&'r [AppliedPolicy]>), Refusal> {
    let found = match preflight(snapshot, head, has_body) {
        None => (
            route(snapshot, host, &head.method, &head.headers, path)?,
            None,
        ),
        Some((policies, announced)) => {
            let found = of_preflight(snapshot, host, head, &announced, path)?;
            (found, Some(policies))
        }
    };
    if is_as_sent(snapshot, &found.0) && (path.had_raw() || is_escaped()) {
        // The target is no longer what was sent.
        return Err(Refusal::bad_path());
    }
    Ok(found)
}

/// Returns the method and headers by which a request's route is looked up: its own, or those that it announces.
pub(super) fn looked_up(
    snapshot: &Snapshot,
    (host, head, path): (&str, &Parts, &Normalised<'_>),
    has_body: impl FnOnce() -> bool,
) -> (Method, HeaderMap) {
    let announced = preflight(snapshot, head, has_body)
        .and_then(|(_, announced)| announced_request(snapshot, host, head, &announced, path));
    announced.unwrap_or_else(|| (head.method.clone(), head.headers.clone()))
}

/// Returns the policies of preflights and the method that is announced, if a request is a preflight that they
/// decide.
#[inline]
fn preflight<'r>(
    snapshot: &'r Snapshot,
    head: &Parts,
    has_body: impl FnOnce() -> bool,
) -> Option<(&'r [AppliedPolicy], Method)> {
    let policies = snapshot.preflight_policies.as_deref()?;
    if head.method != Method::OPTIONS || has_body() {
        return None;
    }
    Some((policies, announced_method(&head.method, &head.headers)?))
}

/// Finds the route of a preflight: one that names OPTIONS, or that of the request which is announced.
#[cold]
fn of_preflight(
    snapshot: &Snapshot,
    host: &str,
    head: &Parts,
    announced: &Method,
    path: &Normalised<'_>,
) -> Result<Found, Refusal> {
    match announced_request(snapshot, host, head, announced, path) {
        None => route(snapshot, host, &head.method, &head.headers, path),
        Some((method, headers)) => route(snapshot, host, &method, &headers, path),
    }
}

/// Returns the method and the headers that a preflight announces; none if its own are looked up, because a route
/// names OPTIONS.
fn announced_request(
    snapshot: &Snapshot,
    host: &str,
    head: &Parts,
    announced: &Method,
    path: &Normalised<'_>,
) -> Option<(Method, HeaderMap)> {
    let router = &snapshot.router;
    let as_sent = router.find(host, &head.method, path.as_str(), &head.headers);
    if let Lookup::Found(found) = as_sent
        && router.names_method(&found, &head.method)
    {
        return None;
    }
    let headers = with_announced_headers(&head.headers, router.header_names());
    Some((announced.clone(), headers))
}

#[expect(clippy::inline_always, reason = "one busy caller, and a large result")]
#[inline(always)]
fn route(
    snapshot: &Snapshot,
    host: &str,
    method: &Method,
    headers: &HeaderMap,
    path: &Normalised<'_>,
) -> Result<Found, Refusal> {
    let router = &snapshot.router;
    let found = match router.find(host, method, path.as_str(), headers) {
        Lookup::Found(found) => found,
        Lookup::NoRoute => return Err(Refusal::no_route()),
        Lookup::MethodCase => return Err(Refusal::bad_method_case()),
    };
    if path.has_encoded_slash() {
        let is_kept = snapshot.routes[found.route].encoded_slash == EncodedSlash::Keep;
        if !is_kept || router.hides_another(&found, host, method, path.as_str(), headers) {
            return Err(Refusal::bad_path());
        }
    }
    if is_as_sent(snapshot, &found) && router.leads_elsewhere(&found, host, method, path, headers) {
        return Err(Refusal::bad_path());
    }
    Ok(found)
}

/// Whether the route forwards paths as they were sent.
fn is_as_sent(snapshot: &Snapshot, found: &Found) -> bool {
    matches!(snapshot.routes[found.route].path_change, PathChange::AsSent)
}
