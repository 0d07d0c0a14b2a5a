//! Request lines: methods, versions, and the four forms of a target.

use super::bench::{Bench, QUOTA};
use super::readers::unhex;
use super::{Row, SMUGGLED, assert_none, rejected, rows};
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Garden, Origin, get, start};

/// Returns a message with that request line and a host.
fn line(line: impl AsRef<[u8]>) -> Vec<u8> {
    [line.as_ref(), b"\r\nHost: a.test\r\n\r\n"].concat()
}

#[test]
fn bytes_that_a_path_cannot_have_are_refused() {
    let paths = (0..=0x20).chain([0x7f]).map(|byte| {
        let path = [b"GET /a", &[byte][..], b"b HTTP/1.1"].concat();
        line(path)
    });
    rejected(&rows(&paths.collect::<Vec<_>>(), 400, "syntax"));
}

#[test]
fn methods_and_versions_that_are_none_are_refused() {
    let lines: &[&[u8]] = &[
        b"G=\":<>(e) / HTTP/1.1",
        b"G(E)T / HTTP/1.1",
        b"GET\x00 / HTTP/1.1",
        b"G\x85T / HTTP/1.1",
        b"G\xa0T / HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET\t/ HTTP/1.1",
        b"GET /  HTTP/1.1",
        b"GET / HTTP/1.1 x",
        b"GET / HTTP/1.32",
        b"GET / HTTP/4294967295.255",
        b"GET / HTTP/2.0",
        b"GET / HTTP/3",
        b"GET / HTTP/1.2",
        b"GET / HTTP/1.",
        b"GET / HTTP/1",
        b"GET / HTTP/01.1",
        b"GET / HTTP/ 1.1",
        b"GET / http/1.1",
        b"GET / HTTPS/1.1",
        b"GET / ICY/1.1",
        b"GET / ",
        b"GET /",
        b"GET",
        b"/ HTTP/1.1",
    ];
    let mut table: Vec<Row> = lines
        .iter()
        .map(|text| (line(text), 400, "syntax"))
        .collect();
    // HTTP/0.9 has no fields and no empty line.
    table.extend(rows(&["GET /\n", "GET /\r\n", "GET / \r\n"], 400, "syntax"));
    rejected(&table);
}

#[test]
fn targets_that_name_no_resource_here_are_refused() {
    let mut table: Vec<Row> = [
        ("GET a.test:80 HTTP/1.1", 400, "bad_host"),
        ("POST a.test:80 HTTP/1.1", 400, "bad_host"),
        ("GET a.test HTTP/1.1", 400, "bad_host"),
        ("GET http://u:p@a.test/ HTTP/1.1", 400, "bad_host"),
        ("GET http://u@a.test/ HTTP/1.1", 400, "bad_host"),
        ("GET http://@a.test/ HTTP/1.1", 400, "bad_host"),
        ("GET http://a..test/ HTTP/1.1", 400, "bad_host"),
        ("GET http://a%2etest/ HTTP/1.1", 400, "syntax"),
        ("GET http://a.test:0x50/ HTTP/1.1", 400, "bad_host"),
        ("GET http://a.test:99999/ HTTP/1.1", 400, "bad_host"),
        ("GET http:///x HTTP/1.1", 400, "syntax"),
        ("GET http:// HTTP/1.1", 400, "syntax"),
        ("GET http://a<.test/ HTTP/1.1", 400, "syntax"),
        ("GET a\"b HTTP/1.1", 400, "syntax"),
        ("GET http:x HTTP/1.1", 400, "bad_host"),
        ("GET ftp://a.test/ HTTP/1.1", 400, "bad_path"),
        ("GET ws://a.test/ HTTP/1.1", 400, "bad_path"),
        ("GET * HTTP/1.1", 400, "bad_path"),
        ("POST * HTTP/1.1", 400, "bad_path"),
        // `*` is the server as a whole, which no route and so no policy could match.
        ("OPTIONS * HTTP/1.1", 400, "bad_path"),
        ("GET ?x HTTP/1.1", 400, "syntax"),
        ("GET #x HTTP/1.1", 400, "syntax"),
        ("CONNECT a.test:1 HTTP/1.1", 501, "method_unsupported"),
        ("CONNECT / HTTP/1.1", 501, "method_unsupported"),
        ("TRACE / HTTP/1.1", 501, "method_unsupported"),
        ("TRACE * HTTP/1.1", 501, "method_unsupported"),
    ]
    .into_iter()
    .map(|(it, status, reason)| (line(it), status, reason))
    .collect();
    // A Host that an authority replaces must be valid all the same.
    for host in ["a b", "a@b", "", "a,b", "b\r\nHost: b"] {
        let head = format!("GET http://a.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        table.push((head.into(), 400, "bad_host"));
    }
    let hostless = "GET http://a.test/ HTTP/1.1\r\n\r\n";
    table.push((hostless.into(), 400, "bad_host"));
    rejected(&table);
}

/// URLs as clients of Prometheus, Solr, CouchDB and others send them, and what every server must read.
const RAW: &[(&[u8], &str)] = &[
    (
        b"/api/v1/query?query=up{job=\"a\"}>0",
        "/api/v1/query?query=up{job=%22a%22}%3E0",
    ),
    (
        b"/solr/select?q=<a>&fq={!tag=\"x\"}|y^2\\",
        "/solr/select?q=%3Ca%3E&fq={!tag=%22x%22}|y^2\\",
    ),
    (b"/db/_view/x?key=\"a`b\"", "/db/_view/x?key=%22a%60b%22"),
    (b"/<a>`\"|^{}", "/%3Ca%3E%60%22%7C%5E%7B%7D"),
    (b"/a?\xc3\xa9\xe9", "/a?%C3%A9%E9"),
    (b"http://a.test/<?>", "/%3C?%3E"),
];

#[test]
fn characters_that_no_url_may_hold_reach_every_server_escaped_and_count_as_what_they_mean() {
    let garden = Garden::start(&[]);
    let mut failures = Vec::new();
    for (name, address) in garden.echoes {
        let config = Config::to(format!("http://{address}"))
            .policy("p", "quota = '100 per hour'\npartition = ['path']")
            .policy("key", "quota = '100 per hour'\npartition = ['query:key']")
            .route("/*", "policies = ['p']")
            .route("/db/*", "policies = ['key']");
        let running = start(&config);
        for &(raw, escaped) in RAW {
            let ask = |target: &[u8], pieces: usize| {
                let request = [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
                let mut client = Client::connect(running.public);
                for piece in request.chunks(pieces) {
                    client.send(piece);
                }
                client.answer()
            };
            for (target, pieces, left) in [
                (raw, usize::MAX, 99),
                (raw, 1, 98),
                (escaped.as_bytes(), usize::MAX, 97),
            ] {
                let answer = ask(target, pieces);
                let read = answer.field("x-read").map(unhex).unwrap_or_default();
                let line = read.lines().next().unwrap_or_default();
                let policy = if escaped.contains("?key=") {
                    "key"
                } else {
                    "p"
                };
                let seen = (answer.status, line, remaining(&answer, policy));
                if seen != (200, &*format!("GET {escaped}"), left) {
                    failures.push(format!("{name}, {}: {seen:?}", target.escape_ascii()));
                }
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn method_that_a_route_names_in_another_case_is_refused() {
    let origin = Origin::plain();
    let bench = Bench::before(origin, |config| {
        config
            .route("/post", "methods = ['POST']\npolicies = ['p']")
            .route("/post", "")
    });
    for method in ["post", "Post", "pOST"] {
        let message = line(format!("{method} /post HTTP/1.1"));
        let refused = bench.reject(&message, 400, "bad_method_case");
        refused.expect(method);
    }
    assert_eq!(remaining(&bench.probe(), "p"), QUOTA - 1);
}

#[test]
fn path_that_grows_beyond_a_target_when_normalised_is_refused() {
    let bench = Bench::new();
    let path = "|".repeat(30_000);
    let message = line(format!("GET /{path} HTTP/1.1"));
    let refused = bench.reject(&message, 400, "bad_path");
    refused.expect("one refusal");
    assert_eq!(bench.series()["tollgate_panics_total"], 0);
}

#[test]
fn http2_preface_is_closed_without_an_answer_and_told_if_http2_is_off() {
    let bench = Bench::before(Origin::plain(), |config| config.listener("http2 = false"));
    let mut client = bench.client();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00");
    client.send(SMUGGLED);
    client.assert_closed();
    let lines = bench.log();
    assert_eq!((lines.len(), &lines[0]["reason"]), (1, &"syntax".into()));
    assert_eq!(get(bench.running.public, "/", "").status, 200);
    assert_eq!(bench.origin.targets(), ["/last", "/"]);
}
