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
        let snapshot = &self.live.snapshot;
        let found = self.find_any(host, head, path)?;
        if is_as_sent(snapshot, &found.0)
            && (path.had_raw() || self.exchange.request().is_target_escaped())
        {
            // The target is not what was sent any more.
            return Err(Refusal::bad_path());
        }
        Ok(found)
    }

    #[expect(clippy::inline_always, reason = "one caller, and a large result")]
    #[inline(always)]
    fn find_any(
        &self,
        host: &str,
        head: &Parts,
        path: &Normalised<'_>,
    ) -> Result<(Found, Option<&'r [AppliedPolicy]>), Refusal> {
        let snapshot = &self.live.snapshot;
        if let Some(policies) = &snapshot.preflight_policies
            && head.method == Method::OPTIONS
            && self.body.as_ref().is_none_or(Body::is_end_stream)
            && let Some(announced) = announced_method(&head.method, &head.headers)
        {
            let found = of_preflight(snapshot, host, head, &announced, path)?;
            return Ok((found, Some(policies)));
        }
        let found = route(snapshot, host, &head.method, &head.headers, path)?;
        Ok((found, None))
    }
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
    let router = &snapshot.router;
    let as_sent = router.find(host, &head.method, path.as_str(), &head.headers);
    if let Lookup::Found(found) = as_sent
        && router.names_method(&found, &head.method)
    {
        return route(snapshot, host, &head.method, &head.headers, path);
    }
    let headers = with_announced_headers(&head.headers, router.header_names());
    route(snapshot, host, announced, &headers, path)
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
