//! CORS preflights: what a browser asks before it lets a page make a request (Fetch, "CORS-preflight fetch").
//!
//! A request counts as a preflight only if nobody could take it for more than that: it says nothing of its
//! client, has no body, and asks for no other method than OPTIONS.

use http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, COOKIE, ORIGIN,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::claims::is_method_override;
use super::hop_by_hop::tokens;

/// Returns the method of the request that a preflight announces; none if this is no preflight. The request has
/// no body.
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

/// Returns the headers of a preflight with those of `names` that it announces. Their values are not announced, so
/// they have one that no value of the file equals, and no expression matches.
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

/// Returns the value of a field that has one line.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    (!only.is_empty()).then_some(only)
}

/// A value that no file can ask for, because it is not UTF-8: expressions match nothing else
/// ([`HeaderMatch`](super::route::HeaderMatch)).
const UNKNOWN: &[u8] = b"\xff";

#[cfg(test)]
mod tests {
    use super::super::hop_by_hop::tests::fields;
    use super::*;

    const SENT: [(&str, &str); 2] = [
        ("origin", "https://app.example.com"),
        ("access-control-request-method", "DELETE"),
    ];

    #[test]
    fn only_a_bare_preflight_announces_a_method() {
        let with = |more: &[(&'static str, &'static str)]| fields(&[&SENT[..], more].concat());
        for (method, headers, announced) in [
            (Method::OPTIONS, with(&[]), Some(Method::DELETE)),
            (
                Method::OPTIONS,
                with(&[("x-method", "PUT")]),
                Some(Method::DELETE),
            ),
            (Method::GET, with(&[]), None),
            (Method::OPTIONS, fields(&SENT[..1]), None),
            (Method::OPTIONS, fields(&SENT[1..]), None),
            (Method::OPTIONS, with(&SENT[..1]), None),
            (Method::OPTIONS, with(&SENT[1..]), None),
            (Method::OPTIONS, with(&[("cookie", "a=1")]), None),
            (
                Method::OPTIONS,
                with(&[("authorization", "Basic YTpi")]),
                None,
            ),
            (
                Method::OPTIONS,
                with(&[("x-http-method-override", "PUT")]),
                None,
            ),
            (Method::OPTIONS, with(&[("x-http-method", "PUT")]), None),
            (Method::OPTIONS, with(&[("x_method-override", "PUT")]), None),
            (
                Method::OPTIONS,
                fields(&[SENT[0], ("access-control-request-method", "PUT /x")]),
                None,
            ),
        ] {
            assert_eq!(
                announced_method(&method, &headers),
                announced,
                "{headers:?}"
            );
        }
    }

    #[test]
    fn announced_headers_are_there_and_have_no_value_that_a_file_can_ask_for() {
        let headers = fields(&[
            ("access-control-request-headers", "X-Version,x-other"),
            ("access-control-request-headers", "x-sent, x-tenant"),
            ("x-sent", "1"),
        ]);
        let names = ["x-version", "x-sent", "x-tenant", "x-none"].map(HeaderName::from_static);
        let announced = with_announced_headers(&headers, &names);
        let value = |name: &str| announced.get(name).map(HeaderValue::as_bytes);
        assert_eq!(value("x-version"), Some(UNKNOWN));
        assert_eq!(value("x-tenant"), Some(UNKNOWN));
        assert_eq!(value("x-sent"), Some(&b"1"[..]));
        assert_eq!((value("x-none"), value("x-other")), (None, None));
    }
}
