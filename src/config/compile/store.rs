//! The store: where counters live and how it is reached; whatever files it needs are read here.

use std::fs;
use std::io::Read as _;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::defaults;
use crate::config::file::{At, Breaker, Store, StoreTls};
use crate::config::report::{Mistake, Report};
use crate::config::value::{Encryption, RedisUrl, StoreUrl};
use crate::store::settings::{
    Address, BreakerSettings, Deployment, Location, RedisSettings, Settings, Tls, TlsFault,
    TlsMaterial,
};

/// Compiles `[store]`; with a mistake in the report, what comes back is of no use.
pub(super) fn compile(store: &Store, report: &mut Report) -> Settings {
    let unless_said = Settings::default();
    Settings {
        location: location(store, report),
        memory_max: store.memory_max.unwrap_or(unless_said.memory_max),
        key_secret: store.key_secret.clone(),
        timeout: store.timeout.unwrap_or(unless_said.timeout),
        refusal_cache: store.refusal_cache.unwrap_or(unless_said.refusal_cache),
        breaker: breaker(&store.breaker, unless_said.breaker),
    }
}

fn breaker(breaker: &Breaker, unless_said: BreakerSettings) -> BreakerSettings {
    BreakerSettings {
        failures: breaker.failures.unwrap_or(unless_said.failures),
        failure_ratio: breaker.failure_ratio.unwrap_or(unless_said.failure_ratio),
        window: breaker.window.unwrap_or(unless_said.window),
        cooldown: breaker.cooldown.unwrap_or(unless_said.cooldown),
    }
}

fn location(store: &Store, report: &mut Report) -> Location {
    let url = match &store.url {
        Some(At {
            value: StoreUrl::Redis(url),
            span,
        }) => At {
            value: url,
            span: span.clone(),
        },
        // A URL that is wrong may be the one that the other keys go with.
        None if store.incomplete => {
            if let Some(table) = &store.tls {
                tls(Some(table), &table.span, report);
            }
            return Location::Memory;
        }
        _ => {
            only_for_redis(store, report);
            return Location::Memory;
        }
    };
    credentials(store, &url, report);
    Location::Redis(RedisSettings {
        deployment: url.value.deployment.clone(),
        database: url.value.database,
        username: (store.username.as_ref().map(|at| &at.value))
            .or(url.value.username.as_ref())
            .cloned(),
        password: (store.password.as_ref().map(|at| &at.value))
            .or(url.value.password.as_ref())
            .cloned(),
        sentinel_password: store.sentinel_password.as_ref().map(|at| at.value.clone()),
        tls: encryption(store, &url, report),
        prefix: match &store.prefix {
            Some(prefix) => prefix.as_ref().into(),
            None => defaults::STORE_PREFIX.into(),
        },
    })
}

/// Whoever gives credentials means a server, and would not want to learn later that there is none.
fn only_for_redis(store: &Store, report: &mut Report) {
    let keys = [
        ("username", store.username.as_ref().map(|at| &at.span)),
        ("password", store.password.as_ref().map(|at| &at.span)),
        (
            "sentinel_password",
            store.sentinel_password.as_ref().map(|at| &at.span),
        ),
        ("tls", store.tls.as_ref().map(|at| &at.span)),
    ];
    for (key, span) in keys {
        let Some(span) = span else { continue };
        let message = format!("`{key}` is for Redis, and counters live in this process");
        report.add(
            Mistake::at(span.clone(), message)
                .expected("a `url` of Redis beside it")
                .hint("add `url = \"redis://HOST:PORT\"`, or leave this out"),
        );
    }
}

fn credentials(store: &Store, url: &At<&RedisUrl>, report: &mut Report) {
    let twice = |key: &str, span: &Range<usize>| {
        Mistake::at(span.clone(), format!("`{key}` is given twice"))
            .expected("one place for it")
            .hint("`url` has one too: leave out one of them")
    };
    if let (Some(at), true) = (&store.username, url.value.username.is_some()) {
        report.add(twice("username", &at.span));
    }
    if let (Some(at), true) = (&store.password, url.value.password.is_some()) {
        report.add(twice("password", &at.span));
    }
    let user = match (&store.username, &url.value.username) {
        (Some(at), _) => Some(&at.span),
        (None, Some(_)) => Some(&url.span),
        (None, None) => None,
    };
    let has_password = store.password.is_some() || url.value.password.is_some();
    if let (Some(span), false, false) = (user, has_password, store.incomplete) {
        report.add(
            Mistake::at(span.clone(), "the user of Redis has no password")
                .expected("`USER:PASSWORD@` in the URL, or `password` beside it")
                .hint("a password without a user is written `redis://:PASSWORD@HOST`; what stands alone before `@` is a user"),
        );
    }
    if let (Some(at), false) = (
        &store.sentinel_password,
        matches!(url.value.deployment, Deployment::Sentinel { .. }),
    ) {
        report.add(
            Mistake::at(
                at.span.clone(),
                "`sentinel_password` is for sentinels, and `url` names none",
            )
            .expected("a `url` that begins with `redis+sentinel://`")
            .hint("the server's own is `password`"),
        );
    }
}

fn encryption(store: &Store, url: &At<&RedisUrl>, report: &mut Report) -> Option<Tls> {
    match (url.value.encryption, &store.tls) {
        (Encryption::Tls, table) => tls(table.as_ref(), &url.span, report),
        (Encryption::Plain, Some(table)) => {
            report.add(
                Mistake::at(
                    table.span.clone(),
                    "`tls` is given, but `url` asks for none",
                )
                .expected("a `url` that begins with `rediss`")
                .hint("write `rediss` for `redis` in `url`, or leave `tls` out"),
            );
            None
        }
        (Encryption::Needless, Some(table)) => {
            report.add(
                Mistake::at(
                    table.span.clone(),
                    "`tls` is given, but `url` is a socket of this machine",
                )
                .expected("a `url` that begins with `rediss`")
                .hint("leave `tls` out"),
            );
            None
        }
        (_, None) => None,
    }
}

/// Makes TLS of the files that the table names; `url` is where the system's lack is said.
fn tls(table: Option<&At<StoreTls>>, url: &Range<usize>, report: &mut Report) -> Option<Tls> {
    let nothing = StoreTls::default();
    let (table, span) = match table {
        Some(table) => (&table.value, &table.span),
        None => (&nothing, url),
    };
    let before = report.count();
    for (there, lacks, name) in [
        (&table.certificate, &table.key, "key"),
        (&table.key, &table.certificate, "certificate"),
    ] {
        if let (Some(at), None, false) = (there, lacks, table.incomplete) {
            report.add(
                Mistake::at(at.span.clone(), format!("`tls` lacks `{name}`"))
                    .expected("`certificate` and `key`, or neither"),
            );
        }
    }
    let mut read = |name: &str, key: &Option<At<PathBuf>>| {
        let at = key.as_ref()?;
        let pem = pem(&at.value);
        pem.map_err(|why| report.add(unusable(name, at, &why))).ok()
    };
    let ca = read("ca", &table.ca);
    let certificate = read("certificate", &table.certificate);
    let key = read("key", &table.key);
    if report.count() > before || table.incomplete {
        return None;
    }
    let made = Tls::new(TlsMaterial {
        ca: ca.as_deref(),
        identity: certificate.as_deref().zip(key.as_deref()),
    });
    let fault = match made {
        Ok(tls) => return Some(tls),
        Err(fault) => fault,
    };
    let (name, at) = match fault {
        TlsFault::Ca(_) => ("ca", &table.ca),
        TlsFault::Certificate(_) => ("certificate", &table.certificate),
        TlsFault::Key(_) => ("key", &table.key),
        TlsFault::System => ("", &None),
    };
    report.add(match at {
        Some(at) => unusable(name, at, &fault.to_string()),
        None => Mistake::at(span.clone(), format!("this system {fault}"))
            .expected("certificates to trust")
            .hint("name those that the certificate of Redis comes from: `tls = { ca = \"/PATH.pem\" }`"),
    });
    None
}

/// Does not name the file: the line does, unless a variable stands for it.
fn unusable(name: &str, at: &At<PathBuf>, why: &str) -> Mistake {
    let mistake = Mistake::at(at.span.clone(), format!("the file of `{name}` {why}"));
    mistake.expected(match name {
        "key" => "a PEM file with the private key of `certificate`, not encrypted",
        _ => "a PEM file with certificates",
    })
}

/// Reads a file of certificates or of a key.
fn pem(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {}", error.kind());
    // Opening a pipe would wait for whoever writes to it.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    let mut pem = Vec::new();
    let read = file.take(PEM_BYTES_MAX + 1).read_to_end(&mut pem);
    if read.map_err(unreadable)? as u64 > PEM_BYTES_MAX {
        return Err(format!("is larger than {PEM_BYTES_MAX} bytes"));
    }
    Ok(pem)
}

/// Largest file of certificates; the authorities of a whole system are a quarter of that.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Adds what of a good store is hardly meant.
pub(super) fn warnings(file: &Store, store: &Settings, found: &mut Vec<String>) {
    let secret = store.key_secret.as_ref();
    if secret.is_some_and(|secret| secret.0.len() < KEY_SECRET_BYTES) {
        found.push(format!(
            "store: `key_secret` is shorter than {KEY_SECRET_BYTES} bytes: whoever reads the keys can guess it"
        ));
    }
    let Location::Redis(redis) = &store.location else {
        let keys = [
            ("prefix", file.prefix.is_some()),
            ("timeout", file.timeout.is_some()),
            ("refusal_cache", file.refusal_cache.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, is_said)| *is_said) {
            found.push(format!(
                "store: `{key}` has no effect while counters live in this process"
            ));
        }
        return;
    };
    if secret.is_none() {
        found.push(
            "store: without `key_secret` whoever reads the keys in Redis can find out which clients they are of"
                .to_owned(),
        );
    }
    let has_password = redis.password.is_some() || redis.sentinel_password.is_some();
    if let (true, None, Some(address)) = (has_password, &redis.tls, distant(&redis.deployment)) {
        found.push(format!(
            "store: passwords are sent without encryption, and {address} is not this machine: `rediss` in `url` encrypts"
        ));
    }
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

/// Shorter secrets can be found by trying.
const KEY_SECRET_BYTES: usize = 16;
