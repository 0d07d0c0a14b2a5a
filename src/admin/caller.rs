//! Who may call the admin port: nobody by a host name that a site could have chosen, no page of another site, and
//! nobody without the token where one is needed.
//!
//! A page of any site can make its visitor's browser send requests to this port. The page must not be able to read the
//! answers, or to change anything. Browsers tell which site a request comes from (Origin, `Sec-Fetch-Site`). A site
//! whose name resolves to this machine (DNS rebinding) passes as this port's own, but its requests carry that name.

use std::net::IpAddr;

use aws_lc_rs::constant_time;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use http::{Method, StatusCode, Uri, request::Parts};

use super::reply::AdminReply;
use crate::request::host;
use crate::store::Secret;

/// What a call does, which decides whether it needs the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Shows nothing that names clients: needs no token.
    Open,
    /// Shows what may name clients: needs the token, if one is configured.
    NamesClients,
    /// Changes something: needs the token, and is refused if none is configured.
    ChangesState,
}

/// Whether the request's host is an IP address or `localhost`, which no site can choose as its name. A request of
/// HTTP/1.0 may have no host, and comes from no browser.
pub(super) fn names_this_machine(head: &Parts) -> bool {
    // The Host field is checked even if the target names a host itself.
    [&head.uri, &Uri::default()].into_iter().all(|target| {
        host(target, &head.headers, head.version).is_ok_and(|host| {
            let address = host.trim_start_matches('[').trim_end_matches(']');
            matches!(&*host, "" | "localhost") || address.parse::<IpAddr>().is_ok()
        })
    })
}

/// Whether a browser asks on behalf of a page that does not come from this port. Following a link to the dashboard does
/// not count, because only the browser's user sees the answer.
pub(super) fn is_of_another_site(head: &Parts) -> bool {
    let headers = &head.headers;
    let is = |name: HeaderName, value: &str| headers.get(name).is_some_and(|field| field == value);
    let is_visit = is(SEC_FETCH_MODE, "navigate") && is(SEC_FETCH_DEST, "document");
    if is_visit
        && head.method == Method::GET
        && head.uri.path() == "/"
        && !headers.contains_key(ORIGIN)
    {
        return false;
    }
    let asked = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let is_own_origin = |origin: &[u8]| {
        let schemes = [&b"http://"[..], b"https://"];
        let mut authorities = schemes
            .iter()
            .filter_map(|scheme| origin.strip_prefix(*scheme));
        authorities.any(|authority| authority.eq_ignore_ascii_case(asked))
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    origins.any(|origin| !is_own_origin(origin.as_bytes()))
        || sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"))
}

/// Admits a call that needs no token, or comes with the right one.
///
/// # Errors
/// The reply that refuses the call.
pub(super) fn authorize(
    access: Access,
    token: Option<&Secret>,
    headers: &HeaderMap,
) -> Result<(), AdminReply> {
    let token = match (access, token) {
        (Access::Open, _) | (Access::NamesClients, None) => return Ok(()),
        (Access::ChangesState, None) => {
            return Err(AdminReply::problem(StatusCode::FORBIDDEN, NO_TOKEN));
        }
        (_, Some(token)) => token,
    };
    match bearer(headers) {
        Some(given) if is_same(given, token.0.as_bytes()) => Ok(()),
        Some(_) => Err(AdminReply::unauthorized(
            WRONG,
            "The token is not the right one.",
        )),
        None => Err(AdminReply::unauthorized(
            MISSING,
            "This needs `Authorization: Bearer TOKEN`.",
        )),
    }
}

/// Returns the token that a request comes with, if it has exactly one.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return None;
    };
    let (scheme, token) = field.as_bytes().split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then(|| token.trim_ascii())
}

/// Compares two tokens in a time that depends on neither; compares their digests, because these have the same length.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let [one, other] = [one, other].map(blake3::hash);
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Fields in which a browser states a request's mode and destination (W3C Fetch Metadata).
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Field in which a browser states how the requesting site relates to this one (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const MISSING: &str = "Bearer realm=\"tollgate admin\"";
const WRONG: &str = "Bearer realm=\"tollgate admin\", error=\"invalid_token\"";
const NO_TOKEN: &str = "This changes state, which needs a token, and none is configured: set `[admin] token` and \
                        reload the file with SIGHUP.";
