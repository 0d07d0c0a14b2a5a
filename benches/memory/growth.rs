//! Ten million keys that come one after another: resident memory per key, and the longest decision.
//!
//! The CPU clock of the thread is read before and after each decision, so that every pause of a
//! growing table is seen, and time in which the thread does not run does not count.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::support::{partition_id, resident_bytes, resident_of, settle};
use super::{Bench, GCRA, LimitOne, warm_up};

/// Measures and prints what growth to [`KEYS`] keys costs.
pub fn grow() {
    let warm_up = warm_up();
    let before = resident_bytes();
    let bench = Bench::new(GCRA, 1);
    let decide = bench.limiter();
    let mut durations: Vec<Duration> = Vec::with_capacity(LONGEST_KEPT);
    for key in 0..KEYS {
        let partition_id = partition_id(key);
        let started = cpu_time();
        decide(partition_id);
        let took = cpu_time().saturating_sub(started);
        if took >= LONG && durations.len() < LONGEST_KEPT {
            durations.push(took);
        }
    }
    let highest = resident_of(std::process::id()).1.saturating_sub(before);
    settle();
    let resident = resident_bytes().saturating_sub(before);
    durations.sort_unstable_by(|one, other| other.cmp(one));
    println!(
        "\n{KEYS} keys, gcra: {} bytes counted and {} resident per key (bar 64; {} at the highest)",
        bench.usage().bytes / KEYS,
        resident / KEYS,
        highest / KEYS
    );
    let over_bar = durations.partition_point(|took| *took > PAUSE_MAX);
    println!(
        "longest decisions while it grew, CPU time: {:.2?} (bar {PAUSE_MAX:?}: {over_bar} above; {} above {LONG:?})",
        &durations[..durations.len().min(5)],
        durations.len()
    );
    drop(warm_up);
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("CPU time is positive")
}

const KEYS: u64 = 10_000_000;
/// Bar for the longest decision.
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// Decisions that take at least this long are noted.
const LONG: Duration = Duration::from_micros(100);
/// Most decisions that are noted.
const LONGEST_KEPT: usize = 1 << 20;
