//! A request in the bytes of HTTP/1.1, as far as it has come.
//!
//! Pieces of a body that come close together are collected and written at once: a write costs more
//! than copying what it takes. Large pieces are written from where they are.

use std::io::{self, IoSlice, Write as _};
use std::task::{Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use smallvec::SmallVec;

use super::body::{BodyFraming, WrongLength};
use super::request_head::{RequestHead, encode_field};
use crate::request::hop_by_hop;

/// A request that is being written.
#[derive(Debug)]
pub struct Http1Encoding<B> {
    /// What has been collected and is not written to its end yet, without the large pieces of the body.
    encoded: Vec<u8>,
    /// The large pieces, each with how many bytes of `encoded` are written before it.
    large: Vec<(usize, Bytes)>,
    large_bytes: usize,
    /// Bytes that have been written, of `encoded` and the large pieces together.
    written: usize,
    /// Bytes of `encoded` that are the head.
    head_bytes: usize,
    /// The rest of the body; none once it has been taken to its end.
    pub body: Option<B>,
    /// How the body is framed; a length is what has not been taken yet.
    framing: BodyFraming,
    /// Names of the fields that may be sent in trailers.
    trailers: Vec<HeaderName>,
}

/// No piece of a body is taken while more than this waits to be written: 176 KiB with the largest
/// piece that a client's connection yields, in twice as much memory at most.
const COLLECTED_BYTES_MAX: usize = 48 * 1024;
/// A piece of a body that is at least this large is not copied.
pub const LARGE_BYTES_MIN: usize = 12 * 1024;
/// Most pieces that are written at once: large ones, what is before each of them, and what is after the last.
const PIECES_MAX: usize = 2 * (COLLECTED_BYTES_MAX / LARGE_BYTES_MIN) + 1;

impl<B> Http1Encoding<B> {
    /// Makes an encoding with nothing to write until it [begins](Self::begin).
    pub fn new(body: Option<B>, framing: BodyFraming, trailers: Vec<HeaderName>) -> Self {
        Self {
            encoded: Vec::new(),
            large: Vec::new(),
            large_bytes: 0,
            written: 0,
            head_bytes: 0,
            body,
            framing,
            trailers,
        }
    }

    /// Begins to write the request into `buffer`. If it was begun before, either nothing of it was
    /// written, or it has no content.
    pub fn begin(&mut self, head: &RequestHead, host: &HeaderValue, mut buffer: Vec<u8>) {
        head.encode(host, &mut buffer);
        let head_bytes = buffer.len();
        buffer.extend_from_slice(&self.encoded[self.head_bytes..]);
        for (before, _) in &mut self.large {
            *before = *before - self.head_bytes + head_bytes;
        }
        self.encoded = buffer;
        self.head_bytes = head_bytes;
        self.written = 0;
    }

    /// Takes what is left to be sent, so that another task can send it.
    #[must_use]
    pub fn take_rest(&mut self) -> Self {
        std::mem::replace(self, Self::new(None, BodyFraming::None, Vec::new()))
    }

    /// Whether another piece of the body may be taken.
    pub fn has_room(&self) -> bool {
        self.collected() < COLLECTED_BYTES_MAX
    }

    /// Takes a buffer to collect in from `lend`, unless there is one.
    pub fn ensure_buffer(&mut self, lend: impl FnOnce() -> Vec<u8>) {
        if self.encoded.capacity() == 0 {
            self.encoded = lend();
        }
    }

    /// Returns the buffer, of which everything has been written.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.encoded)
    }

    /// Returns how many bytes have been collected.
    pub fn collected(&self) -> usize {
        self.encoded.len() + self.large_bytes
    }

    /// Takes the next frame of the body, or its end.
    ///
    /// # Errors
    /// The body differs from what the head announced, so the request cannot be completed.
    pub fn take(&mut self, frame: Option<Frame<Bytes>>) -> Result<(), WrongLength> {
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => self.take_data(data),
            Some(Err(frame)) => self.take_end(frame.into_trailers().ok()),
            None => self.take_end(None),
        }
    }

    /// Takes a piece of the body, unless the body is then longer than announced.
    fn take_data(&mut self, data: Bytes) -> Result<(), WrongLength> {
        self.framing.take(data.len())?;
        match self.framing {
            BodyFraming::Length(left) => {
                if left == 0 {
                    self.body = None;
                }
                self.append(data);
            }
            // An empty chunk would end the body.
            _ if data.is_empty() => {}
            _ => {
                write!(self.encoded, "{:x}\r\n", data.len()).expect("memory takes every byte");
                self.append(data);
                self.encoded.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }

    fn append(&mut self, data: Bytes) {
        if data.len() >= LARGE_BYTES_MIN {
            self.large_bytes += data.len();
            self.large.push((self.encoded.len(), data));
        } else {
            self.encoded.extend_from_slice(&data);
        }
    }

    /// Takes the end of the body, unless the body is shorter than announced.
    fn take_end(&mut self, trailers: Option<HeaderMap>) -> Result<(), WrongLength> {
        self.body = None;
        if self.framing != BodyFraming::Chunked {
            return Err(WrongLength);
        }
        self.encoded.extend_from_slice(b"0\r\n");
        let mut trailers = trailers.unwrap_or_default();
        hop_by_hop::strip_trailers(&mut trailers);
        for (name, value) in &trailers {
            if self.trailers.contains(name) {
                encode_field(name, value, &mut self.encoded);
            }
        }
        self.encoded.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Passes to `write` what has been collected, until it has taken all of it.
    ///
    /// # Errors
    /// Those of `write`; nothing more can be written.
    pub fn poll_write(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.collected() {
            let (mut pieces, mut at) = (SmallVec::<[_; PIECES_MAX]>::new(), 0);
            for (before, large) in &self.large {
                pieces.extend([&self.encoded[at..*before], large].map(IoSlice::new));
                at = *before;
            }
            pieces.push(IoSlice::new(&self.encoded[at..]));
            let mut pieces = &mut pieces[..];
            IoSlice::advance_slices(&mut pieces, self.written);
            self.written += ready!(write(pieces))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Forgets what has been written.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.large.clear();
        self.large_bytes = 0;
        self.written = 0;
        self.head_bytes = 0;
    }
}
