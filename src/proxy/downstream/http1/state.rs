//! What an HTTP/1 connection waits for, and the request that it works on.
//!
//! HTTP/1 has one request at a time, so a connection has one [`RequestState`] for its whole life;
//! [`RequestGuard`] says where each request begins and ends. The state arms the deadlines of the
//! socket below and says what it means when one is over.

use std::cell::Cell;
use std::future::poll_fn;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::{Micros, Timestamp};
use crate::proxy::downstream::socket::Socket;
use crate::snapshot::Listener;

/// What is known of a connection's current request, or of the one that it waits for.
#[derive(Debug)]
pub(crate) struct RequestState {
    pub(super) socket: Rc<Socket>,
    timeouts: Timeouts,
    awaited: Cell<Awaited>,
    /// Whether hyper wanted more after the latest bytes, and there was nothing. Between a head and
    /// the end of its answer, hyper wants more only after it has used up what it has.
    is_more_wanted: Cell<bool>,
    /// Whether the client may still be sending when its connection closes.
    is_more_expected: Cell<bool>,
}

/// A request that is being worked on; it has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestGuard(Rc<RequestState>);

/// How long a listener waits for its clients.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    header: Duration,
    idle: Duration,
    body: Duration,
}

/// What a connection waits for its client to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Its first byte.
    FirstByte,
    /// The rest of a head.
    Head,
    /// Nothing: a request is being worked on.
    Nothing,
    /// More of a body.
    Body,
    /// The next request.
    NextRequest,
}

impl RequestState {
    /// Begins with a fresh connection; its first head is due within the listener's `header_timeout`.
    pub(crate) fn new(socket: Rc<Socket>, listener: &Listener) -> Rc<Self> {
        socket.read.arm(listener.header_timeout);
        Rc::new(Self {
            socket,
            timeouts: Timeouts {
                header: listener.header_timeout,
                idle: listener.idle_timeout,
                body: listener.body_timeout,
            },
            awaited: Cell::new(Awaited::FirstByte),
            is_more_wanted: Cell::new(true),
            is_more_expected: Cell::new(false),
        })
    }

    /// Begins a request whose head is complete: from now on, the delay is not the client's.
    pub(crate) fn begin(self: &Rc<Self>) -> RequestGuard {
        self.is_more_expected.set(false);
        self.stop_waiting();
        RequestGuard(Rc::clone(self))
    }

    /// Says that the client may still be sending when its connection closes: the rest of a body, or
    /// what follows a request that is refused.
    pub(crate) fn expect_more(&self) {
        self.is_more_expected.set(true);
    }

    /// Says that the request's body has been read to its end.
    pub(crate) fn expect_no_more(&self) {
        self.is_more_expected.set(false);
    }

    /// Whether the client may still be sending.
    pub(crate) fn is_more_expected(&self) -> bool {
        self.is_more_expected.get()
    }

    /// Says that more of the body is needed and is not there; repeated calls do not extend the wait.
    pub(crate) fn await_body(&self) {
        if self.awaited.get() != Awaited::Body {
            self.awaited.set(Awaited::Body);
            self.socket.read.arm(self.timeouts.body);
        }
    }

    /// Says that the client sent some of its body.
    pub(crate) fn body_progressed(&self) {
        if self.awaited.get() == Awaited::Body {
            self.stop_waiting();
        }
    }

    /// What the connection waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        self.awaited.get()
    }

    /// Whether the client did not send in time what was awaited.
    pub(crate) fn is_overdue(&self) -> bool {
        self.socket.read.is_over()
    }

    /// Waits until the client closes its side or resets, whatever it has sent before.
    pub(crate) async fn gone(&self) {
        poll_fn(|cx| self.poll_gone(cx)).await;
    }

    /// Polls whether the client has closed its side or reset. The task that reads may call it too.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    /// Polls whether the client has left before it sent its whole body.
    pub(crate) fn poll_leaves_body(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_more_expected() {
            self.poll_gone(cx)
        } else {
            // hyper reads on, and notices by itself.
            Poll::Pending
        }
    }

    /// Since when the connection has waited for a request of which no byte has come; none if it
    /// does not wait for one.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        let timeout = match self.awaited.get() {
            // The client may still have to take the end of an answer.
            _ if self.socket.write.is_armed() => return None,
            Awaited::FirstByte => self.timeouts.header,
            Awaited::NextRequest => self.timeouts.idle,
            Awaited::Head | Awaited::Nothing | Awaited::Body => return None,
        };
        let due = self.socket.read.due();
        due.map(|due| due - Micros::from(timeout))
    }

    /// Ends the wait for a request, so that another connection has room. A request that has come in
    /// the meantime is still answered.
    pub(crate) fn evict(&self) {
        self.socket.read.expire();
    }

    /// Lingers if the gateway has closed its side and the client may still be sending.
    ///
    /// This takes time that hyper need not wait for: what hyper has to say of the connection is
    /// known before.
    pub(crate) async fn lingering_close(&self) {
        let is_between_requests = matches!(
            self.awaited.get(),
            Awaited::NextRequest | Awaited::FirstByte
        );
        let may_be_sending =
            !is_between_requests || self.is_more_expected() || self.socket.has_unread();
        if self.socket.is_write_closed() && may_be_sending {
            self.socket.lingering_close().await;
        }
    }

    /// Notes that bytes have arrived.
    pub(super) fn received(&self) {
        self.is_more_wanted.set(false);
        // A head is due within `header_timeout` of its first byte, or of the accept. If a head
        // arrives whole, its deadline is never armed.
        match self.awaited.get() {
            Awaited::FirstByte => self.awaited.set(Awaited::Head),
            Awaited::NextRequest => {
                self.awaited.set(Awaited::Head);
                self.socket.read.disarm();
            }
            Awaited::Head | Awaited::Nothing | Awaited::Body => {}
        }
    }

    /// Notes that more is wanted and there is none.
    pub(super) fn want_more(&self) {
        self.is_more_wanted.set(true);
        if self.awaited.get() == Awaited::Head && !self.socket.read.is_armed() {
            self.socket.read.arm(self.timeouts.header);
        }
    }

    /// Whether the client could have sent what was awaited, and did not do so in time. While it
    /// still takes the answer before that, the socket's deadline for writing counts instead.
    pub(super) fn gave_up(&self) -> bool {
        let is_answer_being_taken = self.socket.write.is_armed()
            && matches!(self.awaited.get(), Awaited::NextRequest | Awaited::Head);
        self.is_overdue() && !is_answer_being_taken
    }

    /// Notes that a client that was slow to take an answer has taken some of it. From now on, it
    /// has the whole time again for what it may send between two requests, because nobody asks it
    /// for anything while it still takes an answer.
    pub(super) fn taken(&self) {
        match self.awaited.get() {
            Awaited::NextRequest => self.socket.read.arm(self.timeouts.idle),
            Awaited::Head => self.socket.read.arm(self.timeouts.header),
            Awaited::FirstByte | Awaited::Nothing | Awaited::Body => {}
        }
    }

    fn stop_waiting(&self) {
        self.awaited.set(Awaited::Nothing);
        self.socket.read.disarm();
    }
}

impl Deref for RequestGuard {
    type Target = RequestState;

    fn deref(&self) -> &RequestState {
        &self.0
    }
}

impl Drop for RequestGuard {
    /// The answer is complete. The next request is awaited, or the rest of it if some has come
    /// already.
    fn drop(&mut self) {
        let Self(state) = self;
        state.awaited.set(if state.is_more_wanted.get() {
            Awaited::NextRequest
        } else {
            Awaited::Head
        });
        state.taken();
    }
}
