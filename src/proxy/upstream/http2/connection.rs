//! One connection to an origin, which many requests share.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::StreamError;
use super::life::{Http2Driver, Life, Observed};
use super::{CONNECTION_WINDOW, SEND_BUFFER_BYTES_MAX, STREAM_WINDOW, STREAMS_MAX};
use crate::clock::{Micros, Timestamp};
use crate::fault::TlsFailure;
use crate::proxy::wire::deadline::Deadline;

/// A connection that requests share. Dropping it tells the origin, and closes it.
#[derive(Debug)]
pub struct Http2Connection {
    requests: SendRequest<Bytes>,
    life: Rc<Life>,
    /// Most bytes of a head, names and values with 32 bytes for each field (RFC 9113, section 6.5.2).
    head_bytes_max: usize,
    /// How long the connection may be without a stream, as the last request set it.
    idle_timeout: Cell<Duration>,
    /// Until when the connection is kept; none while it has streams, or before a sweep has found it without any.
    idle_until: Cell<Option<Timestamp>>,
}

/// A request's place on a connection.
#[derive(Debug)]
pub struct Slot {
    connection: Rc<Http2Connection>,
    /// Whether its stream has ended; if not when this is dropped, it is counted as reset.
    has_ended: Cell<bool>,
}

/// Why HTTP/2 did not begin on a connection.
#[derive(Debug)]
pub struct NoHttp2 {
    /// What ended the connection, or what was wrong with the origin's first frames.
    pub error: StreamError,
    /// The TLS failure, if that was the reason: some servers refuse a client's certificate only after
    /// the handshake.
    pub tls_failure: Option<TlsFailure>,
}

/// The number of streams that `h2` assumes until the origin's SETTINGS have come; no origin can set as many.
const NOT_SAID: usize = usize::MAX - 1;

impl Http2Connection {
    /// Begins HTTP/2 over `transport`, and waits for the origin's SETTINGS; the caller limits the time
    /// for that. Heads have at most `head_bytes_max`. `deadline` belongs to this connection alone.
    pub async fn begin<T: AsyncRead + AsyncWrite + Unpin + 'static>(
        transport: T,
        head_bytes_max: usize,
        deadline: Rc<Deadline>,
    ) -> Result<Self, NoHttp2> {
        let life = Rc::new(Life::new(deadline));
        let failed = |error: h2::Error| NoHttp2 {
            error: error.into(),
            tls_failure: life.tls_failure.get(),
        };
        let observed = Observed::new(transport, Rc::clone(&life));
        let begun = builder(head_bytes_max).handshake(observed).await;
        let (requests, frames) = begun.map_err(failed)?;
        let mut driver = Http2Driver::new(frames, Rc::clone(&life));
        poll_fn(|cx| match driver.poll_frames(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error))),
            Poll::Ready(Ok(())) => Poll::Ready(Err(NoHttp2 {
                error: StreamError::Closed,
                tls_failure: life.tls_failure.get(),
            })),
            Poll::Pending if requests.current_max_send_streams() == NOT_SAID => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await?;
        tokio::task::spawn_local(driver);
        Ok(Self {
            requests,
            life,
            head_bytes_max,
            idle_timeout: Cell::default(),
            idle_until: Cell::default(),
        })
    }

    /// Takes a place for a request whose response's head has at most `head_bytes_max`, and after which
    /// the connection may be idle for `idle_timeout`; none if there is no room, the connection takes no
    /// more requests, or it was begun with another bound.
    pub fn slot(self: &Rc<Self>, head_bytes_max: usize, idle_timeout: Duration) -> Option<Slot> {
        // An origin that allows no streams now may allow one later, so one request may always wait for that.
        let said = u32::try_from(self.requests.current_max_send_streams());
        let streams_max = said.map_or(STREAMS_MAX, |said| said.clamp(1, STREAMS_MAX));
        let has_room = self.life.streams.get() < streams_max;
        if self.life.is_closed.get() || !has_room || head_bytes_max != self.head_bytes_max {
            return None;
        }
        self.life.opened();
        self.idle_timeout.set(idle_timeout);
        self.idle_until.set(None);
        Some(Slot {
            connection: Rc::clone(self),
            has_ended: Cell::new(false),
        })
    }

    /// Whether no request is on the connection.
    pub fn is_idle(&self) -> bool {
        self.life.streams.get() == 0
    }

    /// Whether a sweep at `now` keeps the connection: it takes streams, and has not been idle for too long.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        if self.life.is_closed.get() || !self.is_idle() {
            return !self.life.is_closed.get();
        }
        let until = self.idle_until.get();
        let until = until.unwrap_or_else(|| now + Micros::from(self.idle_timeout.get()));
        self.idle_until.set(Some(until));
        until > now
    }

    /// Sends the head of a request; an error means that nothing of it was sent.
    fn send(
        &self,
        head: Request<()>,
        is_last: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), StreamError> {
        let sent = self.requests.clone().send_request(head, is_last);
        // Whatever the reason, later requests would fail too.
        sent.inspect_err(|_| self.life.is_closed.set(true))
            .map_err(|error| self.ended(error))
    }

    /// Returns why a stream or the connection ended; [`StreamError::Shared`] if another request has
    /// reported that the connection was lost.
    fn ended(&self, error: h2::Error) -> StreamError {
        let error = match error.into() {
            StreamError::Closed if self.life.is_lost.get() => StreamError::Lost,
            error => error,
        };
        if error.is_loss() && self.life.has_failed.replace(true) {
            return StreamError::Shared(Box::new(error));
        }
        error
    }
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.life.close();
    }
}

impl Slot {
    /// Sends the head of a request; an error means that nothing of it was sent.
    pub(super) fn send(
        &self,
        head: Request<()>,
        is_last: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), StreamError> {
        let sent = self.connection.send(head, is_last);
        // After an error, there is no stream to be reset.
        sent.inspect_err(|_| self.has_ended.set(true))
    }

    /// Makes the connection take no more requests.
    pub(super) fn retire(&self) {
        self.connection.life.is_closed.set(true);
    }

    /// Notes that request and response are complete, or that the origin has reset the stream.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
    }

    /// Returns why the stream ended.
    pub(super) fn ended(&self, error: h2::Error) -> StreamError {
        let error = self.connection.ended(error);
        // `h2` resets a stream whose frames are malformed or too large, so it counts as reset.
        let is_answered = matches!(error, StreamError::Malformed(_) | StreamError::TooLarge);
        self.has_ended.set(!is_answered);
        error
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let life = &self.connection.life;
        life.closed();
        if !self.has_ended.get() {
            life.note_reset();
        }
    }
}

fn builder(head_bytes_max: usize) -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(NOT_SAID)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
        // `h2` need not bound the resets over a long life: each is of a stream that a request has opened.
        .max_local_error_reset_streams(None)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX);
    builder
}
