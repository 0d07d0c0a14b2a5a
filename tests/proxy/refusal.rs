//! Refusals as whole responses.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use tollgate::clock::Micros;
use tollgate::limit::Retry;
use tollgate::proxy::refusal::{Dialect, Refusal};

fn quota_exceeded() -> Refusal {
    Refusal::quota_exceeded(Retry::NOW, ["\"a\""].into_iter(), None)
}

/// Renders a whole response as text: status, fields in order, body.
fn text(response: Response<Bytes>) -> String {
    let (head, body) = response.into_parts();
    let mut text = format!("{}\n", head.status);
    for (name, value) in &head.headers {
        let value = value.to_str().expect("our values are ASCII");
        writeln!(text, "{name}: {value}").expect("strings take everything");
    }
    text + "\n" + std::str::from_utf8(&body).expect("our bodies are UTF-8")
}

#[test]
fn quota_exceeded_names_what_refused_and_when_to_return() {
    let retry = Retry::After(Micros(1_000_001));
    let violated = [r#""per-client:2s""#, r#""a\"b""#];
    let refusal = Refusal::quota_exceeded(retry, violated.into_iter(), None);
    assert_eq!(
        text(refusal.into_response(Dialect::Http, HeaderMap::new())),
        r#"429 Too Many Requests
content-type: application/problem+json
retry-after: 2

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["per-client:2s","a\"b"]}
"#
    );
}

#[test]
fn grpc_clients_get_trailers_only_for_429_and_503() {
    let grpc = |refusal: Refusal| text(refusal.into_response(Dialect::Grpc, HeaderMap::new()));
    assert_eq!(
        grpc(quota_exceeded()),
        "200 OK\ncontent-type: application/grpc\ngrpc-status: 8\ngrpc-message: Request cannot \
         be satisfied as assigned quota has been exceeded\nretry-after: 1\n\n"
    );
    assert_eq!(
        grpc(Refusal::limiter_unavailable(Micros::from_secs(2))),
        "200 OK\ncontent-type: application/grpc\ngrpc-status: 14\ngrpc-message: Request cannot \
         be satisfied due to temporary server capacity constraints\nretry-after: 2\n\n"
    );
    assert_eq!(
        grpc(Refusal::no_endpoint().after(Micros(0))),
        "200 OK\ncontent-type: application/grpc\ngrpc-status: 14\ngrpc-message: Service \
         Unavailable\nretry-after: 1\n\n"
    );
    assert_eq!(
        grpc(Refusal::no_route()),
        text(Refusal::no_route().into_response(Dialect::Http, HeaderMap::new()))
    );
}

#[test]
fn only_grpc_itself_is_answered_as_grpc() {
    for (content_type, dialect) in [
        ("application/grpc", Dialect::Grpc),
        ("application/grpc+proto", Dialect::Grpc),
        ("application/grpc;x=y", Dialect::Grpc),
        ("application/grpc-web", Dialect::Http),
        ("application/grpcs", Dialect::Http),
        ("application/json", Dialect::Http),
    ] {
        let value = HeaderValue::from_static(content_type);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, value)]);
        assert_eq!(Dialect::of(&headers), dialect, "{content_type}");
    }
    assert_eq!(Dialect::of(&HeaderMap::new()), Dialect::Http);
}

#[test]
fn closing_refusal_says_so() {
    assert_eq!(
        text(Refusal::bad_path().into_response(Dialect::Http, HeaderMap::new())),
        "400 Bad Request\ncontent-type: application/problem+json\nconnection: close\n\n\
         {\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"detail\":\"The path \
         is malformed or contains an escape that is not accepted.\"}\n"
    );
}
