//! `[store]`, with what it is told of TLS and of failure.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{BREAKER, STORE_TLS};
use super::table::{Table, plain};
use crate::config::file::{Breaker, Store, StoreTls};
use crate::config::value::{Wrong, prefix, secret, store_url, username};

pub(super) fn store(table: &mut Table<'_, '_>) -> Store {
    Store {
        url: table.text("url", "memory:", store_url),
        username: table.text("username", "tollgate", username),
        password: table.text("password", "${file:/run/secrets/redis}", secret),
        sentinel_password: table.text("sentinel_password", "${file:/run/secrets/sentinel}", secret),
        tls: table.table_at("tls", &STORE_TLS, tls),
        prefix: plain(table.text("prefix", "tollgate", prefix)),
        key_secret: plain(table.text("key_secret", "${file:/run/secrets/keys}", secret)),
        timeout: table.duration("timeout", TIMEOUT_RANGE),
        memory_max: plain(table.size("memory_max", MEMORY_RANGE)),
        refusal_cache: table.duration("refusal_cache", REFUSAL_RANGE),
        breaker: table.table("breaker", &BREAKER, breaker),
        incomplete: table.is_incomplete(),
    }
}

fn tls(table: &mut Table<'_, '_>) -> StoreTls {
    StoreTls {
        ca: table.text("ca", "/etc/tollgate/redis-ca.pem", path),
        certificate: table.text("certificate", "/etc/tollgate/gateway.pem", path),
        key: table.text("key", "/etc/tollgate/gateway.key", path),
        incomplete: table.is_incomplete(),
    }
}

fn breaker(table: &mut Table<'_, '_>) -> Breaker {
    Breaker {
        failures: plain(table.number("failures", 1..=FAILURES_MAX)),
        failure_ratio: table.ratio("failure_ratio"),
        window: table.duration("window", BREAKER_RANGE),
        cooldown: table.duration("cooldown", BREAKER_RANGE),
    }
}

fn path(text: &str) -> Result<PathBuf, Wrong> {
    match text {
        "" => Err(Wrong::new("is no path", "the path of a PEM file")),
        path => Ok(path.into()),
    }
}

/// A request waits for so long at most; more than seconds would be an outage of its own.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// 0 remembers none.
const REFUSAL_RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(1);
const BREAKER_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_mins(10);
const FAILURES_MAX: u64 = 1000;
const MEMORY_RANGE: RangeInclusive<u64> = 1 << 20..=1 << 40;
