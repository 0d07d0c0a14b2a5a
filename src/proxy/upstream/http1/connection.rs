//! One connection to an origin, used for one request at a time; closed when dropped.

use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::origin_deadline::OriginDeadline;
use super::known_lines::KnownLines;
use crate::proxy::wire::deadline::Deadline;
use crate::proxy::wire::read_buffer::ResponseBuffer;

/// The transport that carries the bytes of a connection.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Whether the other side, which owes nothing, has sent nothing and has not closed, as far as the runtime has
    /// noticed; asks the system only if something may have come. Tasks that waited to read are not woken any more.
    fn seems_quiet(&mut self) -> bool;

    /// The same as [`seems_quiet`](Self::seems_quiet), but always asks the system.
    fn is_quiet(&mut self) -> bool;

    /// Whether a write that fails may have sent some of its bytes. If not, a request whose first write
    /// fails counts as unwritten, and may be sent again.
    fn may_send_part(&self) -> bool;

    /// Acknowledges at once what has come, if the system can be told to: it would otherwise wait for
    /// bytes with which to send the acknowledgement.
    fn acknowledge(&self) {}
}

/// A connection to an origin that is free for a request, or carries one until its response has ended.
#[derive(Debug)]
pub struct Http1Connection<T>(pub(super) Rc<Wire<T>>);

/// What the two sides that send and receive on one connection share.
#[derive(Debug)]
pub(super) struct Wire<T> {
    transport: RefCell<T>,
    buffers: Rc<Buffers>,
    pub(super) due: OriginDeadline,
    written: Cell<Written>,
}

/// How much of a request has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    Some,
    Everything,
    /// Some, and the origin takes no more.
    Failed,
}

/// Buffers that the connections of one worker use in turn, so that none holds a buffer while it waits,
/// and the field lines that they have learned.
#[derive(Debug, Default)]
pub struct Buffers {
    read: ResponseBuffer,
    /// The buffer in which requests are encoded; empty between uses.
    write: RefCell<Vec<u8>>,
    /// Known field lines of responses.
    lines: RefCell<KnownLines>,
}

/// Largest capacity with which a write buffer is kept. The pieces of an upload fit into it.
const WRITE_BYTES_KEPT: usize = 128 * 1024;

impl<T: Transport> Http1Connection<T> {
    /// Makes a connection that speaks HTTP/1.1 over `transport`; `deadline` belongs to it alone.
    pub fn new(transport: T, deadline: Rc<Deadline>, buffers: Rc<Buffers>) -> Self {
        Self(Rc::new(Wire {
            transport: RefCell::new(transport),
            buffers,
            due: OriginDeadline::new(deadline),
            written: Cell::new(Written::Nothing),
        }))
    }

    /// The same as [`Transport::seems_quiet`].
    pub fn seems_quiet(&self) -> bool {
        self.0.transport.borrow_mut().seems_quiet()
    }

    /// The same as [`Transport::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        self.0.transport.borrow_mut().is_quiet()
    }
}

impl<T> Http1Connection<T> {
    /// Returns the transport, unless an upload still uses the connection.
    pub(super) fn into_transport(self) -> Option<T> {
        Rc::into_inner(self.0).map(|wire| wire.transport.into_inner())
    }
}

impl<T: Transport> Wire<T> {
    /// Begins to send a request whose response is due within `timeout`.
    pub(super) fn begin(&self, timeout: Duration) {
        self.written.set(Written::Nothing);
        self.due.begin(timeout);
    }

    /// Returns how much of the request has been written.
    pub(super) fn written(&self) -> Written {
        self.written.get()
    }

    /// Notes that the whole request has been written.
    pub(super) fn note_end(&self) {
        self.written.set(Written::Everything);
    }

    /// Notes that a write has failed.
    pub(super) fn note_failure(&self) {
        if self.written.get() == Written::Some {
            self.written.set(Written::Failed);
        }
    }

    /// Returns an empty buffer to write from.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.buffers.write.take()
    }

    /// Takes back a buffer whose bytes have been written.
    pub(super) fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        // A request that waits for its client may have given its buffer back already.
        if (1..=WRITE_BYTES_KEPT).contains(&buffer.capacity()) {
            self.buffers.write.replace(buffer);
        }
    }

    /// Reads what has come; no bytes mean that the origin has closed its side by a FIN.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut transport = self.transport.borrow_mut();
        let bytes = ready!(self.buffers.read.poll_read(&mut *transport, cx))?;
        if bytes.is_empty() && self.written.get() == Written::Failed {
            // The failed write has consumed the socket's error, so what looks like a FIN may be a reset.
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(bytes.freeze()))
    }

    /// Returns the known field lines.
    pub(super) fn lines(&self) -> RefMut<'_, KnownLines> {
        self.buffers.lines.borrow_mut()
    }

    /// The same as [`Transport::acknowledge`].
    pub(super) fn acknowledge(&self) {
        self.transport.borrow().acknowledge();
    }

    /// Writes some of these pieces.
    pub(super) fn poll_write(
        &self,
        pieces: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut transport = self.transport.borrow_mut();
        let io = Pin::new(&mut *transport);
        let polled = match pieces {
            [only] => io.poll_write(cx, only),
            _ => io.poll_write_vectored(cx, pieces),
        };
        let written = match ready!(polled) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            written => written,
        };
        if written.is_err() && !transport.may_send_part() {
            return Poll::Ready(written);
        }
        if self.written.replace(Written::Some) == Written::Some {
            self.due.restart();
        }
        Poll::Ready(written)
    }

    /// Flushes what has been written.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.transport.borrow_mut()).poll_flush(cx)
    }
}
