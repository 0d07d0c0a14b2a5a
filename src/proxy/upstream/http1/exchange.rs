//! A request and its response, until the head of the response has come.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response};

use super::bad_head::BadHead;
use super::connection::{Http1Connection, Transport, Wire, Written};
use super::exchange_error::{ExchangeError, Repeat};
use super::head::{HeadReader, ResponseHead};
use super::receiving::{Http1Receiving, upload};
use super::sending::{SendError, poll_send};
use crate::proxy::wire::body::UploadBody;
use crate::proxy::wire::outgoing::Outgoing;
use crate::proxy::wire::request_head::RequestHead;

/// Why a request got no head of a response. The inner error is none if the origin just closed the connection.
pub type Http1Error = ExchangeError<Option<io::Error>>;

impl<T: Transport> Http1Connection<T> {
    /// Sends `request` to `host` and waits at most `timeout` for the head of its response; the head and the trailers
    /// have at most `head_bytes_max` each. Time in which the client owes bytes of the request's body does not count.
    /// `is_sent` is set when the origin may have seen some of the request.
    pub async fn exchange<B: UploadBody>(
        self,
        request: &mut Outgoing<B>,
        host: &HeaderValue,
        (timeout, head_bytes_max): (Duration, usize),
        is_sent: &Cell<bool>,
    ) -> Result<Response<Http1Receiving<T>>, Http1Error> {
        request.encoding.begin(&request.head, host, self.0.buffer());
        self.0.begin(timeout);
        let mut round_trip = Http1RoundTrip {
            wire: &self.0,
            reader: HeadReader::new(request.upgrade(), request.interim.clone(), head_bytes_max),
            request,
            timeout,
            is_sent,
            has_received: false,
            write_error: None,
        };
        let exchanged = poll_fn(|cx| round_trip.poll(cx)).await;
        self.0.due.answered();
        let (mut head, unread) = exchanged?;
        head.is_last |= request.head.is_last();
        let upload = (self.0.written() == Written::Some)
            .then(|| upload(&self.0, request.encoding.take_rest()));
        let receiving = Http1Receiving::new(self, &head, (unread, head_bytes_max), upload);
        Ok(head.response(&mut request.head.headers, receiving))
    }
}

/// A request and its response, until the head of the response has come.
struct Http1RoundTrip<'e, T, B> {
    wire: &'e Wire<T>,
    request: &'e mut Outgoing<B>,
    timeout: Duration,
    is_sent: &'e Cell<bool>,
    reader: HeadReader,
    /// Whether any byte of a response has come.
    has_received: bool,
    /// Why the origin takes no more bytes.
    write_error: Option<io::Error>,
}

impl<T: Transport, B: UploadBody> Http1RoundTrip<'_, T, B> {
    /// Sends what can be sent, and reads what has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(ResponseHead, Bytes), Http1Error>> {
        self.send(cx)?;
        if self.wire.written() == Written::Nothing {
            // Whatever comes before a request is not a response to it.
            return match self.write_error {
                Some(_) => Poll::Ready(Err(self.closed(None))),
                None => self.poll_overdue(cx),
            };
        }
        // A response may have come before the connection failed (413, 401), so a failed write ends
        // nothing: what can be read decides.
        while let Poll::Ready(read) = self.wire.poll_read(cx) {
            let mut bytes = match read {
                Ok(bytes) if bytes.is_empty() => return Poll::Ready(Err(self.closed(None))),
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Err(self.closed(Some(error)))),
            };
            self.has_received = true;
            let RequestHead {
                method, headers, ..
            } = &mut self.request.head;
            let lines = &mut self.wire.lines();
            match self.reader.read(&mut bytes, method, headers, lines) {
                Ok(None) => {}
                Ok(Some(head)) => return Poll::Ready(Ok((head, bytes))),
                Err(bad) => return Poll::Ready(Err(Http1Error::BadHead(bad))),
            }
        }
        self.poll_overdue(cx)
    }

    fn poll_overdue<O>(&self, cx: &Context<'_>) -> Poll<Result<O, Http1Error>> {
        let overdue = self.wire.due.poll_over(Some(self.timeout), cx);
        overdue.map(|()| Err(Http1Error::Elapsed))
    }

    /// Sends what can be sent.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Http1Error> {
        let Self { wire, request, .. } = self;
        if matches!(wire.written(), Written::Everything | Written::Failed) {
            return Ok(());
        }
        let sent = poll_send(&mut request.encoding, wire, cx);
        if wire.written() != Written::Nothing {
            self.is_sent.set(true);
        }
        match sent {
            Poll::Pending | Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(SendError::Closed(error))) => self.write_error = Some(error),
            Poll::Ready(Err(SendError::Body(error))) => return Err(Http1Error::Body(error)),
        }
        Ok(())
    }

    /// Returns the error for an end without a response, and whether the request may be sent again.
    fn closed(&mut self, error: Option<io::Error>) -> Http1Error {
        if self.wire.due.is_over() {
            return Http1Error::Elapsed;
        }
        let error = self.write_error.take().or(error);
        let repeat = match self.wire.written() {
            _ if self.has_received && error.is_none() => {
                return Http1Error::BadHead(BadHead::Incomplete);
            }
            _ if self.has_received => Repeat::Never,
            Written::Nothing => Repeat::Unwritten,
            _ if self.request.is_idempotent() => Repeat::Idempotent,
            _ => Repeat::Never,
        };
        Http1Error::Ended { error, repeat }
    }
}
