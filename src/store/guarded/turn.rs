//! What one worker of a process does for all, every few seconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::{Micros, Timestamp};

/// When it is to be done again.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// In microseconds since 1970.
    due_us: AtomicU64,
}

impl Turn {
    /// Says whether the caller should do it now. No other caller is told so for `every`.
    pub(super) fn take(&self, now: Timestamp, every: Micros) -> bool {
        let due_us = self.due_us.load(Relaxed);
        let next_us = (now + every).0;
        // A clock that was set back must not put it off.
        let is_due = now.0 >= due_us || due_us > next_us;
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
