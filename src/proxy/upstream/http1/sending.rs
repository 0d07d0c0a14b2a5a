//! The bytes of a request on their way to an origin.
//!
//! Pieces of a body that come close together are collected and written at once: a write costs more
//! than a copy of what it takes.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

use super::connection::{Transport, Wire};
use super::request::{RequestHead, encode_field};
use super::{BodyFraming, BoxError, UploadBody};
use crate::request::hop_by_hop;

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Sending<B> {
    /// What has been collected and not been written to its end.
    encoded: Vec<u8>,
    /// How much of `encoded` has been written.
    written: usize,
    /// How much of `encoded` is the head, until any of it has been written.
    head_bytes: usize,
    has_written: bool,
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
struct WrongLength;

/// No piece of a body is taken while more than this waits to be written: 64 KiB with the largest
/// piece that a client's connection yields.
const COLLECTED_BYTES_MAX: usize = 48 * 1024;

impl<B> Sending<B> {
    pub(super) fn new(body: Option<B>, framing: BodyFraming, trailers: Vec<HeaderName>) -> Self {
        Self {
            encoded: Vec::new(),
            written: 0,
            head_bytes: 0,
            has_written: false,
            body,
            framing,
            trailers,
        }
    }

    /// Begins to write the request into `room`. If it was begun before, nothing of
    /// it must have been written, or it has no content.
    pub(super) fn begin(&mut self, head: &RequestHead, host: &HeaderValue, mut room: Vec<u8>) {
        head.encode(host, &mut room);
        let head_bytes = room.len();
        room.extend_from_slice(&self.encoded[self.head_bytes..]);
        *self = Self {
            encoded: room,
            written: 0,
            head_bytes,
            has_written: false,
            body: self.body.take(),
            framing: self.framing,
            trailers: std::mem::take(&mut self.trailers),
        };
    }

    /// Whether any byte of it has been written.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Takes what is left to be sent, for another task.
    pub(super) fn take_rest(&mut self) -> Self {
        std::mem::replace(self, Self::new(None, BodyFraming::None, Vec::new()))
    }

    /// Takes a piece of the body, as long as it is no longer than announced.
    fn take_data(&mut self, data: &Bytes) -> Result<(), WrongLength> {
        match &mut self.framing {
            BodyFraming::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(WrongLength)?;
                self.encoded.extend_from_slice(data);
                if self.framing == BodyFraming::Length(0) {
                    self.body = None;
                }
            }
            // An empty chunk would end the body.
            _ if data.is_empty() => {}
            _ => {
                write!(self.encoded, "{:x}\r\n", data.len()).expect("memory takes every byte");
                self.encoded.extend_from_slice(data);
                self.encoded.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
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

impl<B: UploadBody> Sending<B> {
    /// Sends until everything is written.
    pub(super) fn poll<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            let before = self.encoded.len();
            let taken = self.poll_take(wire, cx).map_err(SendError::Body)?;
            if self.encoded.is_empty() {
                wire.recycle(std::mem::take(&mut self.encoded));
                if self.body.is_none() {
                    wire.sent();
                    return Poll::Ready(Ok(()));
                }
                wire.await_client();
                return Poll::Pending;
            }
            if taken.is_pending() && self.encoded.len() > before {
                // The client's connection yields a piece at a time, and may have another.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.poll_write(wire, cx)).map_err(SendError::Closed)?;
        }
    }

    /// Collects what the body has at hand; ready if there is no room for more, or no more comes.
    fn poll_take<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        while self.encoded.len() < COLLECTED_BYTES_MAX
            && let Some(body) = &mut self.body
        {
            let frame = ready!(Pin::new(body).poll_frame(cx)).transpose();
            wire.await_origin();
            if self.encoded.capacity() == 0 {
                self.encoded = wire.room();
            }
            match frame.map_err(Into::into)?.map(Frame::into_data) {
                Some(Ok(data)) => self.take_data(&data)?,
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
        while self.written < self.encoded.len() {
            self.written += ready!(wire.poll_write(&self.encoded[self.written..], cx))?;
            self.has_written = true;
            if self.written < self.encoded.len() {
                wire.await_origin();
            }
        }
        ready!(wire.poll_flush(cx))?;
        self.encoded.clear();
        self.written = 0;
        self.head_bytes = 0;
        Poll::Ready(Ok(()))
    }
}
