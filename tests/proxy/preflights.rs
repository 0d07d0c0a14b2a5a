//! CORS preflights: `preflight_policies` decide on them, on the route of the request that they announce.

use std::net::SocketAddr;

use crate::support::gateway::start;
use crate::support::ratelimit::{remaining, state};
use crate::support::{Answer, Client, Config, Running};

/// Sends OPTIONS with the fields of a preflight for `method`, and with `fields`.
fn preflight(address: SocketAddr, target: &str, method: &str, fields: &str) -> Answer {
    let fields = format!(
        "Origin: https://app.example.com\r\nAccess-Control-Request-Method: {method}\r\n{fields}"
    );
    options(&mut Client::connect(address), target, &fields)
}

fn options(client: &mut Client, target: &str, fields: &str) -> Answer {
    client.ask(format!(
        "OPTIONS {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
    ))
}

const KEYED: &str =
    "quota = '9 per minute'\npartition = ['header:x-api-key']\non_missing = 'refuse'";

/// A file that requires keys, but not for preflights, of which it admits `count` per minute.
fn keyed(count: u32) -> Config {
    Config::to("builtin:echo")
        .top("preflight_policies = ['preflights']\ndefault_policies = ['per-key']")
        .policy("preflights", &format!("quota = '{count} per minute'"))
        .policy("per-key", KEYED)
}

#[test]
fn preflights_are_decided_by_their_own_policies_alone() {
    let running = start(&keyed(3).route("/*", "cost = 5"));
    let ask = |method| preflight(running.public, "/a", method, "");
    for left in [2, 1, 0] {
        let answer = ask("PUT");
        assert_eq!(answer.status, 200);
        let [only] = &state(&answer)[..] else {
            panic!("one policy")
        };
        assert_eq!(only.0, "preflights");
        assert_eq!(remaining(&answer, "preflights"), left);
    }
    let refused = ask("PUT");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.problem()["violated-policies"][0], "preflights");
    let mut client = Client::connect(running.public);
    let answer = client.get("/a", "X-Api-Key: one\r\n");
    assert_eq!(remaining(&answer, "per-key"), 4);
}

#[test]
fn what_could_be_more_than_a_preflight_is_a_request_like_any_other() {
    let running = start(&keyed(100).route("/*", ""));
    let both = "Origin: https://a.test\r\nAccess-Control-Request-Method: PUT\r\n";
    let without = |field: &str| {
        let kept = both.split_inclusive("\r\n");
        kept.filter(|line| !line.starts_with(field))
            .collect::<String>()
    };
    for (fields, status) in [
        (both.to_owned(), 200),
        (format!("{both}Content-Length: 0\r\n"), 200),
        (without("Origin"), 401),
        (without("Access"), 401),
        (format!("{both}Origin: https://b.test\r\n"), 401),
        (format!("{both}Access-Control-Request-Method: GET\r\n"), 401),
        (format!("{both}Cookie: session=1\r\n"), 401),
        (format!("{both}Authorization: Bearer a\r\n"), 401),
        (format!("{both}X-HTTP-Method-Override: PUT\r\n"), 401),
        (format!("{both}X_HTTP_Method: PUT\r\n"), 401),
        (format!("{both}X-Method-Override: PUT\r\n"), 401),
        (format!("{both}X_Method-Override: PUT\r\n"), 401),
        (format!("{both}X-HTTP-Method: PUT\r\n"), 401),
        (format!("{both}X-Method: PUT\r\n"), 200),
        (
            without("Access") + "Access-Control-Request-Method: PUT /x\r\n",
            401,
        ),
        (format!("{both}Content-Length: 2\r\n\r\nab"), 401),
        (
            format!("{both}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"),
            401,
        ),
    ] {
        let answer = options(&mut Client::connect(running.public), "/", &fields);
        assert_eq!(answer.status, status, "{fields}");
    }
    let mut client = Client::connect(running.public);
    assert_eq!(client.get("/", both).status, 401, "GET is no preflight");
}

#[test]
fn without_policies_of_its_own_a_preflight_is_a_request_like_any_other() {
    let config = Config::to("builtin:echo")
        .policy("per-key", KEYED)
        .route("/*", "policies = ['per-key']");
    let running = start(&config);
    assert_eq!(preflight(running.public, "/", "GET", "").status, 401);
}

#[test]
fn a_preflight_takes_the_route_of_the_request_that_it_announces() {
    let route = |lines: &str, name: &str| {
        format!("{lines}\n[routes.response_headers]\nset = {{ x-route = '{name}' }}")
    };
    let config = keyed(100)
        .route("/m", &route("methods = ['GET']", "get"))
        .route("/m", &route("methods = ['DELETE', 'PATCH']", "delete"))
        .route("/o", &route("", "all"))
        .route("/o", &route("methods = ['OPTIONS']", "options"))
        .route("/under/{id}", &route("methods = ['PUT']", "put"))
        .route("/under/*", &route("methods = ['OPTIONS']", "rest"))
        .route("/h", &route("", "plain"))
        .route("/h", &route("headers = { x-version = '*' }", "any-version"))
        .route("/v", &route("", "plain"))
        .route("/v", &route("headers = { x-version = '2' }", "version-2"))
        .route("/r", &route("", "plain"))
        .route(
            "/r",
            &route("headers = { x-version = 're:(?s-u:.)*' }", "some"),
        )
        .route("/r", &route("headers = { x-version = 're:2.*' }", "never"));
    let running = start(&config);
    let headers = |names: &str| format!("Access-Control-Request-Headers: {names}\r\n");
    for (target, method, fields, found) in [
        ("/m", "GET", String::new(), Some("get")),
        ("/m", "HEAD", String::new(), Some("get")),
        ("/m", "DELETE", String::new(), Some("delete")),
        ("/m", "PUT", String::new(), None),
        ("/m", "OPTIONS", String::new(), None),
        ("/o", "GET", String::new(), Some("options")),
        ("/under/1", "PUT", String::new(), Some("rest")),
        ("/under/1", "GET", String::new(), Some("rest")),
        ("/h", "GET", String::new(), Some("plain")),
        (
            "/h",
            "GET",
            headers("x-other, X-Version"),
            Some("any-version"),
        ),
        (
            "/h",
            "GET",
            headers("x-other") + &headers("X-Version"),
            Some("any-version"),
        ),
        ("/h", "GET", headers("x-version-2"), Some("plain")),
        (
            "/h",
            "GET",
            "X-Version: 1\r\n".to_owned(),
            Some("any-version"),
        ),
        ("/v", "GET", headers("x-version"), Some("plain")),
        (
            "/v",
            "GET",
            "X-Version: 2\r\n".to_owned(),
            Some("version-2"),
        ),
        (
            "/v",
            "GET",
            headers("x-version") + "X-Version: 2\r\n",
            Some("version-2"),
        ),
        // An expression needs a value; a preflight announces none, and the placeholder for it must not match.
        ("/r", "GET", headers("x-version"), Some("plain")),
        ("/r", "GET", "X-Version: 2\r\n".to_owned(), Some("some")),
        (
            "/r",
            "GET",
            "X-Version: \u{e9}\r\n".to_owned(),
            Some("some"),
        ),
    ] {
        let answer = preflight(running.public, target, method, &fields);
        let status = if found.is_some() { 200 } else { 404 };
        assert_eq!(answer.status, status, "{method} {target} {fields}");
        assert_eq!(answer.field("x-route"), found, "{method} {target} {fields}");
    }
    assert_eq!(preflight(running.public, "/m", "patch", "").status, 400);
}

/// Blocks hold for preflights, too, as far as these name their client.
#[test]
fn blocks_of_the_route_hold_for_preflights() {
    let keys = "quota = '9 per minute'\npartition = ['header:x-api-key']\non_missing = 'refuse'\n\
                overrides = { leaked = 'blocked' }";
    let listed = "quota = 'blocked'\npartition = ['header:x-api-key']\n\
                  overrides = { known = 'unlimited' }";
    let shadow =
        "quota = '9 per minute'\nmode = 'shadow'\noverrides = { '127.0.0.0/8' = 'blocked' }";
    let config = Config::to("builtin:echo")
        .top("preflight_policies = ['preflights']")
        .policy("preflights", "quota = '100 per minute'")
        .policy("keys", keys)
        .policy("listed", listed)
        .policy("shadow", shadow)
        .policy(
            "addresses",
            "quota = '9 per minute'\noverrides = { '127.0.0.9' = 'blocked' }",
        )
        .route("/*", "policies = ['shadow', 'addresses', 'keys']")
        .route("/listed", "policies = ['listed']");
    let running = start(&config);
    let ask = |running: &Running, source: [u8; 4], target: &str, fields: &str| {
        let mut client = Client::connect_from(source, running.public);
        let fields = format!("Origin: a\r\nAccess-Control-Request-Method: GET\r\n{fields}");
        options(&mut client, target, &fields)
    };
    let here = [127, 0, 0, 1];
    for (source, target, fields, blocked_by) in [
        (here, "/", "", None),
        (here, "/", "X-Api-Key: some\r\n", None),
        (here, "/", "X-Api-Key: leaked\r\n", Some("keys")),
        ([127, 0, 0, 9], "/", "", Some("addresses")),
        (here, "/listed", "", None),
        (here, "/listed", "X-Api-Key: known\r\n", None),
        (here, "/listed", "X-Api-Key: another\r\n", Some("listed")),
    ] {
        let answer = ask(&running, source, target, fields);
        let status = if blocked_by.is_some() { 403 } else { 200 };
        assert_eq!(answer.status, status, "{source:?} {target} {fields}");
        if let Some(policy) = blocked_by {
            assert_eq!(answer.problem()["policy"], policy);
        }
    }
}
