//! Fields: those that concern one connection stay on it, all others pass unchanged.

use std::collections::BTreeSet;
use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TE};
use tollgate::request::cdn_loop;
use tollgate::request::claims::{remove_lookalikes, requires_trusted_peer};
use tollgate::request::hop_by_hop::{
    is_hop_by_hop, keep_alive_timeout, remove_common_connection, remove_named, strip_request,
    strip_trailers,
};
use tollgate::request::{ADDRESS_CLAIMS, AddressSource, SeenNames, Unwanted};

use super::{header_map, lines};

/// The input: a field per line.
pub fn holds(data: &[u8]) {
    let headers = header_map(lines(data));
    request(&headers);
    response(&headers);
    trailers(&headers);
    untrusted(&headers);
    disguises(&headers);
    keep_alive(&headers);
    loops(&headers);
}

fn request(headers: &HeaderMap) {
    let mut sent = headers.clone();
    let filter = SeenNames::filter([].iter());
    let naming = strip_request(&mut sent, &filter, |_| false);
    let mut left = headers.clone();
    let seen = SeenNames::of(headers, &filter, &[], |_| false);
    if seen.unwanted == Unwanted::OnlyConnection && remove_common_connection(&mut left) {
        assert_eq!(
            (&left, &naming),
            (&sent, &None),
            "the short way is the long one"
        );
    }
    remove_named(&mut sent, &naming.unwrap_or_default());
    let mut again = sent.clone();
    strip_request(&mut again, &filter, |_| false);
    assert_eq!(again, sent, "stripping twice is stripping once");

    let wants_trailers = tokens(headers, &TE).contains("trailers");
    let wish = wants_trailers.then(|| HeaderValue::from_static("trailers"));
    assert_eq!(sent.remove(TE), wish);
    check(headers, &sent, |name| {
        is_of_one_hop(name)
            || matches!(name, "expect" | "proxy-authorization")
            || name.replace('_', "-").starts_with("tollgate-")
            || is_disguised(name)
    });
}

fn response(headers: &HeaderMap) {
    let options: Vec<_> = headers.get_all(CONNECTION).iter().cloned().collect();
    let mut left = headers.clone();
    for name in headers.keys().filter(|name| is_hop_by_hop(name)) {
        left.remove(name);
    }
    remove_named(&mut left, &options);
    check(headers, &left, is_of_one_hop);
}

fn trailers(headers: &HeaderMap) {
    let mut trailers = headers.clone();
    strip_trailers(&mut trailers);
    check(headers, &trailers, |name| {
        is_of_one_hop(name)
            || NO_TRAILERS.contains(&name)
            || matches!(name, "expect" | "via" | "cdn-loop" | "cookie")
            || matches!(name, "authorization" | "proxy-authorization")
            || X_FORWARDED.contains(&name)
            || ADDRESS_CLAIMS.contains(&&*name.replace('_', "-"))
            || matches!(&*name.replace('_', "-"), "x-original-url" | "x-rewrite-url")
            || name.replace('_', "-").starts_with("tollgate-")
            || is_disguised(name)
    });
}

/// Asserts that `left` is `headers` without the `unwanted` fields and those that Connection names.
fn check(headers: &HeaderMap, left: &HeaderMap, unwanted: impl Fn(&str) -> bool) {
    let mut named = tokens(headers, &CONNECTION);
    for kept in ["host", "content-length", "close"] {
        named.remove(kept);
    }
    for name in headers.keys().chain(left.keys()) {
        let goes = unwanted(name.as_str()) || named.contains(name.as_str());
        let values = |of: &HeaderMap| of.get_all(name).iter().cloned().collect::<Vec<_>>();
        let expected = if goes { Vec::new() } else { values(headers) };
        assert_eq!(values(left), expected, "{name} of {headers:?}");
    }
}

fn untrusted(headers: &HeaderMap) {
    let own = HeaderName::from_static("x-api-key");
    let filter = SeenNames::filter([&own].into_iter());
    let own = AddressSource::Header(own);
    let is_forbidden = |name: &HeaderName| requires_trusted_peer(name, &own, None);
    let mut left = headers.clone();
    strip_request(&mut left, &filter, is_forbidden);
    let seen = SeenNames::of(headers, &filter, &[], is_forbidden);
    let is_seen = seen.unwanted != Unwanted::None;
    assert!(is_seen || left == *headers, "what goes is seen");
    for name in headers.keys() {
        let read = name.as_str().replace('_', "-");
        let goes = ADDRESS_CLAIMS.contains(&&*read)
            || X_FORWARDED.contains(&&*read)
            || matches!(&*read, "x-original-url" | "x-rewrite-url" | "x-api-key");
        assert_eq!(is_forbidden(name), goes, "{name}");
        assert!(!goes || !left.contains_key(name), "{name} is left");
    }
}

fn disguises(headers: &HeaderMap) {
    let real = HeaderName::from_static("x-api-key");
    let mut left = headers.clone();
    remove_lookalikes(&mut left, &real);
    for name in headers.keys() {
        let is_disguise = *name != real && name.as_str().replace('_', "-") == real.as_str();
        assert_eq!(left.contains_key(name), !is_disguise, "{name}");
    }
}

fn keep_alive(headers: &HeaderMap) {
    let Some(value) = headers.get("keep-alive") else {
        return;
    };
    let members = value.as_bytes().split(|&byte| byte == b',');
    let texts = members.filter_map(|member| str::from_utf8(member).ok());
    let pairs = texts.filter_map(|member| member.split_once('='));
    let trimmed = pairs.map(|(name, value)| (name.trim_ascii(), value.trim_ascii()));
    let mut timeouts = trimmed.filter(|(name, _)| name.eq_ignore_ascii_case("timeout"));
    let seconds = timeouts.next().and_then(|(_, value)| value.parse().ok());
    let expected = seconds.map(Duration::from_secs);
    assert_eq!(keep_alive_timeout(value), expected, "{value:?}");
}

fn loops(headers: &HeaderMap) {
    let lines = headers.get_all("cdn-loop").iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let ids = members.map(|member| {
        member
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default()
    });
    let own = ids.filter(|id| id.trim_ascii().eq_ignore_ascii_case(b"tollgate"));
    let passes = own.count();
    assert_eq!(cdn_loop::passes(headers), passes);
    let mut sent = headers.clone();
    sent.append(&cdn_loop::CDN_LOOP, cdn_loop::PASS);
    assert_eq!(cdn_loop::passes(&sent), passes + 1, "a pass is counted");
}

/// Whether a field is for one hop, by RFC 9110, section 7.6.1, or by older custom.
pub(super) fn is_of_one_hop(name: &str) -> bool {
    let list = "connection keep-alive proxy-connection te transfer-encoding upgrade \
                proxy-authenticate http2-settings";
    list.split(' ').any(|one| one == name)
}

/// Whether an origin that reads `_` as `-` takes the field for one that the gateway vouches for.
fn is_disguised(name: &str) -> bool {
    let read = name.replace('_', "-");
    let framing = ["content-length", "transfer-encoding"];
    read != name && (X_FORWARDED.contains(&&*read) || framing.contains(&&*read))
}

/// Returns the members of a field's list, in lower case.
pub(super) fn tokens(headers: &HeaderMap, name: &HeaderName) -> BTreeSet<String> {
    let sent = tokens_as_sent(headers, name).into_iter();
    sent.map(|token| token.to_ascii_lowercase()).collect()
}

fn tokens_as_sent(headers: &HeaderMap, name: &HeaderName) -> BTreeSet<String> {
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let members = lines.flat_map(|line| line.split(|&byte| byte == b','));
    let texts = members.filter_map(|member| str::from_utf8(member.trim_ascii()).ok());
    texts.map(str::to_owned).collect()
}

const X_FORWARDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Fields that frame, route or describe a message, and so belong before its body.
const NO_TRAILERS: [&str; 9] = [
    "host",
    "content-length",
    "content-encoding",
    "content-range",
    "content-type",
    "cache-control",
    "max-forwards",
    "set-cookie",
    "trailer",
];
