//! Holds clients of HTTP/1.1 to the letter of its framing where the parser, which reads next, is lenient.
//!
//! hyper accepts a line feed without its carriage return as the end of a line, white space after a chunk's size, sizes
//! of any number of digits, and anything in a chunk's extensions. None of that is forwarded, but a proxy in front of
//! the gateway may read it differently. [`FramingGuard`] follows the bytes through heads and bodies. It overwrites the
//! first byte that must not be there with one that the parser refuses in that place. So it is the parser that refuses,
//! in turn, after the answers to earlier requests. The parser does not look at an incomplete head twice, so a bad byte
//! in a later piece of it is refused when the head is complete or overdue.
//!
//! The parser alone says what a message is. This reader stops looking if it finds what the parser, or
//! the journey's check of transfer codings, refuses in any case.
//!
//! Bodies that are long or come in chunks do not pass through the parser, except for their end ([`BodyBypass`]): it
//! would keep a large buffer, and pass on each chunk separately. If a length is announced, it is shortened for the
//! parser.
//!
//! Characters of a target that no URL may hold, but clients send, are escaped before the parser reads them
//! ([`target`]). The gate remembers in which requests, because some routes want targets as they were sent.
//!
//! What follows a request for another protocol is held back until that request is answered: it may be
//! the next request, or no HTTP at all.

mod length;
mod reader;
mod target;

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use smallvec::smallvec;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use self::reader::{FramingReader, FramingState};
use super::body_bypass::BodyBypass;
use super::upgrade_gate::UpgradeGate;
use crate::proxy::wire::forward_writes;
use crate::proxy::wire::read_buffer::UploadBuffer;

/// A client's connection whose requests must follow the framing to the letter.
#[derive(Debug)]
pub(crate) struct FramingGuard<I> {
    io: I,
    reader: FramingReader,
    gate: Rc<UpgradeGate>,
    bypass: Rc<BodyBypass>,
    buffer: Rc<UploadBuffer>,
    /// Bytes that have been read and not been passed on: those after a request for another protocol, those around the
    /// end of a bypass, and a target that is to be escaped first.
    held: Vec<u8>,
}

/// A longer body is diverted, and no more than this is read at once for the parser, which doubles its first buffer once
/// that is full, and keeps the larger one.
pub(in crate::proxy::downstream) const PARSED_BYTES_MAX: usize = 8 * 1024 - 1;

impl<I> FramingGuard<I> {
    /// Reads from `io`; blocks `gate` after a request for another protocol, and reads no further while it is blocked.
    /// Diverted bodies are read into `buffer` and handed to `bypass`.
    pub(crate) fn new(
        io: I,
        gate: Rc<UpgradeGate>,
        bypass: Rc<BodyBypass>,
        buffer: Rc<UploadBuffer>,
    ) -> Self {
        Self {
            io,
            reader: FramingReader::diverting(PARSED_BYTES_MAX as u64),
            gate,
            bypass,
            buffer,
            held: Vec::new(),
        }
    }

    /// Returns the connection below, and the bytes that have been held back.
    pub(crate) fn into_parts(self) -> (I, Vec<u8>) {
        (self.io, self.held)
    }
}

impl<I: AsyncRead + Unpin> FramingGuard<I> {
    /// Hands over the data of a diverted body; ready when the parser is to read on, or if the client has closed its
    /// side.
    fn poll_divert(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.reader.is_diverted {
            // What came with the head is there already.
            let is_held = !self.held.is_empty() && self.bypass.is_empty();
            if !is_held && !self.bypass.has_room(cx) {
                return Poll::Pending;
            }
            let mut bytes = if is_held {
                BytesMut::from(&*std::mem::take(&mut self.held))
            } else {
                ready!(self.buffer.poll_read(&mut self.io, cx))?
            };
            if bytes.is_empty() {
                break;
            }
            let mut pieces;
            (pieces, self.held) = self.reader.take_data(&mut bytes);
            let data_bytes: usize = pieces.iter().map(ExactSizeIterator::len).sum();
            if data_bytes < bytes.len() / 2 {
                // Data that waits to be sent keeps alive everything that was read with it, so a small part is copied.
                let data = pieces.iter().flat_map(|piece| &bytes[piece.clone()]);
                bytes = data.copied().collect();
                pieces = smallvec![0..data_bytes];
            }
            bytes.truncate(pieces.last().map_or(0, |last| last.end));
            let (mut bytes, mut at) = (bytes.freeze(), 0);
            self.bypass.put(pieces.into_iter().filter_map(|piece| {
                bytes.advance(piece.start - at);
                at = piece.end;
                (!piece.is_empty()).then(|| bytes.split_to(piece.len()))
            }));
        }
        Poll::Ready(Ok(()))
    }
}

impl<I> FramingGuard<I> {
    /// Escapes the target of the request with which the held bytes begin.
    #[cold]
    fn escape_target(&mut self) {
        self.reader.is_raw = false;
        self.gate.note_escaped(self.reader.heads + 1);
        self.held = target::escaped(&self.reader.line, &self.held);
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for FramingGuard<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.gate.is_blocked(cx) {
            return Poll::Pending;
        }
        if self.reader.is_diverted {
            ready!(self.poll_divert(cx))?;
            if self.reader.is_diverted {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            let before = buf.filled().len();
            if self.reader.is_raw {
                self.escape_target();
            }
            let held = self.held.len().min(buf.remaining()).min(PARSED_BYTES_MAX);
            if held > 0 {
                buf.put_slice(&self.held[..held]);
                self.held.drain(..held);
                if self.held.is_empty() {
                    // A connection that waits has no buffer.
                    self.held = Vec::new();
                }
            } else {
                let mut io = (&mut self.io).take(PARSED_BYTES_MAX as u64);
                ready!(Pin::new(&mut io).poll_read(cx, buf))?;
            }
            if matches!(self.reader.place, FramingState::Upgrade) {
                self.reader.place = FramingState::RequestLine;
            }
            let bytes = &mut buf.filled_mut()[before..];
            let behind = self.reader.follow(bytes);
            if matches!(self.reader.place, FramingState::Upgrade) {
                self.gate.block(self.reader.heads);
            } else if let Some(bytes) = self.reader.diverted() {
                self.bypass.open(self.reader.heads, bytes);
            }
            let end = bytes.len() - behind;
            if behind > 0 {
                let rest = bytes[end..].to_vec();
                self.held.splice(..0, rest);
                buf.set_filled(before + end);
            }
            let is_head_held = !self.held.is_empty() && !self.reader.is_diverted;
            let is_head_begun = self.reader.is_in_head() || is_head_held;
            let is_whole = self.held.is_empty() && self.reader.is_between_requests();
            (self.gate).note_heads(self.reader.heads, is_head_begun, is_whole);
            // A read of no bytes would mean the end of the connection.
            if end > 0 || !self.reader.is_raw {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for FramingGuard<I> {
    forward_writes!(io);
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
