//! What the gateway's own answers say to pages of other origins: that they may read them, and which fields.
//!
//! An origin behind the gateway says so of its own answers; it never sees the requests that are refused.

use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderMap, HeaderValue, ORIGIN,
    VARY,
};

use crate::index::RouteIndex;
use crate::request::{copied_value, only_line};
use crate::snapshot::{RateLimitHeaders, Route, Snapshot};

/// Returns the index of the origin in a route's `cors_origins` whose page makes the request; none if the page may not
/// read the answer.
pub(super) fn page_origin(route: &Route, headers: &HeaderMap) -> Option<usize> {
    if *route.cors_origins.first()? == "*" {
        return Some(0);
    }
    let origin = only_line(headers, &ORIGIN)?;
    route.cors_origins.iter().position(|one| one == origin)
}

/// Lets the page that made the request read an answer of the gateway, if the route allows its origin.
pub(super) fn allow(
    headers: &mut HeaderMap,
    snapshot: &Snapshot,
    route: Option<RouteIndex>,
    page_origin: Option<usize>,
) {
    let origins = route.map(|route| &snapshot.routes[route].cors_origins);
    let Some(origins) = origins.filter(|origins| !origins.is_empty()) else {
        return;
    };
    // The answer depends on the page's origin, which caches must know.
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(index) = page_origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, copied_value(&origins[index]));
        let exposed = exposed(snapshot.general.ratelimit_headers);
        let exposed = HeaderValue::from_static(exposed);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// Returns the fields of the gateway's own answers that scripts may read.
fn exposed(style: RateLimitHeaders) -> &'static str {
    match style {
        RateLimitHeaders::Ietf => "Retry-After, RateLimit, RateLimit-Policy",
        RateLimitHeaders::X => {
            "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
        }
        RateLimitHeaders::Both => {
            "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
        }
        RateLimitHeaders::Off => "Retry-After",
    }
}
