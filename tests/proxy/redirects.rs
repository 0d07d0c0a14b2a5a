//! `builtin:redirect-https`: redirects to the same URL over TLS, and never in a circle.

use crate::support::gateway::start_text;
use crate::support::{Answer, Client, Config, get, start};

const TRUSTING: &str = "trusted_proxies = ['127.0.0.0/8']";

fn status_and_location(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.field("location"))
}

#[test]
fn a_redirect_leads_to_the_same_url_over_https() {
    let config = Config::to("builtin:redirect-https")
        .route("/*", "")
        .route("/api/{id}/*", "strip_prefix = '/api'")
        .route("/old/*", "rewrite = '/new/*'");
    let running = start(&config);
    for (request, location) in [
        ("GET / HTTP/1.1\r\nHost: a.test", "https://a.test/"),
        (
            "GET /a?b=/c&d HTTP/1.1\r\nHost: A.Test:8080",
            "https://a.test/a?b=/c&d",
        ),
        (
            "GET /api/7/x? HTTP/1.1\r\nHost: a.test",
            "https://a.test/api/7/x?",
        ),
        (
            "GET /old/x HTTP/1.1\r\nHost: a.test",
            "https://a.test/old/x",
        ),
        (
            "GET //evil.test/.. HTTP/1.1\r\nHost: a.test",
            "https://a.test//evil.test/..",
        ),
        (
            "GET /%2e/%0d%0aa HTTP/1.1\r\nHost: a.test",
            "https://a.test/%2e/%0d%0aa",
        ),
        (
            "GET http://b.test HTTP/1.1\r\nHost: a.test",
            "https://b.test/",
        ),
        (
            "GET http://b.test?x HTTP/1.1\r\nHost: a.test",
            "https://b.test/?x",
        ),
        (
            "GET /é?é HTTP/1.1\r\nHost: a.test",
            "https://a.test/%C3%A9?%C3%A9",
        ),
        ("GET / HTTP/1.1\r\nHost: [::1]:80", "https://[::1]/"),
        ("GET / HTTP/1.0\r\nHost: a.test", "https://a.test/"),
        // Fields by which an untrusted client describes earlier hops are ignored.
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test",
            "https://a.test/",
        ),
    ] {
        let answer = Client::connect(running.public).ask(format!("{request}\r\n\r\n"));
        assert_eq!(
            status_and_location(&answer),
            (308, Some(location)),
            "{request}"
        );
        assert_eq!(answer.body, b"", "{request}");
    }
    let nowhere = Client::connect(running.public).ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(status_and_location(&nowhere), (400, None));
}

#[test]
fn a_redirected_upload_leaves_its_connection_usable() {
    let running = start(&Config::to("builtin:redirect-https").route("/*", ""));
    let mut client = Client::connect(running.public);
    for _ in 0..2 {
        let answer = client.post("/upload", "", "some text");
        assert_eq!(
            status_and_location(&answer),
            (308, Some("https://a.test/upload"))
        );
    }
}

#[test]
fn what_a_trusted_peer_had_over_tls_goes_in_circles() {
    let config = Config::to("builtin:redirect-https").listener(TRUSTING);
    let running = start(&config.route("/*", ""));
    for (fields, expected) in [
        ("X-Forwarded-Proto: https\r\n", (508, None)),
        ("X-Forwarded-Proto: HTTPS\r\n", (508, None)),
        ("X-Forwarded-Proto: https, http\r\n", (508, None)),
        (
            "X-Forwarded-Proto: http\r\n",
            (308, Some("https://a.test/")),
        ),
        (
            "X-Forwarded-Proto: http, https\r\n",
            (308, Some("https://a.test/")),
        ),
        ("", (308, Some("https://a.test/"))),
    ] {
        let answer = get(running.public, "/", fields);
        assert_eq!(status_and_location(&answer), expected, "{fields}");
    }
}

/// A plain and a TLS listener would show the same; here, a trusted peer says which scheme the client used.
#[test]
fn a_route_can_ask_for_the_scheme_that_the_upstream_is_told() {
    let file = |listener: &str| {
        let config = Config::to("builtin:redirect-https").listener(listener);
        let config = config
            .route("/*", "headers = { x-forwarded-proto = 'http' }")
            .beside("echo", "builtin:echo", "/*", "");
        start_text(&config.text())
    };
    let (untrusting, trusting) = (file(""), file(TRUSTING));
    let others = file("trusted_proxies = ['127.0.0.0/8']\nclient_address = 'forwarded'");
    let https = "X-Forwarded-Proto: https\r\n";
    for (running, fields, expected) in [
        (&untrusting, "", 308),
        (&untrusting, https, 308),
        (&untrusting, "X_Forwarded_Proto: https\r\n", 308),
        (&trusting, "", 308),
        (&trusting, https, 200),
        (&trusting, "X-Forwarded-Proto: http\r\n", 308),
        (&trusting, "X-Forwarded-Proto: HTTP\r\n", 308),
        (&trusting, "X-Forwarded-Proto: http, https\r\n", 308),
        (&trusting, "X-Forwarded-Proto: https, http\r\n", 200),
        (
            &trusting,
            "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https\r\n",
            308,
        ),
        (&trusting, "X-Forwarded-Proto: foo\r\n", 308),
        (&trusting, "X-Forwarded-Proto:\r\n", 308),
        (&others, https, 308),
    ] {
        let answer = get(running.public, "/", fields);
        assert_eq!(answer.status, expected, "{fields}");
    }
}

#[test]
fn a_partition_by_the_scheme_counts_what_the_upstream_is_told() {
    let policy =
        "quota = '1 per hour'\npartition = ['header:x-forwarded-proto']\non_missing = 'skip'";
    let running = start(&Config::limited("builtin:echo", policy));
    for (fields, expected) in [("", 200), ("X-Forwarded-Proto: https\r\n", 429)] {
        assert_eq!(
            get(running.public, "/", fields).status,
            expected,
            "{fields}"
        );
    }
}
