//! The bytes of a request on their way to an origin.
//!
//! Pieces of a body that come close together are collected and written at once: a write costs more
//! than a copy of what it takes. Large pieces are written from where they are.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

use super::connection::{Transport, Wire, Written};
use super::request_head::{RequestHead, encode_field};
use super::{BodyFraming, BoxError, UploadBody};
use crate::request::hop_by_hop;

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Http1Sending<B> {
    /// What has been collected and not been written to its end.
    encoded: Vec<u8>,
    /// A large piece of the body that is written behind it, and what is written behind that.
    large: Bytes,
    large_end: &'static [u8],
    /// How much of all that has been written.
    written: usize,
    /// How much of `encoded` is the head.
    head_bytes: usize,
    /// The rest of the body; none if it has been taken to its end.
    body: Option<B>,
    /// How the body is framed; a length is what has not been taken yet.
    framing: BodyFraming,
    /// Names of the trailers that may be sent.
    trailers: Vec<HeaderName>,
}

/// Why the rest of a request is not sent.
#[derive(Debug)]
pub(super) enum SendError {
    /// The request's body ended in an error of its own.
    Body(BoxError),
    /// The origin takes no more bytes.
    Closed(io::Error),
}

/// A body that is longer or shorter than it announced.
#[derive(Debug, thiserror::Error)]
#[error("the request's body differs from its announced length")]
pub(in crate::proxy::upstream) struct WrongLength;

/// No piece of a body is taken while more than this waits to be written: 112 KiB with the largest
/// piece that a client's connection yields.
const COLLECTED_BYTES_MAX: usize = 48 * 1024;
/// A piece of a body that is at least this large is not copied.
const LARGE_BYTES_MIN: usize = 12 * 1024;

impl<B> Http1Sending<B> {
    pub(super) fn new(body: Option<B>, framing: BodyFraming, trailers: Vec<HeaderName>) -> Self {
        Self {
            encoded: Vec::new(),
            large: Bytes::new(),
            large_end: b"",
            written: 0,
            head_bytes: 0,
            body,
            framing,
            trailers,
        }
    }

    /// Begins to write the request into `buffer`. If it was begun before, nothing of it must have been
    /// written, or it has no content.
    pub(super) fn begin(&mut self, head: &RequestHead, host: &HeaderValue, mut buffer: Vec<u8>) {
        head.encode(host, &mut buffer);
        let head_bytes = buffer.len();
        buffer.extend_from_slice(&self.encoded[self.head_bytes..]);
        self.encoded = buffer;
        self.head_bytes = head_bytes;
        self.written = 0;
    }

    /// Returns the rest of the body; none if it has been taken to its end.
    pub(super) fn body_mut(&mut self) -> &mut Option<B> {
        &mut self.body
    }

    /// Takes what is left to be sent, for another task.
    pub(super) fn take_rest(&mut self) -> Self {
        std::mem::replace(self, Self::new(None, BodyFraming::None, Vec::new()))
    }

    /// Takes a piece of the body, as long as it is no longer than announced.
    fn take_data(&mut self, data: Bytes) -> Result<(), WrongLength> {
        match &mut self.framing {
            BodyFraming::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(WrongLength)?;
                if self.framing == BodyFraming::Length(0) {
                    self.body = None;
                }
                self.append(data, b"");
            }
            // An empty chunk would end the body.
            _ if data.is_empty() => {}
            _ => {
                write!(self.encoded, "{:x}\r\n", data.len()).expect("memory takes every byte");
                self.append(data, b"\r\n");
            }
        }
        Ok(())
    }

    fn append(&mut self, data: Bytes, end: &'static [u8]) {
        if data.len() >= LARGE_BYTES_MIN {
            (self.large, self.large_end) = (data, end);
        } else {
            self.encoded.extend_from_slice(&data);
            self.encoded.extend_from_slice(end);
        }
    }

    /// Returns how much has been collected.
    fn collected(&self) -> usize {
        self.encoded.len() + self.large.len() + self.large_end.len()
    }

    /// Takes the end of the body, as long as it is no shorter than announced.
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
}

impl<B: UploadBody> Http1Sending<B> {
    /// Sends until everything is written.
    pub(super) fn poll<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            let (before, has_begun) = (self.collected(), wire.written() != Written::Nothing);
            let taken = self.poll_take(wire, cx).map_err(SendError::Body)?;
            if self.collected() == 0 {
                wire.recycle(std::mem::take(&mut self.encoded));
                if self.body.is_none() {
                    wire.note_end();
                    return Poll::Ready(Ok(()));
                }
                wire.due.await_client();
                return Poll::Pending;
            }
            if taken.is_pending() && self.collected() > before && has_begun {
                // The client's connection yields a piece at a time, and may have another. The first
                // write does not wait, because a kept connection was looked at just before.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Err(error) = ready!(self.poll_write(wire, cx)) {
                wire.note_failure();
                return Poll::Ready(Err(SendError::Closed(error)));
            }
        }
    }

    /// Collects what the body has at hand; ready if there is no room for more, or no more comes.
    fn poll_take<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        while self.collected() < COLLECTED_BYTES_MAX && self.large.is_empty() {
            let Some(body) = &mut self.body else { break };
            let frame = ready!(Pin::new(body).poll_frame(cx)).transpose();
            wire.due.await_origin();
            if self.encoded.capacity() == 0 {
                self.encoded = wire.buffer();
            }
            match frame.map_err(Into::into)?.map(Frame::into_data) {
                Some(Ok(data)) => self.take_data(data)?,
                Some(Err(frame)) => self.take_end(frame.into_trailers().ok())?,
                None => self.take_end(None)?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all that has been collected.
    fn poll_write<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.written < self.collected() {
            let mut pieces = [&*self.encoded, &*self.large, self.large_end].map(IoSlice::new);
            let mut pieces = &mut pieces[..if self.large.is_empty() { 1 } else { 3 }];
            IoSlice::advance_slices(&mut pieces, self.written);
            self.written += ready!(wire.poll_write(pieces, cx))?;
        }
        ready!(wire.poll_flush(cx))?;
        self.encoded.clear();
        (self.large, self.large_end) = (Bytes::new(), b"");
        self.written = 0;
        self.head_bytes = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
