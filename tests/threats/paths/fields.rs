//! Methods, and fields that some origins read in place of the target or the method.

use super::Fate::{Bad, Limited, Other};
use super::{assert_none, limited, quiet, send_many};
use crate::support::{Client, Origin, get, secs, start};

#[test]
fn no_spelling_of_a_method_slips_past_a_route_that_names_it() {
    let origin = Origin::plain();
    let mut failures = Vec::new();
    for (named, rows) in [
        (
            "GET",
            [
                ("GET", Limited("")),
                ("HEAD", Limited("")),
                ("Get", Bad),
                ("get", Bad),
                ("Head", Bad),
                ("OPTIONS", Other("")),
                ("POST", Other("")),
            ],
        ),
        (
            "POST",
            [
                ("POST", Limited("")),
                ("PoST", Bad),
                ("post", Bad),
                ("GET", Other("")),
                ("HEAD", Other("")),
                ("POST2", Other("")),
                ("OPTIONS", Other("")),
            ],
        ),
    ] {
        let running = start(&limited(&origin.url(), &format!("methods = ['{named}']")));
        for (method, fate) in rows {
            let head =
                format!("{method} //login HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
            let before = origin.requests().len();
            let found = send_many(&running, head.as_bytes());
            if found != fate.outcome() {
                failures.push(format!("{named}, {method}: {found:?}, expected {fate:?}"));
            }
            // Another method is another resource only if the origin sees that method.
            let line = format!("{method} /login HTTP/1.1");
            for seen in &origin.requests()[before..] {
                if seen.head.start != line {
                    failures.push(format!("{method} is forwarded as {}", seen.head.start));
                }
            }
            running.clock.advance(secs(120));
        }
    }
    assert_none(&failures);
}

#[test]
fn a_route_without_methods_counts_every_method() {
    let origin = Origin::plain();
    let running = start(&limited(&origin.url(), ""));
    let mut failures = Vec::new();
    for method in ["GET", "HEAD", "OPTIONS", "PoST", "get", "PURGE", "M-SEARCH"] {
        let head = format!("{method} /login HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
        let found = send_many(&running, head.as_bytes());
        if found != Limited("").outcome() {
            failures.push(format!("{method}: {found:?}"));
        }
        if get(running.public, "/login", "").status != 429 {
            failures.push(format!("{method} spends another quota"));
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}

/// Fields that name a target or a method other than the request line's.
const OVERRIDES: [&str; 7] = [
    "X-Original-URL: /login",
    "X-Rewrite-URL: /login",
    "x_original_url: /login",
    "X-Rewrite_URL: /login",
    "X-HTTP-Method-Override: POST",
    "X-HTTP-Method: POST",
    "X-Method-Override: POST",
];

#[test]
fn no_field_takes_a_request_away_from_its_policy() {
    let origin = Origin::plain();
    let running = start(&limited(&origin.url(), ""));
    let mut failures = Vec::new();
    for field in OVERRIDES.iter().chain(&["X-Forwarded-Host: b.test"]) {
        let field = field.replace("/login", "/free");
        let head = format!("GET /login HTTP/1.1\r\nHost: a.test\r\n{field}\r\n\r\n");
        let found = send_many(&running, head.as_bytes());
        if found != Limited("").outcome() {
            failures.push(format!("{field}: {found:?}"));
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}

#[test]
fn no_field_of_an_untrusted_peer_leads_an_origin_to_another_path() {
    for (trusted, is_kept) in [("[]", false), ("['127.0.0.1']", true)] {
        let origin = Origin::plain();
        let listener = format!("trusted_proxies = {trusted}");
        let running = start(&limited(&origin.url(), "").listener(&listener));
        let mut client = Client::connect(running.public);
        let mut failures = Vec::new();
        for field in OVERRIDES {
            client.get("/free", &format!("{field}\r\n"));
            let (name, value) = field.split_once(": ").expect("a field");
            let request = origin.requests().pop().expect("it was admitted");
            let seen = request.head.field(name);
            // A field may name a method, because a policy that limits a method must limit the path for all methods.
            let is_expected = is_kept || name.contains("Method");
            if seen != is_expected.then_some(value) {
                failures.push(format!(
                    "trusted {trusted}, {field}: the origin sees {seen:?}"
                ));
            }
        }
        assert_none(&failures);
    }
}

#[test]
fn a_partition_never_counts_by_a_field_that_the_origin_does_not_see() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .policy(
            "p",
            "quota = '1 per minute'\npartition = ['header:x-original-url']",
        )
        .route("/*", "policies = ['p']");
    let running = start(&config);
    let statuses = ["/a", "/b"].map(|url| {
        let field = format!("X-Original-URL: {url}\r\n");
        get(running.public, "/", &field).status
    });
    assert_eq!(statuses, [200, 429], "both lack the part");
}

#[test]
fn a_header_that_a_route_asks_for_is_to_the_origin_what_it_was_to_the_route() {
    let origin = Origin::plain();
    let config = limited(&origin.url(), "headers = { x-plan = 'free' }");
    let running = start(&config);
    let mut failures = Vec::new();
    for (fields, fate, seen) in [
        ("X-Plan: free", Limited(""), &[("x-plan", "free")][..]),
        ("x-PLAN:\t free \t", Limited(""), &[("x-plan", "free")]),
        (
            "X-Plan: free\r\nX_Plan: paid",
            Limited(""),
            &[("x-plan", "free")],
        ),
        ("X_Plan: free", Other(""), &[]),
        (
            "X-Plan: free\r\nX-Plan: paid",
            Other(""),
            &[("x-plan", "free, paid")],
        ),
        (
            "X-Plan: free\r\nX-Plan: free",
            Other(""),
            &[("x-plan", "free, free")],
        ),
        (
            "X-Plan: free\r\nX-Plan:",
            Limited(""),
            &[("x-plan", "free")],
        ),
    ] {
        let before = origin.requests().len();
        let head = format!("GET /login HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n\r\n");
        let found = send_many(&running, head.as_bytes());
        if found != fate.outcome() {
            failures.push(format!("{fields:?}: {found:?}, expected {fate:?}"));
        }
        for request in &origin.requests()[before..] {
            let is_plan = |(name, _): &&(String, String)| name.replace('_', "-") == "x-plan";
            let plans = request.head.fields.iter().filter(is_plan);
            let plans: Vec<_> = plans
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let seen: Vec<_> = seen
                .iter()
                .map(|(name, value)| (*name, value.trim()))
                .collect();
            if plans != seen {
                failures.push(format!("{fields:?}: the origin sees {plans:?}"));
            }
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}
