//! How long the origin may take for what it owes: a head, the next part of a body, or reading some of an upload.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::proxy::wire::deadline::Deadline;

/// What the origin owes, and until when. A request and its response share one such deadline.
#[derive(Debug)]
pub struct OriginDeadline {
    deadline: Rc<Deadline>,
    /// How long the origin may take for what it owes now; none while it owes nothing.
    owed_within: Cell<Option<Duration>>,
    /// Whether the head of the response has come. From then on, the origin's time runs even while the
    /// client is waited for.
    is_answering: Cell<bool>,
}

impl OriginDeadline {
    /// Makes a deadline for an origin that owes nothing yet.
    pub fn new(deadline: Rc<Deadline>) -> Self {
        Self {
            deadline,
            owed_within: Cell::new(None),
            is_answering: Cell::new(false),
        }
    }

    /// Begins an exchange, whose response is due within `timeout`.
    pub fn begin(&self, timeout: Duration) {
        self.is_answering.set(false);
        self.owed_within.set(Some(timeout));
        self.deadline.arm(timeout);
    }

    /// Notes that the head of the response has come.
    pub fn answered(&self) {
        self.is_answering.set(true);
        self.progressed();
    }

    /// Notes that the gateway waits for the client's body: until the head has come, the origin's time stops.
    pub fn await_client(&self) {
        if !self.is_answering.get() {
            self.deadline.disarm();
        }
    }

    /// Notes that the client has sent what was awaited: the origin's time starts again if it had stopped.
    pub fn await_origin(&self) {
        if !self.deadline.is_armed() {
            self.restart();
        }
    }

    /// Notes that the origin has taken some of an upload: its time starts anew.
    pub fn restart(&self) {
        if let Some(timeout) = self.owed_within.get() {
            self.deadline.arm(timeout);
        }
    }

    /// Notes that the origin has sent what it owed.
    pub fn progressed(&self) {
        if self.owed_within.take().is_some() {
            self.deadline.disarm();
        }
    }

    /// Whether the origin took too long.
    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    /// Polls whether the origin has owed something for `timeout`, which starts with the first poll;
    /// pending until then, and for ever if there is no limit.
    pub fn poll_over(&self, timeout: Option<Duration>, cx: &Context<'_>) -> Poll<()> {
        let Some(timeout) = timeout else {
            return Poll::Pending;
        };
        if self.owed_within.replace(Some(timeout)).is_none() {
            self.deadline.arm(timeout);
        } else if self.deadline.is_over() {
            return Poll::Ready(());
        }
        self.deadline.register(cx);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Micros, Timestamp};
    use crate::proxy::wire::deadline::Sweep;
    use futures_util::task::noop_waker_ref;

    #[test]
    fn client_that_is_waited_for_delays_the_head_and_nothing_after_it() {
        let clock = Clock::manual(Timestamp(1_000_000));
        let sweep = Sweep::new(clock.clone());
        let due = OriginDeadline::new(sweep.deadline());
        let pass = |secs| {
            clock.advance(Micros::from_secs(secs));
            sweep.sweep();
        };
        due.begin(Duration::from_secs(10));
        due.await_client();
        pass(60);
        assert!(!due.is_over());
        due.answered();
        let cx = Context::from_waker(noop_waker_ref());
        let body_timeout = Some(Duration::from_secs(5));
        assert!(due.poll_over(body_timeout, &cx).is_pending());
        due.await_client();
        pass(5);
        assert!(due.poll_over(body_timeout, &cx).is_ready());
    }
}
