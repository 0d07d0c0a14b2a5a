//! The bytes of an HTTP/1 connection, and the end of a read that takes too long.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::{Awaited, RequestState};

/// A client's transport as hyper reads and writes it: the socket's own bytes, or TLS over them.
#[derive(Debug)]
pub(crate) struct Http1Io<T> {
    transport: T,
    state: Rc<RequestState>,
}

/// The answer to a client that began a head and did not finish it in time.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

impl<T: AsyncRead + AsyncWrite + Unpin> Http1Io<T> {
    /// Wraps the transport of a fresh connection.
    pub(crate) fn new(transport: T, state: Rc<RequestState>) -> Self {
        Self { transport, state }
    }

    /// Ends a read whose deadline is over, in the way that fits what was awaited.
    fn give_up_reading(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state.awaited() {
            Awaited::Head => {
                // A socket that does not take these bytes is not worth waiting for.
                let mut transport = Pin::new(&mut self.transport);
                let _ = transport.as_mut().poll_write(cx, REQUEST_TIMEOUT);
                let _ = transport.poll_shutdown(cx);
                Poll::Ready(Ok(()))
            }
            Awaited::FirstByte | Awaited::NextRequest => Poll::Ready(Ok(())),
            Awaited::Body | Awaited::Nothing => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Writes, and notes that a client that was slow to take an answer has taken some of it.
    fn poll_send(
        &mut self,
        write: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let was_slow = self.state.socket.write.is_armed();
        let written = write(Pin::new(&mut self.transport));
        if was_slow && matches!(written, Poll::Ready(Ok(_))) {
            self.state.taken();
        }
        written
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Http1Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.transport).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) if buf.filled().len() > before => self.state.received(),
            Poll::Ready(_) => {}
            Poll::Pending if self.state.gave_up() => return self.give_up_reading(cx),
            Poll::Pending => self.state.want_more(),
        }
        read
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Http1Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(|transport| transport.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(|transport| transport.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
