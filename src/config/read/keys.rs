//! The tables of gateway.toml and their keys: those that work, and those that are known but not available yet.
//!
//! Reading asks for a key by name; everything else in a table is a mistake, and this list says
//! which one. `[jwt]` and the tables inside of keys to come are not described further.

use crate::config::value::one_of;

/// The keys of one table.
pub(super) struct Keys {
    /// How the table is written.
    pub(super) title: &'static str,
    /// Keys that are read.
    pub(super) working: &'static [&'static str],
    /// Keys whose feature does not exist yet.
    pub(super) to_come: &'static [&'static str],
}

impl Keys {
    /// Returns every key, whether it works or not.
    pub(super) fn all(&self) -> impl Iterator<Item = &'static str> {
        self.working.iter().chain(self.to_come).copied()
    }

    /// Returns the title of the table that this one stands in, if it stands in one.
    fn outer(&self) -> Option<&'static str> {
        let (outer, _) = self.title.rsplit_once('.')?;
        let outer = (TABLES.iter()).find(|table| table.title.strip_suffix(']') == Some(outer));
        outer.map(|table| table.title)
    }
}

/// Says where a key that is unknown in the table `here` would be at home.
///
/// A table within another is looked for from there only: elsewhere its keys mean something else.
pub(super) fn home_of(here: &Keys, key: &str) -> Option<String> {
    let homes: Vec<_> = TABLES
        .iter()
        .filter(|table| table.outer().is_none_or(|outer| outer == here.title))
        .filter(|table| table.all().any(|known| known == key))
        .collect();
    match homes[..] {
        [] => None,
        [home] if home.title == TOP.title => Some(format!(
            "`{key}` belongs at the top of the file, before the first table"
        )),
        _ => {
            let titles: Vec<_> = homes.iter().map(|table| table.title).collect();
            Some(format!("`{key}` belongs in {}", one_of(&titles)))
        }
    }
}

pub(super) static TABLES: [&Keys; 11] = [
    &TOP, &LISTENER, &ADMIN, &LOG, &STORE, &STORE_TLS, &BREAKER, &UPSTREAM, &POOL, &POLICY, &ROUTE,
];

pub(super) static TOP: Keys = Keys {
    title: "the file's top level",
    working: &[
        "listeners",
        "upstreams",
        "policies",
        "routes",
        "store",
        "admin",
        "log",
        "workers",
        "default_policies",
        "ratelimit_headers",
        "shutdown_delay",
        "shutdown_grace",
    ],
    to_come: &["watch", "request_id", "debug_from", "jwt"],
};

pub(super) static LISTENER: Keys = Keys {
    title: "[listeners.NAME]",
    working: &[
        "address",
        "trusted_proxies",
        "client_address",
        "ipv6_prefix",
        "max_connections",
        "max_held",
        "header_timeout",
        "idle_timeout",
        "body_timeout",
        "max_header_bytes",
        "max_body_bytes",
    ],
    to_come: &[
        "tls",
        "proxy_protocol",
        "handshake_timeout",
        "tunnel_timeout",
    ],
};

pub(super) static ADMIN: Keys = Keys {
    title: "[admin]",
    working: &["address"],
    to_come: &["socket", "token"],
};

pub(super) static LOG: Keys = Keys {
    title: "[log]",
    working: &["level", "format", "access", "file", "clients"],
    to_come: &[],
};

pub(super) static STORE: Keys = Keys {
    title: "[store]",
    working: &[
        "url",
        "username",
        "password",
        "sentinel_password",
        "tls",
        "prefix",
        "key_secret",
        "timeout",
        "memory_max",
        "refusal_cache",
        "breaker",
    ],
    to_come: &[],
};

pub(super) static STORE_TLS: Keys = Keys {
    title: "[store.tls]",
    working: &["ca", "certificate", "key"],
    to_come: &[],
};

pub(super) static BREAKER: Keys = Keys {
    title: "[store.breaker]",
    working: &["failures", "failure_ratio", "window", "cooldown"],
    to_come: &[],
};

pub(super) static UPSTREAM: Keys = Keys {
    title: "[upstreams.NAME]",
    working: &[
        "endpoints",
        "balance",
        "connect_timeout",
        "response_timeout",
        "body_timeout",
        "retries",
        "pool",
    ],
    to_come: &[
        "hash",
        "retry_budget",
        "max_requests",
        "health",
        "eject",
        "resolve_every",
        "tls",
    ],
};

pub(super) static POOL: Keys = Keys {
    title: "[upstreams.NAME.pool]",
    working: &["max_idle", "idle_timeout"],
    to_come: &[],
};

pub(super) static POLICY: Keys = Keys {
    title: "[policies.NAME]",
    working: &[
        "quota",
        "algorithm",
        "partition",
        "buckets",
        "leaving",
        "burst",
        "queue",
        "missing",
        "cost",
        "count",
        "mode",
        "on_store_failure",
    ],
    to_come: &[
        "align",
        "time_zone",
        "anchor_day",
        "reserve",
        "cost_min",
        "cost_max",
        "count_status",
        "refund_on",
        "candidate",
        "penalty",
        "refusal",
        "overrides",
        "overrides_by",
        "overrides_file",
    ],
};

pub(super) static ROUTE: Keys = Keys {
    title: "[[routes]]",
    working: &[
        "path",
        "path_regex",
        "host",
        "methods",
        "headers",
        "upstream",
        "policies",
        "strip_prefix",
        "preserve_host",
        "cost",
        "default_policies",
        "response_timeout",
        "body_timeout",
        "max_body_bytes",
        "encoded_slash",
        "case_insensitive",
    ],
    to_come: &["rewrite", "request_headers", "response_headers"],
};
