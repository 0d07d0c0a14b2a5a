//! How many client connections the process has descriptors for.
//!
//! Each connection may need a second descriptor, towards an upstream. Some descriptors are set
//! aside: the admin port, the log and a reload must work when clients have taken all of theirs.

use rlimit::Resource;

use crate::admin;
use crate::snapshot::Snapshot;

/// Returns how many client connections the limit of open files leaves room for.
pub(super) fn connections_max(workers: usize, snapshot: &Snapshot) -> usize {
    within(open_files_max(), workers, snapshot.listeners.len())
}

/// Logs a warning if that is fewer than the listeners may have.
pub(super) fn warn_if_few(connections_max: usize, snapshot: &Snapshot) {
    let listeners = snapshot.listeners.iter();
    let wanted: usize = listeners.map(|listener| listener.max_connections).sum();
    if connections_max < wanted {
        tracing::warn!(
            open_files = open_files_max(),
            connections = connections_max,
            max_connections = wanted,
            "the limit of open files leaves room for fewer connections than max_connections"
        );
    }
}

fn within(open_files: u64, workers: usize, listeners: usize) -> usize {
    let set_aside = PROCESS + PER_WORKER * workers + listeners + admin::CONNECTIONS_MAX;
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    // At least one: a gateway that serves nobody helps nobody.
    (open_files.saturating_sub(set_aside) / PER_CONNECTION).max(1)
}

/// The soft limit; unlimited if it cannot be read.
fn open_files_max() -> u64 {
    Resource::NOFILE.get_soft().unwrap_or(u64::MAX)
}

/// One for the client, and one for the upstream that answers it.
const PER_CONNECTION: usize = 2;

/// A runtime watches sockets, is woken, and hears of signals. One is to spare.
const PER_WORKER: usize = 4;

/// Standard streams, the runtimes of control and signals, the log, the admin port; and for a
/// moment, the file being read, the log being opened again, names being looked up.
const PROCESS: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_half_of_what_is_not_set_aside() {
        let set_aside = 36 + 2 * 4 + 3 + 64;
        assert_eq!(within(1_000 + set_aside, 2, 3), 500);
        assert_eq!(within(set_aside, 2, 3), 1);
        assert_eq!(within(0, 2, 3), 1);
        assert!(within(u64::MAX, 2, 3) > 1_000_000);
    }
}
