//! The wrapper around every socket to an origin: bounds interim answers (1xx), and still listens to
//! an origin that stops reading.
//!
//! hyper drops interim answers, however many come before the real one, and an origin that sends
//! nothing else would keep a worker busy until `response_timeout`. The bytes are looked at only
//! until the real head begins, which is ten of them for nearly every response.
//!
//! An origin may answer before it has read a request's body, and close with bytes unread, which
//! resets the connection under what the gateway still sends. The answer has arrived by then, but
//! hyper would stop at the failed write and never read it. So a write that the origin does not
//! take any more is thrown away, and what can be read decides how the exchange ends.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::gather::{Gathered, gather};

/// An origin's socket as hyper reads and writes it.
pub(super) struct UpstreamIo {
    stream: TcpStream,
    seen: Rc<Seen>,
}

/// What the socket has seen of its origin.
pub(super) struct Seen {
    /// Set to [`Interim::NONE_YET`] with each request.
    pub(super) interim: Cell<Interim>,
    /// Whether the origin takes nothing any more.
    pub(super) is_deaf: Cell<bool>,
}

/// How far the heads before a response's own have been seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interim {
    place: Place,
    /// Interim answers that have begun since the request was sent.
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a head, so many bytes of which say that it is an interim one.
    Begin(usize),
    /// Within an interim head, behind so many line ends in a row.
    Within(u8),
    /// Beyond the beginning of a head that is not interim.
    Beyond,
}

/// Most interim answers to one request; clients of the gateway see none of them.
pub(super) const INTERIM_MAX: u32 = 64;

/// How an interim answer begins, whatever its minor version.
const INTERIM: &[u8; 10] = b"HTTP/1.? 1";

impl Interim {
    /// A request is sent, nothing of its answer has been seen.
    pub(super) const NONE_YET: Self = Self {
        place: Place::Begin(0),
        count: 0,
    };

    /// Looks at what the origin sent next.
    fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.place = match self.place {
                Place::Beyond => return,
                // Empty lines before a head are nobody's.
                Place::Begin(0) if matches!(byte, b'\r' | b'\n') => Place::Begin(0),
                Place::Begin(seen) if byte != INTERIM[seen] && INTERIM[seen] != b'?' => {
                    Place::Beyond
                }
                Place::Begin(seen) if seen + 1 < INTERIM.len() => Place::Begin(seen + 1),
                Place::Begin(_) => {
                    self.count += 1;
                    Place::Within(0)
                }
                Place::Within(1) if byte == b'\n' => Place::Begin(0),
                Place::Within(_) if byte == b'\n' => Place::Within(1),
                Place::Within(ends) if byte == b'\r' => Place::Within(ends),
                Place::Within(_) => Place::Within(0),
            };
        }
    }
}

impl Seen {
    /// Nothing yet.
    pub(super) fn nothing() -> Self {
        Self {
            interim: Cell::new(Interim::NONE_YET),
            is_deaf: Cell::new(false),
        }
    }
}

impl UpstreamIo {
    /// Wraps a fresh connection.
    pub(super) fn new(stream: TcpStream, seen: Rc<Seen>) -> Self {
        Self { stream, seen }
    }

    /// Takes `bytes` as written if the origin will never take them.
    fn written(
        &self,
        written: Poll<io::Result<usize>>,
        bytes: impl FnOnce() -> usize,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(error)) if is_closed(&error) => {
                self.seen.is_deaf.set(true);
                Poll::Ready(Ok(bytes()))
            }
            written => written,
        }
    }
}

/// Whether the origin has closed its side, rather than the gateway failed.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let mut interim = self.seen.interim.get();
        if interim.place != Place::Beyond {
            interim.see(&buf.filled()[before..]);
            self.seen.interim.set(interim);
            if interim.count > INTERIM_MAX {
                return Poll::Ready(Err(io::Error::other("too many interim answers")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.seen.is_deaf.get() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written, || bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(bytes) = gather(slices, &mut Gathered::new()) {
            return self.poll_write(cx, bytes);
        }
        let bytes = || slices.iter().map(|slice| slice.len()).sum();
        if self.seen.is_deaf.get() {
            return Poll::Ready(Ok(bytes()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(written, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts interim answers in pieces of every size: no border hides one.
    fn count(text: &str) -> u32 {
        let counts: Vec<u32> = (1..=text.len())
            .map(|size| {
                let mut interim = Interim::NONE_YET;
                text.as_bytes()
                    .chunks(size)
                    .for_each(|piece| interim.see(piece));
                interim.count
            })
            .collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        counts[0]
    }

    #[test]
    fn interim_answers_are_counted_up_to_the_real_one() {
        let hint = "HTTP/1.1 103 Early Hints\r\nlink: HTTP/1.1 1\r\n\r\n";
        let ok = "HTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(count(ok), 0);
        assert_eq!(count(&format!("{hint}{hint}{ok}{hint}")), 2);
        assert_eq!(
            count(&format!("\r\n{hint}\nHTTP/1.0 100 Continue\n\n{ok}")),
            2
        );
        assert_eq!(
            count("SSH-2.0-OpenSSH\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
            0
        );
    }
}
