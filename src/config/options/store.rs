//! `[store]`, with its tables for the circuit breaker and for TLS.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use super::files::{key_file, password, secret, with_files};
use super::kind::{duration, number, share, size, text, word};
use super::{Effect, TableSpec};
use crate::config::display;
use crate::config::file::RawStore;
use crate::config::read::{Form, Template};
use crate::config::value::{
    RedisUrl, STORE_URL_PATTERN, StoreUrl, prefix, server_name, store_url, username,
};
use crate::store::settings::{Password, Settings};
use crate::tls::ServerProof;

/// `[store]`
pub static STORE: LazyLock<TableSpec<RawStore>> = LazyLock::new(|| {
    let form = Form::Text("memory:");
    let url =
        with_files(form, store_url, remember_files, display::store_url).matching(STORE_URL_PATTERN);
    let user = || text("tollgate", username, ToString::to_string).or_none("none");
    let prefix = text("tollgate", prefix, ToString::to_string).or("tollgate".into());
    let (redis, keys) = ("${file:/run/secrets/redis}", "${file:/run/secrets/keys}");
    let sentinels = "${file:/run/secrets/sentinel}";
    let default = Settings::default();
    let memory = size(1 << 20..=1 << 40).or(default.max_memory);
    let refusals = duration(REFUSALS).or(default.refusal_cache);
    TableSpec::<RawStore>::of("table", "[store]")
        .about("Where counters are kept.")
        .key("url", url.or(StoreUrl::Memory))
        .sets(|store| &mut store.url)
        .doc("\"memory:\" keeps counters in this process; a restart forgets them.")
        .effect(Effect::NeedsRestart)
        .key("username", user())
        .sets(|store| &mut store.username)
        .doc("The Redis user, unless the URL names one.")
        .key("password", password(redis))
        .sets(|store| &mut store.password)
        .doc("The password of that user.")
        .key("sentinel_username", user())
        .sets(|store| &mut store.sentinel_username)
        .doc("The user for the sentinels.")
        .key("sentinel_password", password(sentinels))
        .sets(|store| &mut store.sentinel_password)
        .doc("The password for the sentinels, if they require one.")
        .key("prefix", prefix)
        .sets(|store| &mut store.prefix)
        .doc("The prefix of every key in Redis.")
        .effect(Effect::NeedsRestart)
        .key("key_secret", secret(keys))
        .sets(|store| &mut store.settings.key_secret)
        .doc("A secret of at least 16 bytes that all gateways share.")
        .effect(Effect::CountersAfresh)
        .key("timeout", duration(TIMEOUT).or(default.timeout))
        .sets(|store| &mut store.settings.timeout)
        .doc("Time allowed for a decision by Redis, 1ms to 10s.")
        .key("min_nodes", number(1..=65_536).or(default.min_nodes))
        .sets(|store| &mut store.settings.min_nodes)
        .doc("Least fleet size.")
        .key("max_memory", memory)
        .sets(|store| &mut store.settings.max_memory)
        .doc("Most bytes of counters in this process.")
        .key("refusal_cache", refusals)
        .sets(|store| &mut store.settings.refusal_cache)
        .doc("How long a refusal is repeated here before one request asks Redis again.")
        .table("breaker", breaker(&default))
        .table("tls", tls())
});

fn breaker(default: &Settings) -> TableSpec<RawStore> {
    let default = &default.breaker;
    TableSpec::<RawStore>::of("table", "[store.breaker]")
        .about("The circuit breaker for Redis.")
        .key("failures", number(1..=1000).or(default.failures))
        .sets(|store| &mut store.settings.breaker.failures)
        .doc("This many failures in a row open it.")
        .key("failure_ratio", share().or(default.failure_ratio))
        .sets(|store| &mut store.settings.breaker.failure_ratio)
        .doc(
            "A share of failures above this also opens it, once there are 20 events in the window.",
        )
        .key("window", duration(BREAKER).or(default.window))
        .sets(|store| &mut store.settings.breaker.window)
        .doc("The window over which that share is measured.")
        .key("cooldown", duration(BREAKER).or(default.cooldown))
        .sets(|store| &mut store.settings.breaker.cooldown)
        .doc("How long it stays open before a single call tries Redis again.")
}

fn tls() -> TableSpec<RawStore> {
    let authorities = key_file("/etc/tollgate/redis-ca.pem").or_none("the system's");
    let certificate = key_file("/etc/tollgate/gateway.pem").or_none("none");
    let name = text("redis.internal", server_name, display::server_name);
    TableSpec::<RawStore>::of("table", STORE_TLS)
        .about("TLS to Redis.")
        .key("ca", authorities)
        .sets(|store| &mut store.tls.ca)
        .doc("CA certificates that verify the certificate of Redis, or its own certificate.")
        .key("certificate", certificate)
        .sets(|store| &mut store.tls.certificate)
        .doc("The gateway's own (client) certificate.")
        .key("key", key_file("/etc/tollgate/gateway.key").or_none("none"))
        .sets(|store| &mut store.tls.key)
        .doc("The private key of that certificate.")
        .key("server_name", name.or_none("that of the URL"))
        .sets(|store| &mut store.tls.server_name)
        .doc("The name that the certificate of Redis must be valid for.")
        .key("verify", word(display::SERVER_PROOFS).or(ServerProof::Full))
        .sets(|store| &mut store.tls.proof)
        .doc("\"full\", or \"none\": any certificate is accepted.")
}

/// Lets the password of a URL be read again if it comes from a file.
fn remember_files(mut url: StoreUrl, files: Template) -> StoreUrl {
    if let StoreUrl::Redis(RedisUrl {
        password: Some(password),
        ..
    }) = &mut url
    {
        let (text, written) = (password.text(), files.written().to_owned());
        let read = move || match store_url(&files.read()?) {
            Ok(StoreUrl::Redis(RedisUrl {
                password: Some(password),
                ..
            })) => Ok(password.text().as_ref().into()),
            Ok(_) => Err("the URL has no password".to_owned()),
            Err(wrong) => Err(format!("the URL {}", wrong.problem)),
        };
        *password = Password::from_source(&text, &written, read);
    }
    url
}

/// Title of the table of TLS settings.
pub const STORE_TLS: &str = "[store.tls]";
/// Allowed values of `timeout`, the longest wait for a decision: more than some seconds would be an outage of its own.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// Allowed values of `refusal_cache`; 0 repeats no refusals.
const REFUSALS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(1);
const BREAKER: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(10);
