//! Every key is read, and none is forgotten.

mod reference;

use std::fmt::Write as _;

use super::*;
use crate::config::options::{TABLES, TableDoc};

#[test]
fn every_working_key_takes_what_it_is_for() {
    let (file, report, _) = read(&EVERYTHING.into(), &|name| {
        (name == "W").then(|| "2".to_owned())
    });
    assert_eq!(report.lines("", EVERYTHING), [""; 0]);
    let read = format!("{file:?}");
    assert!(!read.contains("hunter2"), "{read}");
    let named = |title: &str| -> Vec<&str> {
        let tables = TABLES.iter().filter(|table| table.title == title);
        tables
            .flat_map(|table| table.keys.iter().map(|key| &*key.path))
            .collect()
    };
    let lacking = |title: &str, has: &dyn Fn(&str) -> bool| {
        let mut keys = named(title);
        keys.retain(|key| !has(key));
        assert_eq!(keys, [""; 0], "of {title} are missing in the test");
    };
    lacking("the file's top level", &|key| file.top.has(key));
    for title in ["[listeners.NAME]", "[listeners.NAME.tls]"] {
        lacking(title, &|key| file.listeners.raw[0].has(key));
    }
    lacking("[admin]", &|key| file.admin.has(key));
    lacking("[log]", &|key| file.log.has(key));
    for title in ["[store]", "[store.tls]", "[store.breaker]"] {
        lacking(title, &|key| file.store.has(key));
    }
    for table in ["", ".pool", ".health", ".eject"] {
        lacking(&format!("[upstreams.NAME{table}]"), &|key| {
            file.upstreams.raw[0].has(key)
        });
    }
    for title in ["[policies.NAME]", "[policies.NAME.refusal]"] {
        lacking(title, &|key| file.policies.raw[0].has(key));
    }
    lacking("[[routes]]", &|key| file.routes.raw[0].has(key));
    for title in ["[routes.request_headers]", "[routes.response_headers]"] {
        lacking(title, &|key| file.routes.raw[0].has(key));
    }
    assert_eq!(file.top.value.general.workers, Some(2));
    assert_eq!(&*file.listeners.raw[0].name, "public");
    let upstreams: Vec<_> = file.upstreams.iter().map(|table| &*table.name).collect();
    assert_eq!(upstreams, ["web", "api"]);
    assert_eq!(&EVERYTHING[file.routes.raw[0].span.clone()], "[[routes]]");
    assert_eq!(file.upstreams.raw[1].value.http.max_idle, 16);
}

const EVERYTHING: &str = r#"
workers = "${W}"
include = []
debug_from = ["10.0.0.0/8"]
default_policies = ["per-client"]
preflight_policies = ["per-client"]
ratelimit_headers = "both"
request_id = "x-correlation-id"
shutdown_delay = "0s"
shutdown_grace = "1m30s"
watch = true

[listeners.public]
address = "[::]:8080"
trusted_proxies = ["10.0.0.0/8", "::1"]
client_address = "header:x-real-ip"
ipv4_prefix = 24
ipv6_prefix = 56
max_connections = 10_000
max_connections_per_client = 100
max_delayed = 0
max_buffered_bytes = "1MiB"
http2 = false
proxy_protocol = true
handshake_timeout = "5s"
tunnel_timeout = "1d"
header_timeout = "10s"
idle_timeout = "75s"
body_timeout = "30s"
max_header_bytes = 32768
max_body_bytes = "10MB"

[listeners.public.tls]
certificates = [{ certificate = "tests/config/tls/public.pem", key = "tests/config/tls/public.key" }]
min_version = "1.3"
client_ca = "tests/config/tls/clients-ca.pem"

[admin]
address = "127.0.0.1:8090"
token = "hunter2-hunter2-hunter2"

[log]
level = "debug"
format = "json"
access = "refused"
file = "/var/log/tollgate.log"
access_file = "/var/log/tollgate-access.log"
clients = "digest"

[store]
url = "rediss+sentinel://me:hunter2@10.0.0.1,10.0.0.2/main"
username = "tollgate"
password = "hunter2"
sentinel_username = "tollgate"
sentinel_password = "hunter2"
prefix = "tollgate"
key_secret = "0123456789abcdef"
timeout = "50ms"
max_memory = "256MiB"
min_nodes = 3
refusal_cache = "0s"

[store.tls]
ca = "tests/config/tls/redis-ca.pem"
certificate = "tests/config/tls/gateway.pem"
key = "tests/config/tls/gateway.key"
server_name = "redis.internal"
verify = "full"

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
balance = "hash"
hash_by = ["cookie:session | ip", "path:id"]
connect_timeout = "3s"
response_timeout = "30s"
body_timeout = "60s"
retries = 1
retry_budget = 0
max_requests = 100
max_header_bytes = "8KiB"
resolve_every = "1m"
pool = { max_idle = 1, idle_timeout = "1s" }
eject = { failures = 3, for = "1m" }

[upstreams.web.health]
path = "/healthz?full=1"
host = "web.example.com:8080"
status = [200, "3xx"]
interval = "100ms"
timeout = "2s"
healthy_after = 1
unhealthy_after = 2

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
oldest_bucket = "whole"
align = "spread"
time_zone = "Europe/Berlin"
anchor_day = 15
anchor_time = "06:00"
anchor_by = "jwt:billing_day"
burst = 5
queue = 5
initial_credits = 5
allow_loss = true
penalty = "5m"
spill = "credits"
penalty_growth = 2
notify = ["80%", " 100 %"]
partition = ["header:x-api-key | ip", "path:id"]
on_missing = "refuse"
cost = 0
reserve = ["request-bytes"]
reserve_default = 0
max_reserve_body = "1KiB"
cost_unknown = "response-bytes"
cost_by = "request-json:/model"
prices = { "a*" = { token = 1.5 }, "*" = "dearest" }
unit = "tokens"
min_cost = 0
max_cost = 10
count = "all"
count_status = [401, "403", "5xx"]
refund_on = [503, "4xx", "connect", "timeout", "response-json:/error"]
mode = "mark"
candidate = "600 per 2s"
on_store_failure = "closed"
consistency = "leased"
overshoot = "0.5%"
sync_interval = "200ms"
overrides_by = "header:x-plan"
overrides_file = "tests/config/tls/overrides.csv"
overrides = { "key-hunter2" = "unlimited", b = ["1 per s"], c = { quota = "${W} per s", burst = "${W}", queue = 3, initial_credits = 4 } }

[policies.per-client.refusal]
status = 503
body = "Later."
content_type = "text/plain"
retry_jitter = "10%"

[[routes]]
name = "one"
path = "/v1/{id}"
path_regex = "/v[0-9]+"
host = "*.example.com"
methods = ["GET", "PURGE"]
headers = { x-version = "2", x-key = "*", x-api-version = "re:2\\.\\d+" }
upstream = "api"
policies = ["per-client"]
strip_prefix = "/v1"
rewrite = "/v2"
forward_path = "as-sent"
preserve_host = "${FALSE:-false}"
cost = 2
cors_origins = ["https://app.example.com"]
default_policies = false
fewer_limits = true
response_timeout = "5s"
body_timeout = "5s"
max_body_bytes = 0
response_format = "event-stream"
stream_end = "message_stop"
encoded_slash = "keep"
upgrades = []
case_insensitive = true

[routes.request_headers]
set = { x-api-version = "2" }
remove = ["x-debug"]

[routes.response_headers]
set = { cache-control = "no-store" }
remove = ["server"]
"#;

/// Writes one line into the table of this title; the one that it stands in has what it needs.
fn within(table: &TableDoc, line: &str) -> String {
    let mut text = String::new();
    for outer in TABLES
        .iter()
        .filter(|outer| table.outer(&TABLES) == Some(outer.title))
    {
        let _ = writeln!(text, "{}", outer.title);
        for key in outer.keys.iter().filter(|key| key.is_required()) {
            let _ = writeln!(text, "{} = {}", key.name, key.example);
        }
    }
    if table.title.starts_with('[') {
        let _ = writeln!(text, "{}", table.title);
    }
    text + line + "\n"
}

/// No key wants a date, so each must say so.
#[test]
fn every_working_key_is_read() {
    for table in TABLES.iter() {
        let keys = table.keys.iter().map(|key| key.name);
        for key in keys.chain(table.tables.iter().copied()) {
            let text = within(table, &format!("{key} = 1979-05-27"));
            let (_, report, _) = read(&(&text).into(), &|_| None);
            let said: Vec<_> = (report.mistakes().iter())
                .map(|mistake| &text[mistake.span.clone()])
                .collect();
            assert_eq!(said, ["1979-05-27"], "{text}");
        }
    }
}
