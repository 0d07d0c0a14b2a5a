//! The bytes of a request on their way to an origin.
//!
//! A piece of the body is taken from the client when the piece before has been written, so no more
//! than one is ever held.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Body;

use super::connection::{Transport, Wire};
use super::request::{RequestHead, encode_field};
use super::{BodyFraming, BoxError, UploadBody};
use crate::request::hop_by_hop;

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Sending<B> {
    /// What stands before `data`: the head, the size of a chunk, or the end of the body.
    encoded: Vec<u8>,
    /// How much of `encoded` has been written.
    encoded_written: usize,
    /// A piece of the body that is being written.
    data: Bytes,
    /// What stands behind `data`.
    line_end: &'static [u8],
    /// The rest of the body; none if it has been taken to its end.
    body: Option<B>,
    /// How the body is framed; a length is what has not been taken yet.
    framing: BodyFraming,
    /// Names of the trailers that may be sent.
    trailers: Vec<HeaderName>,
    has_written: bool,
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

impl<B: Body<Data = Bytes>> Sending<B> {
    pub(super) fn new(body: Option<B>, framing: BodyFraming, trailers: Vec<HeaderName>) -> Self {
        Self {
            encoded: Vec::new(),
            encoded_written: 0,
            data: Bytes::new(),
            line_end: b"",
            body,
            framing,
            trailers,
            has_written: false,
        }
    }

    /// Begins to write the request, into `room`, which is empty. If it was begun before, it must be
    /// intact, or have no content.
    pub(super) fn begin(&mut self, head: &RequestHead, host: &HeaderValue, room: Vec<u8>) {
        debug_assert!(room.is_empty(), "recycled buffers are empty");
        self.encoded = room;
        self.encoded_written = 0;
        self.has_written = false;
        head.encode(host, &mut self.encoded);
        self.frame_data();
    }

    /// Whether any byte of it has been written.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Whether nothing has been written, and what was taken of the body is still here, so that the
    /// request can be begun again whatever it is.
    pub(super) fn is_intact(&self) -> bool {
        let is_end_taken = self.framing == BodyFraming::Chunked && self.body.is_none();
        !self.has_written && !is_end_taken
    }

    /// Takes what is left to be sent, for another task.
    pub(super) fn take_rest(&mut self) -> Self {
        std::mem::replace(self, Self::new(None, BodyFraming::None, Vec::new()))
    }

    /// Writes how `data` is framed.
    fn frame_data(&mut self) {
        if self.framing == BodyFraming::Chunked && !self.data.is_empty() {
            write!(self.encoded, "{:x}\r\n", self.data.len()).expect("memory takes every byte");
            self.line_end = b"\r\n";
        }
    }

    /// Writes the end of a chunked body.
    fn encode_end(&mut self, trailers: Option<HeaderMap>) {
        if self.framing != BodyFraming::Chunked {
            return;
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
            // Before the head is written: a first piece that is at hand goes out with it.
            let taken = self.poll_take(wire, cx)?;
            if self.is_written() {
                if self.body.is_none() {
                    wire.sent(std::mem::take(&mut self.encoded));
                    return Poll::Ready(Ok(()));
                }
                ready!(taken);
            }
            ready!(self.poll_write(wire, cx)).map_err(SendError::Closed)?;
        }
    }

    /// Takes the next piece of the body, unless there is one that is not written yet; ready if there
    /// is a piece now, or the body has ended.
    fn poll_take<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        while self.data.is_empty()
            && let Some(body) = &mut self.body
        {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                wire.await_client();
                return Poll::Pending;
            };
            wire.client_progressed();
            let frame = frame.transpose();
            match frame.map_err(|error| SendError::Body(error.into()))? {
                None => self.end(None)?,
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.take_data(data)?,
                    Err(frame) => self.end(frame.into_trailers().ok())?,
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes a piece of the body, as long as it is no longer than announced.
    fn take_data(&mut self, data: Bytes) -> Result<(), SendError> {
        if let BodyFraming::Length(left) = &mut self.framing {
            let rest = left.checked_sub(data.len() as u64);
            *left = rest.ok_or_else(|| SendError::Body(WrongLength.into()))?;
        }
        self.data = data;
        self.frame_data();
        if self.framing == BodyFraming::Length(0) {
            self.body = None;
        }
        Ok(())
    }

    /// Ends the body, as long as it is no shorter than announced.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), SendError> {
        if matches!(self.framing, BodyFraming::Length(1..)) {
            return Err(SendError::Body(WrongLength.into()));
        }
        self.encode_end(trailers);
        self.body = None;
        Ok(())
    }

    fn is_written(&self) -> bool {
        self.encoded_written == self.encoded.len()
            && self.data.is_empty()
            && self.line_end.is_empty()
    }

    /// Writes all that has been taken.
    fn poll_write<T: Transport>(
        &mut self,
        wire: &Wire<T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_written() {
            let encoded = &self.encoded[self.encoded_written..];
            let pieces = [encoded, &self.data, self.line_end].map(IoSlice::new);
            let pieces = if self.data.is_empty() && self.line_end.is_empty() {
                &pieces[..1]
            } else {
                &pieces
            };
            let written = ready!(wire.poll_write(pieces, cx))?;
            self.has_written = true;
            self.advance(written);
        }
        self.encoded.clear();
        self.encoded_written = 0;
        Poll::Ready(Ok(()))
    }

    /// Leaves out the first `written` bytes, which have been written.
    fn advance(&mut self, written: usize) {
        let encoded = written.min(self.encoded.len() - self.encoded_written);
        self.encoded_written += encoded;
        let data = (written - encoded).min(self.data.len());
        self.data.advance(data);
        self.line_end = &self.line_end[written - encoded - data..];
    }
}
