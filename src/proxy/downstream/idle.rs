//! Which connections have waited for a request for some time.
//!
//! A connection does not know how long it has been idle unless it is woken. It notes that it is, at most once in a
//! [period](Periods), and is woken when the next one begins: up to a second later. So one that is busy costs a look at a
//! number.

use std::cell::{Cell, RefCell};

/// The time as idle connections of a worker count it, and which to wake when a period begins.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    /// Periods of the sweep.
    ticks: Cell<u64>,
    /// Numbers of connections, each once.
    woken_next: RefCell<Vec<u64>>,
}

/// How many periods of the sweep make one: it takes a second.
const PERIOD_TICKS: u64 = 10;

impl Periods {
    /// Notes that a period of the sweep is over; returns the connections to wake.
    pub(super) fn tick(&self) -> Vec<u64> {
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get().is_multiple_of(PERIOD_TICKS) {
            self.woken_next.take()
        } else {
            Vec::new()
        }
    }

    fn current(&self) -> u64 {
        self.ticks.get() / PERIOD_TICKS
    }
}

/// When a connection was seen idle.
#[derive(Debug, Default)]
pub(super) struct IdleTime(Option<SeenIdle>);

#[derive(Clone, Copy, Debug)]
struct SeenIdle {
    period: u64,
    /// How many requests it had had.
    requests: u64,
}

impl IdleTime {
    /// Whether a connection that is idle after so many requests was idle in an earlier period, without a request in
    /// between. If not, it is woken to ask again.
    pub(super) fn is_long(&mut self, periods: &Periods, requests: u64, connection: u64) -> bool {
        let period = periods.current();
        if self.0.is_some_and(|seen| seen.period == period) {
            return false;
        }
        if self.0.take().is_some_and(|seen| seen.requests == requests) {
            return true;
        }
        self.0 = Some(SeenIdle { period, requests });
        periods.woken_next.borrow_mut().push(connection);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_without_a_request_since_an_earlier_period_is_idle_for_long() {
        let (periods, mut time) = (Periods::default(), IdleTime::default());
        let mut is_long = |requests| time.is_long(&periods, requests, 7);
        let pass = || {
            (0..PERIOD_TICKS)
                .flat_map(|_| periods.tick())
                .collect::<Vec<_>>()
        };
        assert!(!is_long(1) && !is_long(1));
        assert_eq!(pass(), [7]);
        assert!(!is_long(2), "it had a request");
        assert_eq!(pass(), [7]);
        assert!(is_long(2));
        assert!(!is_long(2), "it is not told twice");
    }
}
