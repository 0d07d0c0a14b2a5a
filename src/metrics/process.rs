//! What the system says about the process, under the names that Prometheus' own clients use.
//!
//! It is read from `/proc` at every scrape; on systems without `/proc`, there are no such series.

use std::fmt::Error;
use std::fs;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};

use super::text::{counters, gauges};

/// Reads what the process uses, at every scrape.
#[derive(Debug, Default)]
pub(super) struct ProcessCollector {
    /// When the process began. It is computed once, because it must not change with the clock of the machine.
    started_seconds: OnceLock<f64>,
}

/// What `/proc/self/stat` says (`proc_pid_stat(5)`), in seconds and bytes.
struct ProcessUsage {
    cpu_seconds: f64,
    threads: u64,
    /// Seconds after the machine's start at which the process began.
    started_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let encoder = &mut encoder;
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some(usage) = ProcessUsage::read(&stat) else {
            return Ok(());
        };
        let help = "CPU time that the process has used, in seconds.";
        let mut metric = counters(encoder, "process_cpu_seconds", help)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&usage.cpu_seconds, None)?;
        if let Some(booted_seconds) = booted_seconds() {
            let started = || booted_seconds + usage.started_seconds;
            let started_seconds = *self.started_seconds.get_or_init(started);
            let help = "When the process began, in seconds since 1970.";
            let mut metric = gauges(encoder, "process_start_time_seconds", help)?;
            metric.encode_gauge(&started_seconds)?;
        }
        let limit = rlimit::Resource::NOFILE.get_soft().ok();
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM.",
                Some(usage.resident_bytes),
            ),
            (
                "process_virtual_memory_bytes",
                "Address space of the process.",
                Some(usage.virtual_bytes),
            ),
            (
                "process_threads",
                "Threads of the process.",
                Some(usage.threads),
            ),
            (
                "process_open_fds",
                "File descriptors that are open.",
                open_fds(),
            ),
            (
                "process_max_fds",
                "File descriptors that may be open.",
                limit,
            ),
        ] {
            if let Some(value) = value {
                gauges(encoder, name, help)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

impl ProcessUsage {
    fn read(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may contain any character.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields are counted from 1 in the manual; the rest begins with the third.
        let field = |number: usize| fields.get(number - 3)?.trim().parse::<u64>().ok();
        let ticks = rustix::param::clock_ticks_per_second();
        let seconds = |ticks_of: u64| as_f64(ticks_of) / as_f64(ticks);
        Some(Self {
            cpu_seconds: seconds(field(14)? + field(15)?),
            threads: field(20)?,
            started_seconds: seconds(field(22)?),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * rustix::param::page_size() as u64,
        })
    }
}

/// Returns when the machine started, in seconds since 1970.
fn booted_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let booted = stat.lines().find_map(|line| line.strip_prefix("btime "));
    booted?.trim().parse().ok()
}

fn open_fds() -> Option<u64> {
    // Since Linux 6.2, the size of this directory is the number of descriptors.
    let size = fs::metadata("/proc/self/fd").ok()?.len();
    if size > 0 {
        return Some(size);
    }
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // The descriptor that lists the directory does not count.
    Some(listed.saturating_sub(1) as u64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ticks since the machine began are few"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_behind_any_name_of_the_program() {
        let rest = "S 1 9 9 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 7 0 1000 8192000 3 1844";
        for name in ["tollgate", "a) S 1 (b", "a b"] {
            let stat = format!("9 ({name}) {rest}\n");
            let usage = ProcessUsage::read(&stat).expect("a line of the kernel's");
            let ticks = as_f64(rustix::param::clock_ticks_per_second());
            assert!((usage.cpu_seconds - 300.0 / ticks).abs() < 1e-9);
            assert!((usage.started_seconds - 1000.0 / ticks).abs() < 1e-9);
            let page = rustix::param::page_size() as u64;
            assert_eq!(
                (usage.threads, usage.virtual_bytes, usage.resident_bytes),
                (7, 8_192_000, 3 * page)
            );
        }
        for broken in ["", "9 (tollgate", "9 (tollgate) S 1", "9 (tollgate) S x"] {
            assert!(ProcessUsage::read(broken).is_none(), "{broken}");
        }
    }
}
