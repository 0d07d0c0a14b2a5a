//! Who calls the admin port: nobody by a name that could be anybody's, and no other site.
//!
//! A page of any site can have its visitor's browser ask this port. What it is answered, the page must
//! not read, and one day it may change something. A browser says for which site it asks (Origin,
//! `Sec-Fetch-Site`). A site whose name leads here (DNS rebinding) asks for itself, but by that name.

use std::net::IpAddr;

use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use http::{Request, Uri};

use crate::request::host;

/// Whether the request asks for an address or `localhost`, which no site can have lead here. One of
/// HTTP/1.0 need not say whom it asks, and comes from no browser.
pub(super) fn names_this_machine<B>(request: &Request<B>) -> bool {
    // The field must be good even if the target is absolute.
    [request.uri(), &Uri::default()].into_iter().all(|target| {
        host(target, request.headers(), request.version()).is_ok_and(|host| {
            let address = host.trim_start_matches('[').trim_end_matches(']');
            matches!(&*host, "" | "localhost") || address.parse::<IpAddr>().is_ok()
        })
    })
}

/// Whether a browser asks for a page that does not come from this port.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
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

/// `Sec-Fetch-Site` (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
