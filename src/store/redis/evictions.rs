//! Logs once per process which servers may evict or lose keys, and so forget what clients spent.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// What was logged about servers, so that the workers of a process do not repeat each other.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// The eviction policy of each server about which the log said last that it may evict keys.
    logged: Mutex<HashMap<Box<str>, String>>,
    /// The servers about which the log said that a crash forgets balances.
    forgetful: Mutex<HashSet<Box<str>>>,
}

impl Evictions {
    /// Logs that a server may forget balances, once.
    pub(super) fn note_forgetful(&self, server: &str) {
        let mut forgetful = (self.forgetful.lock()).unwrap_or_else(PoisonError::into_inner);
        if forgetful.len() < SERVERS_MAX && forgetful.insert(server.into()) {
            tracing::warn!(
                server,
                "Redis writes no append-only file, so a crash forgets credits that were granted or spent: set appendonly to yes"
            );
        }
    }

    /// Logs a server's eviction policy if it differs from the one that was logged last.
    pub(super) fn note(&self, server: &str, policy: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if policy == KEEPS_KEYS {
            if logged.remove(server).is_some() {
                tracing::info!(server, "Redis no longer evicts keys");
            }
            return;
        }
        if logged.get(server).is_some_and(|last| last == policy) {
            return;
        }
        if logged.len() >= SERVERS_MAX {
            logged.clear();
        }
        logged.insert(server.into(), policy.to_owned());
        if policy.starts_with("allkeys") {
            tracing::warn!(
                server,
                policy,
                "Redis may evict any key, which forgets what clients have spent, and credits are not decided there: set maxmemory-policy to noeviction"
            );
        } else {
            tracing::warn!(
                server,
                policy,
                "Redis may evict keys, which forgets what clients have spent: set maxmemory-policy to noeviction"
            );
        }
    }
}

/// The policy of a server that evicts no keys.
const KEEPS_KEYS: &str = "noeviction";
/// Most servers that are remembered, as many as a Cluster has at most. With more, eviction policies may be logged
/// again, and forgotten balances are not logged.
const SERVERS_MAX: usize = 1_000;
