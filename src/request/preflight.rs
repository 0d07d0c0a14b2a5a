//! CORS preflights: what a browser asks before it lets a page make a request (Fetch, "CORS-preflight fetch").
//!
//! A request counts as a preflight only if no origin could take it for more: it has no credentials or cookies, no body,
//! and no field that overrides its method, OPTIONS.

use http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, COOKIE, ORIGIN,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::claims::is_method_override;
use super::hop_by_hop::tokens;
use super::only_line::only_line;

/// Returns the method of the request that a preflight announces; none if this is not a preflight. The caller has
/// checked that it has no body.
pub fn announced_method(method: &Method, headers: &HeaderMap) -> Option<Method> {
    let is_more =
        |name: &HeaderName| matches!(*name, AUTHORIZATION | COOKIE) || is_method_override(name);
    if method != Method::OPTIONS || headers.keys().any(is_more) {
        return None;
    }
    only(headers, &ORIGIN)?;
    let announced = only(headers, &ACCESS_CONTROL_REQUEST_METHOD)?;
    Method::from_bytes(announced.as_bytes()).ok()
}

/// Returns the headers of a preflight and, in addition, those of `names` that it announces. Values are not announced,
/// so these get one that equals no value in the file and matches no expression.
pub fn with_announced_headers(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut announced = headers.clone();
    for line in headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        for token in tokens(line) {
            let is_meant = |name: &&HeaderName| name.as_str().eq_ignore_ascii_case(token);
            if let Some(name) = names.iter().find(is_meant)
                && !announced.contains_key(name)
            {
                let unknown = HeaderValue::from_bytes(UNKNOWN).expect("a value may hold it");
                announced.insert(name.clone(), unknown);
            }
        }
    }
    announced
}

/// Returns the value of a field if it has exactly one line, which is not empty.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    only_line(headers, name).filter(|value| !value.is_empty())
}

/// A value that no file can ask for, because it is not UTF-8; expressions match only UTF-8
/// ([`HeaderMatch`](super::route::HeaderMatch)).
const UNKNOWN: &[u8] = b"\xff";
