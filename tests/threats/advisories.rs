//! Published advisories about software of this kind, each with a test that its lesson was learned.
//!
//! Advisories whose lesson has a table of its own are tested there:
//!
//! | advisory | lesson | test |
//! | --- | --- | --- |
//! | Pingora 2025-0037 | a refused request's body is read as a request | `framing::bodies` |
//! | Pingora 2026-0033 | bytes behind an upgrade forwarded too early | `framing::switching` |
//! | Traefik CVE-2021-32813, CVE-2024-45410 | Connection deletes the proxy's fields | `framing::hop_by_hop` |
//! | hyper #4124, RUSTSEC-2021-0020 | both framings, several codings | `framing::codings` |
//! | hyper RUSTSEC-2021-0078, RUSTSEC-2021-0079 | `+10`, sizes that overflow | `framing::codings`, `framing::chunks` |
//! | hyper RUSTSEC-2020-0008 | the body of a GET | `framing::bodies` |
//! | Envoy CVE-2021-32779 | a fragment hid a path from its rule | `paths::spellings` |
//! | Caddy CVE-2026-27588 | with more than a hundred hosts, their case began to matter | `paths::hosts` |
//! | APISIX CVE-2022-24112 | X-Real-IP believed, because an internal hop had been told to | `identity::addresses` |

use std::fs;
use std::path::Path;

use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Origin, start};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Pingora 2026-0034: a body of HTTP/1.0 that ends with the connection.
#[test]
fn what_is_behind_an_http_1_0_head_without_a_length_is_neither_body_nor_request() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    for behind in [SMUGGLED, "5\r\nhello\r\n0\r\n\r\n", "hello"] {
        let mut client = Client::connect(running.public);
        client.send(format!("POST / HTTP/1.0\r\nHost: a.test\r\n\r\n{behind}"));
        assert_eq!(client.answer().status, 200, "{behind:?}");
        client.assert_closed();
    }
    for seen in origin.requests() {
        assert_eq!((seen.target(), &*seen.body), ("/", &b""[..]));
        assert_eq!(seen.head.fields("transfer-encoding"), [""; 0]);
    }
    assert_eq!(origin.requests().len(), 3);
}

/// Pingora 2026-0035: a cache key made from the path alone.
#[test]
fn same_path_of_two_hosts_is_two_routes_two_quotas_and_two_origins() {
    let (one, two) = (Origin::plain(), Origin::plain());
    let config = Config::to(one.url())
        .with(&format!("[upstreams.two]\nendpoints = ['{}']", two.url()))
        .policy("p", "quota = '10 per hour'\npartition = ['host']")
        .route("/x", "host = 'one.test'\npolicies = ['p']")
        .with("[[routes]]\npath = '/x'\nhost = 'two.test'\nupstream = 'two'\npolicies = ['p']");
    let running = start(&config);
    let ask = |host: &str| {
        let answer =
            Client::connect(running.public).ask(format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        remaining(&answer, "p")
    };
    let left = ["one.test", "two.test", "one.test", "ONE.test:80"].map(ask);
    assert_eq!(left, [9, 9, 8, 7]);
    assert_eq!((one.requests().len(), two.requests().len()), (3, 1));
}

/// First versions without a known advisory, for packages that the lock file may contain.
const LEAST: &[(&str, [u64; 3])] = &[
    ("bytes", [1, 11, 1]),
    ("h2", [0, 4, 18]),
    ("hickory-proto", [0, 26, 1]),
    ("hyper", [1, 11, 0]),
    ("rustls", [0, 23, 18]),
    ("rustls-webpki", [0, 103, 13]),
];

/// Packages that are no longer maintained.
const NEVER: &[&str] = &["rustls-pemfile"];

#[test]
fn locked_versions_are_those_that_advisories_ask_for() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    let lock = fs::read_to_string(lock).expect("a lock file");
    let lock: toml::Table = toml::from_str(&lock).expect("a lock file is TOML");
    let packages = lock["package"].as_array().expect("packages");
    assert!(packages.len() > 100, "the packages are found");
    for package in packages {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().expect(key));
        assert!(!NEVER.contains(&name), "{name}");
        let Some((_, least)) = LEAST.iter().find(|(of, _)| *of == name) else {
            continue;
        };
        let numbers = version.split(['.', '-', '+']).take(3);
        let numbers: Vec<u64> = numbers
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert!(numbers.as_slice() >= least.as_slice(), "{name} {version}");
    }
}
