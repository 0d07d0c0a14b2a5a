//! One direction of a tunnel.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One direction of a tunnel: what has been read on one side and is to be written on the other. It has
/// a buffer only while the other side takes less than has come.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    rest: Vec<u8>,
    /// Whether the reading side has ended, or is not waited for any more.
    is_ended: bool,
    /// Whether the writing side has been closed.
    is_closed: bool,
    /// Whether what is read after the writing side was closed is discarded, until the reading side ends.
    is_discarding: bool,
    /// Bytes that have been read.
    pub(super) bytes: u64,
}

/// Which side of a pipe has broken.
#[derive(Debug)]
pub(super) enum BrokenPipe {
    Reader,
    Writer,
}

/// Most bytes of one read, and so of what is kept.
const READ_BYTES_MAX: usize = 16 * 1024;

impl Pipe {
    /// Closes the writing side once everything that has been read is written; what comes later is
    /// discarded.
    pub(super) fn close(&mut self) {
        self.is_discarding = !self.is_ended;
        self.is_ended = true;
    }

    /// Moves what can be moved; ready once the reading side has ended and the writing side is closed.
    pub(super) fn poll(
        &mut self,
        mut reader: Pin<&mut impl AsyncRead>,
        mut writer: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BrokenPipe>> {
        let broken = |_: io::Error| BrokenPipe::Writer;
        while !self.is_closed {
            while !self.rest.is_empty() {
                let written = ready!(writer.as_mut().poll_write(cx, &self.rest)).map_err(broken)?;
                self.rest.drain(..written);
            }
            self.rest = Vec::new();
            if self.is_ended {
                ready!(writer.as_mut().poll_shutdown(cx)).map_err(broken)?;
                self.is_closed = true;
                break;
            }
            let mut room = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
            let mut room = ReadBuf::uninit(&mut room);
            let read = reader.as_mut().poll_read(cx, &mut room);
            if read.is_pending() {
                // What has been written may wait in a buffer of TLS.
                ready!(writer.as_mut().poll_flush(cx)).map_err(broken)?;
            }
            match ready!(read) {
                // Many peers end a TLS connection without closing it properly (no `close_notify`).
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                read => read.map_err(|_| BrokenPipe::Reader)?,
            }
            let bytes = room.filled();
            self.is_ended = bytes.is_empty();
            self.bytes += bytes.len() as u64;
            let written = match writer.as_mut().poll_write(cx, bytes) {
                _ if bytes.is_empty() => 0,
                Poll::Ready(written) => written.map_err(broken)?,
                Poll::Pending => 0,
            };
            self.rest = bytes[written..].to_vec();
        }
        while self.is_discarding {
            let mut room = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
            let mut room = ReadBuf::uninit(&mut room);
            let read = ready!(reader.as_mut().poll_read(cx, &mut room));
            self.is_discarding = read.is_ok() && !room.filled().is_empty();
        }
        Poll::Ready(Ok(()))
    }
}
