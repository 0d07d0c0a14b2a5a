//! The wrapper around every client socket: its deadlines, the raw 408, lingering close, and the
//! watch for a client that left.
//!
//! hyper owns a [`ClientIo`] and reads and writes through it; the journey holds the
//! [`ClientSocket`] behind it and says what the connection waits for. hyper's own timers stay
//! off: one [`Deadline`] for what the client is to send and one for what it is to take, both
//! swept, cover a slow head, an idle connection, a slow body, a slow reader and a slow goodbye.

mod waiting;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::sweep::{Deadline, Sweep};
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
    /// Whether the client may be sending still when its connection closes.
    is_more_expected: AtomicBool,
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

/// What a client gets that began a head and did not finish it in time.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// How long after an early answer what the client still sends is read and thrown away.
const LINGER_MAX: Duration = Duration::from_secs(30);
/// How long it may be silent meanwhile.
const LINGER_IDLE_MAX: Duration = Duration::from_secs(5);

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
            is_more_expected: AtomicBool::new(false),
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

    /// Says that the answer is complete and the next request is awaited.
    pub(crate) fn end_request(&self) {
        self.await_next(Awaited::NextRequest);
        self.read.arm(self.timeouts.idle);
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

    /// Waits until the client closes its side or resets, whatever it has sent before.
    ///
    /// hyper notices by itself only while it reads; a held request with an unread body, an
    /// `Expect`, or bytes pipelined behind it is not being read.
    pub(crate) async fn gone(&self) {
        loop {
            match self.stream.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => self.hide_readiness(),
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Makes the runtime report the next event instead of the bytes that are already waiting.
    fn hide_readiness(&self) {
        self.is_readiness_hidden.store(true, Relaxed);
        self.clear_readiness(Interest::READABLE);
    }

    fn clear_readiness(&self, interest: Interest) {
        let blocked: io::Result<()> = self
            .stream
            .try_io(interest, || Err(io::ErrorKind::WouldBlock.into()));
        drop(blocked);
    }

    fn stop_waiting(&self) {
        self.await_next(Awaited::Nothing);
        self.read.disarm();
    }

    fn await_next(&self, awaited: Awaited) {
        self.awaited.store(awaited as u8, Relaxed);
    }

    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.poll_receive(cx, buf) {
            Poll::Ready(Ok(bytes)) => {
                if bytes > 0 {
                    self.first_byte_arrived();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if self.read.is_over() => self.give_up_reading(),
            Poll::Pending => {
                if self.awaited() == Awaited::Head && !self.read.is_armed() {
                    self.read.arm(self.timeouts.header);
                }
                self.read.register(cx);
                Poll::Pending
            }
        }
    }

    /// Reads what there is; returns the number of bytes, 0 at the end.
    fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        if self.is_readiness_hidden.load(Relaxed) {
            match io::Read::read(
                &mut &*SockRef::from(&self.stream),
                buf.initialize_unfilled(),
            ) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readiness_hidden.store(false, Relaxed);
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok(bytes) => {
                    buf.advance(bytes);
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let room = buf.remaining();
            match self.stream.try_read_buf(buf) {
                Ok(bytes) => {
                    // A short read emptied the socket: asking again would cost a syscall.
                    if (1..room).contains(&bytes) {
                        self.clear_readiness(Interest::READABLE);
                    }
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// A head is due within `header_timeout` of its first byte, or of the accept; the deadline of
    /// one that arrives whole is never armed.
    fn first_byte_arrived(&self) {
        match self.awaited() {
            Awaited::FirstByte => self.await_next(Awaited::Head),
            Awaited::NextRequest => {
                self.await_next(Awaited::Head);
                self.read.disarm();
            }
            Awaited::Head | Awaited::Nothing | Awaited::Body | Awaited::Close => {}
        }
    }

    /// Ends a read whose deadline is over, as what was awaited demands.
    fn give_up_reading(&self) -> Poll<io::Result<()>> {
        match self.awaited() {
            Awaited::Head => {
                // The answer to the request before has left hyper, unless it is still being taken.
                // A socket that does not take these bytes is not worth waiting for.
                if !self.write.is_armed() {
                    drop(self.stream.try_write(REQUEST_TIMEOUT));
                }
                Poll::Ready(Ok(()))
            }
            Awaited::FirstByte | Awaited::NextRequest | Awaited::Close => Poll::Ready(Ok(())),
            Awaited::Body | Awaited::Nothing => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
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
                    self.write.disarm();
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Says goodbye; if the client may still be sending, reads and throws that away, so that the
    /// kernel does not reset the connection under an answer the client has yet to read.
    fn poll_linger(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.awaited() != Awaited::Close {
            SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)?;
            let is_between_requests =
                matches!(self.awaited(), Awaited::NextRequest | Awaited::FirstByte);
            if is_between_requests && !self.is_more_expected.load(Relaxed) {
                return Poll::Ready(Ok(()));
            }
            self.await_next(Awaited::Close);
            self.read.arm(LINGER_IDLE_MAX);
            // Nothing is written any more, so this deadline is free to bound the whole goodbye.
            self.write.arm(LINGER_MAX);
        }
        let mut scrap = [0; 16 * 1024];
        while !self.read.is_over() && !self.write.is_over() {
            match self.poll_receive(cx, &mut ReadBuf::new(&mut scrap)) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => self.read.arm(LINGER_IDLE_MAX),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.read.register(cx);
                    self.write.register(cx);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
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
        self.0
            .poll_send(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_linger(cx)
    }
}
