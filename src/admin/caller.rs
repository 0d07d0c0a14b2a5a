//! Who calls the admin port: nobody by a name that could be anybody's, no other site, and nobody without the
//! token where one is needed.
//!
//! A page of any site can have its visitor's browser ask this port. What it is answered, the page must not read,
//! and it must change nothing. A browser says for which site it asks (Origin, `Sec-Fetch-Site`). A site whose
//! name leads here (DNS rebinding) asks for itself, but by that name.

use std::net::IpAddr;

use aws_lc_rs::constant_time;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use http::{Method, StatusCode, Uri, request::Parts};

use super::reply::AdminReply;
use crate::request::host;
use crate::store::Secret;

/// What a call does, and so what whoever asks must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It shows what names no client: nothing.
    Open,
    /// It shows what may name clients: the token, if there is one.
    NamesClients,
    /// It changes something: the token.
    ChangesState,
}

/// Whether the request asks for an address or `localhost`, which no site can have lead here. One of
/// HTTP/1.0 need not say whom it asks, and comes from no browser.
pub(super) fn names_this_machine(head: &Parts) -> bool {
    // The field must be good even if the target is absolute.
    [&head.uri, &Uri::default()].into_iter().all(|target| {
        host(target, &head.headers, head.version).is_ok_and(|host| {
            let address = host.trim_start_matches('[').trim_end_matches(']');
            matches!(&*host, "" | "localhost") || address.parse::<IpAddr>().is_ok()
        })
    })
}

/// Whether a browser asks on behalf of a page that does not come from this port. That it goes to the dashboard itself, by
/// a link, does not count: nobody but its user sees what it gets.
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

/// Lets a call through that needs no token, or comes with the right one.
///
/// # Errors
/// What to refuse it with.
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

/// Compares two tokens in a time that depends on neither. Their digests are compared, as they have one length.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let [one, other] = [one, other].map(blake3::hash);
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// How a browser asks, and for what (W3C Fetch Metadata).
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// On behalf of which site (the same).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const MISSING: &str = "Bearer realm=\"tollgate admin\"";
const WRONG: &str = "Bearer realm=\"tollgate admin\", error=\"invalid_token\"";
const NO_TOKEN: &str = "This changes state, which needs a token, and none is configured: set `[admin] token` and \
                        reload the file with SIGHUP.";
