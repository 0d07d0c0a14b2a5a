//! Refusals as whole responses, and as hyper puts them on the wire.

use std::convert::Infallible;
use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate::clock::Micros;
use tollgate::limit::Retry;
use tollgate::proxy::refusal::{Dialect, Refusal};

/// Answers one request with a refusal; the date is left out.
async fn refuse(refusal: Refusal, request: &str) -> String {
    let (mut client, server) = tokio::io::duplex(16 * 1024);
    let service = service_fn(move |request: http::Request<_>| {
        let dialect = Dialect::of(request.headers());
        let response = refusal
            .clone()
            .into_response(dialect, HeaderMap::new())
            .map(Full::new);
        async move { Ok::<_, Infallible>(response) }
    });
    client.write_all(request.as_bytes()).await.expect("sent");
    client.shutdown().await.expect("half-closed");
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .half_close(true)
        .serve_connection(TokioIo::new(server), service);
    connection.await.expect("served");
    let mut response = String::new();
    client
        .read_to_string(&mut response)
        .await
        .expect("an answer");
    let lines = response.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

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
fn retry_after_is_at_least_a_second_and_absent_if_never() {
    let after = |retry| {
        let refusal = Refusal::quota_exceeded(retry, ["\"a\""].into_iter(), None);
        let response = refusal.into_response(Dialect::Http, HeaderMap::new());
        let value = response.headers().get(RETRY_AFTER).cloned();
        value.map(|value| value.to_str().expect("digits").to_owned())
    };
    let micros = |us| Retry::After(Micros(us));
    assert_eq!(after(Retry::NOW).as_deref(), Some("1"));
    assert_eq!(after(micros(1_000_000)).as_deref(), Some("1"));
    assert_eq!(after(micros(89_000_001)).as_deref(), Some("90"));
    assert_eq!(after(Retry::Never), None);
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
        grpc(Refusal::no_endpoint()),
        "200 OK\ncontent-type: application/grpc\ngrpc-status: 14\ngrpc-message: Service \
         Unavailable\n\n"
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

#[tokio::test]
async fn content_length_is_the_bodys_even_for_head() {
    let body = "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
        \"title\":\"Request cannot be satisfied as assigned quota has been exceeded\",\
        \"status\":429,\"violated-policies\":[\"a\"]}\n";
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\n\
         retry-after: 1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer = refuse(quota_exceeded(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(answer, format!("{head}{body}"));
    let answer = refuse(quota_exceeded(), "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(answer, head);
}

#[tokio::test]
async fn grpc_refusal_is_all_head() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc+proto\r\n\
        Content-Length: 0\r\n\r\n";
    assert_eq!(
        refuse(quota_exceeded(), request).await,
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 8\r\n\
         grpc-message: Request cannot be satisfied as assigned quota has been exceeded\r\n\
         retry-after: 1\r\ncontent-length: 0\r\n\r\n"
    );
}
