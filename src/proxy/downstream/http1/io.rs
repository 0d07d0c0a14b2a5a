//! Reads and writes the bytes of an HTTP/1 connection, ends a read that takes too long, and first looks whether it is
//! HTTP/1 at all.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::Http1State;
use crate::proxy::downstream::awaited::Awaited;

/// A client's transport as hyper reads and writes it: the socket's own bytes, or TLS over them.
#[derive(Debug)]
pub(crate) struct Http1Io<T> {
    transport: T,
    state: Rc<Http1State>,
    preface: Preface,
}

/// Whether a connection begins as HTTP/2 does.
#[derive(Debug)]
enum Preface {
    /// It may: these bytes have come so far.
    Possible(Vec<u8>),
    /// It does, with these bytes.
    Found(Bytes),
    /// It does not, but these bytes had to be read to find out, and are still to be passed on.
    Unread(Bytes),
    /// It does not, or HTTP/2 is not looked for.
    None,
}

/// How HTTP/2 begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer to a client that began a head and did not finish it in time.
const REQUEST_TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

impl<T: AsyncRead + AsyncWrite + Unpin> Http1Io<T> {
    /// Wraps the transport of a fresh connection, which may turn out to be HTTP/2 if `http2` is true.
    pub(crate) fn new(transport: T, state: Rc<Http1State>, http2: bool) -> Self {
        Self {
            transport,
            state,
            preface: if http2 {
                Preface::Possible(Vec::new())
            } else {
                Preface::None
            },
        }
    }

    /// Returns the transport, and the bytes that have been read, if the connection begins as HTTP/2 does.
    pub(crate) fn into_parts(self) -> (T, Option<Bytes>) {
        let found = match self.preface {
            Preface::Found(bytes) => Some(bytes),
            Preface::Possible(_) | Preface::Unread(_) | Preface::None => None,
        };
        (self.transport, found)
    }

    /// Reads what is there. If the connection begins as HTTP/2 does, hyper is told that it has ended.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if matches!(self.preface, Preface::None) {
            return Pin::new(&mut self.transport).poll_read(cx, buf);
        }
        self.poll_receive_first(cx, buf)
    }

    /// Reads the first bytes of a connection.
    #[cold]
    fn poll_receive_first(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.preface {
            Preface::None => self.poll_receive(cx, buf),
            Preface::Found(_) => Poll::Ready(Ok(())),
            Preface::Unread(unread) => {
                buf.put_slice(&unread.split_to(unread.len().min(buf.remaining())));
                if unread.is_empty() {
                    self.preface = Preface::None;
                }
                Poll::Ready(Ok(()))
            }
            Preface::Possible(earlier) => {
                let before = buf.filled().len();
                ready!(Pin::new(&mut self.transport).poll_read(cx, buf))?;
                let bytes = &buf.filled()[before..];
                if earlier.is_empty() && !may_be_preface(bytes) {
                    self.preface = Preface::None;
                    return Poll::Ready(Ok(()));
                }
                let is_end = bytes.is_empty();
                if !is_end {
                    self.state.received(bytes.len());
                }
                earlier.extend_from_slice(bytes);
                buf.set_filled(before);
                let read = std::mem::take(earlier);
                self.preface = match may_be_preface(&read) {
                    true if read.len() >= PREFACE.len() => Preface::Found(read.into()),
                    true if !is_end => Preface::Possible(read),
                    _ => Preface::Unread(read.into()),
                };
                self.poll_receive(cx, buf)
            }
        }
    }

    /// Ends a read whose deadline is over, in the way that fits what was awaited.
    fn give_up_reading(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state.awaited() {
            Awaited::Head => {
                // If the socket does not take these bytes at once, nothing waits for it.
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

/// Whether these bytes begin with the preface, or are the beginning of it.
fn may_be_preface(bytes: &[u8]) -> bool {
    bytes.iter().zip(PREFACE).all(|(byte, of)| byte == of)
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Http1Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.poll_receive(cx, buf);
        match &read {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                self.state.received(buf.filled().len() - before);
            }
            Poll::Ready(_) => {}
            Poll::Pending if self.state.is_read_overdue() => return self.give_up_reading(cx),
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
        self.state.writes(bytes.len());
        self.poll_send(|transport| transport.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state
            .writes(slices.first().map_or(0, |slice| slice.len()));
        self.poll_send(|transport| transport.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.preface, Preface::Found(_)) {
            // The connection goes on as HTTP/2.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
