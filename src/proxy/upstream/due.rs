//! How long the origin may take for what it owes: a head, some of a body, or the taking of an upload.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::proxy::deadline::Deadline;

/// What the origin owes, and until when. A request and its response share one.
#[derive(Debug)]
pub struct Due {
    deadline: Rc<Deadline>,
    /// How long the origin may take for what it owes now; none while it owes nothing.
    owed_within: Cell<Option<Duration>>,
}

impl Due {
    /// The origin owes nothing yet.
    pub fn new(deadline: Rc<Deadline>) -> Self {
        Self {
            deadline,
            owed_within: Cell::new(None),
        }
    }

    /// Begins: a response is due within `timeout`.
    pub fn begin(&self, timeout: Duration) {
        self.owed_within.set(Some(timeout));
        self.deadline.arm(timeout);
    }

    /// Notes that the client owes some of the request's body: the origin need not hurry.
    pub fn await_client(&self) {
        self.deadline.disarm();
    }

    /// Notes that it is the origin's turn after the client's.
    pub fn await_origin(&self) {
        if !self.deadline.is_armed() {
            self.restart();
        }
    }

    /// Notes that the origin has taken some of an upload: it has its whole time again.
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

    /// Polls whether the origin has owed something for `timeout`; pending if not, or if it may take any
    /// time.
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
