//! What a reload changes about the store: never a secret, only that it is another.
//!
//! Which servers there are, and what keys begin with, is settled at the start. Who to be there and
//! whom to trust belongs to the servers: it applies while they stay, and waits with them.

use super::Diff;
use super::tables::time;
use crate::config::value::bytes_text;
use crate::config::words;
use crate::store::settings::{Location, RedisSettings, Settings};

/// Adds what applies at once.
pub(super) fn applied(old: &Settings, new: &Settings, lines: &mut Vec<String>) {
    if let (Location::Redis(was), Location::Redis(is)) = (&old.location, &new.location)
        && same_servers(was, is)
    {
        access(was, is, lines);
    }
    let mut diff = Diff::of("store: ", lines);
    if let Some(how) = how(&old.key_secret, &new.key_secret) {
        diff.line(&format!("key_secret {how}, counters start afresh"));
    }
    diff.key("timeout", &old.timeout, &new.timeout, time);
    diff.key("memory_max", &old.memory_max, &new.memory_max, |bytes| {
        bytes_text(*bytes)
    });
    let (was, is) = (&old.refusal_cache, &new.refusal_cache);
    diff.key("refusal_cache", was, is, time);
    let (was, is) = (&old.breaker, &new.breaker);
    let number = |number: &u32| number.to_string();
    diff.key("breaker.failures", &was.failures, &is.failures, number);
    diff.key(
        "breaker.failure_ratio",
        &was.failure_ratio,
        &is.failure_ratio,
        ToString::to_string,
    );
    diff.key("breaker.window", &was.window, &is.window, time);
    diff.key("breaker.cooldown", &was.cooldown, &is.cooldown, time);
}

/// Adds what waits for a restart.
pub(super) fn restart(old: &Settings, new: &Settings, lines: &mut Vec<String>) {
    let url = |location: &Location| words::store_url(location);
    let (was, is) = (&old.location, &new.location);
    if url(was) != url(is) {
        Diff::of("store: ", lines).key("url", was, is, url);
    }
    if let (Location::Redis(was), Location::Redis(is)) = (was, is) {
        if !same_servers(was, is) {
            access(was, is, lines);
        }
        let prefix = ToString::to_string;
        Diff::of("store: ", lines).key("prefix", &was.prefix, &is.prefix, prefix);
    }
}

/// Returns `new` with what waits for a restart as it was.
pub(super) fn kept(old: &Location, new: Location) -> Location {
    match (old, new) {
        (Location::Redis(was), Location::Redis(mut is)) if same_servers(was, &is) => {
            is.prefix.clone_from(&was.prefix);
            if is.tls == was.tls {
                // Its sessions are worth keeping.
                is.tls.clone_from(&was.tls);
            }
            Location::Redis(is)
        }
        _ => old.clone(),
    }
}

/// Whether both mean the same servers and databases, and speak to them in the same way.
fn same_servers(old: &RedisSettings, new: &RedisSettings) -> bool {
    old.deployment == new.deployment
        && old.database == new.database
        && old.tls.is_some() == new.tls.is_some()
}

/// Adds what changed of who to be and whom to trust.
fn access(old: &RedisSettings, new: &RedisSettings, lines: &mut Vec<String>) {
    let sentinels = (&old.sentinel_password, &new.sentinel_password);
    // Whether there is TLS at all is said by the URL.
    let tls = how(&old.tls, &new.tls).filter(|_| old.tls.is_some() && new.tls.is_some());
    let changes = [
        ("username", how(&old.username, &new.username)),
        ("password", how(&old.password, &new.password)),
        ("sentinel_password", how(sentinels.0, sentinels.1)),
        ("tls", tls),
    ];
    let mut diff = Diff::of("store: ", lines);
    for (key, how) in changes {
        if let Some(how) = how {
            diff.line(&format!("{key} {how}"));
        }
    }
}

/// Says how a value is another, without the value.
#[expect(clippy::ref_option, reason = "the shape that settings have")]
fn how<T: PartialEq>(old: &Option<T>, new: &Option<T>) -> Option<&'static str> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => Some("changed"),
        (None, Some(_)) => Some("set"),
        (Some(_), None) => Some("removed"),
        _ => None,
    }
}
