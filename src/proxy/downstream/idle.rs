//! Which connections have waited for a request for some time.
//!
//! A connection does not know how long it has been idle unless it is woken. It notes that it is, at most once in a
//! [period](Periods), and is woken when the next one begins. So one that is busy costs a look at a number.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// The time as idle connections of a worker count it, and whom to wake when a period begins.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    /// Periods of the sweep.
    ticks: Cell<u64>,
    /// At most one for each connection.
    woken_next: RefCell<Vec<Waker>>,
}

/// How many periods of the sweep make one: it takes a second.
const PERIOD_TICKS: u64 = 10;

impl Periods {
    /// Notes that a period of the sweep is over.
    pub(super) fn tick(&self) {
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get().is_multiple_of(PERIOD_TICKS) {
            self.woken_next.take().into_iter().for_each(Waker::wake);
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
    /// between. If not, the task is woken to ask again.
    pub(super) fn is_long(&mut self, periods: &Periods, requests: u64, cx: &Context<'_>) -> bool {
        let period = periods.current();
        if self.0.is_some_and(|seen| seen.period == period) {
            return false;
        }
        if self.0.take().is_some_and(|seen| seen.requests == requests) {
            return true;
        }
        self.0 = Some(SeenIdle { period, requests });
        periods.woken_next.borrow_mut().push(cx.waker().clone());
        false
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::*;

    #[test]
    fn connection_without_a_request_since_an_earlier_period_is_idle_for_long() {
        let (periods, mut time) = (Periods::default(), IdleTime::default());
        let mut is_long = |requests| {
            let cx = Context::from_waker(noop_waker_ref());
            time.is_long(&periods, requests, &cx)
        };
        let pass = || (0..PERIOD_TICKS).for_each(|_| periods.tick());
        assert!(!is_long(1) && !is_long(1));
        assert_eq!(periods.woken_next.borrow().len(), 1);
        pass();
        assert!(periods.woken_next.borrow().is_empty());
        assert!(!is_long(2), "it had a request");
        pass();
        assert!(is_long(2));
        assert!(!is_long(2), "it is not told twice");
    }
}
