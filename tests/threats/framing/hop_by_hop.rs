//! Fields that Connection names: gone for the limits and the origin alike, never the gateway's own.

use super::assert_none;
use super::bench::{Bench, expect};
use crate::support::{Client, Config, Head, Origin, start};

/// What the gateway says of itself and its client, which no client can name away.
fn own_fields(head: &Head, client: &str) -> Result<(), String> {
    expect("host", head.fields("host"), vec!["a.test"])?;
    expect(
        "x-forwarded-for",
        head.fields("x-forwarded-for"),
        vec![client],
    )?;
    expect(
        "x-forwarded-proto",
        head.fields("x-forwarded-proto"),
        vec!["http"],
    )?;
    expect(
        "x-forwarded-host",
        head.fields("x-forwarded-host"),
        vec!["a.test"],
    )?;
    expect("cdn-loop", head.fields("cdn-loop"), vec!["tollgate"])?;
    let forwarded = head.fields("forwarded").join("");
    expect("forwarded", forwarded.contains(client), true)
}

#[test]
fn what_connection_names_is_gone_for_limits_and_origin_alike() {
    let mut failures = Vec::new();
    for (partition, field, connection) in [
        (
            "header:x-api-key",
            "X-Api-Key",
            "Connection: close, X-Forwarded-For, X-Real-IP, X-Api-Key, Host",
        ),
        (
            "header:authorization",
            "Authorization",
            "Connection: keep-alive, Authorization",
        ),
        ("header:x-api-key", "X-Api-Key", "connection:x-API-key"),
        (
            "header:x-api-key",
            "X-Api-Key",
            "Connection: ,\t, X-Api-Key\t,",
        ),
        (
            "header:x-api-key",
            "X-Api-Key",
            "Connection: close\r\nConnection: x-api-key",
        ),
        ("header:cookie", "Cookie", "Connection: cookie"),
        ("header:user-agent", "User-Agent", "Connection: User-Agent"),
    ] {
        let origin = Origin::plain();
        let policy = format!("quota = '1 per hour'\npartition = ['{partition}']");
        let config = Config::to(origin.url())
            .policy("keyed", &policy)
            .route("/*", "policies = ['keyed']");
        let running = start(&config);
        let ask = |value: &str, connection: &str| {
            Client::connect(running.public).ask(format!(
                "GET / HTTP/1.1\r\nHost: a.test\r\n{field}: {value}\r\nX-Real-IP: 9.9.9.9\r\n\
                 X-Forwarded-For: 9.9.9.9\r\n{connection}\r\n\r\n"
            ))
        };
        let checked = || {
            // Two clients that hide their names are one: the one without a name.
            expect("the first", ask("one", connection).status, 200)?;
            expect("the second", ask("two", connection).status, 429)?;
            expect("one with a name", ask("one", "X: y").status, 200)?;
            let requests = origin.requests();
            expect("requests", requests.len(), 2)?;
            let name = field.to_lowercase();
            expect(field, requests[0].head.fields(&name), vec![])?;
            expect(field, requests[1].head.fields(&name), vec!["one"])?;
            own_fields(&requests[0].head, "127.0.0.1")
        };
        if let Err(failure) = checked() {
            failures.push(format!("{connection:?}: {failure}"));
        }
    }
    assert_none(&failures);
}

#[test]
fn an_address_that_connection_names_is_the_peers_for_limits_and_origin_alike() {
    let mut failures = Vec::new();
    for (source, field, value) in [
        ("x-forwarded-for", "X-Forwarded-For", "203.0.113.N"),
        ("forwarded", "Forwarded", "for=203.0.113.N"),
        ("header:x-real-ip", "X-Real-IP", "203.0.113.N"),
    ] {
        let origin = Origin::plain();
        let listener = format!("trusted_proxies = ['127.0.0.1']\nclient_address = '{source}'");
        let config = Config::to(origin.url())
            .listener(&listener)
            .policy("addresses", "quota = '1 per hour'\npartition = ['ip']")
            .route("/*", "policies = ['addresses']");
        let running = start(&config);
        let ask = |number: &str, connection: &str| {
            let value = value.replace('N', number);
            let fields = format!("{field}: {value}\r\nConnection: {connection}\r\n");
            Client::connect(running.public).get("/", &fields).status
        };
        let checked = || {
            expect("the first", ask("1", field), 200)?;
            expect("the second", ask("2", field), 429)?;
            expect("one that is told", ask("1", "close"), 200)?;
            own_fields(&origin.requests()[0].head, "127.0.0.1")?;
            let named = origin.requests()[0].head.fields("x-real-ip").len();
            expect("x-real-ip", named, 0)
        };
        if let Err(failure) = checked() {
            failures.push(format!("{source}: {failure}"));
        }
    }
    assert_none(&failures);
}

#[test]
fn what_the_gateway_says_cannot_be_named_away() {
    let named = "close, Host, Content-Length, Transfer-Encoding, X-Forwarded-For, \
                 X-Forwarded-Proto, X-Forwarded-Host, Forwarded, CDN-Loop, Connection, Tollgate-Tier";
    let mut failures = Vec::new();
    for (framing, body) in [
        ("Content-Length: 3", "abc"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let bench = Bench::new();
        let message = format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\nX-Forwarded-For: 9.9.9.9\r\n\
             Forwarded: for=9.9.9.9\r\nCDN-Loop: other\r\nConnection: {named}\r\n\r\n{body}"
        );
        let checked = bench
            .one_and_close(message.as_bytes(), b"")
            .and_then(|seen| {
                expect("body", &*seen.body, b"abc")?;
                own_fields(&seen.head, "127.0.0.1")
            });
        if let Err(failure) = checked {
            failures.push(format!("{framing}: {failure}"));
        }
    }
    assert_none(&failures);
}
