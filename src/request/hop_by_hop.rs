//! Removes from a message the fields that concern one connection only.
//!
//! Hop-by-hop fields (RFC 9110, section 7.6.1) are removed from a request first, together with those that an untrusted
//! peer may not send. Other fields that Connection names are removed once the request has its route: a proxy may pass
//! on what its client wrote in Connection, so a request is refused if that would remove a field that the listener
//! trusts or the route goes by ([`names_field`]). So limits count by what the origin sees. The gateway's own fields are
//! set afterwards, by `proxy::forwarded`, so no client can have them removed. A route's own fields are set elsewhere.

use std::time::Duration;

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, MAX_FORWARDS,
    PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, VIA,
};
use smallvec::SmallVec;

use super::cdn_loop::CDN_LOOP;
use super::claims::{
    DISGUISED, RESERVED, X_FORWARDED_PREFIX, is_disguised, is_proxy_field, is_reserved,
};
use super::name_filter::{NameFilter, named};

/// Removes the fields that are not for the origin: hop-by-hop fields, Expect, Proxy-Authorization, `Tollgate-*`,
/// `X-Forwarded-Prefix`, and those that the peer may not send, as `is_forbidden` decides. Only names that pass `filter`
/// are looked at. Returns the values of Connection that name other fields, if any do; [`remove_named`] removes those.
///
/// `TE: trailers` stays; the code that writes it to a connection names TE in Connection. A name with `_` is removed too
/// if an origin that reads `_` as `-`, as CGI and WSGI do, would take it for one of these fields.
pub fn strip_request(
    headers: &mut HeaderMap,
    filter: &NameFilter,
    is_forbidden: impl Fn(&HeaderName) -> bool,
) -> Option<Vec<HeaderValue>> {
    let unwanted = named(headers, |name| {
        filter.may_have(name) && (is_stripped(name) || is_forbidden(name))
    });
    let wants_trailers = unwanted.contains(&TE)
        && (headers.get_all(TE).iter())
            .flat_map(tokens)
            .any(|token| token.eq_ignore_ascii_case("trailers"));
    let mut naming = None;
    // Connection is hop-by-hop, so it is among `unwanted` if it is there at all.
    if unwanted.contains(&CONNECTION) {
        let options = headers.get_all(CONNECTION).iter();
        let names_some = |value: &&HeaderValue| tokens(value).any(|token| !is_never_field(token));
        let some: Vec<_> = options.filter(names_some).cloned().collect();
        naming = (!some.is_empty()).then_some(some);
    }
    for name in &unwanted {
        headers.remove(name);
    }
    if wants_trailers && !is_forbidden(&TE) {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    naming
}

/// Removes Connection if it has a single line that says `keep-alive` or `close`, as most do; returns whether it did.
pub fn remove_common_connection(headers: &mut HeaderMap) -> bool {
    let mut lines = (headers.get_all(CONNECTION).iter()).map(HeaderValue::as_bytes);
    let only = lines.next().filter(|_| lines.next().is_none());
    let is_common = only.is_some_and(|value| {
        value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
    });
    if is_common {
        headers.remove(CONNECTION);
    }
    is_common
}

/// Removes from a request's trailers the fields that no trailers may have (RFC 9110, section 6.5.1), and those that an
/// origin that merges trailers with the head must not trust.
pub fn strip_trailers(trailers: &mut HeaderMap) {
    let unwanted = named(trailers, |name| {
        is_hop_by_hop(name)
            || matches!(
                *name,
                HOST | EXPECT | VIA | MAX_FORWARDS | CACHE_CONTROL | TRAILER
            )
            || matches!(
                *name,
                CONTENT_LENGTH | CONTENT_ENCODING | CONTENT_RANGE | CONTENT_TYPE
            )
            || *name == SET_COOKIE
            || *name == CDN_LOOP
            || matches!(*name, AUTHORIZATION | PROXY_AUTHORIZATION | COOKIE)
            || is_proxy_field(name)
            || is_reserved(name)
            || is_disguised(name)
    });
    strip(trailers, &unwanted);
}

/// Removes from an answer's trailers the fields that no trailers may have, and those that only the gateway sets.
pub fn strip_answer_trailers(trailers: &mut HeaderMap) {
    let unwanted = named(trailers, |name| {
        is_hop_by_hop(name)
            || matches!(*name, TRAILER | SET_COOKIE | CACHE_CONTROL | CONTENT_LENGTH)
            || matches!(*name, CONTENT_ENCODING | CONTENT_RANGE | CONTENT_TYPE)
            || is_reserved(name)
    });
    strip(trailers, &unwanted);
}

/// Removes the hop-by-hop fields of HTTP/1, but no others that Connection names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in named(headers, is_hop_by_hop) {
        headers.remove(name);
    }
}

/// Removes the fields that the values of Connection, `options`, name.
pub fn remove_named(headers: &mut HeaderMap, options: &[HeaderValue]) {
    if matches!(options, [only] if only == "keep-alive") {
        // Many origins send this in every answer, and Keep-Alive is removed in any case.
        return;
    }
    for name in names(options).filter(|name| !is_never_field(name)) {
        headers.remove(name);
    }
}

/// Whether the values of Connection, `options`, name this field as one to remove.
pub fn names_field(options: &[HeaderValue], field: &HeaderName) -> bool {
    !is_never_field(field.as_str())
        && names(options).any(|name| name.eq_ignore_ascii_case(field.as_str()))
}

/// Whether a name in Connection removes no field: it is an option, a hop-by-hop field, which is removed in any case, or
/// a field without which the message would mean something else.
fn is_never_field(name: &str) -> bool {
    NEVER_FIELDS
        .iter()
        .any(|never| name.eq_ignore_ascii_case(never))
}

/// Returns what the values of Connection name: options and fields.
pub fn names(options: &[HeaderValue]) -> impl Iterator<Item = &str> {
    options.iter().flat_map(tokens)
}

/// Reads from a Keep-Alive field how long its sender keeps an idle connection open.
pub fn keep_alive_timeout(value: &HeaderValue) -> Option<Duration> {
    let parameter = tokens(value).find_map(|token| {
        let (name, value) = token.split_once('=')?;
        name.trim_ascii()
            .eq_ignore_ascii_case("timeout")
            .then_some(value)
    })?;
    parameter.trim_ascii().parse().ok().map(Duration::from_secs)
}

/// Removes the fields with these names; if Connection is among them, also the fields that it names.
fn strip(headers: &mut HeaderMap, unwanted: &[HeaderName]) {
    if unwanted.contains(&CONNECTION) {
        let options = headers.get_all(CONNECTION).iter().cloned();
        let options: SmallVec<[HeaderValue; 2]> = options.collect();
        remove_named(headers, &options);
    }
    for name in unwanted {
        headers.remove(name);
    }
}

/// Whether [`strip_request`] removes a field of this name even from a trusted peer.
pub(super) fn is_stripped(name: &HeaderName) -> bool {
    // Only a look-alike of Content-Length is removed, not the field itself.
    STRIPPED_FILTER.may_have(name)
        && *name != CONTENT_LENGTH
        && (is_taken_out(name) || is_disguised(name))
}

/// Whether a field of this name is not for the origin, even from a trusted peer.
#[inline]
pub fn is_taken_out(name: &HeaderName) -> bool {
    is_hop_by_hop(name) || FOR_GATEWAY.contains(&name.as_str()) || is_reserved(name)
}

/// Whether a field concerns one connection only, even if Connection does not name it.
#[inline]
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
}

/// Returns the members of a comma-separated list; members that are not text are left out.
pub fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let members = value.as_bytes().split(|&byte| byte == b',');
    members.filter_map(|member| str::from_utf8(member.trim_ascii()).ok())
}

const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "te",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "keep-alive",
    "proxy-connection",
    "http2-settings",
];

/// Other fields of a request that are for the gateway and not for the origin.
const FOR_GATEWAY: [&str; 2] = ["expect", "proxy-authorization"];

/// Names that [`strip_request`] removes in some spelling, even from a trusted peer; it also removes those that begin
/// with [`RESERVED`].
pub(super) const STRIPPED: [&[&str]; 4] =
    [&HOP_BY_HOP, &FOR_GATEWAY, &DISGUISED, &[X_FORWARDED_PREFIX]];

static STRIPPED_FILTER: NameFilter = NameFilter::NONE.with_all(&STRIPPED).with_prefix(RESERVED);

/// Names in Connection by which no field is removed.
const NEVER_FIELDS: [&str; 7] = [
    "close",
    "keep-alive",
    "te",
    "upgrade",
    "http2-settings",
    "host",
    "content-length",
];

/// The name of Keep-Alive.
pub const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

#[cfg(test)]
pub(crate) mod tests {
    use super::super::SeenNames;
    use super::*;

    pub(crate) fn fields(lines: &[(&str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(parse) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_values_that_name_fields_are_kept_for_later() {
        let mut headers = fields(&[
            ("connection", "close, TE, keep-alive"),
            (
                "connection",
                "Upgrade, HTTP2-Settings, Host, content-length",
            ),
            ("connection", "close, X-Api-Key"),
        ]);
        let filter = SeenNames::filter([].iter());
        let naming = strip_request(&mut headers, &filter, |_| false);
        let naming = naming.unwrap_or_default();
        assert_eq!(naming.as_slice(), ["close, X-Api-Key"]);
        let is_named = |name| names_field(&naming, &HeaderName::from_static(name));
        assert!(is_named("x-api-key"));
        assert!(!is_named("close") && !is_named("x-api"));
    }

    #[test]
    fn trailers_of_an_answer_cannot_say_what_its_head_does() {
        let mut trailers = fields(&[
            ("grpc-status", "0"),
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("content-length", "99"),
            ("set-cookie", "a=b"),
            ("tollgate-tier", "paid"),
        ]);
        strip_answer_trailers(&mut trailers);
        assert_eq!(trailers, fields(&[("grpc-status", "0")]));
    }
}
