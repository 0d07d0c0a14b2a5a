//! Warns if the memory limit of the control group (a container's, for example) leaves too little room for the store:
//! the system would kill the gateway before the store is full.

use std::fs;
use std::path::{Path, PathBuf};

use crate::snapshot::Snapshot;

/// Why a second process would not fit beside this one.
#[derive(Debug, thiserror::Error)]
#[error(
    "{processes} processes need {needed} bytes of memory with these counters, and the limit of the control group is \
     {limit}: raise it, or restart instead, which loses the counters"
)]
pub struct MemoryShortage {
    processes: usize,
    needed: u64,
    limit: u64,
}

/// Logs a warning if the limit leaves too little room for the store.
pub(super) fn warn_if_low(snapshot: &Snapshot) {
    let max_memory = snapshot.store.max_memory;
    let wanted = needed(max_memory);
    if let Some(memory_limit) = memory_limit().filter(|limit| *limit < wanted) {
        tracing::warn!(
            memory_limit,
            max_memory,
            wanted,
            "the memory limit of the control group is near max_memory: the system may kill the gateway before the store is full"
        );
    }
}

/// Checks that this many processes fit, each with `store_bytes` in its store: otherwise the system would kill them all.
pub(super) fn check_processes(processes: usize, store_bytes: u64) -> Result<(), MemoryShortage> {
    let needed = processes as u64 * needed(store_bytes);
    match memory_limit() {
        Some(limit) if limit < needed => Err(MemoryShortage {
            processes,
            needed,
            limit,
        }),
        _ => Ok(()),
    }
}

fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    lowest_limit(&groups, Path::new("/sys/fs/cgroup"))
}

/// Returns the memory that a gateway with `store_bytes` in its store needs, connections not included.
fn needed(store_bytes: u64) -> u64 {
    store_bytes / 10 * 13 + PROCESS_BYTES
}

/// Returns the lowest limit of the groups that `/proc/self/cgroup` names.
fn lowest_limit(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => (mounted.to_owned(), "memory.max"),
            "memory" => (mounted.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        lowest_above(&root, Path::new(group.trim_start_matches('/')), file)
    });
    limits.min()
}

/// Returns the lowest limit of a group and its ancestors. In a container, groups outside of it cannot be read.
fn lowest_above(root: &Path, group: &Path, file: &str) -> Option<u64> {
    let files: Vec<PathBuf> = group
        .ancestors()
        .map(|group| root.join(group).join(file))
        .collect();
    let limits = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.min()
}

/// Memory that a gateway needs in addition to its store and connections.
const PROCESS_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_limit_of_all_groups_counts() {
        let mounted = tempfile::tempdir().expect("a folder");
        let put = |path: &str, limit: &str| {
            let file = mounted.path().join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
            fs::write(file, limit).expect("writable");
        };
        put("outer/memory.max", "700\n");
        put("outer/inner/memory.max", "max\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/docker/memory.limit_in_bytes", "500\n");
        for (groups, limit) in [
            ("0::/outer/inner\n", Some(700)),
            ("0::/outer/gone\n", Some(700)),
            ("0::/\n", None),
            (
                "9:cpu,cpuacct:/outer\n8:memory:/docker\n0::/outer\n",
                Some(500),
            ),
            (
                "8:memory:/elsewhere/outside\n",
                Some(9_223_372_036_854_771_712),
            ),
            ("", None),
        ] {
            assert_eq!(lowest_limit(groups, mounted.path()), limit, "{groups}");
        }
    }
}
