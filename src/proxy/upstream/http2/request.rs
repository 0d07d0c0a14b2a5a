//! A request as it is written to an origin in HTTP/2 (RFC 9113, section 8.3.1).

use http::header::{CONTENT_LENGTH, HOST, TE};
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Uri};

use crate::proxy::wire::body::BodyFraming;
use crate::proxy::wire::request_head::RequestHead;
use crate::request::hop_by_hop;

/// Makes the head of a request to `host`.
pub(super) fn head(head: &RequestHead, host: &HeaderValue, scheme: &Scheme) -> Request<()> {
    let authority = Authority::try_from(host.as_bytes());
    let authority = authority.expect("a host that was found good is an authority");
    let mut parts = head.target.clone().into_parts();
    parts.scheme = Some(scheme.clone());
    parts.authority = Some(authority);
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    }
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from_parts(parts).expect("it has every part");
    let headers = request.headers_mut();
    headers.reserve(head.headers.len() + 1);
    for (name, value) in &head.headers {
        let is_about_trailers = *name == TE && value == "trailers";
        let is_of_connection = hop_by_hop::is_hop_by_hop(name) && !is_about_trailers;
        if !is_of_connection && !matches!(*name, HOST | CONTENT_LENGTH) {
            headers.append(name.clone(), value.clone());
        }
    }
    let common = head.common.iter().flat_map(|common| common.iter());
    for (name, value) in head.id.iter().chain(common) {
        headers.append(name.clone(), value.clone());
    }
    if let BodyFraming::Length(bytes) = head.framing {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::wire::outgoing::Outgoing;
    use crate::proxy::wire::scripted_body::ScriptedBody;
    use crate::request::hop_by_hop::tests::fields;

    /// Returns the head that an origin sees of a request with these fields.
    fn seen(method: &str, target: &str, headers: &[(&str, &str)], body: ScriptedBody) -> String {
        let request = Request::builder().method(method).uri(target).body(body);
        let mut request = request.expect("a request");
        *request.headers_mut() = fields(headers);
        let host = HeaderValue::from_static("shop:81");
        let head = head(&Outgoing::from(request).head, &host, &Scheme::HTTPS);
        let fields = (head.headers().iter())
            .map(|(name, value)| format!("; {name}: {}", value.to_str().expect("text")));
        format!(
            "{} {}{}",
            head.method(),
            head.uri(),
            fields.collect::<String>()
        )
    }

    #[test]
    fn head_has_no_field_of_the_connection_and_one_length() {
        let headers = [
            ("host", "other"),
            ("content-length", "9"),
            ("connection", "close, x-a"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("cookie", "a=1; b=2"),
            ("x-a", "1"),
            ("x-a", "2"),
        ];
        let whole = || ScriptedBody::new(Some(3), &["abc"]);
        let kept = "; te: trailers; cookie: a=1; b=2; x-a: 1; x-a: 2";
        for (method, target, body, expected) in [
            (
                "POST",
                "/a?b",
                whole(),
                format!("POST https://shop:81/a?b{kept}; content-length: 3"),
            ),
            (
                "POST",
                "/a",
                ScriptedBody::new(None, &["abc"]),
                format!("POST https://shop:81/a{kept}"),
            ),
            (
                "POST",
                "/a",
                ScriptedBody::new(Some(0), &[]),
                format!("POST https://shop:81/a{kept}; content-length: 0"),
            ),
            (
                "OPTIONS",
                "/",
                ScriptedBody::new(Some(0), &[]),
                format!("OPTIONS https://shop:81/{kept}"),
            ),
        ] {
            assert_eq!(seen(method, target, &headers, body), expected);
        }
    }

    #[test]
    fn te_says_trailers_or_nothing() {
        let seen = |te| seen("GET", "/", &[("te", te)], ScriptedBody::new(Some(0), &[]));
        assert_eq!(seen("trailers"), "GET https://shop:81/; te: trailers");
        assert_eq!(seen("gzip, trailers"), "GET https://shop:81/");
    }
}
