//! Messages of HTTP/2 that HTTP/1.1 would read differently (threat model, S20), and messages that both read alike.

use serde_json::{Value, json};

use crate::foreign::{Server, client, http2};
use crate::support::{Client, Config, Origin, Recorded, get, start};

#[test]
fn no_request_that_http1_could_read_differently_reaches_an_origin() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    client("desync.py", &[&running.public.port().to_string()]);
    for request in origin.requests() {
        match request.target() {
            "/good" => {}
            // Its head was good but its body was not, so it never ends.
            "/body" => assert!(!request.is_complete, "{request:#?}"),
            _ => panic!("at the origin: {request:#?}"),
        }
    }
}

/// Method; fields after `:path`, body and trailers; and the request as the origin reads it.
type Row = (&'static str, Value, &'static str);

fn rows() -> [Row; 7] {
    [
        (
            "GET",
            json!({ "fields": [[":authority", "a.test:81"], ["cookie", "a=1"], ["x-a", "1"], ["cookie", "b=2"],
                ["x-a", "2"], ["cookie", "c=3; d=4"]] }),
            "GET /a?b=c; host: a.test:81; cookie: a=1; b=2; c=3; d=4; x-a: 1; x-a: 2",
        ),
        (
            "GET",
            json!({ "fields": [["host", "a.test"], ["te", "trailers"]] }),
            "GET /a?b=c; host: a.test; connection: te; te: trailers",
        ),
        (
            "GET",
            json!({ "fields": [[":authority", "a.test"], ["host", "a.test"], ["x-empty", ""], ["x-tab", "a\tb"]] }),
            "GET /a?b=c; host: a.test; x-empty: ; x-tab: a\tb",
        ),
        (
            "POST",
            json!({ "fields": [[":authority", "a.test"]], "body": "hello" }),
            "POST /a?b=c; host: a.test; transfer-encoding: chunked; hello",
        ),
        (
            "POST",
            json!({ "fields": [[":authority", "a.test"], ["content-length", "5"]], "body": "hello" }),
            "POST /a?b=c; host: a.test; content-length: 5; hello",
        ),
        (
            "POST",
            json!({ "fields": [[":authority", "a.test"], ["content-length", "0"]] }),
            "POST /a?b=c; host: a.test; content-length: 0",
        ),
        (
            "POST",
            json!({ "fields": [[":authority", "a.test"], ["trailer", "x-sum"]], "body": "hello",
                "trailers": [["x-sum", "5"], ["x-other", "1"]] }),
            "POST /a?b=c; host: a.test; trailer: x-sum; transfer-encoding: chunked; hello; x-sum: 5",
        ),
    ]
}

#[test]
fn a_request_is_the_same_whichever_version_brings_it() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let requests: Vec<Value> = rows()
        .into_iter()
        .map(|(method, mut request, _)| {
            let head = json!([
                [":method", method],
                [":scheme", "http"],
                [":path", "/a?b=c"]
            ]);
            let fields = request["fields"].as_array_mut().expect("a list");
            fields.splice(0..0, head.as_array().expect("a list").clone());
            request
        })
        .collect();
    let answers = http2(running.public.port(), &json!(requests));
    for answer in answers.as_array().expect("a list") {
        assert_eq!(
            (&answer[0], &answer[2]),
            (&json!("200"), &json!("ok")),
            "{answers:#}"
        );
    }
    let seen: Vec<String> = origin.requests().iter().map(told).collect();
    let expected: Vec<_> = rows()
        .into_iter()
        .map(|(_, _, expected)| expected)
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn no_answer_that_http1_could_not_say_reaches_a_client_whole() {
    let mut origin = Server::start("hostile_origin.py", &[]);
    let paths = origin.line();
    let running = start(&Config::to(format!("h2c://127.0.0.1:{}", origin.port)).route("/*", ""));
    for path in paths.split(' ') {
        let mut client = Client::asking(running.public, path, "");
        match client.try_answer() {
            Ok(answer) => assert_eq!(answer.status, 502, "{path}: {answer:#?}"),
            // The head was good, and had been sent on.
            Err(error) => assert!(!path.starts_with("/head-"), "{path}: {error}"),
        }
        assert_eq!(
            get(running.public, "/good", "").text(),
            "ok",
            "behind {path}"
        );
    }
}

/// Formats a request without the gateway's fields about its client: Host first, other fields sorted by name.
fn told(request: &Recorded) -> String {
    let ours = ["forwarded", "cdn-loop", "x-request-id"];
    let (start, version) = request.head.start.rsplit_once(' ').expect("a request line");
    assert_eq!(version, "HTTP/1.1");
    let mut fields: Vec<_> = request
        .head
        .fields
        .iter()
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            !ours.contains(&name.as_str()) && !name.starts_with("x-forwarded-")
        })
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    fields.sort_by(|a, b| (a.0 != "host", &a.0).cmp(&(b.0 != "host", &b.0)));
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}"));
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let trailers = request
        .trailers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"));
    let parts = [start.to_owned()].into_iter().chain(fields);
    let parts = parts
        .chain((!body.is_empty()).then_some(body))
        .chain(trailers);
    parts.collect::<Vec<_>>().join("; ")
}
