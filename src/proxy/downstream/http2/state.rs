//! What an HTTP/2 connection and the task that reads and writes its frames know of each other.
//!
//! The connection's deadline is for the next request; it is armed while there is no stream.

mod stream;

pub(crate) use stream::StreamState;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use http::HeaderValue;

use super::date::Date;
use super::resets::Resets;
use crate::clock::{Micros, Timestamp};
use crate::proxy::downstream::awaited::Awaited;
use crate::proxy::downstream::socket::Socket;
use crate::proxy::downstream::timeouts::Timeouts;
use crate::proxy::wire::deadline::{Deadline, Sweep};

/// An HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Http2State {
    pub(in crate::proxy::downstream) socket: Rc<Socket>,
    /// By when a head that has begun must be complete.
    head: Rc<Deadline>,
    sweep: Rc<Sweep>,
    timeouts: Timeouts,
    /// Whether the preface has come.
    has_begun: Cell<bool>,
    /// Whether the connection is to end after the requests that are on their way.
    is_ending: Cell<bool>,
    /// Whether the client has been told that the connection ends.
    is_draining: Cell<bool>,
    /// Whether a head took several frames, so that `h2` keeps a buffer for it.
    had_large_head: Cell<bool>,
    /// Requests that are being worked on.
    requests: Cell<usize>,
    /// Streams that were reset because what came on them is malformed, and that are still to be reported.
    malformed: Cell<u32>,
    /// Whether the client may be given more time for the ends of answers that `h2` still has.
    may_extend: Cell<bool>,
    /// When some of an answer was last written.
    written_at: Cell<Timestamp>,
    /// Streams that the client has reset before they were answered.
    pub(super) resets: Resets,
    date: Date,
    /// The task that reads and writes frames.
    task: RefCell<Option<Waker>>,
}

/// How long a connection without requests stays open while the gateway drains, so that a request that
/// is on its way is still answered.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// How long a connection that had a large head stays open without requests: the decoder of `h2` keeps a buffer of up to
/// twice its longest value as long as the connection is open.
const LARGE_HEAD_IDLE: Duration = Duration::from_secs(5);

impl Http2State {
    /// Begins with a connection whose preface is to come.
    pub(in crate::proxy::downstream) fn new(
        socket: Rc<Socket>,
        sweep: &Rc<Sweep>,
        timeouts: Timeouts,
    ) -> Rc<Self> {
        Rc::new(Self {
            socket,
            head: sweep.deadline(),
            sweep: Rc::clone(sweep),
            timeouts,
            has_begun: Cell::new(false),
            is_ending: Cell::new(false),
            is_draining: Cell::new(false),
            had_large_head: Cell::new(false),
            requests: Cell::new(0),
            malformed: Cell::new(0),
            may_extend: Cell::new(false),
            written_at: Cell::default(),
            resets: Resets::default(),
            date: Date::default(),
            task: RefCell::default(),
        })
    }

    /// Returns how long the preface may take.
    pub(super) fn header_timeout(&self) -> Duration {
        self.timeouts.header
    }

    /// Notes that the preface has come: the first request is awaited.
    pub(super) fn begin(&self) {
        self.has_begun.set(true);
        self.socket.read.arm(self.timeouts.idle);
    }

    /// Returns what the connection waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        match self.requests.get() {
            _ if !self.has_begun.get() => Awaited::FirstByte,
            0 => Awaited::NextRequest,
            _ => Awaited::Nothing,
        }
    }

    /// Returns since when the connection has waited for a request; `None` if it does not wait for one.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        let timeout = match self.awaited() {
            Awaited::FirstByte => self.timeouts.header,
            Awaited::NextRequest => self.idle_timeout(),
            Awaited::Head | Awaited::Nothing | Awaited::Body => return None,
        };
        let due = self.socket.read.due();
        due.map(|due| due - Micros::from(timeout))
    }

    /// Lets the connection end after the requests that are on their way.
    pub(crate) fn end_connection(&self) {
        self.is_ending.set(true);
        self.wake();
    }

    /// Whether the connection is to end after the requests that are on their way.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// Returns how long a waiting client may be busy with what it is sent; `None` if it has taken all of it.
    pub(crate) fn taken_within(&self) -> Option<Duration> {
        self.socket.write.is_armed().then_some(self.timeouts.body)
    }

    /// Lets a connection without requests end soon, because its client has been told that it ends.
    pub(super) fn drain(&self) {
        self.is_draining.set(true);
        if self.requests.get() == 0 {
            self.socket.read.arm(self.idle_timeout());
        }
    }

    fn idle_timeout(&self) -> Duration {
        if self.is_draining.get() {
            DRAIN_IDLE.min(self.timeouts.idle)
        } else if self.had_large_head.get() {
            LARGE_HEAD_IDLE.min(self.timeouts.idle)
        } else {
            self.timeouts.idle
        }
    }

    /// Notes that a head takes several frames.
    pub(super) fn note_large_head(&self) {
        self.had_large_head.set(true);
    }

    /// Notes whether a head has begun and is not complete.
    pub(super) fn await_head(&self, is_open: bool) {
        if is_open != self.head.is_armed() {
            if is_open {
                self.head.arm(self.timeouts.header);
            } else {
                self.head.disarm();
            }
        }
    }

    /// Whether a head was not completed in time.
    pub(super) fn is_head_overdue(&self) -> bool {
        self.head.is_over()
    }

    /// Gives a client more time, once, to take the ends of answers that `h2` still has.
    pub(super) fn extend(&self) {
        let is_over = self.is_idle_for_too_long() && !self.socket.is_evicted();
        if is_over && self.may_extend.take() {
            self.socket.read.arm(self.timeouts.body);
        }
    }

    /// Whether no request came in time. A request whose head has begun has a deadline of its own.
    pub(super) fn is_idle_for_too_long(&self) -> bool {
        self.requests.get() == 0 && self.socket.read.is_over() && !self.head.is_armed()
    }

    /// Notes streams that are reset because what came on them is malformed.
    pub(super) fn note_malformed(&self, streams: u32) {
        self.malformed.set(self.malformed.get() + streams);
    }

    /// Takes the number of malformed streams that are still to be reported.
    pub(super) fn take_malformed(&self) -> u32 {
        self.malformed.take()
    }

    /// Returns a deadline by which the client must have taken the last GOAWAY.
    pub(super) fn close(&self) -> Rc<Deadline> {
        let deadline = self.sweep.deadline();
        deadline.arm(self.timeouts.body);
        deadline
    }

    /// Whether the client is slow to take what is written, but has taken some of an answer within the last `timeout`.
    fn is_slowly_taken(&self, timeout: Duration) -> bool {
        let since_written = self.sweep.swept_running().since(self.written_at.get());
        self.socket.write.is_armed() && since_written < Micros::from(timeout)
    }

    /// Returns the Date field of an answer.
    pub(super) fn date(&self) -> HeaderValue {
        self.date.at(self.sweep.swept_wall())
    }

    /// Registers the task that reads and writes frames.
    pub(super) fn register(&self, cx: &Context<'_>) {
        register(&self.task, cx);
        self.socket.read.register(cx);
        self.head.register(cx);
    }

    fn wake(&self) {
        wake(&self.task);
    }
}

fn wake(task: &RefCell<Option<Waker>>) {
    if let Some(task) = &*task.borrow() {
        task.wake_by_ref();
    }
}

fn register(task: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    match &mut *task.borrow_mut() {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}
