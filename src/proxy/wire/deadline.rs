//! Deadlines that are swept a few times a second, instead of a timer for each.
//!
//! A worker keeps one [`Sweep`] on its thread. Every connection, to a client or an origin,
//! registers the deadlines it needs once, and then arms and disarms them with a plain store, so a
//! request costs no timer. A deadline is never early, and at most one [`PERIOD`] late while the
//! worker keeps up. What must be punctual (a delayed request) uses the runtime's timers instead.
//!
//! A stall, during which the worker does not run (the process is stopped, the machine is paused), does
//! not count: what the other side sent meanwhile has arrived, but has not been read yet.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Micros, Timestamp};

/// The deadlines of one worker.
#[derive(Debug)]
pub struct Sweep {
    time: Rc<RunningTime>,
    deadlines: RefCell<Vec<Rc<Deadline>>>,
}

/// A point in time at which the waiting task is woken; disarmed until it is armed.
#[derive(Debug)]
pub struct Deadline {
    time: Rc<RunningTime>,
    /// When the deadline is over, by the clock minus all stalls so far; none while it is disarmed.
    due: Cell<Option<Timestamp>>,
    waker: RefCell<Option<Waker>>,
}

/// The clock, minus the stalls of a worker.
#[derive(Debug)]
struct RunningTime {
    clock: Clock,
    /// When the latest sweep was.
    swept: Cell<Timestamp>,
    /// How long all stalls lasted in total.
    stalled: Cell<Micros>,
    /// [`STALL_MIN`]; on a manual clock there are no stalls.
    stall_min: Micros,
}

/// A wait took longer than it was allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed")]
pub struct Elapsed;

/// Due time of a deadline that was [made over](Deadline::expire).
const EXPIRED: Timestamp = Timestamp(0);

/// How often [`Sweep::sweep`] is called.
pub const PERIOD: Duration = Duration::from_millis(100);

/// A longer time between two sweeps is a stall.
const STALL_MIN: Micros = Micros(1_000_000);

const NEVER: Micros = Micros(u64::MAX);

impl Sweep {
    /// Makes a sweep whose deadlines are measured by `clock`.
    pub fn new(clock: Clock) -> Self {
        // Tests advance a manual clock by any time, which is no stall.
        let is_manual = clock.manual_now().is_some();
        Self::with_stalls(clock, if is_manual { NEVER } else { STALL_MIN })
    }

    fn with_stalls(clock: Clock, stall_min: Micros) -> Self {
        let time = RunningTime {
            swept: Cell::new(clock.now()),
            stalled: Cell::default(),
            clock,
            stall_min,
        };
        Self {
            time: Rc::new(time),
            deadlines: RefCell::default(),
        }
    }

    /// Registers a deadline, disarmed; it is forgotten when its last holder drops it.
    pub fn deadline(&self) -> Rc<Deadline> {
        let deadline = Rc::new(Deadline {
            time: Rc::clone(&self.time),
            due: Cell::new(None),
            waker: RefCell::default(),
        });
        self.deadlines.borrow_mut().push(Rc::clone(&deadline));
        deadline
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.time.clock.now()
    }

    /// Returns the time of the latest sweep.
    pub fn swept(&self) -> Timestamp {
        self.time.swept.get()
    }

    /// Returns the time of the latest sweep minus all stalls, for spans that are compared with timeouts.
    pub fn swept_running(&self) -> Timestamp {
        self.time.swept_running()
    }

    /// Returns wall time as of the latest sweep.
    pub fn swept_wall(&self) -> Timestamp {
        self.time.clock.wall_at(self.swept())
    }

    /// Wakes the tasks whose deadlines are over by now.
    pub fn sweep(&self) {
        self.time.update();
        self.deadlines.borrow_mut().retain(|deadline| {
            if deadline.is_over() {
                deadline.wake();
            }
            Rc::strong_count(deadline) > 1
        });
    }
}

impl RunningTime {
    fn update(&self) {
        let now = self.clock.now();
        let since_swept = now.since(self.swept.get());
        if since_swept > self.stall_min {
            let stalled = self.stalled.get().0 + since_swept.0;
            self.stalled.set(Micros(stalled));
        }
        self.swept.set(now);
    }

    fn swept_running(&self) -> Timestamp {
        self.swept.get() - self.stalled.get()
    }

    /// Returns the time minus all stalls. During a stall that no sweep has noticed yet, time stops.
    fn without_stalls(&self) -> Timestamp {
        let latest = self.swept.get() + self.stall_min;
        self.clock.now().min(latest) - self.stalled.get()
    }
}

impl Deadline {
    /// Sets the deadline to `timeout` from now.
    pub fn arm(&self, timeout: Duration) {
        let due = self.time.without_stalls() + Micros::from(timeout);
        self.due.set(Some(due));
    }

    /// Disarms the deadline: it is not over until it is armed again.
    pub fn disarm(&self) {
        self.due.set(None);
    }

    /// Makes the deadline over at once, and wakes the task that waits for it.
    pub fn expire(&self) {
        self.due.set(Some(EXPIRED));
        self.wake();
    }

    /// Whether the deadline was [made over](Self::expire), and has not been armed or disarmed since.
    pub fn is_expired(&self) -> bool {
        self.due.get() == Some(EXPIRED)
    }

    /// Returns when the deadline will be over; none while it is disarmed.
    pub fn due(&self) -> Option<Timestamp> {
        let due = self.due.get()?;
        Some(due + self.time.stalled.get())
    }

    /// Whether the deadline is armed, over or not.
    pub fn is_armed(&self) -> bool {
        self.due.get().is_some()
    }

    /// Whether the deadline is armed and over, as of the latest sweep.
    pub fn is_over(&self) -> bool {
        let due = self.due.get();
        due.is_some_and(|due| due <= self.time.swept_running())
    }

    /// Registers the task of `cx`, to be woken when the deadline is over; the latest registration
    /// counts.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(registered) => registered.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&self) {
        // Taken first, because the woken task registers again.
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Runs `future` for at most `timeout`; the deadline is disarmed afterwards.
    pub async fn within<F: Future>(
        &self,
        timeout: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        self.arm(timeout);
        let output = poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if self.is_over() {
                return Poll::Ready(Err(Elapsed));
            }
            self.register(cx);
            Poll::Pending
        })
        .await;
        self.disarm();
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;

    const START: Timestamp = Timestamp(1_000_000);

    #[test]
    fn deadline_is_over_at_the_first_sweep_that_is_not_early() {
        let clock = Clock::manual(START);
        let sweep = Sweep::new(clock.clone());
        let deadline = sweep.deadline();
        deadline.arm(Duration::from_secs(1));
        clock.advance(Micros(999_999));
        sweep.sweep();
        assert!(!deadline.is_over());
        clock.advance(Micros(1));
        sweep.sweep();
        assert!(deadline.is_over());
    }

    #[test]
    fn deadline_armed_after_a_stall_has_its_whole_time() {
        let clock = Clock::manual(START);
        let sweep = Sweep::new(clock.clone());
        let deadline = sweep.deadline();
        clock.advance(Micros::from_secs(60));
        deadline.arm(Duration::from_secs(1));
        sweep.sweep();
        assert!(!deadline.is_over());
    }

    #[test]
    fn stalls_of_the_worker_do_not_count() {
        let clock = Clock::manual(START);
        let sweep = Sweep::with_stalls(clock.clone(), STALL_MIN);
        let [before, after] = [sweep.deadline(), sweep.deadline()];
        before.arm(Duration::from_secs(2));
        clock.advance(Micros::from_secs(60));
        after.arm(Duration::from_secs(2));
        sweep.sweep();
        assert_eq!(before.due(), Some(START + Micros::from_secs(62)));
        let over_after_ms = |deadline: &Deadline| {
            let mut waited_ms = 0;
            while !deadline.is_over() {
                clock.advance(PERIOD.into());
                sweep.sweep();
                waited_ms += 100;
            }
            waited_ms
        };
        assert_eq!(over_after_ms(&before), 2000);
        // Armed before a sweep noticed the stall: time had run on for a second, so it is over a second later.
        assert_eq!(over_after_ms(&after), 1000);
    }

    #[test]
    fn expired_deadline_is_over_before_the_next_sweep() {
        let sweep = Sweep::new(Clock::manual(START));
        let deadline = sweep.deadline();
        assert_eq!(deadline.due(), None);
        deadline.arm(Duration::from_secs(1));
        assert_eq!(deadline.due(), Some(START + Micros::from_secs(1)));
        assert!(!deadline.is_expired());
        deadline.expire();
        assert!(deadline.is_over() && deadline.is_expired());
        deadline.arm(Duration::from_secs(1));
        assert!(!deadline.is_expired());
    }

    #[test]
    fn dropped_deadline_is_forgotten() {
        let sweep = Sweep::new(Clock::manual(START));
        drop(sweep.deadline());
        let kept = sweep.deadline();
        sweep.sweep();
        assert_eq!(sweep.deadlines.borrow().len(), 1);
        drop(kept);
    }

    #[test]
    fn wait_that_takes_too_long_elapses() {
        let clock = Clock::manual(START);
        let sweep = Sweep::new(clock.clone());
        let deadline = sweep.deadline();
        let mut wait = pin!(deadline.within(Duration::from_secs(1), std::future::pending::<()>()));
        let mut cx = Context::from_waker(noop_waker_ref());
        assert_eq!(wait.as_mut().poll(&mut cx), Poll::Pending);
        clock.advance(Micros::from_secs(1));
        sweep.sweep();
        assert_eq!(wait.as_mut().poll(&mut cx), Poll::Ready(Err(Elapsed)));
    }
}
