//! What one request of an HTTP/2 connection, and the task that answers it, know of each other.
//!
//! A stream has a deadline for what the client sends and one for what it takes, each made when it is first needed.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Response, StatusCode};

use super::{Http2State, register, wake};
use crate::proxy::wire::deadline::Deadline;
use crate::proxy::wire::interim::InterimSink;

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
    /// Bytes of the request's body that have come.
    body_bytes: Cell<u64>,
    /// Bytes of the answer that `h2` has and has not written.
    unwritten: Cell<usize>,
    /// Whether the task that answers waits until everything is written.
    is_ending: Cell<bool>,
    /// Whether a reset by the client no longer counts.
    is_excused: Cell<bool>,
    /// Whether the head of the answer is out.
    is_answered: Cell<bool>,
    /// The interim answers that the client is still to be sent.
    interim: RefCell<Vec<Response<()>>>,
    /// The task that answers.
    task: RefCell<Option<Waker>>,
}

impl StreamState {
    /// Begins with a stream whose head has come; the request ends when this is dropped.
    pub(in crate::proxy::downstream::http2) fn new(connection: &Rc<Http2State>) -> Rc<Self> {
        connection.requests.set(connection.requests.get() + 1);
        connection.socket.read.disarm();
        Rc::new(Self {
            connection: Rc::clone(connection),
            write_timeout: Cell::new(connection.timeouts.body),
            read: OnceCell::new(),
            write: OnceCell::new(),
            body_bytes: Cell::new(0),
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

    /// Polls whether the client takes too long to send more of its body, when none is there.
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

    /// Notes that this many bytes of the request's body have come.
    pub(crate) fn body_received(&self, bytes: u64) {
        self.body_bytes.set(self.body_bytes.get() + bytes);
    }

    /// Returns how many bytes of the request's body have come.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }

    /// Polls whether the client takes nothing of its answer for too long. While the client takes other answers, and
    /// these keep the socket full, this answer's turn has yet to come.
    pub(in crate::proxy::downstream::http2) fn poll_stalled(&self, cx: &Context<'_>) -> Poll<()> {
        let (deadline, timeout) = (self.deadline(&self.write), self.write_timeout.get());
        if deadline.is_over() && self.connection.is_slowly_taken(timeout) {
            deadline.arm(timeout);
        }
        poll_overdue(deadline, timeout, cx)
    }

    /// Polls whether the client takes nothing, for too long, of the part of its answer that `h2` has.
    pub(in crate::proxy::downstream::http2) fn poll_stalled_unwritten(
        &self,
        cx: &Context<'_>,
    ) -> Poll<()> {
        if self.is_written() {
            self.taken();
            return Poll::Pending;
        }
        self.poll_stalled(cx)
    }

    /// Whether `h2` has written everything that it has of the answer.
    pub(in crate::proxy::downstream::http2) fn is_written(&self) -> bool {
        self.unwritten.get() == 0
    }

    /// Registers the task that answers, to be woken when everything is written.
    pub(in crate::proxy::downstream::http2) fn register_end(&self, cx: &Context<'_>) {
        self.is_ending.set(true);
        self.register(cx);
    }

    /// Notes that `h2` has this much more of the answer.
    pub(in crate::proxy::downstream::http2) fn queued(&self, bytes: usize) {
        self.unwritten.set(self.unwritten.get() + bytes);
    }

    /// Notes that `h2` has written this much of the answer.
    pub(in crate::proxy::downstream::http2) fn written(&self, bytes: usize) {
        let connection = &self.connection;
        connection.written_at.set(connection.sweep.swept_running());
        if let Some(deadline) = self.write.get()
            && deadline.is_armed()
        {
            deadline.arm(self.write_timeout.get());
        }
        self.left(bytes);
    }

    /// Notes that `h2` has this much less of the answer.
    pub(in crate::proxy::downstream::http2) fn left(&self, bytes: usize) {
        self.unwritten.set(self.unwritten.get() - bytes);
        if self.is_ending.get() && self.is_written() {
            wake(&self.task);
        }
    }

    /// Notes that the answer's body comes through a tunnel, which has a timeout of its own.
    pub(in crate::proxy::downstream::http2) fn begin_tunnel(&self) {
        self.write_timeout.set(self.connection.timeouts.tunnel);
    }

    /// Notes that the client has room for some of its answer.
    pub(in crate::proxy::downstream::http2) fn taken(&self) {
        disarm(&self.write);
    }

    /// Tells the client to go on with its body.
    pub(in crate::proxy::downstream::http2) fn ask_to_continue(&self) {
        let mut go_on = Response::new(());
        *go_on.status_mut() = StatusCode::CONTINUE;
        self.send(go_on);
    }

    /// Takes the interim answers that the client is to be sent now.
    pub(in crate::proxy::downstream::http2) fn take_interim(&self) -> Vec<Response<()>> {
        self.interim.take()
    }

    /// Registers the task that answers.
    pub(in crate::proxy::downstream::http2) fn register(&self, cx: &Context<'_>) {
        register(&self.task, cx);
    }

    /// Returns the connection.
    pub(in crate::proxy::downstream) fn connection(&self) -> &Http2State {
        &self.connection
    }

    /// Lets the client reset the stream without that being counted, because the request has been charged.
    pub(crate) fn excuse_reset(&self) {
        self.is_excused.set(true);
    }

    /// Notes that the client reset the stream before it was answered.
    pub(in crate::proxy::downstream::http2) fn note_reset(&self) {
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
    fn send(&self, interim: Response<()>) {
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

fn disarm(deadline: &OnceCell<Rc<Deadline>>) {
    if let Some(deadline) = deadline.get() {
        deadline.disarm();
    }
}
