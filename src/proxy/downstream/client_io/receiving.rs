//! Reading what a client sends, and ending a read that takes too long.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::BufMut as _;
use socket2::SockRef;
use tokio::io::{Interest, ReadBuf};
use tokio::task::coop;

use super::{Awaited, ClientSocket};

/// Most bytes of one read. hyper doubles its buffer whenever a read fills it, and keeps it while the
/// connection is idle: at one byte less than 16 KiB it stops growing there, instead of at 64 KiB.
const READ_BYTES_MAX: usize = 16 * 1024 - 1;
/// What a client gets that began a head and did not finish it in time.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

impl ClientSocket {
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.poll_receive(cx, buf) {
            Poll::Ready(Ok(bytes)) => {
                if bytes > 0 {
                    self.is_more_wanted.store(false, Relaxed);
                    self.first_byte_arrived();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if self.read.is_over() && !self.is_answer_being_taken() => {
                self.give_up_reading()
            }
            Poll::Pending => {
                self.is_more_wanted.store(true, Relaxed);
                if self.awaited() == Awaited::Head && !self.read.is_armed() {
                    self.read.arm(self.timeouts.header);
                }
                self.read.register(cx);
                Poll::Pending
            }
        }
    }

    /// Reads what there is; returns the number of bytes, 0 at the end.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.is_readiness_hidden.load(Relaxed) {
            let turn = ready!(coop::poll_proceed(cx));
            let room = buf.remaining().min(READ_BYTES_MAX);
            let read = io::Read::read(
                &mut &*SockRef::from(&self.stream),
                buf.initialize_unfilled_to(room),
            );
            let is_emptied = match &read {
                Ok(bytes) => (1..room).contains(bytes),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            if is_emptied {
                // The runtime hears of what comes after this.
                self.is_readiness_hidden.store(false, Relaxed);
            }
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(bytes) => {
                    turn.made_progress();
                    buf.advance(bytes);
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let room = buf.remaining().min(READ_BYTES_MAX);
            match self.stream.try_read_buf(&mut buf.limit(room)) {
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

    /// Whether the client is still taking the answer before what is awaited; the deadline for
    /// that is `write`.
    fn is_answer_being_taken(&self) -> bool {
        self.write.is_armed() && matches!(self.awaited(), Awaited::NextRequest | Awaited::Head)
    }

    /// Ends a read whose deadline is over, as what was awaited demands.
    fn give_up_reading(&self) -> Poll<io::Result<()>> {
        match self.awaited() {
            Awaited::Head => {
                // A socket that does not take these bytes is not worth waiting for.
                drop(self.stream.try_write(REQUEST_TIMEOUT));
                self.is_goodbye_due.store(true, Relaxed);
                Poll::Ready(Ok(()))
            }
            Awaited::FirstByte | Awaited::NextRequest | Awaited::Close => Poll::Ready(Ok(())),
            Awaited::Body | Awaited::Nothing => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }

    pub(super) fn clear_readiness(&self, interest: Interest) {
        let blocked: io::Result<()> = self
            .stream
            .try_io(interest, || Err(io::ErrorKind::WouldBlock.into()));
        drop(blocked);
    }
}
