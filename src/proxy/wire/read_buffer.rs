//! A buffer to read into that the connections of one worker use in turn, so that no connection holds one
//! while it waits.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The buffer that a read fills, with at most `BYTES_MAX` bytes.
#[derive(Debug, Default)]
pub struct ReadBuffer<const BYTES_MAX: usize>(RefCell<BytesMut>);

/// The buffer that origins' responses are read into.
pub type ResponseBuffer = ReadBuffer<{ 64 * 1024 }>;

/// The buffer that clients' bodies are read into. It is larger, because fewer of these bytes wait in memory: an
/// HTTP/1.1 connection has one upload at a time, and origins mostly read faster than clients send.
pub type UploadBuffer = ReadBuffer<{ 128 * 1024 }>;

/// Where in its page the buffer begins: not at the start, because mostly that is where the memory begins into which
/// the system or TLS copies the bytes to send them, a few bytes further after a chunk's size or a record's header.
/// Some processors (AMD's Zen 3) copy five to twenty times slower if the destination is 1 to 31 bytes further into
/// its page than the source.
const PAGE_OFFSET: usize = 2048;

impl<const BYTES_MAX: usize> ReadBuffer<BYTES_MAX> {
    /// A read of at most this many bytes is copied, so that the buffer is free again. A longer one is given
    /// away with its memory, of which at least half is then in use.
    const COPIED_BYTES_MAX: usize = BYTES_MAX / 2;

    /// Reads the bytes that are there; none means that the other side has closed.
    pub fn poll_read<T: AsyncRead + Unpin>(
        &self,
        io: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<BytesMut>> {
        let mut buffer = self.0.borrow_mut();
        if buffer.capacity() < Self::COPIED_BYTES_MAX {
            buffer.reserve(PAGE_OFFSET + BYTES_MAX);
            *buffer = buffer.split_off(PAGE_OFFSET);
        }
        let read = ready!(pin!(io.read_buf(&mut *buffer)).poll(cx))?;
        Poll::Ready(Ok(if read > Self::COPIED_BYTES_MAX {
            buffer.split()
        } else {
            let bytes = BytesMut::from(&buffer[..]);
            buffer.clear();
            bytes
        }))
    }
}
