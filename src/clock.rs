//! Time as the limits mean it: integer microseconds since 1970, from one clock.
//!
//! [`Clock`] is anchored to wall time once and then runs on the monotonic clock, so a step of the
//! wall clock neither opens nor jams a limit; [`Clock::discipline`] lets it drift slowly back to
//! wall time. Whatever has a date of wall time (tokens, certificates, log lines, the Date field) uses
//! [`Clock::wall`]. Tests move a manual clock by hand. No other module asks the operating system for
//! the time.

#![allow(clippy::disallowed_methods, reason = "this is the clock")]

mod turn;

pub use self::turn::Turn;

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Tells the time. Cheap to clone; every worker has one.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Times>);

#[derive(Debug)]
struct Times {
    source: TimeSource,
    /// How far wall time was ahead of the clock when it was last compared.
    wall_ahead_us: AtomicI64,
}

#[derive(Debug)]
enum TimeSource {
    System {
        /// How far the clock is ahead of the monotonic clock: wall time when it was anchored, slewed since.
        ahead_us: AtomicI64,
    },
    Manual(AtomicU64),
}

/// A point in time: microseconds since 1970-01-01 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

/// A span of time in microseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Micros(pub u64);

/// Returns the time of the monotonic clock, for waits that a manual clock does not shorten.
pub fn monotonic() -> Instant {
    Instant::now()
}

impl Clock {
    /// Makes a clock anchored to the current wall time.
    pub fn system() -> Self {
        Self::of(TimeSource::System {
            ahead_us: AtomicI64::new(wall_us().cast_signed() - monotonic_us().cast_signed()),
        })
    }

    /// Makes a clock that agrees with that of another process on this machine, given what
    /// [`ahead_us`](Self::ahead_us) returned there.
    pub fn system_ahead(ahead_us: i64) -> Self {
        Self::of(TimeSource::System {
            ahead_us: AtomicI64::new(ahead_us),
        })
    }

    /// Returns how far the clock is ahead of the monotonic clock; 0 for a manual clock.
    pub fn ahead_us(&self) -> i64 {
        match &self.0.source {
            TimeSource::System { ahead_us } => ahead_us.load(Relaxed),
            TimeSource::Manual(_) => 0,
        }
    }

    /// Makes a clock that only moves when told to.
    pub fn manual(start: Timestamp) -> Self {
        Self::of(TimeSource::Manual(AtomicU64::new(start.0)))
    }

    fn of(source: TimeSource) -> Self {
        Self(Arc::new(Times {
            source,
            wall_ahead_us: AtomicI64::new(0),
        }))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match &self.0.source {
            TimeSource::System { ahead_us } => {
                Timestamp(monotonic_us().saturating_add_signed(ahead_us.load(Relaxed)))
            }
            TimeSource::Manual(us) => Timestamp(us.load(Relaxed)),
        }
    }

    /// Returns the time of the monotonic clock, which is never corrected. Only differences between two such times
    /// mean anything.
    pub fn steady(&self) -> Timestamp {
        match &self.0.source {
            TimeSource::System { .. } => Timestamp(monotonic_us()),
            TimeSource::Manual(us) => Timestamp(us.load(Relaxed)),
        }
    }

    /// Returns wall time, which may step, to compare with dates that others have set. For a manual clock it is the
    /// clock's own time plus what [`set_wall_ahead`](Self::set_wall_ahead) has set.
    pub fn wall(&self) -> Timestamp {
        match &self.0.source {
            TimeSource::System { .. } => Timestamp(wall_us()),
            TimeSource::Manual(_) => self.wall_at(self.now()),
        }
    }

    /// Returns the wall time at `time` of this clock, according to the latest comparison (up to a second ago).
    /// Cheaper than [`wall`](Self::wall).
    pub fn wall_at(&self, time: Timestamp) -> Timestamp {
        let ahead_us = self.0.wall_ahead_us.load(Relaxed);
        Timestamp(time.0.saturating_add_signed(ahead_us))
    }

    /// Returns the time of a manual clock, or `None` for the system clock, in place of which a store may use its
    /// own.
    pub fn manual_now(&self) -> Option<Timestamp> {
        match &self.0.source {
            TimeSource::System { .. } => None,
            TimeSource::Manual(_) => Some(self.now()),
        }
    }

    /// Moves a manual clock forward; the system clock cannot be moved.
    pub fn advance(&self, by: Micros) {
        if let TimeSource::Manual(us) = &self.0.source {
            us.fetch_add(by.0, Relaxed);
        }
    }

    /// Sets a manual clock, back as well as forward; the system clock cannot be set.
    pub fn set(&self, to: Timestamp) {
        if let TimeSource::Manual(us) = &self.0.source {
            us.store(to.0, Relaxed);
        }
    }

    /// Sets how far wall time is ahead of a manual clock; negative if it is behind.
    pub fn set_wall_ahead(&self, by_us: i64) {
        if let TimeSource::Manual(_) = &self.0.source {
            self.0.wall_ahead_us.store(by_us, Relaxed);
        }
    }

    /// Slews the clock towards wall time by at most [`SLEW_US_MAX`]; called once a second.
    ///
    /// After a step of the wall clock, the difference is made up at a rate of 0.5 %, so that no window is ever
    /// noticeably longer or shorter than configured.
    pub fn discipline(&self) {
        if let TimeSource::System { ahead_us } = &self.0.source {
            let wall_ahead_us = wall_us().cast_signed() - self.now().0.cast_signed();
            let slewed_us = wall_ahead_us.clamp(-SLEW_US_MAX, SLEW_US_MAX);
            ahead_us.fetch_add(slewed_us, Relaxed);
            (self.0.wall_ahead_us).store(wall_ahead_us - slewed_us, Relaxed);
        }
    }
}

impl Timestamp {
    /// Returns how much later than `earlier` this is; zero if it is not later.
    pub fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Micros> for Timestamp {
    type Output = Self;
    fn add(self, by: Micros) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub<Micros> for Timestamp {
    type Output = Self;
    fn sub(self, by: Micros) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Micros {
    /// Makes a span of `seconds`.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Returns whole seconds, rounded up.
    pub const fn secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<Duration> for Micros {
    fn from(duration: Duration) -> Self {
        Self(micros(duration))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

/// The most that [`Clock::discipline`] moves the clock in one call.
const SLEW_US_MAX: i64 = 5_000;

/// Returns the time of the monotonic clock, at less than half of what reading and subtracting an `Instant` costs.
fn monotonic_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is negative.
    (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).cast_unsigned()
}

fn wall_us() -> u64 {
    micros(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

fn micros(duration: Duration) -> u64 {
    let seconds_us = duration.as_secs().saturating_mul(1_000_000);
    seconds_us.saturating_add(duration.subsec_micros().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = Clock::manual(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.advance(Micros(7));
        assert_eq!(clock.now(), Timestamp(12));
        clock.set(Timestamp(3));
        assert_eq!(clock.now(), Timestamp(3));
    }

    #[test]
    fn wall_time_of_a_manual_clock_steps_apart_from_it() {
        let clock = Clock::manual(Timestamp(5));
        for (ahead_us, wall) in [(0, 5), (7, 12), (-3, 2), (-9, 0)] {
            clock.set_wall_ahead(ahead_us);
            assert_eq!((clock.now(), clock.wall()), (Timestamp(5), Timestamp(wall)));
        }
    }

    #[test]
    fn system_clock_never_runs_backwards_between_slews() {
        let clock = Clock::system();
        let before = clock.now();
        assert!(clock.now() >= before);
    }
}
