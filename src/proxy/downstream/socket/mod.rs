//! A client's socket with its deadlines, below any protocol that is spoken on it.
//!
//! [`Socket`] is one connection on one thread, of TCP or of a Unix socket: both have the same type here, because the
//! same system calls read, write and shut them down. Protocols read and write through [`SocketIo`], which TLS can wrap;
//! code that only watches the connection holds the socket itself. One deadline is for what the client must send and one
//! for what it must take; both are swept. The layer above (`http1`) knows what is awaited, and what it means when a
//! deadline is over.
//!
//! `watch` notices a client that leaves while nobody reads; `lingering` closes.

mod end_watch;
mod lingering;
mod watch;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use self::end_watch::EndWatch;
use crate::proxy::downstream::gather::{Gathered, gather};
use crate::proxy::wire::deadline::{Deadline, Sweep};

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Rc<TcpStream>,
    /// Notices that the client has left, even while bytes wait to be read.
    end: EndWatch,
    /// By when the client must have sent what is awaited.
    pub(super) read: Rc<Deadline>,
    /// By when the client must have taken some of what is being written.
    pub(super) write: Rc<Deadline>,
    /// How long the client may take nothing of what is being written.
    write_timeout: Cell<Duration>,
    /// Whether the client has sent anything.
    has_received: Cell<bool>,
    /// Whether the gateway has closed its side.
    is_write_closed: Cell<bool>,
    /// Whether the connection is reset unless the gateway closes its side first.
    is_reset_due: Cell<bool>,
}

/// The bytes of a [`Socket`].
#[derive(Debug)]
pub(crate) struct SocketIo(Rc<Socket>);

impl Socket {
    /// Wraps a fresh connection.
    pub(crate) fn new(stream: TcpStream, sweep: &Sweep, write_timeout: Duration) -> Rc<Self> {
        Rc::new(Self {
            stream: Rc::new(stream),
            end: EndWatch::default(),
            read: sweep.deadline(),
            write: sweep.deadline(),
            write_timeout: Cell::new(write_timeout),
            has_received: Cell::new(false),
            is_write_closed: Cell::new(false),
            is_reset_due: Cell::new(false),
        })
    }

    /// Returns the bytes of the socket, for the protocol that is spoken on it.
    pub(super) fn io(self: &Rc<Self>) -> SocketIo {
        SocketIo(Rc::clone(self))
    }

    /// Reads what is there; returns the number of bytes, 0 at the end.
    fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
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

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            // The runtime asks the system only if it believes that the socket is writable.
            match send(&self.stream) {
                Ok(bytes) => {
                    self.write.disarm();
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if self.stream.poll_write_ready(cx)?.is_pending() {
                if !self.write.is_armed() {
                    self.write.arm(self.write_timeout.get());
                } else if self.write.is_over() {
                    // What the client has not taken is dropped: the connection is reset.
                    self.linger(Some(Duration::ZERO));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.write.register(cx);
                return Poll::Pending;
            }
        }
    }

    /// Waits for the client's next byte, and leaves it unread; `None` if the client closes its side or is gone.
    pub(super) async fn peek_byte(&self) -> Option<u8> {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let peeked = poll_fn(|cx| {
            let peeked = self.stream.poll_peek(cx, &mut room);
            if peeked.is_pending() {
                self.read.register(cx);
            }
            peeked
        });
        peeked.await.ok()?;
        room.filled().first().copied()
    }

    /// Whether the client has sent anything.
    pub(super) fn has_received(&self) -> bool {
        self.has_received.get()
    }

    /// Ends the wait for the client at once, to make room for another connection.
    pub(super) fn evict(&self) {
        self.read.expire();
    }

    /// Whether the connection is to make room for another: it was evicted, and nothing has come since.
    pub(super) fn is_evicted(&self) -> bool {
        self.read.is_expired()
    }

    /// Sets how long the client may take nothing of what is being written, from now on.
    pub(super) fn set_write_timeout(&self, timeout: Duration) {
        self.write_timeout.set(timeout);
    }

    /// Has the connection end with a reset, unless the gateway closes its side first.
    pub(super) fn reset_unless_closed(&self) {
        self.is_reset_due.set(true);
        self.linger(Some(Duration::ZERO));
    }

    /// Sets SO_LINGER, how long the system goes on sending after the socket is dropped: zero means a reset, `None` the
    /// default.
    fn linger(&self, time: Option<Duration>) {
        // A socket that is broken needs no reset.
        let _ = SockRef::from(&*self.stream).set_linger(time);
    }

    /// Closes the gateway's side.
    pub(super) fn close_write(&self) -> io::Result<()> {
        if self.is_write_closed.replace(true) {
            return Ok(());
        }
        if self.is_reset_due.replace(false) {
            self.linger(None);
        }
        SockRef::from(&*self.stream).shutdown(std::net::Shutdown::Write)
    }

    fn clear_readiness(&self, interest: Interest) {
        let blocked: io::Result<()> = self
            .stream
            .try_io(interest, || Err(io::ErrorKind::WouldBlock.into()));
        drop(blocked);
    }
}

impl AsyncRead for SocketIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.poll_receive(cx, buf);
        match read {
            Poll::Ready(Ok(bytes)) if bytes > 0 => self.0.has_received.set(true),
            Poll::Ready(_) => {}
            Poll::Pending => self.0.read.register(cx),
        }
        read.map_ok(|_| ())
    }
}

impl AsyncWrite for SocketIo {
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

    /// Closes the gateway's side; the client's stays open for [`Socket::lingering_close`].
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.close_write())
    }
}
