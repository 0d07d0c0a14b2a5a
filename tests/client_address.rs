//! Whose address a client's is: the peer's, or what one trusted source says, and nobody else's.

mod support;

use support::{Client, Config, start};

/// One request per hour and address, so that the second of a client is refused.
fn once(listener: &str) -> Config {
    let policy = "quota = '1 per hour'\nalgorithm = 'fixed-window'\npartition = ['ip']";
    Config::limited("builtin:echo", policy).listener(listener)
}

/// Sends requests with those field lines one after the other and compares their statuses.
#[track_caller]
fn check(config: &Config, requests: &[(&str, u16)]) {
    let running = start(config);
    let mut client = Client::connect(running.public);
    for (fields, status) in requests {
        let answer = client.get("/", fields);
        assert_eq!(answer.status, *status, "{fields:?} of {requests:#?}");
    }
}

/// What a request is to the quota: the first of its partition, or one too many.
const FIRST: u16 = 200;
const AGAIN: u16 = 429;

#[test]
fn peers_with_different_addresses_have_a_quota_each() {
    let running = start(&once(""));
    for (source, status) in [
        ([127, 0, 0, 1], FIRST),
        ([127, 0, 0, 2], FIRST),
        ([127, 0, 0, 1], AGAIN),
        ([127, 0, 0, 2], AGAIN),
    ] {
        let answer = Client::connect_from(source, running.public).get("/", "");
        assert_eq!(answer.status, status, "{source:?}");
    }
}

#[test]
fn an_untrusted_peer_cannot_choose_its_address() {
    for source in ["x-forwarded-for", "forwarded", "header:x-real-ip", "peer"] {
        let listener = format!("trusted_proxies = ['10.0.0.0/8']\nclient_address = '{source}'");
        let config = once(&listener);
        let running = start(&config);
        let mut client = Client::connect(running.public);
        assert_eq!(client.get("/", "").status, FIRST, "{source}");
        for fields in [
            "X-Forwarded-For: 203.0.113.1\r\n",
            "X-Real-IP: 203.0.113.2\r\n",
            "Forwarded: for=203.0.113.3\r\n",
            "CF-Connecting-IP: 203.0.113.4\r\n",
            "True-Client-IP: 203.0.113.5\r\n",
            "X-Client-IP: 203.0.113.6\r\n",
            "X-Cluster-Client-IP: 203.0.113.7\r\n",
        ] {
            assert_eq!(client.get("/", fields).status, AGAIN, "{source} {fields}");
        }
    }
}

#[test]
fn behind_a_trusted_proxy_the_rightmost_untrusted_entry_is_the_client() {
    let listener = "trusted_proxies = ['127.0.0.0/8', '10.0.0.0/8', 'fd00::/8']";
    let config = once(listener);
    check(
        &config,
        &[
            ("X-Forwarded-For: 203.0.113.1\r\n", FIRST),
            ("X-Forwarded-For: 203.0.113.2\r\n", FIRST),
            ("X-Forwarded-For: 8.8.8.8, 203.0.113.1\r\n", AGAIN),
            ("X-Forwarded-For: 203.0.113.1, 10.1.2.3\r\n", AGAIN),
            (
                "X-Forwarded-For: 203.0.113.2,10.1.2.3 , 10.9.9.9\r\n",
                AGAIN,
            ),
            ("X-Forwarded-For: 203.0.113.1, fd00::1\r\n", AGAIN),
            // Several fields are one list, in their order (RFC 9110 section 5.3).
            (
                "X-Forwarded-For: 8.8.8.8\r\nX-Forwarded-For: 203.0.113.1\r\n",
                AGAIN,
            ),
            (
                "X-Forwarded-For: 203.0.113.2\r\nX-Forwarded-For: 10.0.0.1\r\n",
                AGAIN,
            ),
            ("X-Forwarded-For: ::ffff:203.0.113.1\r\n", AGAIN),
            ("X-Forwarded-For: 8.8.8.8\r\n", FIRST),
            // Another source than the configured one is not looked at.
            (
                "X-Forwarded-For: 203.0.113.2\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n",
                AGAIN,
            ),
        ],
    );
}

#[test]
fn an_entry_that_cannot_be_read_counts_as_the_peer() {
    for entry in [
        "unknown",
        "_hidden",
        "01.2.3.4",
        "0x7f.1",
        "2130706433",
        "203.0.113.0/24",
        "203.0.113.1, nonsense",
        ",,",
        "1.2.3",
        "",
    ] {
        let config = once("trusted_proxies = ['127.0.0.1/32']");
        let field = format!("X-Forwarded-For: {entry}\r\n");
        check(&config, &[(&field, FIRST), ("", AGAIN)]);
    }
}

#[test]
fn ipv6_clients_count_by_their_prefix() {
    for (listener, first, same, other) in [
        (
            "",
            "2001:db8:1:1::1",
            "2001:db8:1:1:ffff::2",
            "2001:db8:1:2::1",
        ),
        (
            "ipv6_prefix = 56",
            "2001:db8:1:100::1",
            "2001:db8:1:1ff::1",
            "2001:db8:1:200::1",
        ),
        (
            "ipv6_prefix = 128",
            "2001:db8::1",
            "2001:DB8:0::0:1",
            "2001:db8::2",
        ),
    ] {
        let fields = [first, same, other].map(|ip| format!("X-Forwarded-For: {ip}\r\n"));
        let config = once("trusted_proxies = ['127.0.0.1/32']").listener(listener);
        check(
            &config,
            &[
                (&fields[0], FIRST),
                (&fields[1], AGAIN),
                (&fields[2], FIRST),
            ],
        );
    }
}

#[test]
fn the_configured_source_of_the_address_is_the_only_one() {
    for (source, first, same, other) in [
        (
            "forwarded",
            "Forwarded: for=203.0.113.1;proto=https\r\n",
            "Forwarded: for=8.8.8.8, For=\"203.0.113.1\"\r\nX-Forwarded-For: 9.9.9.9\r\n",
            "Forwarded: for=203.0.113.2\r\n",
        ),
        (
            "forwarded",
            "Forwarded: for=\"[2001:db8::1]\"\r\n",
            "Forwarded: for=\"[2001:db8::2]:8080\"\r\n",
            "Forwarded: for=\"[2001:db8:0:1::1]\"\r\n",
        ),
        (
            "header:cf-connecting-ip",
            "CF-Connecting-IP: 203.0.113.1\r\n",
            "CF-Connecting-IP: 203.0.113.1\r\nX-Forwarded-For: 9.9.9.9\r\n",
            "CF-Connecting-IP: 203.0.113.2\r\n",
        ),
    ] {
        let listener = format!("trusted_proxies = ['127.0.0.1/32']\nclient_address = '{source}'");
        let config = once(&listener);
        check(&config, &[(first, FIRST), (same, AGAIN), (other, FIRST)]);
    }
}

#[test]
fn with_peer_as_the_source_even_a_trusted_proxy_is_the_client() {
    let listener = "trusted_proxies = ['127.0.0.1/32']\nclient_address = 'peer'";
    let config = once(listener);
    check(
        &config,
        &[
            ("X-Forwarded-For: 203.0.113.1\r\n", FIRST),
            ("X-Forwarded-For: 203.0.113.2\r\n", AGAIN),
        ],
    );
}
