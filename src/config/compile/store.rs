//! The store: where counters live, how it is reached, and which of its keys go together.

use std::net::IpAddr;
use std::ops::Range;

use super::tls::{TlsServers, tls, warn_unverified};
use crate::config::file::{RawStore, Table};
use crate::config::options::{STORE, STORE_TLS};
use crate::config::report::Report;
use crate::config::value::{Encryption, RedisUrl, StoreUrl};
use crate::limit::plan::OnStoreFailure;
use crate::snapshot::{Policy, PolicyMode, Snapshot};
use crate::store::settings::{Address, Deployment, Location, RedisSettings, Settings};
use crate::tls::ClientTls;

/// Compiles `[store]`; if it reports a mistake, the result is of no use.
pub(super) fn compile(table: &Table<RawStore>, report: &mut Report) -> Settings {
    Settings {
        location: location(table, report),
        ..table.value.settings.clone()
    }
}

fn location(table: &Table<RawStore>, report: &mut Report) -> Location {
    let store = &table.value;
    let (StoreUrl::Redis(url), Some(place)) = (&store.url, table.place("url")) else {
        if table.has("url") || !table.is_incomplete(STORE.about.title) {
            only_for_redis(table, report);
        } else if let Some(place) = table.place("tls") {
            // The wrong or missing `url` may have been meant for Redis, so `tls` is checked all the same.
            tls(&REDIS, table, &store.tls, place, report);
        }
        return Location::Memory;
    };
    credentials(table, url, place, report);
    Location::Redis(RedisSettings {
        deployment: url.deployment.clone(),
        database: url.database,
        username: store.username.clone(),
        password: store.password.clone(),
        sentinel_username: store.sentinel_username.clone(),
        sentinel_password: store.sentinel_password.clone(),
        tls: encryption(table, url.encryption, place, report),
        prefix: store.prefix.clone(),
    })
}

/// Refuses credentials and `tls` without a server: an operator who gives them believes that Redis is used.
fn only_for_redis(table: &Table<RawStore>, report: &mut Report) {
    for key in (CREDENTIALS.iter().chain(&SENTINEL_CREDENTIALS)).chain(&["tls"]) {
        if let Some(place) = table.place(key) {
            let message = format!("`{key}` is for Redis, but counters are kept in this process");
            (report.mistake(place, message, "a `url` of Redis as well"))
                .hint("add `url = \"redis://HOST:PORT\"`, or leave this out");
        }
    }
}

fn credentials(table: &Table<RawStore>, url: &RedisUrl, place: &Range<usize>, report: &mut Report) {
    let in_url = [url.username.is_some(), url.password.is_some()];
    for (key, is_in_url) in CREDENTIALS.into_iter().zip(in_url) {
        if let (Some(place), true) = (table.place(key), is_in_url) {
            let message = format!("`{key}` is given twice");
            (report.mistake(place, message, "only one of the two"))
                .hint("`url` has one too: leave out one of them");
        }
    }
    let is_incomplete = table.is_incomplete(STORE.about.title);
    if table.value.username.is_some() && table.value.password.is_none() && !is_incomplete {
        let place = table.place("username").unwrap_or(place);
        let message = "the user of Redis has no password";
        let expected = "`USER:PASSWORD@` in the URL, or `password` as well";
        (report.mistake(place, message, expected))
                .hint("a password without a user is written `redis://:PASSWORD@HOST`; a single word before `@` is a user");
    }
    sentinel_credentials(table, url, report);
}

fn sentinel_credentials(table: &Table<RawStore>, url: &RedisUrl, report: &mut Report) {
    let names_sentinels = matches!(url.deployment, Deployment::Sentinel { .. });
    for (key, own) in SENTINEL_CREDENTIALS.into_iter().zip(CREDENTIALS) {
        if let (Some(place), false) = (table.place(key), names_sentinels) {
            let message = format!("`{key}` is for sentinels, but `url` names none");
            let expected = "a `url` that begins with `redis+sentinel://`";
            (report.mistake(place, message, expected)).hint(format!("for the server, use `{own}`"));
        }
    }
    let is_incomplete = table.is_incomplete(STORE.about.title);
    if let Some(place) = table.place("sentinel_username")
        && table.value.sentinel_password.is_none()
        && !is_incomplete
    {
        let message = "the user of the sentinels has no password";
        report.mistake(place, message, "`sentinel_password` as well");
    }
}

fn encryption(
    table: &Table<RawStore>,
    encryption: Encryption,
    url: &Range<usize>,
    report: &mut Report,
) -> Option<ClientTls> {
    let place = table.place("tls");
    let (message, hint) = match (encryption, place) {
        (Encryption::Tls, place) => {
            let files = &table.value.tls;
            return tls(&REDIS, table, files, place.unwrap_or(url), report);
        }
        (_, None) => return None,
        (Encryption::Plain, _) => (
            "`tls` is given, but `url` does not use TLS",
            "write `rediss` for `redis` in `url`, or leave `tls` out",
        ),
        (Encryption::Needless, _) => (
            "`tls` is given, but `url` is a Unix socket",
            "leave `tls` out",
        ),
    };
    let expected = "a `url` that begins with `rediss`";
    (report.mistake(place.unwrap_or(url), message, expected)).hint(hint);
    None
}

/// Adds the warnings about `[store]`: what is valid but probably not what was meant.
pub(super) fn warnings(table: &Table<RawStore>, snapshot: &Snapshot, found: &mut Vec<String>) {
    let store = &snapshot.store;
    let mut warn = |text: &str| found.push(format!("store: {text}"));
    let secret = store.key_secret.as_ref();
    if secret.is_some_and(|secret| secret.0.len() < KEY_SECRET_BYTES) {
        warn(
            "`key_secret` is shorter than 16 bytes: anyone who can read the keys in Redis can guess it",
        );
    }
    let Location::Redis(redis) = &store.location else {
        for key in ["prefix", "timeout", "min_nodes", "refusal_cache"] {
            if table.has(key) {
                let why = "has no effect while counters are kept in this process";
                warn(&format!("`{key}` {why}"));
            }
        }
        return;
    };
    if secret.is_none() {
        warn(
            "without `key_secret`, anyone who can read the keys in Redis can find out which clients they belong to",
        );
    }
    let is_local = |policy: &Policy| {
        let mut quotas = policy.every_quota();
        policy.mode == Some(PolicyMode::Enforce)
            && quotas.any(|(quota, _)| policy.on_store_failure_of(quota) == OnStoreFailure::Local)
    };
    if store.min_nodes == 1 && snapshot.policies.iter().any(is_local) {
        warn(
            "a gateway that starts while Redis is down enforces whole quotas, as if it were the only one: set `min_nodes` to the size of the fleet",
        );
    }
    let has_password = redis.password.is_some() || redis.sentinel_password.is_some();
    if let (true, None, Some(address)) = (has_password, &redis.tls, distant(&redis.deployment)) {
        let clear = "passwords are sent without encryption";
        warn(&format!(
            "{clear}, and {address} is not this machine: use `rediss` in `url`"
        ));
    }
    warn_unverified("store", &table.value.tls, has_password, found);
}

/// Returns a server that is not on this machine, or may not be.
fn distant(deployment: &Deployment) -> Option<&Address> {
    let addresses = match deployment {
        Deployment::Unix(_) => &[],
        Deployment::Single(address) => std::slice::from_ref(address),
        Deployment::Cluster(addresses) => addresses,
        Deployment::Sentinel { sentinels, .. } => sentinels,
    };
    addresses.iter().find(|address| {
        let ip = address.host.parse::<IpAddr>();
        &*address.host != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback())
    })
}

/// The servers that `[store.tls]` is for.
const REDIS: TlsServers = TlsServers {
    title: STORE_TLS,
    noun: "Redis",
};
/// Keys of the gateway's credentials at the server.
const CREDENTIALS: [&str; 2] = ["username", "password"];
/// Keys of its credentials at the sentinels.
const SENTINEL_CREDENTIALS: [&str; 2] = ["sentinel_username", "sentinel_password"];
/// Shortest `key_secret` that causes no warning, in bytes: shorter ones can be found by trying.
const KEY_SECRET_BYTES: usize = 16;
