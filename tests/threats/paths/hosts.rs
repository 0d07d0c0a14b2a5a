//! Spellings of a limited host.

use super::Fate::{Bad, Limited, Other};
use super::{Fate, assert_none, quiet, send_many};
use crate::support::{Client, Config, Garden, Origin, get, secs, start};

/// Values of Host, as bytes on the wire, and what must become of each.
const SPELLINGS: &[(&[u8], Fate)] = &[
    (b"a.test", Limited("")),
    (b"A.TEST", Limited("")),
    (b"A.test", Limited("")),
    (b"a.test.", Limited("")),
    (b"A.TEST.", Limited("")),
    (b"a.test:80", Limited("")),
    (b"a.test:8080", Limited("")),
    (b"a.test:443", Limited("")),
    (b"A.TEST.:80", Limited("")),
    (b"a.test:", Limited("")),
    (b"\t a.test \t", Limited("")),
    (b"a.test..", Bad),
    (b".a.test", Bad),
    (b"a..test", Bad),
    (b"a.test:x", Bad),
    (b"a.test:-1", Bad),
    (b"a.test:99999", Bad),
    (b"a.test:80:80", Bad),
    (b"a.test :80", Bad),
    (b"%61.test", Bad),
    (b"a%2etest", Bad),
    (b"a.test%00", Bad),
    (b"a.test\0", Bad),
    (b"a.test/", Bad),
    (b"a.test/login", Bad),
    (b"a.test\\", Bad),
    (b"a.test#", Bad),
    (b"a.test?", Bad),
    (b"a.test;", Bad),
    (b"b.test@a.test", Bad),
    (b"a.test@b.test", Bad),
    (b"a.test, b.test", Bad),
    (b"b.test a.test", Bad),
    (b"http://a.test", Bad),
    (b"[a.test]", Bad),
    (b"", Bad),
    // Characters that are mapped in international names: a wide letter, another full stop, a soft hyphen.
    ("ａ.test".as_bytes(), Bad),
    ("a。test".as_bytes(), Bad),
    ("a\u{ad}.test".as_bytes(), Bad),
    (b"\xe1.test", Bad),
    (b"a.test.evil", Other("")),
    (b"xa.test", Other("")),
    (b"b.a.test", Other("")),
    (b"a-test", Other("")),
    (b"127.0.0.1", Other("")),
];

/// A file that limits one host to three requests a minute, with a route for all other hosts.
fn limited(origin: &Origin, host: &str) -> Config {
    quiet(&origin.url())
        .policy("p", "quota = '3 per minute'\npartition = []")
        .route("/*", &format!("policies = ['p']\nhost = '{host}'"))
        .route("/*", "")
}

#[test]
fn no_spelling_of_a_host_slips_past_its_policy() {
    let origin = Origin::plain();
    let running = start(&limited(&origin, "a.test"));
    let mut failures = Vec::new();
    for &(host, fate) in SPELLINGS {
        let shown = String::from_utf8_lossy(host);
        for start in ["GET / HTTP/1.1", "GET / HTTP/1.0\r\nConnection: keep-alive"] {
            let head = [start.as_bytes(), b"\r\nHost: ", host, b"\r\n\r\n"].concat();
            let found = send_many(&running, &head);
            if found != fate.outcome() {
                failures.push(format!("{start} {shown:?}: {found:?}, expected {fate:?}"));
            }
            let plain = get(running.public, "/", "").status;
            if (plain == 429) != matches!(fate, Limited(_)) {
                failures.push(format!("a.test after {shown:?}: {plain}"));
            }
            running.clock.advance(secs(120));
        }
    }
    assert_none(&failures);
}

#[test]
fn every_spelling_that_is_let_through_is_that_host_to_the_origin_too() {
    let garden = Garden::start(&[]);
    let config = quiet("builtin:echo").with(&garden.upstreams());
    let route = |host| format!("[[routes]]\nupstream = 'nginx'\npath = '/*'\n{host}");
    let config = (config.policy("p", "quota = '1000 per minute'\npartition = []"))
        .with(&route("host = 'garden.test'\npolicies = ['p']"))
        .with(&route(""));
    let running = start(&config);
    let mut failures = Vec::new();
    for &(host, _) in SPELLINGS.iter().filter(|(_, fate)| !matches!(fate, Bad)) {
        let host = String::from_utf8_lossy(host)
            .replace("a.", "garden.")
            .replace("A.", "GARDEN.");
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = Client::connect(running.public).ask(head);
        let is_matched = answer.field("ratelimit").is_some();
        if answer.status != 200 || is_matched != (answer.text() == "garden") {
            failures.push(format!("{host:?}: {is_matched}, nginx: {}", answer.text()));
        }
    }
    assert_none(&failures);
}

#[test]
fn an_absolute_target_names_the_host_that_counts_and_that_the_origin_sees() {
    let origin = Origin::plain();
    let running = start(&limited(&origin, "a.test"));
    let mut failures = Vec::new();
    for (target, host, fate, forwarded) in [
        ("http://a.test/", "b.test", Limited(""), "a.test"),
        ("http://A.TEST.:80/", "b.test", Limited(""), "A.TEST.:80"),
        ("HTTP://a.test", "a.test", Limited(""), "a.test"),
        ("https://a.test/", "b.test", Limited(""), "a.test"),
        ("http://a.test:80/", "a.test:8080", Limited(""), "a.test:80"),
        ("http://b.test/", "a.test", Other(""), "b.test"),
        ("http://a.test/", "b@a.test", Bad, ""),
        ("http://b.test@a.test/", "a.test", Bad, ""),
        ("http://a.test@b.test/", "a.test", Bad, ""),
        ("http://a%2etest/", "a.test", Bad, ""),
        ("http://a.test:99999/", "a.test", Bad, ""),
        ("http://ａ.test/", "a.test", Bad, ""),
        ("//a.test/", "b.test", Other(""), "b.test"),
        ("a.test:80", "b.test", Bad, ""),
    ] {
        let before = origin.requests().len();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let found = send_many(&running, head.as_bytes());
        if found != fate.outcome() {
            failures.push(format!("{target} {host}: {found:?}, expected {fate:?}"));
        }
        for seen in &origin.requests()[before..] {
            let hosts = (seen.head.field("host"), seen.head.field("x-forwarded-host"));
            if hosts != (Some(forwarded), Some(forwarded)) {
                failures.push(format!("{target} {host}: the origin sees {hosts:?}"));
            }
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}

#[test]
fn an_international_host_is_its_ascii_spelling_in_any_case() {
    let origin = Origin::plain();
    let running = start(&limited(&origin, "xn--bcher-kva.test"));
    let mut failures = Vec::new();
    for (host, fate) in [
        ("xn--bcher-kva.test", Limited("")),
        ("XN--BCHER-KVA.Test.:80", Limited("")),
        ("bücher.test", Bad),
        ("BÜCHER.test", Bad),
        ("b%C3%BCcher.test", Bad),
        ("bu\u{308}cher.test", Bad),
        ("xn--bcher-kvb.test", Other("")),
    ] {
        for head in [
            format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            format!("GET http://{host}/ HTTP/1.1\r\nHost: b.test\r\n\r\n"),
        ] {
            let found = send_many(&running, head.as_bytes());
            if found != fate.outcome() {
                failures.push(format!("{head:?}: {found:?}, expected {fate:?}"));
            }
            running.clock.advance(secs(120));
        }
    }
    assert_none(&failures);
}

#[test]
fn an_address_is_one_host_in_every_spelling_that_is_an_address() {
    let origin = Origin::plain();
    let mut failures = Vec::new();
    for (address, rows) in [
        (
            "[::1]",
            [
                ("[::1]", Limited("")),
                ("[0:0:0:0:0:0:0:1]", Limited("")),
                ("[0::0001]:80", Limited("")),
                ("[::1%25lo]", Bad),
                ("::1", Bad),
                ("[::0.0.0.1]", Limited("")),
                ("[::2]", Other("")),
            ],
        ),
        (
            "127.0.0.1",
            [
                ("127.0.0.1", Limited("")),
                ("127.0.0.1.:80", Limited("")),
                ("127.0.0.1:", Limited("")),
                // To an origin that compares text, these are names.
                ("127.1", Other("")),
                ("2130706433", Other("")),
                ("0x7f.0.0.1", Other("")),
                ("[::ffff:127.0.0.1]", Other("")),
            ],
        ),
    ] {
        let running = start(&limited(&origin, address));
        for (host, fate) in rows {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let found = send_many(&running, head.as_bytes());
            if found != fate.outcome() {
                failures.push(format!("{host}: {found:?}, expected {fate:?}"));
            }
            running.clock.advance(secs(120));
        }
    }
    assert_none(&failures);
}

/// A request of HTTP/1.0 may name no host. It takes the routes for all hosts, and the origin sees its own address as
/// the host.
#[test]
fn a_request_without_a_host_is_of_no_host_to_the_origin_either() {
    let origin = Origin::plain();
    let running = start(&limited(&origin, "a.test"));
    let found = send_many(
        &running,
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    );
    assert_eq!(found, Other("").outcome());
    let address = origin.address.to_string();
    for request in origin.requests() {
        let hosts = (
            request.head.field("host"),
            request.head.field("x-forwarded-host"),
        );
        assert_eq!(hosts, (Some(address.as_str()), None));
    }
}

#[test]
fn hosts_stay_one_in_any_spelling_however_many_there_are() {
    let mut failures = Vec::new();
    for count in [1, 99, 100, 101, 500] {
        let wildcard = |number| if number % 3 == 1 { "*." } else { "" };
        let mut config = quiet("builtin:echo")
            .policy("p", "quota = '1 per minute'\npartition = ['host']")
            .route("/*", "");
        for number in 0..count {
            let prefix = wildcard(number);
            let host = format!("host = '{prefix}Host-{number}.Test'\npolicies = ['p']");
            config = config.route("/*", &host);
        }
        let running = start(&config);
        let mut client = Client::connect(running.public);
        for number in 0..count {
            let prefix = wildcard(number).replace('*', "w");
            let url = format!("http://{prefix}host-{number}.test/");
            for (target, host, expected) in [
                ("/", format!("{prefix}host-{number}.test"), 200),
                ("/", format!("{prefix}HOST-{number}.TEST"), 429),
                ("/", format!("{prefix}Host-{number}.test.:81"), 429),
                (&*url, "b.test".to_owned(), 429),
            ] {
                let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                let status = client.ask(asked).status;
                if status != expected {
                    failures.push(format!(
                        "{target} {host} of {count}: {status}, expected {expected}"
                    ));
                }
            }
        }
    }
    assert_none(&failures);
}
