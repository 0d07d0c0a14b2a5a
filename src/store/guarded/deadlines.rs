//! Deadlines of a worker's calls to Redis. One timer serves all of them, because a timer for each would take longer
//! than most of what a call does here.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use crate::clock::monotonic;

/// The deadlines of the calls that a worker waits for; lives on the worker's thread.
#[derive(Debug)]
pub(super) struct Deadlines {
    shared: Rc<DeadlineQueue>,
    timer: AbortHandle,
}

#[derive(Debug, Default)]
struct DeadlineQueue {
    /// One entry for each call that is waited for.
    waiting: RefCell<Slab<Waiting>>,
    /// When the timer goes off; none if no call is waited for.
    armed: Cell<Option<Instant>>,
    /// Notified when the timer is to go off earlier.
    rearmed: Notify,
}

/// A call that has not been answered.
#[derive(Debug)]
struct Waiting {
    until: Instant,
    /// The task to wake at that time; none once the time has passed.
    waker: Option<Waker>,
}

/// A future that is ready once a time has passed.
#[derive(Debug)]
pub(super) struct DecisionDeadline<'d> {
    shared: &'d DeadlineQueue,
    at: Instant,
    /// Its index in `waiting`, once it has been polled.
    place: Option<usize>,
}

impl Deadlines {
    /// Starts the task that runs the timer, on the runtime of this thread.
    pub(super) fn start() -> Self {
        let shared = Rc::<DeadlineQueue>::default();
        let timer = tokio::task::spawn_local(Rc::clone(&shared).keep_time()).abort_handle();
        Self { shared, timer }
    }

    /// Returns a deadline that is `timeout` from now.
    pub(super) fn after(&self, timeout: Duration) -> DecisionDeadline<'_> {
        DecisionDeadline {
            shared: &self.shared,
            at: monotonic() + timeout,
            place: None,
        }
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl DeadlineQueue {
    async fn keep_time(self: Rc<Self>) {
        loop {
            let rearmed = self.rearmed.notified();
            let Some(at) = self.armed.get() else {
                rearmed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = rearmed => {}
                () = sleep_until(at.into()) => self.wake_due(monotonic()),
            }
        }
    }

    /// Wakes the calls whose deadline has passed, and arms the timer for the earliest of the others.
    ///
    /// This looks at all calls, but rarely: most are answered before their deadline, so the timer goes off only about
    /// once per timeout.
    fn wake_due(&self, now: Instant) {
        let mut earliest: Option<Instant> = None;
        for (_, waiting) in &mut *self.waiting.borrow_mut() {
            if waiting.until > now {
                earliest = Some(earliest.map_or(waiting.until, |at| at.min(waiting.until)));
            } else if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
        self.armed.set(earliest);
    }
}

impl Future for DecisionDeadline<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (shared, at) = (self.shared, self.at);
        let mut waiting = shared.waiting.borrow_mut();
        if let Some(place) = self.place {
            return match &mut waiting[place].waker {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            };
        }
        self.place = Some(waiting.insert(Waiting {
            until: at,
            waker: Some(context.waker().clone()),
        }));
        if shared.armed.get().is_none_or(|armed| at < armed) {
            shared.armed.set(Some(at));
            shared.rearmed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for DecisionDeadline<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.shared.waiting.borrow_mut().remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_is_armed_for_the_earliest_deadline_and_wakes_those_that_have_passed() {
        let (shared, began) = (DeadlineQueue::default(), monotonic());
        let at = |ms| began + Duration::from_millis(ms);
        let armed = || shared.armed.get().map(|at| (at - began).as_millis());
        let has_passed = |deadline: &mut DecisionDeadline<'_>| {
            let mut context = Context::from_waker(Waker::noop());
            Pin::new(deadline).poll(&mut context).is_ready()
        };
        let mut waiting = Vec::new();
        for (ms, armed_for) in [(50, 50), (20, 20), (90, 20), (10, 10), (20, 10)] {
            let mut deadline = DecisionDeadline {
                shared: &shared,
                at: at(ms),
                place: None,
            };
            assert!(!has_passed(&mut deadline));
            waiting.push(deadline);
            assert_eq!(armed(), Some(armed_for));
        }
        let rounds = [
            (10, vec![10], Some(20)),
            (19, vec![], Some(20)),
            (60, vec![50, 20, 20], Some(90)),
        ];
        for (now, expected, armed_for) in rounds {
            shared.wake_due(at(now));
            let passed: Vec<_> = waiting.extract_if(.., has_passed).collect();
            let passed = passed.iter().map(|one| (one.at - began).as_millis());
            assert_eq!(passed.collect::<Vec<_>>(), expected, "after {now} ms");
            assert_eq!(armed(), armed_for, "after {now} ms");
        }
        // Deadlines of answered calls are dropped, and leave nothing behind.
        waiting.clear();
        shared.wake_due(at(90));
        assert!(shared.waiting.borrow().is_empty() && armed().is_none());
    }
}
