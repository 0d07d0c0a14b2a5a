//! Where counters live: `memory:`, or the servers of Redis and the user to log in as.
//!
//! A URL may hold a password, so no message about one repeats any part of it.

mod credentials;
#[cfg(test)]
mod tests;
mod wrong;

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

pub use credentials::{admin_token, password, secret, username};

use super::address::{SOCKET_PATH_LEN_MAX, socket_path_of_url};
use super::{ValueError, nearest};
use crate::store::settings::{Address, Deployment, Password};
use credentials::credentials;
use wrong::{ESCAPES, wrong};

/// `[store] url`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`
    #[default]
    Memory,
    /// A URL of Redis, with any of the other schemes.
    Redis(RedisUrl),
}

/// What a URL of Redis says: the servers, and the user to log in as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    /// The servers that the URL names, and how they belong together.
    pub deployment: Deployment,
    /// The database; 0 unless the URL names one.
    pub database: u32,
    /// Whether connections to Redis use TLS.
    pub encryption: Encryption,
    /// The user before `@`.
    pub username: Option<Box<str>>,
    /// The password before `@`.
    pub password: Option<Password>,
}

/// Whether a scheme means TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// `rediss://` and the like.
    Tls,
    /// `redis://` and the like.
    Plain,
    /// `unix:`: nobody can listen in on a socket of this machine.
    Needless,
}

/// Parses `memory:`, `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` or a similar URL.
///
/// A scheme with `valkey` in place of `redis` means the same, because the protocol does not differ.
pub fn store_url(text: &str) -> Result<StoreUrl, ValueError> {
    if text == "memory:" {
        return Ok(StoreUrl::Memory);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(StoreUrl::Redis);
    }
    let known = text.split_once("://").and_then(|(scheme, rest)| {
        let scheme = as_redis(scheme);
        let (_, kind, encryption) = SCHEMES.into_iter().find(|(name, ..)| *name == scheme)?;
        Some((kind, encryption, rest))
    });
    let Some((kind, encryption, rest)) = known else {
        return Err(wrong("has no known scheme").hint(scheme_hint(text)));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if path.contains('@') {
        return Err(wrong("has `/`, `?` or `#` before its `@`").hint(ESCAPES));
    }
    if path.contains(['?', '#']) {
        return Err(wrong("has a query or a fragment").hint("options are keys of `[store]`"));
    }
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    let (username, password) = user.map(credentials).transpose()?.unwrap_or_default();
    let (deployment, database) = kind.deployment(hosts, path.strip_prefix('/').unwrap_or(path))?;
    Ok(StoreUrl::Redis(RedisUrl {
        deployment,
        database,
        encryption,
        username,
        password,
    }))
}

/// JSON Schema pattern that every URL of a store matches.
pub const STORE_URL_PATTERN: &str =
    r"^memory:$|^unix:.|^(redis|valkey)s?(\+cluster|\+sentinel)?://.";

/// Checks the prefix that every key in the store begins with.
pub fn prefix(text: &str) -> Result<Arc<str>, ValueError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    if (1..=PREFIX_LEN_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        return Ok(text.into());
    }
    Err(ValueError::new(
        "cannot be a prefix of keys",
        "1 to 64 letters, digits, `-`, `_`, `.`, `:` or `/`",
    ))
}

/// How the servers of a URL belong together.
#[derive(Clone, Copy)]
enum UrlKind {
    Single,
    Cluster,
    Sentinel,
}

impl UrlKind {
    /// Parses the servers (`hosts`), and what follows the first `/` after them (`path`).
    fn deployment(self, hosts: &str, path: &str) -> Result<(Deployment, u32), ValueError> {
        match self {
            Self::Single => {
                let mut servers = addresses(hosts, REDIS_PORT)?;
                let (Some(server), true) = (servers.pop(), servers.is_empty()) else {
                    let hint = "use `redis+cluster://` for a Cluster, or `redis+sentinel://` for \
                                Sentinel";
                    return Err(wrong("has more than one host").hint(hint));
                };
                Ok((Deployment::Single(server), database(path)?))
            }
            Self::Cluster if path.is_empty() => {
                Ok((Deployment::Cluster(addresses(hosts, REDIS_PORT)?), 0))
            }
            Self::Cluster => {
                Err(wrong("has a database").hint("a Cluster has only one: leave it out"))
            }
            Self::Sentinel => {
                let sentinels = addresses(hosts, SENTINEL_PORT)?;
                let (name, path) = path.split_once('/').unwrap_or((path, ""));
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if name.is_empty() || !name.bytes().all(is_plain) {
                    let hint = "it is what `sentinel monitor NAME` calls it";
                    return Err(wrong("lacks the name of the primary").hint(hint));
                }
                let name = name.into();
                Ok((Deployment::Sentinel { sentinels, name }, database(path)?))
            }
        }
    }
}

/// Reads `PATH[?db=DATABASE]`.
fn unix(text: &str) -> Result<RedisUrl, ValueError> {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = socket_path_of_url(path).ok_or_else(|| {
        let hint = "write a path, as in `unix:/run/redis.sock`; `username` and `password` \
                    are separate keys";
        wrong("names a host").hint(hint)
    })?;
    if path.is_empty() || path.contains(char::is_control) {
        return Err(wrong("has no socket path"));
    }
    if path.len() > SOCKET_PATH_LEN_MAX {
        return Err(
            wrong("has a path that is too long").hint("the system allows at most 107 bytes")
        );
    }
    let database = match query.split_once('=') {
        None if query.is_empty() => 0,
        Some(("db", number)) if !number.is_empty() => self::database(number)?,
        _ => {
            return Err(
                wrong("has a query").hint("`?db=1` chooses a database; other options are keys")
            );
        }
    };
    Ok(RedisUrl {
        deployment: Deployment::Unix(PathBuf::from(path)),
        database,
        encryption: Encryption::Needless,
        username: None,
        password: None,
    })
}

/// Parses hosts with commas between them, and refuses one that is there twice.
fn addresses(text: &str, default_port: u16) -> Result<Vec<Address>, ValueError> {
    let mut addresses: Vec<Address> = Vec::new();
    for text in text.split(',') {
        let address = address(text, default_port)?;
        if addresses.contains(&address) {
            return Err(wrong("has a host twice"));
        }
        if addresses.len() == ADDRESSES_MAX {
            return Err(wrong("has too many hosts").hint("a few are enough, they name the others"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn address(text: &str, default_port: u16) -> Result<Address, ValueError> {
    let colons = text.matches(':').count();
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, after))) if host.parse::<Ipv6Addr>().is_ok() => match after {
            "" => (host, None),
            _ => (host, Some(after.strip_prefix(':').unwrap_or_default())),
        },
        Some(_) => return Err(wrong("has no IPv6 address in its brackets")),
        None if colons > 1 => {
            return Err(wrong("has a host that cannot be one")
                .hint("IPv6 addresses are written in brackets: `redis://[::1]:6379`"));
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong("lacks a host"));
    }
    let port = match port {
        None => default_port,
        Some(digits) if is_digits(digits) && digits.parse().is_ok_and(|port: u16| port > 0) => {
            digits.parse().unwrap_or(default_port)
        }
        Some(_) => return Err(wrong("has a port that is not a number from 1 to 65535")),
    };
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => address.to_string(),
        Err(_) if is_host(host) => host.to_ascii_lowercase(),
        Err(_) => return Err(wrong("has a host that cannot be one")),
    };
    let host = host.into();
    Ok(Address { host, port })
}

/// Whether a text is an IPv4 address, or a name that a resolver accepts.
fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain) && !label.starts_with('-')
    };
    let looks_like_v4 = text.rsplit('.').next().is_some_and(is_digits);
    text.len() <= 253
        && text.split('.').all(is_label)
        && (!looks_like_v4 || text.parse::<Ipv4Addr>().is_ok())
}

fn database(text: &str) -> Result<u32, ValueError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|_| is_digits(text));
    match number {
        Some(number @ 0..=DATABASE_MAX) => Ok(number),
        _ => {
            Err(wrong("has a database that is not a number")
                .hint("as in `redis://127.0.0.1:6379/0`"))
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Replaces `valkey` by `redis` at the beginning of a scheme.
fn as_redis(scheme: &str) -> Cow<'_, str> {
    match scheme.strip_prefix("valkey") {
        Some(rest) => format!("redis{rest}").into(),
        None => scheme.into(),
    }
}

/// Guesses the scheme that was meant; never repeats what follows it.
fn scheme_hint(text: &str) -> String {
    if matches!(text, "memory" | "memory:/" | "memory://") {
        return "did you mean `memory:`?".to_owned();
    }
    let Some((scheme, _)) = text.split_once(':') else {
        return "it begins with a scheme, as `redis://127.0.0.1:6379` does".to_owned();
    };
    let scheme = as_redis(scheme);
    let names = SCHEMES.map(|(name, ..)| name);
    let mut aliases = ALIASES.into_iter().filter(|(alias, _)| *alias == scheme);
    let alias = aliases.next().map(|(_, name)| name);
    match alias.or_else(|| nearest(&scheme, names)) {
        Some("unix") => "did you mean `unix:/PATH`?".to_owned(),
        Some(name) => format!("did you mean `{name}://`?"),
        None => {
            let names = names.join("://`, `");
            format!("schemes are `memory:`, `unix:`, `{names}://`")
        }
    }
}

const SCHEMES: [(&str, UrlKind, Encryption); 6] = [
    ("redis", UrlKind::Single, Encryption::Plain),
    ("rediss", UrlKind::Single, Encryption::Tls),
    ("redis+cluster", UrlKind::Cluster, Encryption::Plain),
    ("rediss+cluster", UrlKind::Cluster, Encryption::Tls),
    ("redis+sentinel", UrlKind::Sentinel, Encryption::Plain),
    ("rediss+sentinel", UrlKind::Sentinel, Encryption::Tls),
];
/// Schemes of other products, and what they are called here.
const ALIASES: [(&str, &str); 6] = [
    ("redis+tls", "rediss"),
    ("tcp", "redis"),
    ("redis+unix", "unix"),
    ("unix+redis", "unix"),
    ("redis-socket", "unix"),
    ("sentinel", "redis+sentinel"),
];
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// Most hosts of a URL.
const ADDRESSES_MAX: usize = 64;
/// Largest database: Redis counts them in an `int`.
const DATABASE_MAX: u32 = i32::MAX as u32;
const PREFIX_LEN_MAX: usize = 64;
