//! A client with a whole IPv6 network has one quota.

use super::Cases;
use crate::support::{Client, Config, Running, start};

const LIMIT: usize = 3;
/// Numbers of addresses of one network that send a request, and how many send theirs at once.
const MANY: u64 = 5_000;
const FEW: u64 = 10;
const BATCH: u64 = 500;

fn limited(listener: &str) -> Running {
    let policy =
        format!("quota = '{LIMIT} per hour'\nalgorithm = 'fixed-window'\npartition = ['ip']");
    let config = Config::limited("builtin:status/204", &policy);
    let config = config.with("[log]\naccess = 'off'");
    start(
        &config
            .listener("trusted_proxies = ['127.0.0.1/32']")
            .listener(listener),
    )
}

/// Sends one request for each of `addresses` addresses, in batches, and returns how many were admitted.
fn admitted(running: &Running, addresses: u64, address: impl Fn(u64) -> String) -> usize {
    let mut proxy = Client::connect(running.public);
    let mut admitted = 0;
    for batch in (0..addresses).step_by(BATCH.try_into().expect("it fits")) {
        let request = |number| {
            let address = address(number);
            format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {address}\r\n\r\n")
        };
        let requests: String = (batch..(batch + BATCH).min(addresses))
            .map(request)
            .collect();
        proxy.send(requests);
        let answers = (batch..(batch + BATCH).min(addresses)).map(|_| proxy.answer().status);
        admitted += answers.filter(|status| *status == 204).count();
    }
    admitted
}

#[test]
fn rotation_within_a_prefix_is_one_client() {
    let mut cases = Cases::default();
    for (listener, prefix) in [("", 64), ("ipv6_prefix = 56", 56), ("ipv6_prefix = 48", 48)] {
        let running = limited(listener);
        // Bits that the prefix leaves free, counted up from both ends.
        let free = 128 - prefix;
        let within = |network: u128, number: u64| {
            let number = u128::from(number) | u128::from(number).reverse_bits() >> prefix;
            let bits = 0x2001_0db8 << 96 | network << free | number & ((1 << free) - 1);
            std::net::Ipv6Addr::from_bits(bits).to_string()
        };
        let name = format!("/{prefix}");
        cases.expect(
            &name,
            admitted(&running, MANY, |number| within(1, number)),
            LIMIT,
        );
        let neighbour = admitted(&running, FEW, |number| within(2, number));
        cases.expect(&format!("{name}, its neighbour"), neighbour, LIMIT);
    }
    cases.end();
}

#[test]
fn ipv4_address_is_one_client_however_it_is_written() {
    let running = limited("");
    let spellings = [
        "203.0.113.9",
        "::ffff:203.0.113.9",
        "::FFFF:CB00:7109",
        "203.0.113.9:80",
    ];
    let spelling =
        |number: u64| spellings[usize::try_from(number % 4).expect("it fits")].to_owned();
    assert_eq!(admitted(&running, FEW, spelling), LIMIT);
    // All mapped addresses are in one /64, but each is the client of its IPv4 address.
    let neighbour = |_| "::ffff:203.0.113.10".to_owned();
    assert_eq!(admitted(&running, FEW, neighbour), LIMIT);
}
