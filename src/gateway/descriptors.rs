//! How many descriptors the process has for sockets towards clients and origins.
//!
//! Some are set aside, because the admin port, the log, reloads, Redis, health checks and name look-ups
//! must work even when clients and origins have used up theirs.

use std::net::IpAddr;

use rlimit::Resource;

use crate::admin;
use crate::proxy::process::Process;
use crate::proxy::upstream::CHECKS_SET_ASIDE;
use crate::snapshot::{Endpoint, HttpUpstream, Snapshot, UpstreamKind};

/// Counts of everything that needs descriptors, other than clients and origins.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    workers: usize,
    listeners: usize,
    /// Redis servers; each worker and the control thread have one connection to each.
    redis_servers: usize,
    /// Endpoints with health checks, at most [`CHECKS_SET_ASIDE`].
    checks: usize,
    /// Endpoints whose host is a name to look up, at most [`NAMES_SET_ASIDE`].
    names: usize,
}

/// Bounds the sockets towards clients and origins to what the limit of open files leaves after all other
/// needs; returns that bound.
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
    // At least one client and its origin: with fewer, the gateway could serve nobody.
    open_files.saturating_sub(needs.total()).max(2)
}

/// Returns the soft limit of open files; unlimited if it cannot be read.
fn open_files_max() -> u64 {
    Resource::NOFILE.get_soft().unwrap_or(u64::MAX)
}

/// Descriptors of a worker: its runtime polls sockets, is woken, and receives signals (three). Two are to spare,
/// because workers may take the last socket at the same moment, and look up the names of Redis servers.
const PER_WORKER: usize = 5;

/// Descriptors of a listener: its socket, the copy to pass to another process, and a connection that waits for room.
const PER_LISTENER: usize = 3;

/// Descriptors of a name look-up: a socket to the DNS server, and the file that is read to find that server.
const PER_NAME: usize = 2;

/// Name look-ups that can run at once without using other descriptors. If one finds no descriptor, the last good
/// answer stays.
const NAMES_SET_ASIDE: usize = 16;

/// Descriptors of the process itself: standard streams, the runtimes of control and signals, logs, admin port, watchers
/// of Redis, earlier processes that still drain; and briefly the next process, the file being read, reopened logs.
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
