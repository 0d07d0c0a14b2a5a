//! Reads `gateway.toml` into its mirror; every mistake is collected, and what can be read is.
//!
//! Each table is one function that takes its keys from a [`table::Table`]. What a value may be is
//! the business of `value`, what belongs together that of `compile`: here a file is judged one
//! value at a time. A key that is absent stays none; one that is wrong does too, and is reported.

mod keys;
mod list;
mod listeners;
mod policies;
#[cfg(test)]
mod reference;
mod routes;
mod scalar;
mod store;
mod syntax;
mod table;
mod upstreams;
mod variables;
mod wording;

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeTable;
use tracing::Level;

pub use variables::Env;

use super::file::{Admin, File, Log};
use super::report::Report;
use super::value::{Wrong, admin_address};
use crate::access_log::AccessLog;
use crate::logging::LogFormat;
use crate::request::ClientNames;
use crate::snapshot::RateLimitHeaders;
use table::{Source, Table, plain};

/// Reads a file; `env` looks its variables up.
///
/// If the report is not empty the mirror lacks what was wrong, and is good for finding further
/// mistakes only.
pub fn read(text: &str, env: &Env<'_>) -> (File, Report) {
    let mut report = Report::default();
    let sound = syntax::sound_part(text, &mut report);
    let (tree, _) = DeTable::parse_recoverable(&sound);
    let source = Source { text, env };
    let mut file = file(&mut Table::open(
        &keys::TOP,
        tree.get_ref(),
        source,
        &mut report,
    ));
    file.incomplete |= report.is_torn();
    (file, report)
}

fn file(top: &mut Table<'_, '_>) -> File {
    let headers = [
        ("ietf", RateLimitHeaders::Ietf),
        ("x", RateLimitHeaders::X),
        ("both", RateLimitHeaders::Both),
        ("off", RateLimitHeaders::Off),
    ];
    File {
        workers: top.number("workers", 1..=WORKERS_MAX),
        default_policies: top.names("default_policies"),
        ratelimit_headers: plain(top.word("ratelimit_headers", &headers, &[])),
        shutdown_delay: top.duration("shutdown_delay", UP_TO_A_DAY),
        shutdown_grace: top.duration("shutdown_grace", UP_TO_A_DAY),
        listeners: top.named("listeners", &keys::LISTENER, listeners::listener),
        admin: top.table("admin", &keys::ADMIN, admin),
        log: top.table("log", &keys::LOG, log),
        store: top.table("store", &keys::STORE, store::store),
        upstreams: top.named("upstreams", &keys::UPSTREAM, upstreams::upstream),
        policies: top.named("policies", &keys::POLICY, policies::policy),
        routes: top.each("routes", &keys::ROUTE, routes::route),
        incomplete: top.has_lost_tables(),
    }
}

fn admin(table: &mut Table<'_, '_>) -> Admin {
    Admin {
        address: table.text("address", "127.0.0.1:8090", admin_address),
    }
}

fn log(table: &mut Table<'_, '_>) -> Log {
    let levels = [
        ("info", Level::INFO),
        ("error", Level::ERROR),
        ("warn", Level::WARN),
        ("debug", Level::DEBUG),
        ("trace", Level::TRACE),
    ];
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let access = [
        ("all", AccessLog::All),
        ("refused", AccessLog::Refused),
        ("off", AccessLog::Off),
    ];
    let clients = [
        ("short", ClientNames::Short),
        ("digest", ClientNames::Digest),
    ];
    let file = |text: &str| match text {
        "" => Err(Wrong::new("is no path", "a path").hint("for standard output leave `file` out")),
        path => Ok(path.into()),
    };
    Log {
        level: plain(table.word("level", &levels, &[])),
        format: plain(table.word("format", &formats, &[])),
        access: plain(table.word("access", &access, &[])),
        file: plain(table.text("file", "/var/log/tollgate.log", file)),
        clients: plain(table.word("clients", &clients, &[])),
    }
}

/// What a wait may be: no wait would be a wait without end or a failure at once, and says neither.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);
const UP_TO_A_DAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// What a body may be limited to; 0 allows none.
const BODY_RANGE: RangeInclusive<u64> = 0..=1 << 40;
const WORKERS_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_working_key_takes_what_it_is_for() {
        let (file, report) = read(EVERYTHING, &|name| (name == "W").then(|| "2".to_owned()));
        assert_eq!(report.lines("", EVERYTHING), [""; 0]);
        let read = format!("{file:?}");
        for lacking in ["None", "[]", "incomplete: true"] {
            assert!(!read.contains(lacking), "{lacking} in {read}");
        }
        let keys = keys::TABLES.iter().flat_map(|table| table.working);
        for key in keys {
            assert!(EVERYTHING.contains(key), "{key} is missing in the test");
        }
        assert_eq!(file.workers.expect("workers").value, 2);
        assert_eq!(file.listeners[0].0.value, "public");
        assert_eq!(
            file.upstreams
                .iter()
                .map(|(name, _)| &name.value)
                .collect::<Vec<_>>(),
            ["web", "api"]
        );
        assert_eq!(&EVERYTHING[file.routes[0].span.clone()], "[[routes]]");
        assert_eq!(file.upstreams[1].1.max_idle, Some(16));
    }

    const EVERYTHING: &str = r#"
workers = "${W}"
default_policies = ["per-client"]
ratelimit_headers = "both"
shutdown_delay = "0s"
shutdown_grace = "1m30s"

[listeners.public]
address = "[::]:8080"
trusted_proxies = ["10.0.0.0/8", "::1"]
client_address = "header:x-real-ip"
ipv6_prefix = 56
max_connections = 10_000
max_held = 0
header_timeout = "10s"
idle_timeout = "75s"
body_timeout = "30s"
max_header_bytes = 32768
max_body_bytes = "10MB"

[admin]
address = "127.0.0.1:8090"

[log]
level = "debug"
format = "json"
access = "refused"
file = "/var/log/tollgate.log"
clients = "digest"

[store]
url = "rediss+sentinel://me:hunter2@10.0.0.1,10.0.0.2/main"
username = "tollgate"
password = "hunter2"
sentinel_password = "hunter2"
prefix = "tollgate"
key_secret = "0123456789abcdef"
timeout = "50ms"
memory_max = "256MiB"
refusal_cache = "0s"

[store.tls]
ca = "ca.pem"
certificate = "gateway.pem"
key = "gateway.key"

[store.breaker]
failures = 5
failure_ratio = "${HALF:-0.5}"
window = "10s"
cooldown = "2s"

[upstreams.api.pool]
max_idle = 16
idle_timeout = "60s"

[upstreams.web]
endpoints = "builtin:echo"
balance = "round-robin"
connect_timeout = "3s"
response_timeout = "30s"
body_timeout = "60s"
retries = 1
pool = { max_idle = 1, idle_timeout = "1s" }

[upstreams.api]
endpoints = ["http://127.0.0.1:9000"]
connect_timeout = "3s"
response_timeout = "30s"
body_timeout = "60s"
retries = 0

[policies.per-client]
quota = ["500 per 2s", "2000 per minute"]
algorithm = "gcra"
buckets = 10
leaving = "whole"
burst = 5
queue = 5
partition = ["header:x-api-key | ip", "path:id"]
missing = "refuse"
cost = 0
count = "all"
mode = "shadow"
on_store_failure = "closed"

[[routes]]
path = "/v1/{id}"
path_regex = "/v[0-9]+"
host = "*.example.com"
methods = ["GET", "PURGE"]
headers = { x-version = "2" }
upstream = "api"
policies = ["per-client"]
strip_prefix = "/v1"
preserve_host = "${FALSE:-false}"
cost = 2
default_policies = false
response_timeout = "5s"
body_timeout = "5s"
max_body_bytes = 0
encoded_slash = "keep"
case_insensitive = true
"#;

    /// No key wants a date, so each must say so.
    #[test]
    fn every_working_key_is_read() {
        for table in keys::TABLES {
            for key in table.working {
                let text = match table.title {
                    title if title.starts_with('[') => format!("{title}\n{key} = 1979-05-27\n"),
                    _ => format!("{key} = 1979-05-27\n"),
                };
                let (_, report) = read(&text, &|_| None);
                let said: Vec<_> = report
                    .mistakes()
                    .iter()
                    .map(|m| &text[m.span.clone()])
                    .collect();
                assert_eq!(said, ["1979-05-27"], "{text}");
            }
        }
    }

    #[test]
    fn keys_to_come_say_so() {
        for table in keys::TABLES {
            for key in table.to_come {
                let text = match table.title {
                    title if title.starts_with('[') => format!("{title}\n{key} = 1\n"),
                    _ => format!("{key} = 1\n"),
                };
                let (_, report) = read(&text, &|_| None);
                let said: Vec<_> = report
                    .mistakes()
                    .iter()
                    .map(|m| m.message.clone())
                    .collect();
                assert_eq!(said, [format!("`{key}` is not available yet")], "{text}");
            }
        }
    }
}
