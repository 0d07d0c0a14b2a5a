//! The wrapper around every client socket: its deadlines, the raw 408, lingering close, and the
//! watch for a client that left.
//!
//! hyper owns a [`ClientIo`] and reads and writes through it; the journey holds the
//! [`ClientSocket`] behind it and says what the connection waits for. hyper's own timers stay
//! off: one [`Deadline`] for what the client is to send and one for what it is to take, both
//! swept, cover a slow head, an idle connection, a slow body, a slow reader and a slow goodbye.
//!
//! Here is what is waited for; `receiving` reads, and ends a read that takes too long, `watch`
//! looks out for a client that leaves while nobody reads, `waiting` is between requests, `goodbye` closes.

mod goodbye;
mod receiving;
mod waiting;
mod watch;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::proxy::deadline::{Deadline, Sweep};
use crate::proxy::gather::{Gathered, gather};
use crate::snapshot::Listener;

/// A client's socket as hyper reads and writes it.
#[derive(Debug)]
pub(crate) struct ClientIo(Arc<ClientSocket>);

/// A client's socket as the journey sees it.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    stream: TcpStream,
    timeouts: Timeouts,
    /// Until when the client must have sent what is waited for.
    read: Arc<Deadline>,
    /// Until when the client must have taken some of what is being written.
    write: Arc<Deadline>,
    awaited: AtomicU8,
    /// Whether the runtime was told that nothing can be read although bytes are waiting: the
    /// watch does that, to hear of the client's leaving behind them.
    is_readiness_hidden: AtomicBool,
    /// Whether hyper wanted more after the latest bytes, and there was none. Between a head and
    /// the end of its answer it wants more only when it has used up what it has.
    is_more_wanted: AtomicBool,
    /// Whether the client may be sending still when its connection closes.
    is_more_expected: AtomicBool,
    /// Whether the connection ends behind an answer, which the client is to read in peace.
    is_goodbye_due: AtomicBool,
}

/// A listener's patience with its clients.
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
    FirstByte = 0,
    /// The rest of a head.
    Head = 1,
    /// Nothing: a request is being worked on.
    Nothing = 2,
    /// More of a body.
    Body = 3,
    /// The next request.
    NextRequest = 4,
    /// Its goodbye, after ours.
    Close = 5,
}

impl ClientIo {
    /// Wraps a fresh connection; its first head is due within the listener's `header_timeout`.
    pub(crate) fn new(stream: TcpStream, listener: &Listener, sweep: &Sweep) -> Self {
        let socket = ClientSocket {
            stream,
            timeouts: Timeouts {
                header: listener.header_timeout,
                idle: listener.idle_timeout,
                body: listener.body_timeout,
            },
            read: sweep.deadline(),
            write: sweep.deadline(),
            awaited: AtomicU8::new(Awaited::FirstByte as u8),
            is_readiness_hidden: AtomicBool::new(false),
            is_more_wanted: AtomicBool::new(true),
            is_more_expected: AtomicBool::new(false),
            is_goodbye_due: AtomicBool::new(false),
        };
        socket.read.arm(listener.header_timeout);
        Self(Arc::new(socket))
    }

    /// Returns the socket, for the journey.
    pub(crate) fn socket(&self) -> Arc<ClientSocket> {
        Arc::clone(&self.0)
    }
}

impl ClientSocket {
    /// Says that a head is complete: what takes time now is not the client's doing.
    pub(crate) fn begin_request(&self) {
        self.is_more_expected.store(false, Relaxed);
        self.stop_waiting();
    }

    /// Says that the client may be sending still when its connection closes: the rest of a body,
    /// or what it has to say behind a request that is refused.
    pub(crate) fn expect_more(&self) {
        self.is_more_expected.store(true, Relaxed);
    }

    /// Says that the request's body has been read to its end.
    pub(crate) fn expect_no_more(&self) {
        self.is_more_expected.store(false, Relaxed);
    }

    /// Whether the client may be sending still.
    pub(crate) fn is_more_expected(&self) -> bool {
        self.is_more_expected.load(Relaxed)
    }

    /// Says that the answer is complete and the next request is awaited, or the rest of it if
    /// some has come already.
    pub(crate) fn end_request(&self) {
        self.await_next(if self.is_more_wanted.load(Relaxed) {
            Awaited::NextRequest
        } else {
            Awaited::Head
        });
        self.arm_between_requests();
    }

    /// Gives the client the whole time that it has for what it may send between two requests.
    fn arm_between_requests(&self) {
        match self.awaited() {
            Awaited::NextRequest => self.read.arm(self.timeouts.idle),
            Awaited::Head => self.read.arm(self.timeouts.header),
            Awaited::FirstByte | Awaited::Nothing | Awaited::Body | Awaited::Close => {}
        }
    }

    /// Says that more of the body is needed and is not there; repeated calls do not extend the wait.
    pub(crate) fn await_body(&self) {
        if self.awaited() != Awaited::Body {
            self.await_next(Awaited::Body);
            self.read.arm(self.timeouts.body);
        }
    }

    /// Says that the client sent some of its body.
    pub(crate) fn body_progressed(&self) {
        if self.awaited() == Awaited::Body {
            self.stop_waiting();
        }
    }

    /// What the connection waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        match self.awaited.load(Relaxed) {
            0 => Awaited::FirstByte,
            1 => Awaited::Head,
            2 => Awaited::Nothing,
            3 => Awaited::Body,
            4 => Awaited::NextRequest,
            _ => Awaited::Close,
        }
    }

    /// Whether the client did not send in time what was awaited.
    pub(crate) fn is_overdue(&self) -> bool {
        self.read.is_over()
    }

    fn stop_waiting(&self) {
        self.await_next(Awaited::Nothing);
        self.read.disarm();
    }

    fn await_next(&self, awaited: Awaited) {
        self.awaited.store(awaited as u8, Relaxed);
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.stream.poll_write_ready(cx)?.is_pending() {
                if !self.write.is_armed() {
                    self.write.arm(self.timeouts.body);
                } else if self.write.is_over() {
                    // What it has not taken is not kept for it any longer: a reset, not a goodbye.
                    drop(SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.write.register(cx);
                return Poll::Pending;
            }
            match send(&self.stream) {
                Ok(bytes) => {
                    if self.write.is_armed() {
                        self.write.disarm();
                        // Nobody asks for anything while the answer is still being taken.
                        self.arm_between_requests();
                    }
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match gather(slices, &mut Gathered::new()) {
            Some(bytes) => self.0.poll_send(cx, |stream| stream.try_write(bytes)),
            None => (self.0).poll_send(cx, |stream| stream.try_write_vectored(slices)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.is_goodbye_due.store(true, Relaxed);
        Poll::Ready(Ok(()))
    }
}
