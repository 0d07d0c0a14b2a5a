//! What an HTTP/2 connection and its streams know of each other.
//!
//! The connection's deadline is for the next request; it is armed while there is no stream. A stream
//! has a deadline for what the client sends and one for what it takes, made when it first waits.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode};

use super::date::Date;
use super::resets::Resets;
use crate::clock::{Micros, Timestamp};
use crate::proxy::deadline::{Deadline, Sweep};
use crate::proxy::downstream::awaited::Awaited;
use crate::proxy::downstream::socket::Socket;
use crate::proxy::downstream::timeouts::Timeouts;
use crate::proxy::interim::InterimSink;

/// An HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Http2State {
    pub(in crate::proxy::downstream) socket: Rc<Socket>,
    /// By when a head that has begun must be complete.
    head: Rc<Deadline>,
    sweep: Rc<Sweep>,
    timeouts: Timeouts,
    /// Whether its preface has come.
    has_begun: Cell<bool>,
    /// Whether it is to end after the requests that are on their way.
    is_ending: Cell<bool>,
    /// Whether its client has been told so.
    is_draining: Cell<bool>,
    /// Whether a head took several frames, for which `h2` keeps a buffer.
    had_large_head: Cell<bool>,
    /// Requests that are being worked on.
    requests: Cell<usize>,
    /// How many streams were reset because what came on them is malformed, and were not reported.
    malformed: Cell<u32>,
    /// Whether the ends of answers that `h2` still has may take the client more time.
    may_extend: Cell<bool>,
    /// When some of an answer was last written.
    written_at: Cell<Timestamp>,
    /// Streams that the client has reset before they were answered.
    pub(super) resets: Resets,
    date: Date,
    /// The task that reads and writes frames.
    task: RefCell<Option<Waker>>,
}

/// One request of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct StreamState {
    connection: Rc<Http2State>,
    /// By when the client must have sent some of its body.
    read: OnceCell<Rc<Deadline>>,
    /// By when the client must have taken some of the answer.
    write: OnceCell<Rc<Deadline>>,
    /// How long the client may take nothing of the answer.
    write_timeout: Cell<Duration>,
    /// How much of the answer `h2` has and has not written.
    unwritten: Cell<usize>,
    /// Whether the task that answers waits until everything is written.
    is_ending: Cell<bool>,
    /// Whether a reset from now on is none that counts.
    is_excused: Cell<bool>,
    /// Whether the head of the answer is out.
    is_answered: Cell<bool>,
    /// The interim answers that the client is to be told.
    interim: RefCell<Vec<Response<()>>>,
    /// The task that answers.
    task: RefCell<Option<Waker>>,
}

/// How long a connection without requests stays open while the gateway drains, so that a request that
/// is on its way is still answered.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// How long a connection without requests stays open that had a large head: the decoder of `h2` keeps a
/// buffer of up to twice its longest value as long as the connection stands.
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

    /// How long the preface may take.
    pub(super) fn header_timeout(&self) -> Duration {
        self.timeouts.header
    }

    /// Notes that the preface has come: the first request is awaited.
    pub(super) fn begin(&self) {
        self.has_begun.set(true);
        self.socket.read.arm(self.timeouts.idle);
    }

    /// What the connection waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        match self.requests.get() {
            _ if !self.has_begun.get() => Awaited::FirstByte,
            0 => Awaited::NextRequest,
            _ => Awaited::Nothing,
        }
    }

    /// Since when the connection has waited for a request; none if it does not wait for one.
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

    /// Whether it is to end after the requests that are on their way.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// How long a client that waits may be busy with what it is sent; none if it has taken all of it.
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

    /// Whether no request came in time. One whose head has begun has a deadline of its own.
    pub(super) fn is_idle_for_too_long(&self) -> bool {
        self.requests.get() == 0 && self.socket.read.is_over() && !self.head.is_armed()
    }

    /// Notes streams that are reset because what came on them is malformed.
    pub(super) fn note_malformed(&self, streams: u32) {
        self.malformed.set(self.malformed.get() + streams);
    }

    /// Takes how many of those are to be reported.
    pub(super) fn take_malformed(&self) -> u32 {
        self.malformed.take()
    }

    /// Returns a deadline by which the client must have taken the last word.
    pub(super) fn close(&self) -> Rc<Deadline> {
        let deadline = self.sweep.deadline();
        deadline.arm(self.timeouts.body);
        deadline
    }

    /// Whether the client is slow to take what is written, but has taken some of an answer within `timeout`.
    fn is_slowly_taken(&self, timeout: Duration) -> bool {
        let since_written = self.sweep.swept().since(self.written_at.get());
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

impl StreamState {
    /// Begins with a stream whose head has come; the request has ended when this is dropped.
    pub(super) fn new(connection: &Rc<Http2State>) -> Rc<Self> {
        connection.requests.set(connection.requests.get() + 1);
        connection.socket.read.disarm();
        Rc::new(Self {
            connection: Rc::clone(connection),
            write_timeout: Cell::new(connection.timeouts.body),
            read: OnceCell::new(),
            write: OnceCell::new(),
            unwritten: Cell::new(0),
            is_ending: Cell::new(false),
            is_excused: Cell::new(false),
            is_answered: Cell::new(false),
            interim: RefCell::default(),
            task: RefCell::default(),
        })
    }

    /// Notes that the head of the answer goes out: from now on, the client may be silent.
    pub(crate) fn answer(&self) {
        self.is_answered.set(true);
        self.body_progressed();
    }

    /// Polls whether the client takes too long over its body, of which nothing is there.
    pub(crate) fn poll_overdue_body(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_answered.get() {
            return Poll::Pending;
        }
        poll_overdue(self.deadline(&self.read), self.connection.timeouts.body, cx)
    }

    /// Notes that the client sent some of its body.
    pub(crate) fn body_progressed(&self) {
        disarm(&self.read);
    }

    /// Polls whether the client takes nothing of its answer for too long. As long as it takes other
    /// answers, and they keep the socket full, this one's turn has yet to come.
    pub(super) fn poll_stalled(&self, cx: &Context<'_>) -> Poll<()> {
        let (deadline, timeout) = (self.deadline(&self.write), self.write_timeout.get());
        if deadline.is_over() && self.connection.is_slowly_taken(timeout) {
            deadline.arm(timeout);
        }
        poll_overdue(deadline, timeout, cx)
    }

    /// Polls whether the client takes nothing for too long of what `h2` has of its answer.
    pub(super) fn poll_stalled_unwritten(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_written() {
            self.taken();
            return Poll::Pending;
        }
        self.poll_stalled(cx)
    }

    /// Whether `h2` has written everything that it has of the answer.
    pub(super) fn is_written(&self) -> bool {
        self.unwritten.get() == 0
    }

    /// Registers the task that answers, to be woken when everything is written.
    pub(super) fn register_end(&self, cx: &Context<'_>) {
        self.is_ending.set(true);
        self.register(cx);
    }

    /// Notes that `h2` has this much more of the answer.
    pub(super) fn queued(&self, bytes: usize) {
        self.unwritten.set(self.unwritten.get() + bytes);
    }

    /// Notes that `h2` has written this much of the answer.
    pub(super) fn written(&self, bytes: usize) {
        let connection = &self.connection;
        connection.written_at.set(connection.sweep.swept());
        if let Some(deadline) = self.write.get()
            && deadline.is_armed()
        {
            deadline.arm(self.write_timeout.get());
        }
        self.left(bytes);
    }

    /// Notes that `h2` has this much less of the answer.
    pub(super) fn left(&self, bytes: usize) {
        self.unwritten.set(self.unwritten.get() - bytes);
        if self.is_ending.get() && self.is_written() {
            wake(&self.task);
        }
    }

    /// Notes that the answer's body is what comes through a tunnel.
    pub(super) fn begin_tunnel(&self) {
        self.write_timeout.set(self.connection.timeouts.tunnel);
    }

    /// Notes that the client has room for some of its answer.
    pub(super) fn taken(&self) {
        disarm(&self.write);
    }

    /// Has the client told to go on with its body.
    pub(super) fn ask_to_continue(&self) {
        let mut go_on = Response::new(());
        *go_on.status_mut() = StatusCode::CONTINUE;
        self.tell(go_on);
    }

    /// Takes the interim answers that the client is to be told now.
    pub(super) fn take_interim(&self) -> Vec<Response<()>> {
        self.interim.take()
    }

    /// Registers the task that answers.
    pub(super) fn register(&self, cx: &Context<'_>) {
        register(&self.task, cx);
    }

    /// Returns the connection.
    pub(in crate::proxy::downstream) fn connection(&self) -> &Http2State {
        &self.connection
    }

    /// Lets the client reset the stream without a count, because it pays for the request.
    pub(crate) fn excuse_reset(&self) {
        self.is_excused.set(true);
    }

    /// Notes that the client reset the stream before it was answered.
    pub(super) fn note_reset(&self) {
        let connection = &self.connection;
        if !self.is_excused.get() && connection.resets.note(connection.sweep.now()) {
            connection.wake();
        }
    }

    fn deadline<'s>(&'s self, of: &'s OnceCell<Rc<Deadline>>) -> &'s Deadline {
        of.get_or_init(|| self.connection.sweep.deadline())
    }
}

impl InterimSink for StreamState {
    fn tell(&self, interim: Response<()>) {
        self.interim.borrow_mut().push(interim);
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.requests.set(connection.requests.get() - 1);
        if connection.requests.get() == 0 {
            connection.may_extend.set(true);
            connection.socket.read.arm(connection.idle_timeout());
            connection.wake();
        }
    }
}

fn poll_overdue(deadline: &Deadline, timeout: Duration, cx: &Context<'_>) -> Poll<()> {
    if !deadline.is_armed() {
        deadline.arm(timeout);
    } else if deadline.is_over() {
        return Poll::Ready(());
    }
    deadline.register(cx);
    Poll::Pending
}

fn wake(task: &RefCell<Option<Waker>>) {
    if let Some(task) = &*task.borrow() {
        task.wake_by_ref();
    }
}

fn disarm(deadline: &OnceCell<Rc<Deadline>>) {
    if let Some(deadline) = deadline.get() {
        deadline.disarm();
    }
}

fn register(task: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    match &mut *task.borrow_mut() {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}
