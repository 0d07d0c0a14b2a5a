//! Work to be done at most once per interval, for example by one worker on behalf of all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Micros, Timestamp};

/// When the work is due next.
#[derive(Debug, Default)]
pub struct Turn {
    /// In microseconds, by the callers' clock.
    due_us: AtomicU64,
}

impl Turn {
    /// Makes one whose first turn was taken at `now`.
    pub fn taken(now: Timestamp, every: Micros) -> Self {
        Self {
            due_us: AtomicU64::new((now + every).0),
        }
    }

    /// Returns whether the caller should do the work now. If so, no other caller is told to for `every`.
    pub fn take(&self, now: Timestamp, every: Micros) -> bool {
        let due_us = self.due_us.load(Relaxed);
        let next_us = (now + every).0;
        // A clock that was set back must not postpone the work. Another caller may have read the clock later and taken
        // the turn first.
        let is_set_back = due_us > next_us + every.0;
        let is_due = now.0 >= due_us || is_set_back;
        is_due
            && (self.due_us)
                .compare_exchange(due_us, next_us, Relaxed, Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_700_000_000_000_000);
    const EVERY: Micros = Micros::from_secs(5);

    #[test]
    fn one_of_many_does_it_each_time() {
        let turn = Turn::default();
        assert!(turn.take(START, EVERY));
        assert!(!turn.take(START, EVERY));
        assert!(!turn.take(START - Micros(1), EVERY));
        assert!(!turn.take(START + EVERY - Micros(1), EVERY));
        assert!(turn.take(START + EVERY, EVERY));
        // After a standstill the work is due once, not once for each turn that was missed.
        let late = START + Micros::from_secs(1_000);
        assert!(turn.take(late, EVERY));
        assert!(!turn.take(late + EVERY - Micros(1), EVERY));
    }

    #[test]
    fn one_that_has_just_been_taken_is_due_later() {
        let turn = Turn::taken(START, EVERY);
        assert!(!turn.take(START + EVERY - Micros(1), EVERY));
        assert!(turn.take(START + EVERY, EVERY));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_put_it_off() {
        let turn = Turn::default();
        assert!(turn.take(START, EVERY));
        assert!(turn.take(START - Micros::from_secs(3_600), EVERY));
    }
}
