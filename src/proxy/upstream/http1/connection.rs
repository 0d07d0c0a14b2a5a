//! One connection to an origin, used for one request at a time; closed when dropped.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;

use super::head::{BadHead, HeadReader, ResponseHead};
use super::receiving::{Receiving, Upload};
use super::request::{Outgoing, RequestHead};
use super::sending::SendError;
use super::{BoxError, UploadBody};
use crate::proxy::deadline::Deadline;

/// What carries the bytes of a connection.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Whether the other side, which owes nothing, has sent nothing and has not closed, as far as
    /// the runtime has heard. Asks the system nothing, and lets go of tasks that waited before.
    fn seems_quiet(&self) -> bool;

    /// As [`seems_quiet`](Self::seems_quiet), but asks the system.
    fn is_quiet(&self) -> bool;
}

/// A connection to an origin that waits for a request, or for the end of a response.
#[derive(Debug)]
pub struct Connection<T>(pub(super) Rc<Wire<T>>);

/// What those share who send and receive on one connection.
#[derive(Debug)]
pub(super) struct Wire<T> {
    transport: RefCell<T>,
    buffers: Rc<Buffers>,
    deadline: Rc<Deadline>,
    /// How long the origin may take for what it owes now; none while it owes nothing.
    owed_within: Cell<Option<Duration>>,
    /// Whether the request is written to its end.
    is_sent: Cell<bool>,
    /// Whether a write has failed: the origin takes no more bytes.
    has_write_failed: Cell<bool>,
}

/// Room that the connections of one worker use in turn, so that none has any while it waits.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What one read fills.
    read: RefCell<BytesMut>,
    /// Where requests are encoded.
    encoded: RefCell<Vec<u8>>,
}

/// Why a request got no head of a response.
#[derive(Debug)]
pub enum ExchangeError {
    /// The origin closed its side, or the connection broke.
    Closed {
        /// Why the connection broke, if it was not just closed.
        error: Option<io::Error>,
        /// What that means for the request.
        repeat: Repeat,
    },
    /// The response is refused.
    BadHead(BadHead),
    /// The head took longer than it may.
    Elapsed,
    /// The request's body ended in an error of its own.
    Body(BoxError),
}

/// Whether a request that got no byte of a response may be sent on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing of it was written.
    Unwritten,
    /// The origin may have acted on it, but it has no content and may be done twice.
    Idempotent,
    /// The origin may have acted on it.
    Never,
}

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 64 * 1024;

/// A read that brings at most this much is copied, so that the buffer is free again. Of a buffer that
/// is given away, at least half is in use.
const COPIED_BYTES_MAX: usize = READ_BYTES_MAX / 2;

/// Room to write that has grown larger than this is not kept; pieces of an upload that are collected
/// do not make it larger.
const ROOM_BYTES_KEPT: usize = 128 * 1024;

impl ExchangeError {
    /// Whether the request may be sent on another connection.
    pub fn repeat(&self) -> Repeat {
        match self {
            Self::Closed { repeat, .. } => *repeat,
            Self::BadHead(_) | Self::Elapsed | Self::Body(_) => Repeat::Never,
        }
    }
}

impl Transport for TcpStream {
    fn seems_quiet(&self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        self.poll_read_ready(cx).is_pending() || self.is_quiet()
    }

    fn is_quiet(&self) -> bool {
        let peeked = SockRef::from(self).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl<T: Transport> Connection<T> {
    /// Speaks HTTP/1.1 over `transport`; `deadline` is the connection's own.
    pub fn new(transport: T, deadline: Rc<Deadline>, buffers: Rc<Buffers>) -> Self {
        Self(Rc::new(Wire {
            transport: RefCell::new(transport),
            buffers,
            deadline,
            owed_within: Cell::new(None),
            is_sent: Cell::new(true),
            has_write_failed: Cell::new(false),
        }))
    }

    /// As [`Transport::seems_quiet`].
    pub fn seems_quiet(&self) -> bool {
        self.0.transport.borrow().seems_quiet()
    }

    /// As [`Transport::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        self.0.transport.borrow().is_quiet()
    }

    /// Sends `request` to `host` and waits at most `timeout` for the head of its response. Time in
    /// which the client owes bytes of the request's body does not count. `is_seen` is set when the origin may
    /// have seen some of the request.
    pub async fn exchange<B: UploadBody>(
        self,
        request: &mut Outgoing<B>,
        host: &HeaderValue,
        timeout: Duration,
        is_seen: &Cell<bool>,
    ) -> Result<Response<Receiving<T>>, ExchangeError> {
        request.sending.begin(&request.head, host, self.0.room());
        self.0.begin(timeout);
        let mut exchange = Exchange {
            wire: &self.0,
            request,
            is_seen,
            reader: HeadReader::default(),
            has_received: false,
            write_error: None,
        };
        let exchanged = poll_fn(|cx| exchange.poll(cx)).await;
        self.0.progressed();
        let (mut head, unread) = exchanged?;
        head.is_last |= request.head.is_last();
        let upload = (!self.0.is_sent.get() && !self.0.has_write_failed.get())
            .then(|| Upload::spawn(&self.0, request.sending.take_rest()));
        let receiving = Receiving::new(self, &head, unread, upload);
        Ok(head.response.map(|()| receiving))
    }
}

/// A request and its response, until the head of the response has come.
struct Exchange<'e, T, B> {
    wire: &'e Wire<T>,
    request: &'e mut Outgoing<B>,
    is_seen: &'e Cell<bool>,
    reader: HeadReader,
    /// Whether any byte of a response has come.
    has_received: bool,
    /// Why the origin takes no more bytes.
    write_error: Option<io::Error>,
}

impl<T: Transport, B: UploadBody> Exchange<'_, T, B> {
    /// Sends what can be sent, and reads what has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(ResponseHead, Bytes), ExchangeError>> {
        self.send(cx)?;
        if !self.request.sending.has_written() {
            // Whatever comes before a request is no response to it.
            return match self.write_error {
                Some(_) => Poll::Ready(Err(self.closed(None))),
                None => self.poll_overdue(cx),
            };
        }
        // A response may have come before the connection failed (413, 401), so a failed write ends
        // nothing: what can be read decides.
        while let Poll::Ready(read) = self.wire.poll_read(cx) {
            let mut bytes = match read {
                Ok(bytes) if bytes.is_empty() => return Poll::Ready(Err(self.closed(None))),
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Err(self.closed(Some(error)))),
            };
            self.has_received = true;
            let RequestHead {
                method, headers, ..
            } = &mut self.request.head;
            match self.reader.read(&mut bytes, method, headers) {
                Ok(None) => {}
                Ok(Some(head)) => return Poll::Ready(Ok((head, bytes))),
                Err(bad) => return Poll::Ready(Err(ExchangeError::BadHead(bad))),
            }
        }
        self.poll_overdue(cx)
    }

    fn poll_overdue<O>(&self, cx: &Context<'_>) -> Poll<Result<O, ExchangeError>> {
        if self.wire.deadline.is_over() {
            return Poll::Ready(Err(ExchangeError::Elapsed));
        }
        self.wire.deadline.register(cx);
        Poll::Pending
    }

    /// Sends what can be sent.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), ExchangeError> {
        let Self { wire, request, .. } = self;
        if wire.is_sent.get() || wire.has_write_failed.get() {
            return Ok(());
        }
        let sent = request.sending.poll(wire, cx);
        if request.sending.has_written() {
            self.is_seen.set(true);
        }
        match sent {
            Poll::Pending | Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(SendError::Closed(error))) => self.write_error = Some(error),
            Poll::Ready(Err(SendError::Body(error))) => return Err(ExchangeError::Body(error)),
        }
        Ok(())
    }

    /// Says what an end without a response means.
    fn closed(&mut self, error: Option<io::Error>) -> ExchangeError {
        if self.wire.deadline.is_over() {
            return ExchangeError::Elapsed;
        }
        let repeat = match &self.request {
            _ if self.has_received => Repeat::Never,
            request if !request.sending.has_written() => Repeat::Unwritten,
            request if request.is_idempotent() => Repeat::Idempotent,
            _ => Repeat::Never,
        };
        let error = self.write_error.take().or(error);
        ExchangeError::Closed { error, repeat }
    }
}

impl<T: Transport> Wire<T> {
    /// Begins to send a request whose response is due within `timeout`.
    fn begin(&self, timeout: Duration) {
        self.is_sent.set(false);
        self.owed_within.set(Some(timeout));
        self.deadline.arm(timeout);
    }

    /// Whether the request is written to its end, so that another one may follow.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent.get()
    }

    /// Notes that the request is written to its end.
    pub(super) fn sent(&self) {
        self.is_sent.set(true);
    }

    /// Returns room to write into; it is empty.
    pub(super) fn room(&self) -> Vec<u8> {
        self.buffers.encoded.take()
    }

    /// Takes back room whose bytes have been written, if there is any.
    pub(super) fn recycle(&self, mut room: Vec<u8>) {
        room.clear();
        if (1..=ROOM_BYTES_KEPT).contains(&room.capacity()) {
            self.buffers.encoded.replace(room);
        }
    }

    /// Notes that the client owes some of the request's body: the origin need not hurry.
    pub(super) fn await_client(&self) {
        self.deadline.disarm();
    }

    /// Notes that there is more of the request for the origin, or that it has taken some: it has its
    /// whole time again.
    pub(super) fn await_origin(&self) {
        if let Some(timeout) = self.owed_within.get() {
            self.deadline.arm(timeout);
        }
    }

    /// Notes that the origin has sent what it owed.
    pub(super) fn progressed(&self) {
        if self.owed_within.take().is_some() {
            self.deadline.disarm();
        }
    }

    /// Polls whether the origin has owed something for `timeout`; pending if not.
    pub(super) fn poll_overdue(&self, timeout: Duration, cx: &Context<'_>) -> Poll<()> {
        if self.owed_within.replace(Some(timeout)).is_none() {
            self.deadline.arm(timeout);
        } else if self.deadline.is_over() {
            return Poll::Ready(());
        }
        self.deadline.register(cx);
        Poll::Pending
    }

    /// Reads what is there; no byte means that the origin has closed its side by a FIN.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut room = self.buffers.read.borrow_mut();
        if room.capacity() < COPIED_BYTES_MAX {
            room.reserve(READ_BYTES_MAX);
        }
        let mut transport = self.transport.borrow_mut();
        let read = ready!(pin!(transport.read_buf(&mut *room)).poll(cx))?;
        if read == 0 && self.has_write_failed.get() {
            // The failed write has taken the error with it, and this could be a reset.
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(if read > COPIED_BYTES_MAX {
            room.split().freeze()
        } else {
            let bytes = Bytes::copy_from_slice(&room);
            room.clear();
            bytes
        }))
    }

    /// Writes some of `bytes`.
    pub(super) fn poll_write(&self, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut transport = self.transport.borrow_mut();
        let written = match ready!(Pin::new(&mut *transport).poll_write(cx, bytes)) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            written => written,
        };
        self.note(written)
    }

    /// Sends off what has been written.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = self.transport.borrow_mut();
        self.note(ready!(Pin::new(&mut *transport).poll_flush(cx)))
    }

    /// Notes whether a write has failed.
    fn note<O>(&self, written: io::Result<O>) -> Poll<io::Result<O>> {
        self.has_write_failed.set(written.is_err());
        Poll::Ready(written)
    }
}
