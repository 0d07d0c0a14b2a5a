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

use super::connection::{Transport, Wire, Written};
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

/// No piece of a body is taken while more than this waits to be written: 64 KiB with the largest
/// piece that a client's connection yields.
const COLLECTED_BYTES_MAX: usize = 48 * 1024;

impl<B> Sending<B> {
    pub(super) fn new(body: Option<B>, framing: BodyFraming, trailers: Vec<HeaderName>) -> Self {
        Self {
            encoded: Vec::new(),
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
            let (before, has_begun) = (self.encoded.len(), wire.written() != Written::Nothing);
            let taken = self.poll_take(wire, cx).map_err(SendError::Body)?;
            if self.encoded.is_empty() {
                wire.recycle(std::mem::take(&mut self.encoded));
                if self.body.is_none() {
                    wire.note_end();
                    return Poll::Ready(Ok(()));
                }
                wire.due.await_client();
                return Poll::Pending;
            }
            if taken.is_pending() && self.encoded.len() > before && has_begun {
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
        while self.encoded.len() < COLLECTED_BYTES_MAX
            && let Some(body) = &mut self.body
        {
            let frame = ready!(Pin::new(body).poll_frame(cx)).transpose();
            wire.due.await_origin();
            if self.encoded.capacity() == 0 {
                self.encoded = wire.buffer();
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
        }
        ready!(wire.poll_flush(cx))?;
        self.encoded.clear();
        self.written = 0;
        self.head_bytes = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::rc::Rc;
    use std::time::Duration;

    use http::{Request, Response};

    use super::super::scripted::{Scripted, ScriptedBody};
    use super::super::{Buffers, Connection, ExchangeError, Outgoing, Receiving, Repeat};
    use super::*;
    use crate::clock::{Clock, Timestamp};
    use crate::proxy::deadline::Sweep;
    use crate::proxy::differential::settle;
    use crate::request::hop_by_hop::tests::fields;

    /// How far the body of a request came.
    #[derive(Debug, PartialEq, Eq)]
    enum Sent {
        /// It was written, and the connection waits for a response.
        Whole(String),
        /// It differs from its announced length, and the connection is closed.
        Broken(String),
    }

    /// How many bytes an origin takes at a time.
    const WRITE_BYTES: [usize; 4] = [1, 3, 20, usize::MAX];

    /// What became of a request, and whether the origin may have seen it.
    type Ended = (
        Option<Result<Response<Receiving<Scripted>>, ExchangeError>>,
        bool,
    );

    /// Sends a request with this body, and waits as long as something moves.
    fn exchange(body: ScriptedBody, origin: Scripted, buffers: &Rc<Buffers>) -> Ended {
        let request = Request::post("/").header("trailer", "x-sum, Content-Length");
        let mut request = Outgoing::from(request.body(body).expect("a request"));
        let connection = connection(origin, buffers);
        let host = HeaderValue::from_static("a");
        let (timeout, is_sent) = (Duration::from_mins(1), Cell::new(false));
        let mut exchange = pin!(connection.exchange(&mut request, &host, timeout, &is_sent));
        let mut ended = None;
        settle(|cx| {
            if ended.is_none()
                && let Poll::Ready(result) = exchange.as_mut().poll(cx)
            {
                ended = Some(result);
            }
        });
        (ended, is_sent.get())
    }

    /// Sends a request with this body to an origin that takes `write_bytes_max` bytes at a time.
    fn send(body: ScriptedBody, write_bytes_max: usize, buffers: &Rc<Buffers>) -> Sent {
        let origin = Scripted::silent(write_bytes_max);
        let seen = origin.seen();
        let (ended, is_sent) = exchange(body, origin, buffers);
        let written = String::from_utf8(seen.written.take()).expect("text");
        assert_eq!(is_sent, !written.is_empty());
        let body = written.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        match ended {
            None => Sent::Whole(body.into()),
            Some(Err(ExchangeError::Body(error))) => {
                assert!(error.is::<WrongLength>(), "{error}");
                assert_eq!(Rc::strong_count(&seen), 1, "the connection is closed");
                Sent::Broken(body.into())
            }
            Some(other) => panic!("{other:?}"),
        }
    }

    fn connection(origin: Scripted, buffers: &Rc<Buffers>) -> Connection<Scripted> {
        let deadline = Sweep::new(Clock::manual(Timestamp(1))).deadline();
        Connection::new(origin, deadline, Rc::clone(buffers))
    }

    #[test]
    fn body_that_differs_from_its_length_is_cut_there_and_closes_the_connection() {
        for (pieces, is_whole) in [
            (&["abc"][..], true),
            (&["a", "", "bc"], true),
            // Nobody asks for more than was announced.
            (&["abc", "d"], true),
            (&["abcd"], false),
            (&["ab", "cd"], false),
            (&["ab"], false),
            (&["ab", ""], false),
            (&[], false),
        ] {
            for write_bytes in WRITE_BYTES {
                let body = ScriptedBody::new(Some(3), pieces);
                match send(body, write_bytes, &Rc::default()) {
                    Sent::Whole(body) => assert!(is_whole && body == "abc", "{pieces:?}"),
                    Sent::Broken(body) => {
                        assert!(!is_whole && "abc".starts_with(&body), "{pieces:?}: {body}");
                    }
                }
            }
        }
    }

    #[test]
    fn chunked_body_ends_with_its_last_piece_and_not_with_an_empty_one() {
        for (pieces, expected) in [
            (&[][..], "0\r\n\r\n"),
            (&[""], "0\r\n\r\n"),
            (
                &["", "a", "", "0123456789abcdef", ""],
                "1\r\na\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
            ),
        ] {
            for write_bytes in WRITE_BYTES {
                let sent = send(ScriptedBody::new(None, pieces), write_bytes, &Rc::default());
                assert_eq!(sent, Sent::Whole(expected.into()));
            }
        }
    }

    #[test]
    fn trailers_are_sent_if_they_were_announced_and_may_be_trailers() {
        let trailers = fields(&[("x-sum", "1"), ("content-length", "9"), ("x-other", "2")]);
        let body =
            |length, pieces| ScriptedBody::new(length, pieces).with_trailers(trailers.clone());
        for write_bytes in WRITE_BYTES {
            let send = |body| send(body, write_bytes, &Rc::default());
            let expected = Sent::Whole("1\r\na\r\n0\r\nx-sum: 1\r\n\r\n".into());
            assert_eq!(send(body(None, &["a"])), expected);
            // A length has no room for trailers, and ends before them.
            assert_eq!(send(body(Some(1), &["a"])), Sent::Whole("a".into()));
            assert!(matches!(send(body(Some(2), &["a"])), Sent::Broken(_)));
        }
    }

    #[test]
    fn buffer_that_is_used_again_is_empty() {
        let buffers = Rc::default();
        let whole = || ScriptedBody::new(Some(3), &["abc"]);
        let bodies = [whole(), ScriptedBody::new(Some(3), &["ab"]), whole()];
        let sent = bodies.map(|body| send(body, usize::MAX, &buffers));
        assert_eq!(sent[0], Sent::Whole("abc".into()));
        assert_eq!(sent[2], sent[0]);
        let buffer = connection(Scripted::silent(1), &buffers).0.buffer();
        assert!(
            buffer.is_empty() && buffer.capacity() > 0,
            "{}",
            buffer.capacity()
        );
    }

    #[test]
    fn request_of_which_nothing_is_written_may_be_sent_elsewhere() {
        let origin = Scripted::silent(0);
        let body = ScriptedBody::new(Some(1), &["a"]);
        let (ended, is_sent) = exchange(body, origin, &Rc::default());
        let error = ended.expect("an end").expect_err("no response");
        assert_eq!((error.repeat(), is_sent), (Repeat::Unwritten, false));
    }

    #[test]
    fn request_whose_first_write_fails_in_tls_counts_as_written() {
        let origin = || Scripted::silent(0).encrypted();
        let posted = exchange(ScriptedBody::new(Some(1), &["a"]), origin(), &Rc::default());
        let (ended, is_sent) = posted;
        // The failed write has taken the reason with it, and the end of the connection tells nothing.
        let repeat = ended.map(|ended| ended.expect_err("no response").repeat());
        assert!(is_sent && repeat != Some(Repeat::Unwritten), "{repeat:?}");
    }

    #[test]
    fn request_without_a_buffer_takes_none_from_others() {
        let connection = connection(Scripted::silent(1), &Rc::default());
        connection.0.recycle(Vec::with_capacity(10));
        connection.0.recycle(Vec::new());
        assert_eq!(connection.0.buffer().capacity(), 10);
    }
}
