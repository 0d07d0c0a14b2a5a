//! What an HTTP/1 connection waits for, and the request that it works on.
//!
//! HTTP/1 has one request at a time, so a connection has one [`Http1State`] for its whole life, which
//! is told where each request begins and ends. It arms the deadlines of the socket below and says
//! what it means when one is over.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::body_bypass::BodyBypass;
use super::upgrade_gate::UpgradeGate;
use crate::clock::{Micros, Timestamp};
use crate::proxy::downstream::awaited::Awaited;
use crate::proxy::downstream::socket::Socket;
use crate::proxy::downstream::timeouts::Timeouts;
use crate::snapshot::Listener;

/// What is known of a connection's current request, or of the one that it waits for.
#[derive(Debug)]
pub(crate) struct Http1State {
    pub(in crate::proxy::downstream) socket: Rc<Socket>,
    timeouts: Timeouts,
    awaited: Cell<Awaited>,
    /// Whether the client may still be sending when its connection closes.
    is_more_expected: Cell<bool>,
    /// Whether the head of the current request's answer is out.
    is_answered: Cell<bool>,
    /// Whether the next answer is the last.
    is_last_answer: Cell<bool>,
    /// Whether the connection ends after the next answer, or now if it waits for a request.
    is_ending: Cell<bool>,
    /// Bytes of the current request's body that have come.
    body_bytes: Cell<u64>,
    /// Bytes that have been read while a head was awaited.
    head_bytes: Cell<usize>,
    /// Whether the next bytes that are written are the head of an answer.
    is_head_due: Cell<bool>,
    /// Whether to drop hyper's buffers once the connection is idle: after a large head, or a second without new
    /// requests.
    drops_buffers: Cell<bool>,
    /// Requests begun by the latest look, and how many looks in a row found the connection idle with no new request.
    idle_checks: Cell<(u64, u8)>,
    /// The upgrade gate, which stops reading after a request for another protocol.
    pub(crate) gate: Rc<UpgradeGate>,
    /// The bypass through which long and chunked bodies come.
    pub(crate) bypass: Rc<BodyBypass>,
}

/// A larger head does not fit into the buffers that hyper begins with, which then grow and stay large.
const LARGE_HEAD_BYTES_MIN: usize = 8 * 1024;

impl Http1State {
    /// Begins with a fresh connection; its first head is due within the listener's `header_timeout`.
    pub(crate) fn new(socket: Rc<Socket>, listener: &Listener) -> Rc<Self> {
        socket.read.arm(listener.header_timeout);
        Rc::new(Self {
            socket,
            timeouts: Timeouts::of(listener),
            awaited: Cell::new(Awaited::FirstByte),
            is_more_expected: Cell::new(false),
            is_answered: Cell::new(false),
            is_last_answer: Cell::new(false),
            is_ending: Cell::new(false),
            body_bytes: Cell::new(0),
            head_bytes: Cell::new(0),
            is_head_due: Cell::new(false),
            drops_buffers: Cell::new(false),
            idle_checks: Cell::default(),
            gate: Rc::default(),
            bypass: Rc::default(),
        })
    }

    /// Begins a request whose head is complete: from now on, the gateway does not wait for the client.
    pub(crate) fn begin(&self) {
        self.is_more_expected.set(false);
        self.is_answered.set(false);
        self.body_bytes.set(0);
        self.note_head(self.head_bytes.take());
        self.gate.begin();
        self.stop_waiting();
    }

    /// Notes that the head of the answer goes out: from now on, the client may be silent.
    pub(crate) fn answer(&self) {
        self.is_answered.set(true);
        self.is_head_due.set(true);
        self.gate.unblock();
        self.body_progressed();
    }

    /// Ends a request whose answer is complete. The next request is awaited, or the rest of its head if some of it has
    /// come already.
    pub(crate) fn end(&self) {
        self.awaited.set(if self.gate.is_head_begun() {
            Awaited::Head
        } else {
            Awaited::NextRequest
        });
        self.taken();
        self.gate.unblock();
    }

    /// Notes that the next answer is the last. A connection that waits for a request goes on waiting, so that no
    /// request arrives just as the connection closes.
    pub(crate) fn end_after_answer(&self) {
        self.is_last_answer.set(true);
    }

    /// Notes that the connection ends after the next answer, or now if nothing has come of a next request.
    pub(crate) fn end_connection(&self) {
        self.is_ending.set(true);
    }

    /// Whether the connection ends after the next answer.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.get() || self.is_last_answer.get()
    }

    /// Whether the connection is to end, and nothing has come of a next request.
    pub(in crate::proxy::downstream) fn ends_now(&self) -> bool {
        self.is_ending.get() && self.awaited.get() == Awaited::NextRequest
    }

    /// Notes that only the end of the connection marks the end of the answer: if the answer breaks off, the client must
    /// see a reset.
    pub(crate) fn end_by_close(&self) {
        self.socket.reset_unless_closed();
    }

    /// Notes that the client may still be sending when its connection closes: the rest of a body, or what follows a
    /// request that is refused.
    pub(crate) fn expect_more(&self) {
        self.is_more_expected.set(true);
    }

    /// Notes that the request's body has been read to its end.
    pub(crate) fn expect_no_more(&self) {
        self.is_more_expected.set(false);
    }

    /// Whether the client may still be sending.
    pub(crate) fn is_more_expected(&self) -> bool {
        self.is_more_expected.get()
    }

    /// Notes that more of the body is needed and is not there; repeated calls do not extend the wait.
    pub(crate) fn await_body(&self) {
        if self.awaited.get() != Awaited::Body && !self.is_answered.get() {
            self.awaited.set(Awaited::Body);
            self.socket.read.arm(self.timeouts.body);
        }
    }

    /// Notes that the client sent some of its body.
    pub(crate) fn body_progressed(&self) {
        if self.awaited.get() == Awaited::Body {
            self.stop_waiting();
        }
    }

    /// Notes that this many bytes have come, of the request's body or through a tunnel.
    pub(crate) fn body_received(&self, bytes: u64) {
        self.body_bytes.set(self.body_bytes.get() + bytes);
    }

    /// Returns how many bytes have come, of the request's body or through a tunnel.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }

    /// Returns what the connection waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        self.awaited.get()
    }

    /// Whether the client did not send in time what was awaited.
    pub(crate) fn is_overdue(&self) -> bool {
        self.socket.read.is_over()
    }

    /// Polls whether the client has closed its side or reset the connection. The task that reads may call it too.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_gone(cx)
    }

    /// Returns since when the connection has waited for a request of which no byte has come; `None` if it does not wait
    /// for one.
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

    /// Whether the client may still be sending after the last answer.
    pub(crate) fn may_be_sending(&self) -> bool {
        let is_between_requests = matches!(
            self.awaited.get(),
            Awaited::NextRequest | Awaited::FirstByte
        );
        !is_between_requests || self.is_more_expected()
    }

    /// Whether the connection waits for the next request, of which nothing has come, has read the latest one to its
    /// end, and has nothing to write. Only then can the parser be dropped without losing anything.
    fn is_idle(&self) -> bool {
        self.awaited.get() == Awaited::NextRequest
            && !self.is_more_expected.get()
            && self.gate.is_between_requests()
            && !self.socket.write.is_armed()
    }

    /// Notes a look at the connection, of which there is one a second. Returns whether the connection is to drop its
    /// buffers now, because it is idle and no request has begun since the look before.
    pub(in crate::proxy::downstream) fn check_idle(&self) -> bool {
        let requests = self.gate.begun();
        let (earlier, checks) = self.idle_checks.get();
        let checks = if requests == earlier && self.is_idle() {
            checks.saturating_add(1)
        } else {
            0
        };
        self.idle_checks.set((requests, checks));
        let is_due = checks == 1;
        if is_due {
            self.drops_buffers.set(true);
        }
        is_due
    }

    /// Whether the connection is to drop its buffers now. If so, the caller must drop them: this says so only once.
    pub(in crate::proxy::downstream) fn drops_buffers(&self) -> bool {
        self.drops_buffers.get() && self.is_idle() && self.drops_buffers.take()
    }

    /// Notes that bytes are to be written, of which the first piece has this many.
    pub(super) fn writes(&self, bytes: usize) {
        if self.is_head_due.take() {
            self.note_head(bytes);
        }
    }

    fn note_head(&self, bytes: usize) {
        if bytes > LARGE_HEAD_BYTES_MIN {
            self.drops_buffers.set(true);
        }
    }

    /// Notes that this many bytes have arrived.
    pub(super) fn received(&self, bytes: usize) {
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
        if self.awaited.get() == Awaited::Head {
            self.head_bytes.set(self.head_bytes.get() + bytes);
        }
    }

    /// Notes that the parser wants to read, and no bytes are there.
    pub(super) fn want_more(&self) {
        if self.awaited.get() == Awaited::Head && !self.socket.read.is_armed() {
            self.socket.read.arm(self.timeouts.header);
        }
    }

    /// Whether the client could have sent what was awaited, and did not do so in time. While the client is still taking
    /// the previous answer, the socket's deadline for writing counts instead.
    pub(super) fn is_read_overdue(&self) -> bool {
        let is_answer_being_taken = self.socket.write.is_armed()
            && matches!(self.awaited.get(), Awaited::NextRequest | Awaited::Head);
        self.is_overdue() && !is_answer_being_taken
    }

    /// Notes that a client that was slow to take an answer has taken some of it. From now on, it has the whole time
    /// again for its next request, because nobody asks it for anything while it still takes an answer.
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
