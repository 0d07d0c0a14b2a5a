//! Writes values in the file's words, as `check`, the reload and the mistakes print them.
//!
//! Operators see each value as the file would spell it, so that they can search the file for it. If a key takes one of
//! a few words, the list of these is here, and is used for reading, too.

mod cost;
mod quotas;

use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderValue;
use rustls::pki_types::ServerName;
use tracing::Level;

pub use self::cost::{amount, cost, route_cost, sources, sum};
pub use self::quotas::{
    algorithm, anchor_day, anchor_time, grant, own_keys, quota, quota_span, rate, raw_quota,
    window, zone,
};
use super::file::{AlgorithmName, BalanceName, ConsistencyName, ForwardPath, RawEndpoint, Spanned};
use super::value::{Encryption, RefundOn, StoreUrl};
use crate::access_log::AccessLog;
use crate::clock::Micros;
use crate::cost::{BodyFormat, Take};
use crate::limit::plan::OnStoreFailure;
use crate::limit::{Align, Count, OldestBucket, Overshoot};
use crate::logging::LogFormat;
use crate::request::{AddressSource, Choice, ClientNames, Missing, Part, Partition};
use crate::snapshot::{
    EncodedSlash, Endpoint, Jitter, PolicyMode, RateLimitHeaders, StatusRange, Threshold,
};
use crate::store::settings::{Address, Deployment};
use crate::tls::{ServerProof, TlsVersion};

/// Writes a span of time: below two minutes in seconds (`60s`, `1.8s`, `600ms`), otherwise in parts (`1h30m`).
pub fn span(micros: Micros) -> String {
    let us = micros.0;
    if us == 0 {
        return "0s".to_owned();
    }
    if us < 1_000 {
        return format!("{us}us");
    }
    if us < SECOND_US {
        return format!("{}ms", decimal(us, 1_000));
    }
    if us < 2 * MINUTE_US {
        return format!("{}s", decimal(us, SECOND_US));
    }
    let mut text = String::new();
    let mut rest_us = us;
    for (unit_us, unit) in [(DAY_US, "d"), (HOUR_US, "h"), (MINUTE_US, "m")] {
        if rest_us >= unit_us {
            let _ = write!(text, "{}{unit}", rest_us / unit_us);
            rest_us %= unit_us;
        }
    }
    if rest_us > 0 {
        let _ = write!(text, "{}s", decimal(rest_us, SECOND_US));
    }
    text
}

/// Writes a duration as [`span`] does.
pub fn duration(duration: Duration) -> String {
    span(Micros(
        u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
    ))
}

/// Writes a value as its word among `words`.
pub fn word<V: PartialEq>(words: &[(&'static str, V)], value: &V) -> &'static str {
    let found = words.iter().find(|(_, known)| known == value);
    found.map_or("", |(word, _)| *word)
}

/// `algorithm`
pub const ALGORITHMS: &[(&str, AlgorithmName)] = &[
    ("sliding-window", AlgorithmName::SlidingWindow),
    ("fixed-window", AlgorithmName::FixedWindow),
    ("sliding-log", AlgorithmName::SlidingLog),
    ("gcra", AlgorithmName::Gcra),
    ("leaky-bucket", AlgorithmName::LeakyBucket),
];
/// `oldest_bucket`
pub const OLDEST_BUCKETS: &[(&str, OldestBucket)] = &[
    ("weighted", OldestBucket::Weighted),
    ("whole", OldestBucket::Whole),
    ("dropped", OldestBucket::Dropped),
];
/// `align`
pub const ALIGNS: &[(&str, Align)] = &[
    ("epoch", Align::Epoch),
    ("spread", Align::Spread),
    ("first", Align::First),
];
/// `count`
pub const COUNTS: &[(&str, Count)] = &[("admitted", Count::Admitted), ("all", Count::All)];
/// `mode`
pub const MODES: &[(&str, Option<PolicyMode>)] = &[
    ("enforce", Some(PolicyMode::Enforce)),
    ("shadow", Some(PolicyMode::Shadow)),
    ("mark", Some(PolicyMode::Mark)),
    ("off", None),
];
/// `on_store_failure`
pub const ON_STORE_FAILURE: &[(&str, OnStoreFailure)] = &[
    ("local", OnStoreFailure::Local),
    ("open", OnStoreFailure::Open),
    ("closed", OnStoreFailure::Closed),
];
/// `consistency`
pub const CONSISTENCIES: &[(&str, ConsistencyName)] = &[
    ("exact", ConsistencyName::Exact),
    ("leased", ConsistencyName::Leased),
    ("synced", ConsistencyName::Synced),
];
/// `on_missing`
pub const MISSING: &[(&str, Missing)] = &[
    ("share", Missing::Share),
    ("skip", Missing::Skip),
    ("refuse", Missing::Refuse),
];
/// `ratelimit_headers`
pub const RATELIMIT_HEADERS: &[(&str, RateLimitHeaders)] = &[
    ("ietf", RateLimitHeaders::Ietf),
    ("x", RateLimitHeaders::X),
    ("both", RateLimitHeaders::Both),
    ("off", RateLimitHeaders::Off),
];
/// `response_format`
pub const RESPONSE_FORMATS: &[(&str, Option<BodyFormat>)] = &[
    ("auto", None),
    ("json", Some(BodyFormat::Json)),
    ("event-stream", Some(BodyFormat::EventStream)),
];
/// `take`
pub const TAKES: &[(&str, Take)] = &[("largest", Take::Largest), ("last", Take::Last)];
/// `encoded_slash`
pub const ENCODED_SLASH: &[(&str, EncodedSlash)] = &[
    ("reject", EncodedSlash::Reject),
    ("keep", EncodedSlash::Keep),
];
/// `forward_path`
pub const FORWARD_PATHS: &[(&str, ForwardPath)] = &[
    ("as-matched", ForwardPath::AsMatched),
    ("as-sent", ForwardPath::AsSent),
];
/// `balance`
pub const BALANCES: &[(&str, BalanceName)] = &[
    ("round-robin", BalanceName::RoundRobin),
    ("least-requests", BalanceName::LeastRequests),
    ("hash", BalanceName::Hash),
];
/// `min_version`
pub const TLS_VERSIONS: &[(&str, TlsVersion)] = &[
    (TlsVersion::Tls12.number(), TlsVersion::Tls12),
    (TlsVersion::Tls13.number(), TlsVersion::Tls13),
];
/// `verify` of `[store.tls]` and `[upstreams.NAME.tls]`
pub const SERVER_PROOFS: &[(&str, ServerProof)] =
    &[("full", ServerProof::Full), ("none", ServerProof::None)];
/// `[log] level`
pub const LEVELS: &[(&str, Level)] = &[
    ("info", Level::INFO),
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("debug", Level::DEBUG),
];
/// `[log] format`
pub const LOG_FORMATS: &[(&str, LogFormat)] =
    &[("text", LogFormat::Text), ("json", LogFormat::Json)];
/// `[log] access`
pub const ACCESS_LOGS: &[(&str, AccessLog)] = &[
    ("all", AccessLog::All),
    ("refused", AccessLog::Refused),
    ("off", AccessLog::Off),
];
/// `[log] clients`
pub const CLIENT_NAMES: &[(&str, ClientNames)] = &[
    ("short", ClientNames::Short),
    ("digest", ClientNames::Digest),
];

/// Writes `partition` as a list: `["header:x-api-key | ip"]`.
pub fn partition(partition: &Partition) -> String {
    list(
        partition
            .0
            .iter()
            .map(|value| format!("\"{}\"", choice(value))),
    )
}

/// Writes one item of `partition`: `header:x-api-key | ip`.
pub fn choice(choice: &Choice) -> String {
    let parts: Vec<String> = choice.0.iter().map(part).collect();
    parts.join(" | ")
}

/// Writes an item of `count_status`: `401`, `4xx`.
pub fn status_range(range: &StatusRange) -> String {
    if range.first == range.last {
        range.first.to_string()
    } else {
        format!("{}xx", range.first / 100)
    }
}

/// Writes an item of `refund_on`.
pub fn refund_on(refund: &RefundOn) -> String {
    match refund {
        RefundOn::Status(range) => status_range(range),
        RefundOn::Connect => "connect".to_owned(),
        RefundOn::Timeout => "timeout".to_owned(),
        RefundOn::Members(members) => sources(members),
    }
}

/// Writes `retry_jitter`.
pub fn jitter(jitter: &Jitter) -> String {
    match jitter {
        Jitter::Time(most) => span(*most),
        Jitter::Percent(percent) => format!("{percent}%"),
    }
}

/// Writes `overshoot`.
pub fn overshoot(overshoot: &Overshoot) -> String {
    format!("{}%", decimal(u64::from(overshoot.0), PPM_PER_PERCENT))
}

/// Writes an item of `notify`.
pub fn threshold(threshold: &Threshold) -> String {
    format!("{}%", threshold.percent())
}

/// Writes how many Redis calls a request takes, if `held` units are leased and more are bought when half are left.
pub fn calls(held: u64) -> String {
    let hundredths = (200 + held / 2) / held.max(1);
    if hundredths == 0 {
        return "less than 0.01".to_owned();
    }
    decimal(hundredths, 100)
}

/// Writes a field's value.
pub fn field_value(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Writes one part of a partition.
pub fn part(part: &Part) -> String {
    match part {
        Part::Ip => "ip".to_owned(),
        Part::Header(name) => format!("header:{name}"),
        Part::Cookie(name) => format!("cookie:{name}"),
        Part::Query(name) => format!("query:{name}"),
        Part::Claim(name) => format!("jwt:{name}"),
        Part::ClientCert => "client-cert".to_owned(),
        Part::Host => "host".to_owned(),
        Part::Method => "method".to_owned(),
        Part::Route => "route".to_owned(),
        Part::Path => "path".to_owned(),
        Part::PathParam(name) => format!("path:{name}"),
    }
}

/// Writes `client_address`.
pub fn address_source(source: &AddressSource) -> String {
    match source {
        AddressSource::XForwardedFor => "x-forwarded-for".to_owned(),
        AddressSource::Forwarded => "forwarded".to_owned(),
        AddressSource::Header(name) => format!("header:{name}"),
        AddressSource::Peer => "peer".to_owned(),
    }
}

/// Writes `endpoints`: `[http://127.0.0.1:9000]`, `[builtin:echo]`.
pub fn endpoints(endpoints: &[Spanned<RawEndpoint>]) -> String {
    list(endpoints.iter().map(|at| endpoint(&at.value)))
}

/// Writes one of `endpoints`.
pub fn endpoint(endpoint: &RawEndpoint) -> String {
    match endpoint {
        RawEndpoint::Http(url) => origin(url),
        RawEndpoint::Echo => "builtin:echo".to_owned(),
        RawEndpoint::Status(status) => format!("builtin:status/{}", status.as_u16()),
        RawEndpoint::RedirectHttps => "builtin:redirect-https".to_owned(),
        RawEndpoint::Usage => "builtin:usage".to_owned(),
    }
}

/// Writes the URL of an origin, and its weight if that is not 1.
pub fn origin(endpoint: &Endpoint) -> String {
    let url = format!("{}://{}", endpoint.scheme.word(), endpoint.authority);
    match endpoint.weight {
        1 => url,
        weight => format!("{url} (weight {weight})"),
    }
}

/// Writes `server_name`.
pub fn server_name(name: &ServerName<'static>) -> String {
    name.to_str().into_owned()
}

/// Writes `[store] url`, without credentials.
pub fn store_url(url: &StoreUrl) -> String {
    let StoreUrl::Redis(url) = url else {
        return "memory:".to_owned();
    };
    let s = if url.encryption == Encryption::Tls {
        "s"
    } else {
        ""
    };
    let joined = |hosts: &[Address]| {
        let hosts = hosts.iter().map(ToString::to_string);
        hosts.collect::<Vec<_>>().join(",")
    };
    let mut text = match &url.deployment {
        Deployment::Single(address) => format!("redis{s}://{address}"),
        Deployment::Unix(path) => format!("unix:{}", path.display()),
        Deployment::Cluster(hosts) => format!("redis{s}+cluster://{}", joined(hosts)),
        Deployment::Sentinel { sentinels, name } => {
            format!("redis{s}+sentinel://{}/{name}", joined(sentinels))
        }
    };
    if url.database > 0 {
        let mark = match &url.deployment {
            Deployment::Unix(_) => "?db=",
            _ => "/",
        };
        let _ = write!(text, "{mark}{}", url.database);
    }
    text
}

/// Joins items into a list: `[a, b]`.
pub fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// Writes `value / unit` with as many decimals as it needs; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// One percent in parts per million.
const PPM_PER_PERCENT: u64 = 10_000;
const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;
const WEEK_US: u64 = 7 * DAY_US;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_exactly_and_short() {
        let cases = [
            (0, "0s"),
            (50, "50us"),
            (333_334, "333.334ms"),
            (600_000, "600ms"),
            (1_800_000, "1.8s"),
            (60 * SECOND_US, "60s"),
            (54 * MINUTE_US, "54m"),
            (HOUR_US, "1h"),
            (DAY_US - DAY_US / 10, "21h36m"),
            (2 * MINUTE_US + 500_000, "2m0.5s"),
            (WEEK_US, "7d"),
        ];
        for (us, text) in cases {
            assert_eq!(span(Micros(us)), text);
        }
    }
}
