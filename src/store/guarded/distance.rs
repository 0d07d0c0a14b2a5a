//! The shortest time that a server takes to answer. A plan over several partitions of a Cluster needs two round trips
//! within its deadline, one to peek and one to charge.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::{Micros, Timestamp};

/// The fastest answer of each [`PERIOD`].
#[derive(Debug)]
pub(super) struct Distance {
    /// Fastest answer of the current period, in microseconds; [`u64::MAX`] if there was none.
    fastest_us: AtomicU64,
    /// Fastest answer of the latest complete period that had one, in microseconds; 0 if there was none.
    latest_us: AtomicU64,
    /// When the current period began, in microseconds since 1970.
    began_us: AtomicU64,
    /// Whether two round trips took longer than the timeout, in the latest period with an answer.
    is_far: AtomicBool,
}

/// Length of a period: longer than pauses of a server or of this process.
const PERIOD: Micros = Micros::from_secs(10);

impl Distance {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            fastest_us: AtomicU64::new(u64::MAX),
            latest_us: AtomicU64::new(0),
            began_us: AtomicU64::new(now.0),
            is_far: AtomicBool::new(false),
        }
    }

    /// Notes how long an answer took, late or not.
    pub(super) fn note(&self, took: Micros) {
        if took.0 < self.fastest_us.load(Relaxed) {
            self.fastest_us.fetch_min(took.0, Relaxed);
        }
    }

    /// Returns how long the fastest known answer took; zero if none is known yet.
    pub(super) fn round_trip(&self) -> Duration {
        let (latest_us, fastest_us) = (self.latest_us.load(Relaxed), self.fastest_us.load(Relaxed));
        let known_us = if fastest_us == u64::MAX {
            latest_us
        } else {
            fastest_us
        };
        Duration::from_micros(known_us)
    }

    /// Says whether the timeout of a decision is too short for two round trips.
    pub(super) fn is_far(&self) -> bool {
        self.is_far.load(Relaxed)
    }

    /// Judges the period by `timeout` if it is over, begins the next one, and logs a change.
    pub(super) fn sweep(&self, now: Timestamp, timeout: Duration, server: &str) {
        if now.since(Timestamp(self.began_us.load(Relaxed))) < PERIOD {
            return;
        }
        self.began_us.store(now.0, Relaxed);
        let fastest_us = self.fastest_us.swap(u64::MAX, Relaxed);
        if fastest_us == u64::MAX {
            return;
        }
        self.latest_us.store(fastest_us, Relaxed);
        let round_trip = Duration::from_micros(fastest_us);
        let is_far = timeout < round_trip.saturating_mul(2);
        if self.is_far.swap(is_far, Relaxed) == is_far {
            return;
        }
        if is_far {
            tracing::warn!(
                server,
                ?timeout,
                ?round_trip,
                "[store] timeout is below two round trips: plans over several partitions of a Cluster follow on_store_failure; raise it, or move Redis closer"
            );
        } else {
            tracing::info!(
                server,
                ?timeout,
                ?round_trip,
                "[store] timeout is two round trips or more again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_far_if_the_fastest_answer_of_a_whole_period_took_over_half_the_timeout() {
        let timeout = Duration::from_millis(50);
        let mut now = Timestamp(1_700_000_000_000_000);
        let distance = Distance::new(now);
        let cases: [(&[u64], bool); 7] = [
            (&[25_000], false),
            // A pause does not make a server far away.
            (&[900_000, 3_000, 900_000], false),
            (&[31_000, 60_000], true),
            // A period without an answer changes nothing.
            (&[], true),
            (&[25_001], true),
            (&[24_999, 40_000], false),
            (&[], false),
        ];
        for (answers, expected) in cases {
            for took in answers {
                distance.note(Micros(*took));
            }
            let before = distance.is_far();
            distance.sweep(now + Micros(PERIOD.0 - 1), timeout, "a.test:6379");
            assert_eq!(distance.is_far(), before, "not before the period is over");
            now = now + PERIOD;
            distance.sweep(now, timeout, "a.test:6379");
            assert_eq!(distance.is_far(), expected, "{answers:?}");
        }
    }
}
