//! The file's words for compiled values: what `check`, the reload and the mistakes print.
//!
//! Everything an operator reads about a value says it as the file would, so that it can be
//! looked for there. Nothing here parses.

use std::fmt::Write as _;
use std::time::Duration;

use crate::access_log::AccessLog;
use crate::clock::Micros;
use crate::limit::plan::{Mode, OnStoreFailure};
use crate::limit::{Algorithm, Count, LeavingBucket, Quota};
use crate::logging::LogFormat;
use crate::request::{AddressSource, ClientNames, Missing, Part, Partition};
use crate::snapshot::{
    AppliedPolicy, EncodedSlash, Endpoint, RateLimitHeaders, Snapshot, UpstreamKind,
};
use crate::store::settings::{Address, Deployment, Location};

/// Writes a span of time: up to two minutes in seconds (`60s`, `1.8s`, `600ms`), above that in
/// parts (`1h30m`).
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

/// Writes a quota's numbers: `100 per minute`, `500 per 2s`.
pub fn rate(quota: &Quota) -> String {
    format!("{} per {}", quota.limit, window(quota.window))
}

/// Writes what follows "per": `minute`, `2s`, `10m`.
pub fn window(window: Micros) -> String {
    let name = match window.0 {
        1_000 => "ms",
        SECOND_US => "second",
        MINUTE_US => "minute",
        HOUR_US => "hour",
        DAY_US => "day",
        WEEK_US => "week",
        _ => return span(window),
    };
    name.to_owned()
}

/// Writes `algorithm`.
pub fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::FixedWindow => "fixed-window",
        Algorithm::SlidingWindow { .. } => "sliding-window",
        Algorithm::SlidingLog => "sliding-log",
        Algorithm::Gcra { .. } => "gcra",
        Algorithm::LeakyBucket { .. } => "leaky-bucket",
    }
}

/// Writes `leaving`.
pub fn leaving(leaving: LeavingBucket) -> &'static str {
    match leaving {
        LeavingBucket::Weighted => "weighted",
        LeavingBucket::Whole => "whole",
        LeavingBucket::Dropped => "dropped",
    }
}

/// Writes `count`.
pub fn count(count: Count) -> &'static str {
    match count {
        Count::Admitted => "admitted",
        Count::All => "all",
    }
}

/// Writes `mode`.
pub fn mode(mode: Option<Mode>) -> &'static str {
    match mode {
        Some(Mode::Enforce) => "enforce",
        Some(Mode::Shadow) => "shadow",
        None => "off",
    }
}

/// Writes `on_store_failure`.
pub fn on_store_failure(action: OnStoreFailure) -> &'static str {
    match action {
        OnStoreFailure::Local => "local",
        OnStoreFailure::Open => "open",
        OnStoreFailure::Closed => "closed",
    }
}

/// Writes `missing`.
pub fn missing(missing: Missing) -> &'static str {
    match missing {
        Missing::Share => "share",
        Missing::Skip => "skip",
        Missing::Refuse => "refuse",
    }
}

/// Writes `partition` as a list: `["header:x-api-key | ip"]`.
pub fn partition(partition: &Partition) -> String {
    let choices = partition.0.iter().map(|choice| {
        let parts: Vec<String> = choice.0.iter().map(part).collect();
        format!("\"{}\"", parts.join(" | "))
    });
    list(choices)
}

/// Writes one part of a partition.
pub fn part(part: &Part) -> String {
    match part {
        Part::Ip => "ip".to_owned(),
        Part::Header(name) => format!("header:{name}"),
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

/// Writes `ratelimit_headers`.
pub fn ratelimit_headers(headers: RateLimitHeaders) -> &'static str {
    match headers {
        RateLimitHeaders::Ietf => "ietf",
        RateLimitHeaders::X => "x",
        RateLimitHeaders::Both => "both",
        RateLimitHeaders::Off => "off",
    }
}

/// Writes `encoded_slash`.
pub fn encoded_slash(slash: EncodedSlash) -> &'static str {
    match slash {
        EncodedSlash::Reject => "reject",
        EncodedSlash::Keep => "keep",
    }
}

/// Writes `[log] format`.
pub fn log_format(format: Option<LogFormat>) -> &'static str {
    match format {
        Some(LogFormat::Text) => "text",
        Some(LogFormat::Json) => "json",
        None => "text on a terminal, else json",
    }
}

/// Writes `[log] access`.
pub fn access_log(access: AccessLog) -> &'static str {
    match access {
        AccessLog::All => "all",
        AccessLog::Refused => "refused",
        AccessLog::Off => "off",
    }
}

/// Writes `[log] clients`.
pub fn client_names(names: ClientNames) -> &'static str {
    match names {
        ClientNames::Short => "short",
        ClientNames::Digest => "digest",
    }
}

/// Writes `endpoints`: `[http://127.0.0.1:9000]`, `[builtin:echo]`.
pub fn endpoints(kind: &UpstreamKind) -> String {
    match kind {
        UpstreamKind::Echo => "[builtin:echo]".to_owned(),
        UpstreamKind::Status(status) => format!("[builtin:status/{}]", status.as_u16()),
        UpstreamKind::Http(http) => origins(&http.endpoints),
    }
}

/// Writes the endpoints of origins.
pub fn origins(endpoints: &[Endpoint]) -> String {
    list((endpoints.iter()).map(|endpoint| format!("http://{}", endpoint.authority)))
}

/// Writes a policy as a route applies it, with a cost that is not 1: `per-client at cost 5`.
pub fn applied(snapshot: &Snapshot, applied: &AppliedPolicy) -> String {
    let name = &snapshot.policies[applied.policy].name;
    match applied.cost {
        1 => name.to_string(),
        cost => format!("{name} at cost {cost}"),
    }
}

/// Writes `[store] url`, without credentials.
pub fn store_url(location: &Location) -> String {
    let Location::Redis(redis) = location else {
        return "memory:".to_owned();
    };
    let s = if redis.tls.is_some() { "s" } else { "" };
    let joined = |hosts: &[Address]| {
        let hosts = hosts.iter().map(ToString::to_string);
        hosts.collect::<Vec<_>>().join(",")
    };
    let mut text = match &redis.deployment {
        Deployment::Single(address) => format!("redis{s}://{address}"),
        Deployment::Unix(path) => format!("unix:{}", path.display()),
        Deployment::Cluster(hosts) => format!("redis{s}+cluster://{}", joined(hosts)),
        Deployment::Sentinel { sentinels, name } => {
            format!("redis{s}+sentinel://{}/{name}", joined(sentinels))
        }
    };
    if redis.database > 0 {
        let mark = match &redis.deployment {
            Deployment::Unix(_) => "?db=",
            _ => "/",
        };
        let _ = write!(text, "{mark}{}", redis.database);
    }
    text
}

/// Joins what is written already: `[a, b]`.
pub fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
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
