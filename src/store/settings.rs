//! What `[store]` says: where counters live, how long a decision may take, and when to stop asking a server that fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use super::password::Password;
use crate::tls::ClientTls;

/// Settings of a configuration's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where counters live.
    pub location: Location,
    /// Most bytes of counters in this process's memory.
    pub max_memory: u64,
    /// The key of partition ids, if one is set.
    pub key_secret: Option<Secret>,
    /// Longest that one decision may take.
    pub timeout: Duration,
    /// Longest that a refusal is remembered; 0 means not at all.
    pub refusal_cache: Duration,
    /// How many gateways share the store at least.
    pub min_nodes: u32,
    /// When a server that fails is no longer asked.
    pub breaker: BreakerSettings,
}

/// Where counters live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this process.
    Memory,
    /// In Redis, shared by a fleet.
    Redis(RedisSettings),
}

/// How to reach Redis, and under which names counters are kept there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Which servers, and how they belong together.
    pub deployment: Deployment,
    /// The database (`SELECT`); 0 on a Cluster.
    pub database: u32,
    /// The user to authenticate as; none means the default user.
    pub username: Option<Box<str>>,
    /// The password, if one is needed.
    pub password: Option<Password>,
    /// The user to authenticate as with sentinels; none means their default user.
    pub sentinel_username: Option<Box<str>>,
    /// The password of the sentinels, if they want one.
    pub sentinel_password: Option<Password>,
    /// How to encrypt; none means not at all.
    pub tls: Option<ClientTls>,
    /// Prefix of every key.
    pub prefix: Arc<str>,
}

/// Which servers, and how they belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployment {
    /// One server.
    Single(Address),
    /// One server, by a Unix socket.
    Unix(PathBuf),
    /// The primaries of a Cluster, found through these nodes.
    Cluster(Vec<Address>),
    /// The primary that these sentinels watch under this name.
    Sentinel {
        /// The sentinels.
        sentinels: Vec<Address>,
        /// The name by which they know the primary.
        name: Box<str>,
    },
}

/// A host, without brackets, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an address.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

/// When a server that fails is no longer asked, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerSettings {
    /// This many failures in a row open the breaker.
    pub failures: u32,
    /// Share of failures in the window above which the breaker opens, if there were at least 20 calls.
    pub failure_ratio: f64,
    /// How far back calls count towards the share.
    pub window: Duration,
    /// How long it stays open before a call probes the server.
    pub cooldown: Duration,
}

impl Eq for BreakerSettings {}

impl RedisSettings {
    /// Makes settings for servers that need no credentials and no encryption, with the default prefix.
    pub fn plain(deployment: Deployment) -> Self {
        Self {
            deployment,
            database: 0,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            tls: None,
            prefix: "tollgate".into(),
        }
    }

    /// Describes where counters are kept, for comparison with another process.
    pub(crate) fn counters_at(&self) -> String {
        format!("{:?} {} {}", self.deployment, self.database, self.prefix)
    }

    /// Rereads the passwords that came from files.
    pub fn refresh_passwords(&self) {
        let passwords = [
            ("password", &self.password),
            ("sentinel_password", &self.sentinel_password),
        ];
        for (key, password) in passwords {
            if let Some(password) = password {
                password.refresh(key);
            }
        }
    }
}

/// A text that must not appear in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Box<str>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl Default for Settings {
    /// Returns the settings of a file without `[store]`.
    fn default() -> Self {
        Self {
            location: Location::Memory,
            max_memory: 256 << 20,
            key_secret: None,
            timeout: Duration::from_millis(50),
            refusal_cache: Duration::from_secs(1),
            min_nodes: 1,
            breaker: BreakerSettings {
                failures: 5,
                failure_ratio: 0.5,
                window: Duration::from_secs(10),
                cooldown: Duration::from_secs(2),
            },
        }
    }
}
