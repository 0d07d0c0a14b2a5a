//! Time as the limits mean it: integer microseconds since 1970, from one clock.
//!
//! [`Clock`] is anchored to wall time once and then runs on the monotonic clock, so a step of the
//! wall clock neither opens nor jams a limit; [`Clock::discipline`] lets it drift slowly back to
//! wall time. Tests move a manual clock by hand. No other module asks the operating system for
//! the time.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Says what time it is; cheap to clone, shared by every worker.
#[derive(Clone, Debug)]
pub struct Clock(Arc<TimeSource>);

#[derive(Debug)]
enum TimeSource {
    System {
        anchored_at: Instant,
        anchor_us: u64,
        /// How far the clock has been slewed since it was anchored.
        offset_us: AtomicI64,
    },
    Manual(AtomicU64),
}

/// A point in time: microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A span of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// Returns the time of the monotonic clock, for waits that a manual clock does not shorten.
pub fn monotonic() -> Instant {
    Instant::now()
}

impl Clock {
    /// Anchors a clock to wall time as it is now.
    pub fn system() -> Self {
        Self(Arc::new(TimeSource::System {
            anchored_at: Instant::now(),
            anchor_us: wall_us(),
            offset_us: AtomicI64::new(0),
        }))
    }

    /// Makes a clock that only moves when told to.
    pub fn manual(start: Timestamp) -> Self {
        Self(Arc::new(TimeSource::Manual(AtomicU64::new(start.0))))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            TimeSource::System {
                anchored_at,
                anchor_us,
                offset_us,
            } => {
                let elapsed_us = micros(anchored_at.elapsed());
                Timestamp((anchor_us + elapsed_us).saturating_add_signed(offset_us.load(Relaxed)))
            }
            TimeSource::Manual(us) => Timestamp(us.load(Relaxed)),
        }
    }

    /// Returns the time of a manual clock; none for the system clock, instead of which a store may
    /// use its own.
    pub fn manual_now(&self) -> Option<Timestamp> {
        match &*self.0 {
            TimeSource::System { .. } => None,
            TimeSource::Manual(_) => Some(self.now()),
        }
    }

    /// Moves a manual clock forward; the system clock cannot be moved.
    pub fn advance(&self, by: Micros) {
        if let TimeSource::Manual(us) = &*self.0 {
            us.fetch_add(by.0, Relaxed);
        }
    }

    /// Sets a manual clock, back as well as forward; the system clock cannot be set.
    pub fn set(&self, to: Timestamp) {
        if let TimeSource::Manual(us) = &*self.0 {
            us.store(to.0, Relaxed);
        }
    }

    /// Slews the clock towards wall time by at most [`SLEW_US_MAX`]; called once a second.
    ///
    /// The difference after a step of the wall clock is worn off at 0.5 %, so no window is ever
    /// visibly longer or shorter than configured.
    pub fn discipline(&self) {
        if let TimeSource::System { offset_us, .. } = &*self.0 {
            let ahead_us = wall_us().cast_signed() - self.now().0.cast_signed();
            offset_us.fetch_add(ahead_us.clamp(-SLEW_US_MAX, SLEW_US_MAX), Relaxed);
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
    /// The span of `seconds`.
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

/// How far [`Clock::discipline`] moves the clock in one call at most.
const SLEW_US_MAX: i64 = 5_000;

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
    fn system_clock_never_runs_backwards_between_slews() {
        let clock = Clock::system();
        let before = clock.now();
        assert!(clock.now() >= before);
    }
}
