//! Fields on their way through: which ones end at the gateway, which ones it adds, and which ones nobody can forge.

use std::net::{SocketAddr, TcpListener};

use crate::support::ratelimit::remaining;
use crate::support::{Config, Head, Origin, Running, get, start};

fn open(endpoint: &str) -> Running {
    start(&Config::to(endpoint).route("/*", ""))
}

/// Returns the parameters of the last element of `Forwarded` (RFC 7239), sorted.
fn forwarded(head: &Head) -> Vec<String> {
    let elements = head.listed("forwarded");
    let last = elements.last().cloned().unwrap_or_default();
    let mut pairs: Vec<_> = last
        .split(';')
        .map(|x| x.trim().replace('"', "").to_ascii_lowercase())
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn hop_by_hop_fields_end_at_the_gateway() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Public: 1\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let running = open(&origin.url());
    let answer = get(
        running.public,
        "/",
        "Connection: keep-alive, X-Private, Upgrade, HTTP2-Settings\r\nX-Private: 1\r\n\
         Keep-Alive: timeout=9\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABk\r\nProxy-Authorization: Basic eA==\r\nX-Kept: 1\r\n",
    );
    let seen = origin.only_request();
    for name in [
        "x-private",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "http2-settings",
        "proxy-authorization",
    ] {
        assert_eq!(seen.head.fields(name), [""; 0], "{name} reached the origin");
    }
    assert_eq!(seen.head.field("x-kept"), Some("1"));
    for name in ["x-secret", "keep-alive", "proxy-connection"] {
        assert_eq!(
            answer.head.fields(name),
            [""; 0],
            "{name} reached the client"
        );
    }
    assert_eq!(answer.field("x-public"), Some("1"));
}

#[test]
fn scheme_and_host_are_kept_only_of_a_peer_whose_x_forwarded_for_is_believed() {
    for (source, proto, host) in [
        ("x-forwarded-for", "https", "shop.test"),
        ("forwarded", "http", "a.test"),
        ("header:x-real-ip", "http", "a.test"),
        ("peer", "http", "a.test"),
    ] {
        let origin = Origin::plain();
        let config = Config::to(origin.url()).route("/*", "").listener(&format!(
            "trusted_proxies = ['127.0.0.0/8']\nclient_address = '{source}'"
        ));
        let running = start(&config);
        let fields = "X-Forwarded-For: 203.0.113.9\r\nForwarded: for=6.6.6.6\r\n\
                      X-Real-IP: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n\
                      X-Forwarded-Host: shop.test\r\n";
        assert_eq!(get(running.public, "/", fields).status, 200, "{source}");
        let head = origin.only_request().head;
        let told = ["x-forwarded-proto", "x-forwarded-host"].map(|name| head.field(name));
        assert_eq!(told, [Some(proto), Some(host)], "{source}");
        if source == "x-forwarded-for" {
            assert_eq!(head.listed("x-forwarded-for"), ["203.0.113.9", "127.0.0.1"]);
            // `Forwarded`, which is not trusted here, is built anew.
            let own = "for=127.0.0.1;host=\"a.test\";proto=http";
            assert_eq!(head.listed("forwarded"), ["for=203.0.113.9", own]);
        }
    }
}

#[test]
fn an_ipv6_listener_takes_ipv6_alone_and_stands_beside_an_ipv4_one() {
    let Ok(free) = TcpListener::bind("[::]:0") else {
        // The machine has no IPv6.
        return;
    };
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .address(&format!("0.0.0.0:{port}"))
        .with(&format!("[listeners.six]\naddress = '[::]:{port}'"))
        .route("/*", "");
    let _running = start(&config);
    for own in ["127.0.0.1", "[::1]"] {
        let address: SocketAddr = format!("{own}:{port}").parse().expect("an address");
        assert_eq!(get(address, "/", "").status, 200, "{own}");
        let head = origin.requests().pop().expect("a request").head;
        assert_eq!(forwarded(&head)[0], format!("for={own}"));
    }
}

#[test]
fn the_host_is_kept_unless_the_route_rewrites_it() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .route("/kept", "")
        .route("/rewritten", "preserve_host = false");
    let running = start(&config);
    get(running.public, "/kept", "");
    get(running.public, "/rewritten", "");
    let hosts = origin.requests();
    let hosts: Vec<_> = hosts.iter().map(|x| x.head.field("host")).collect();
    let address = origin.address.to_string();
    assert_eq!(hosts, [Some("a.test"), Some(address.as_str())]);
}

/// Field lines of a request: some that the gateway sets, some that the client sets, and some that both do.
const ASKED: &str = "X-Forwarded-For: 1.2.3.4\r\nX-Debug: 1\r\nX-Debug: 2\r\nX-Version: 1\r\n\
                     Authorization: Basic x\r\nConnection: X-Api-Version\r\nCookie: a=1\r\n";

fn with_request_headers(endpoint: &str) -> Config {
    Config::to(endpoint)
        .policy("p", "quota = '100 per minute'\npartition = ['header:x-version']")
        .route(
            "/*",
            "policies = ['p']\n[routes.request_headers]\n\
             set = { X-Version = '2', x-api-version = '3', x-forwarded-proto = 'https', authorization = 'Bearer y' }\n\
             remove = ['x-debug', 'x-forwarded-for', 'forwarded', 'cookie', 'x-not-there']",
        )
}

#[test]
fn the_operator_has_the_last_word_on_the_fields_of_requests() {
    let origin = Origin::plain();
    let running = start(&with_request_headers(&origin.url()));
    assert_eq!(get(running.public, "/", ASKED).status, 200);
    let head = origin.only_request().head;
    for (name, expected) in [
        ("x-version", &["2"][..]),
        ("x-api-version", &["3"]),
        ("x-forwarded-proto", &["https"]),
        ("x-forwarded-host", &["a.test"]),
        ("authorization", &["Bearer y"]),
        ("host", &["a.test"]),
        ("x-debug", &[]),
        ("x-forwarded-for", &[]),
        ("forwarded", &[]),
        ("cookie", &[]),
    ] {
        assert_eq!(head.fields(name), expected, "{name}");
    }
}

/// The limits use the fields that the client sent, so a route's changes neither merge two clients nor split one.
#[test]
fn fields_of_requests_are_changed_once_the_limits_are_decided() {
    let running = start(&with_request_headers("builtin:echo"));
    let left = |version: &str| {
        let answer = get(running.public, "/", &format!("X-Version: {version}\r\n"));
        remaining(&answer, "p")
    };
    assert_eq!(["1", "1", "2"].map(left), [99, 98, 99]);
}

/// The origin is another gateway, because its echo shows the fields as it received them.
#[test]
fn fields_of_requests_are_changed_over_http2_too() {
    let echo = open("builtin:echo");
    let running = start(&with_request_headers(&format!("h2c://{}", echo.public)));
    let answer = get(running.public, "/", ASKED);
    let said: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    let fields = &said["headers"];
    for (name, expected) in [
        ("x-version", Some("2")),
        ("x-api-version", Some("3")),
        ("authorization", Some("Bearer y")),
        ("x-debug", None),
        ("cookie", None),
    ] {
        assert_eq!(fields[name].as_str(), expected, "{name}");
    }
}
