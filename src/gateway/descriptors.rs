//! How many descriptors the process has for sockets towards clients and origins.
//!
//! Some are set aside: the admin port, the log, a reload, Redis, health checks and the looking up of
//! names must work when clients and origins have taken all of theirs.

use std::net::IpAddr;

use rlimit::Resource;

use crate::admin;
use crate::proxy::process::Process;
use crate::proxy::upstream::CHECKS_SET_ASIDE;
use crate::snapshot::{Endpoint, HttpUpstream, Snapshot, UpstreamKind};

/// What needs descriptors besides clients and origins.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    workers: usize,
    listeners: usize,
    /// Servers to which each worker has a connection, and the admin port has one.
    redis_servers: usize,
    /// Endpoints that are checked.
    checks: usize,
    /// Names that are looked up.
    names: usize,
}

/// Bounds the sockets towards clients and origins by the limit of open files, and by what else needs
/// descriptors now; returns how many there may be.
pub(super) fn bound(process: &Process, workers: usize) -> usize {
    let needs = Needs::of(&process.live().snapshot, workers, process.store.servers());
    let max = sockets_max(open_files_max(), needs);
    process.bound_sockets(max);
    max
}

/// Logs a warning if `sockets_max` leaves room for fewer clients than the listeners may have.
pub(super) fn warn_if_few(sockets_max: usize, process: &Process) {
    let live = process.live();
    let listeners = live.snapshot.listeners.iter();
    let wanted: usize = listeners.map(|listener| listener.max_connections).sum();
    let connections = process.sockets().clients_max();
    if connections < wanted {
        tracing::warn!(
            open_files = open_files_max(),
            sockets = sockets_max,
            connections,
            max_connections = wanted,
            "the limit of open files leaves room for fewer connections than max_connections"
        );
    }
}

impl Needs {
    fn of(snapshot: &Snapshot, workers: usize, redis_servers: usize) -> Self {
        let upstreams = snapshot.upstreams.iter();
        let upstreams: Vec<_> = upstreams
            .filter_map(|upstream| match &upstream.kind {
                UpstreamKind::Http(http) => Some(http),
                _ => None,
            })
            .collect();
        let checked = upstreams.iter().filter(|http| http.health.is_some());
        let endpoints = upstreams.iter().flat_map(|http| &http.endpoints);
        let is_name = |endpoint: &&Endpoint| endpoint.host.parse::<IpAddr>().is_err();
        let count = |http: &&HttpUpstream| http.endpoints.len();
        Self {
            workers,
            listeners: snapshot.listeners.len(),
            redis_servers,
            checks: checked.map(count).sum::<usize>().min(CHECKS_SET_ASIDE),
            names: endpoints.filter(is_name).count().min(NAMES_SET_ASIDE),
        }
    }

    fn total(self) -> usize {
        PROCESS
            + admin::CONNECTIONS_MAX
            + PER_WORKER * self.workers
            + self.redis_servers * (self.workers + 1)
            + PER_LISTENER * self.listeners
            + self.checks
            + PER_NAME * self.names
    }
}

fn sockets_max(open_files: u64, needs: Needs) -> usize {
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    // At least one client and its origin: a gateway that serves nobody helps nobody.
    open_files.saturating_sub(needs.total()).max(2)
}

/// The soft limit; unlimited if it cannot be read.
fn open_files_max() -> u64 {
    Resource::NOFILE.get_soft().unwrap_or(u64::MAX)
}

/// A runtime watches sockets, is woken, and hears of signals. Two are to spare: workers that take the
/// last places at the same moment may take one too many, and look up the names of Redis servers.
const PER_WORKER: usize = 5;

/// The port, once more to be passed to another process, and a connection that waits until there is room for it.
const PER_LISTENER: usize = 3;

/// A socket to the server that is asked, and the files that say which one that is.
const PER_NAME: usize = 2;

/// Names that are looked up at once without taking descriptors from anybody else. If a look-up finds
/// none, the last good answer stays.
const NAMES_SET_ASIDE: usize = 16;

/// Standard streams, the runtimes of control and signals, the logs, the admin port, what watches Redis;
/// the processes before that still drain; and for a moment, the next one, the file being read, the logs being opened again.
const PROCESS: usize = 38;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_what_is_not_set_aside() {
        let needs = Needs {
            workers: 2,
            listeners: 3,
            redis_servers: 6,
            checks: 7,
            names: 8,
        };
        let set_aside = 38 + 64 + 2 * 5 + 6 * (2 + 1) + 3 * 3 + 7 + 2 * 8;
        assert_eq!(sockets_max(1_000 + set_aside, needs), 1_000);
        assert_eq!(sockets_max(set_aside, needs), 2);
        assert_eq!(sockets_max(0, needs), 2);
        assert!(sockets_max(u64::MAX, needs) > 1_000_000);
    }
}
