//! The socket of an upstream connection as hyper reads and writes it; bounds interim answers (1xx).
//!
//! hyper drops interim answers, however many come before the real one, and an origin that sends
//! nothing else would keep a worker busy until `response_timeout`. The bytes are looked at only
//! until the real head begins, which is ten of them for nearly every response.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection's socket.
pub(super) struct UpstreamIo {
    stream: TcpStream,
    interim: Rc<Cell<Interim>>,
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

impl UpstreamIo {
    /// Wraps a fresh connection; `interim` is set to [`Interim::NONE_YET`] for each request.
    pub(super) fn new(stream: TcpStream, interim: Rc<Cell<Interim>>) -> Self {
        Self { stream, interim }
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let mut interim = this.interim.get();
        if interim.place != Place::Beyond {
            interim.see(&buf.filled()[before..]);
            this.interim.set(interim);
            if interim.count > INTERIM_MAX {
                return Poll::Ready(Err(io::Error::other("too many interim answers")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
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
