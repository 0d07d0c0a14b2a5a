//! `[upstreams.NAME]`.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use super::bounds::TIMEOUTS;
use super::files::key_file;
use super::kind::{
    ValueSpec, duration, list, list_or_one, number, number_or_text, share_from_0, size, text, word,
};
use super::{TableSpec, ValueShape};
use crate::config::display;
use crate::config::file::{BalanceName, RawEndpoint, RawUpstream};
use crate::config::read::Scalar;
use crate::config::value::{
    ENDPOINT_PATTERN, STATUS_PATTERN, URL_PATTERN, endpoint, endpoint_url, health_host,
    health_path, part_choice, part_pattern, server_name, status_range,
};
use crate::request::Partition;
use crate::snapshot::{Endpoint, StatusRange};
use crate::tls::ServerProof;

/// `[upstreams.NAME]`
pub static UPSTREAM: LazyLock<TableSpec<RawUpstream>> = LazyLock::new(|| {
    let seconds = |seconds| duration(TIMEOUTS).or(Duration::from_secs(seconds));
    let balance = word(display::BALANCES);
    let parts = text("cookie:session", part_choice, display::choice).matching(part_pattern());
    let hash = list(parts).plain(|choices| Partition(choices.into()), display::partition);
    TableSpec::<RawUpstream>::of("upstream", "[upstreams.NAME]")
        .about("Where requests are forwarded.")
        .key("endpoints", list_or_one(one_endpoint()))
        .sets(|table| &mut table.endpoints)
        .doc("URLs of origins:")
        .key("balance", balance.or(BalanceName::RoundRobin))
        .sets(|table| &mut table.balance)
        .doc("How an endpoint is chosen:")
        .key("hash_by", hash.or_none("none"))
        .sets(|table| &mut table.hash)
        .doc("What to hash, written as in `partition`: requests with the same values go to the same endpoint.")
        .key("connect_timeout", seconds(3))
        .sets(|table| &mut table.http.connect_timeout)
        .doc("Time allowed to connect.")
        .key("response_timeout", seconds(30))
        .sets(|table| &mut table.response_timeout)
        .doc("Time allowed from sending the request to receiving the response's head.")
        .key("body_timeout", seconds(60))
        .sets(|table| &mut table.body_timeout)
        .doc("Time allowed without a byte of the response's body.")
        .key("retries", number(0..=10).or(1))
        .sets(|table| &mut table.http.retries)
        .doc("How often a request is retried, on another endpoint if there is one.")
        .key("retry_budget", share_from_0().or(0.2))
        .sets(|table| &mut table.http.retry_budget)
        .doc("Most retries, as a share of the requests of the last 10 s.")
        .key("max_requests", number(1..=REQUESTS_MAX).or_none("none"))
        .sets(|table| &mut table.http.max_requests)
        .doc("Most requests at once, in the whole process.")
        .key("max_header_bytes", size(8 << 10..=1 << 20).or(32 << 10))
        .sets(|table| &mut table.http.max_header_bytes)
        .doc("Most bytes in a response's head, and in its trailers.")
        .key("resolve_every", duration(RESOLVING).or(Duration::from_secs(30)))
        .sets(|table| &mut table.http.resolve_every)
        .doc("How often the names of endpoints are resolved again.")
        .table("pool", pool())
        .table("health", health())
        .table("eject", eject())
        .table("tls", tls())
});

/// One of `endpoints`: a URL, or a table with one.
fn one_endpoint() -> ValueSpec<RawEndpoint> {
    let plain = text("http://127.0.0.1:9000", endpoint, display::endpoint);
    let plain = plain.matching(ENDPOINT_PATTERN);
    let example = plain.example.clone();
    let table = ValueShape::Table(ENDPOINT.about.clone());
    let shape = ValueShape::OneOf(vec![plain.shape.clone(), table]);
    let read = move |mut scalar: Scalar<'_, '_>| match scalar.table(&ENDPOINT) {
        Some(EndpointTable { url, weight }) => {
            url.map(|url| RawEndpoint::Http(Endpoint { weight, ..url }))
        }
        None => plain.read(scalar),
    };
    ValueSpec::new(&example, shape, read, display::endpoint)
}

/// An endpoint that is written as a table.
#[derive(Clone, Debug, Default, PartialEq)]
struct EndpointTable {
    url: Option<Endpoint>,
    weight: u32,
}

static ENDPOINT: LazyLock<TableSpec<EndpointTable>> = LazyLock::new(|| {
    let read = |text: &str| endpoint_url(text).map(Some);
    let spell = |url: &Option<Endpoint>| url.as_ref().map_or_else(String::new, display::origin);
    TableSpec::<EndpointTable>::of("an endpoint", "an endpoint")
        .key(
            "url",
            text("http://127.0.0.1:9000", read, spell).matching(URL_PATTERN),
        )
        .sets(|table| &mut table.url)
        .doc("The URL of an origin.")
        .key("weight", number(1..=WEIGHT_MAX).or(1))
        .sets(|table| &mut table.weight)
        .doc("Its share of the requests, relative to the other endpoints' weights.")
});

fn pool() -> TableSpec<RawUpstream> {
    TableSpec::<RawUpstream>::of("table", "[upstreams.NAME.pool]")
        .about("Idle connections kept open to an upstream.")
        .key("max_idle", number(0..=65_536).or(256))
        .sets(|table| &mut table.http.max_idle)
        .doc("Most idle connections per endpoint and worker.")
        .key(
            "idle_timeout",
            duration(TIMEOUTS).or(Duration::from_mins(1)),
        )
        .sets(|table| &mut table.http.idle_timeout)
        .doc("How long a connection may stay idle.")
}

fn tls() -> TableSpec<RawUpstream> {
    let authorities = key_file("/etc/tollgate/origin-ca.pem").or_none("the system's");
    let certificate = key_file("/etc/tollgate/gateway.pem").or_none("none");
    let name = text("api.internal", server_name, display::server_name);
    TableSpec::<RawUpstream>::of("table", UPSTREAM_TLS)
        .about("TLS to those origins.")
        .key("ca", authorities)
        .sets(|table| &mut table.tls.ca)
        .doc("CA certificates that verify the origins' certificates, or an origin's own certificate.")
        .key("certificate", certificate)
        .sets(|table| &mut table.tls.certificate)
        .doc("The gateway's own (client) certificate.")
        .key("key", key_file("/etc/tollgate/gateway.key").or_none("none"))
        .sets(|table| &mut table.tls.key)
        .doc("The private key of that certificate.")
        .key("server_name", name.or_none("each endpoint's"))
        .sets(|table| &mut table.tls.server_name)
        .doc("The name that the origins' certificates must be valid for.")
        .key("verify", word(display::SERVER_PROOFS).or(ServerProof::Full))
        .sets(|table| &mut table.tls.proof)
        .doc("\"full\", or \"none\": any certificate is accepted.")
}

fn health() -> TableSpec<RawUpstream> {
    let count = || number(1..=COUNTS_MAX);
    let path = text("/healthz", health_path, ToString::to_string);
    let host = text("api.example.com", health_host, display::field_value);
    let status =
        number_or_text("2xx", status_range, display::status_range).matching(STATUS_PATTERN);
    let status = list(status).plain(
        |ranges| ranges,
        |ranges: &Vec<_>| display::list(ranges.iter().map(display::status_range)),
    );
    TableSpec::<RawUpstream>::of("table", UPSTREAM_HEALTH)
        .about("Active health checks of each endpoint, with or without traffic.")
        .key("path", path.or_none("none"))
        .sets(|table| &mut table.health_path)
        .doc("The path to request with GET.")
        .key("host", host.or_none("the endpoint's"))
        .sets(|table| &mut table.health.host)
        .doc("The Host header of checks.")
        .key("status", status.or(HEALTHY.to_vec()))
        .sets(|table| &mut table.health.status)
        .doc("Statuses that mean healthy.")
        .key("interval", duration(SPANS).or(Duration::from_secs(5)))
        .sets(|table| &mut table.health.interval)
        .doc("Time between two checks of an endpoint.")
        .key("timeout", duration(SPANS).or(Duration::from_secs(2)))
        .sets(|table| &mut table.health.timeout)
        .doc("Time allowed for a check.")
        .key("healthy_after", count().or(2))
        .sets(|table| &mut table.health.healthy_after)
        .doc("How many checks in a row must succeed before an endpoint is used again.")
        .key("unhealthy_after", count().or(3))
        .sets(|table| &mut table.health.unhealthy_after)
        .doc("How many checks in a row must fail before an endpoint is taken out.")
}

fn eject() -> TableSpec<RawUpstream> {
    TableSpec::<RawUpstream>::of("table", "[upstreams.NAME.eject]")
        .about("Passive checks: an endpoint is ejected for a while if requests to it fail.")
        .key("failures", number(1..=FAILURES_MAX).or(5))
        .sets(|table| &mut table.http.eject.failures)
        .doc("How many requests in a row must fail.")
        .key("for", duration(SPANS).or(Duration::from_secs(10)))
        .sets(|table| &mut table.http.eject.time)
        .doc("How long an endpoint stays ejected.")
}

/// Title of the table of health checks.
pub const UPSTREAM_HEALTH: &str = "[upstreams.NAME.health]";
/// Title of the table of TLS settings.
pub const UPSTREAM_TLS: &str = "[upstreams.NAME.tls]";

/// Statuses of a healthy endpoint, by default.
const HEALTHY: [StatusRange; 2] = [
    StatusRange {
        first: 200,
        last: 299,
    },
    StatusRange {
        first: 300,
        last: 399,
    },
];
/// Allowed intervals and timeouts of health checks, and times for which an endpoint is ejected.
const SPANS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
const RESOLVING: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(24);
const WEIGHT_MAX: u64 = 1_000;
const REQUESTS_MAX: u64 = 1_000_000;
const COUNTS_MAX: u64 = 100;
const FAILURES_MAX: u64 = 1_000;
