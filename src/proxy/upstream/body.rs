//! The body of an origin's response on its way to the client.
//!
//! Frames pass through untouched, trailers among them, and are never collected: what the client
//! does not take, the origin is not asked for. The body holds its connection and gives it back
//! the moment the response has ended as it should; in every other case, dropped early included,
//! the connection is closed.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::Lease;

/// The body of an origin's response.
pub struct UpstreamBody {
    incoming: Incoming,
    /// What was taken of it before its head was passed on.
    first: First,
    /// The connection, until the response has ended.
    lease: Option<Lease>,
    /// How long the origin may leave the gateway without a byte.
    timeout: Duration,
}

/// What an origin's body began with.
enum First {
    /// Nothing that is still to be passed on.
    Taken,
    Data(Bytes),
    Trailers(Box<HeaderMap>),
}

/// Why a response ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The origin sent nothing for `body_timeout`.
    #[error("the upstream stopped sending its response")]
    Timeout,
    /// The origin closed early, or broke the rules of HTTP.
    #[error("the upstream broke its response off")]
    Broken(#[source] hyper::Error),
    /// The client's request, still being sent, failed.
    #[error("the request's body broke off while its response was being sent")]
    Request(#[source] hyper::Error),
}

impl UpstreamBodyError {
    /// Returns the error of the request's body, if it is what ended the response and an `E`.
    pub fn body_error<E: StdError + 'static>(&self) -> Option<&E> {
        match self {
            Self::Request(error) => error.source()?.downcast_ref(),
            Self::Timeout | Self::Broken(_) => None,
        }
    }
}

impl UpstreamBody {
    /// Wraps the body that `lease`'s connection is about to deliver, if there is any.
    pub(super) fn new(incoming: Incoming, lease: Lease, timeout: Duration) -> Self {
        let mut body = Self {
            incoming,
            first: First::Taken,
            lease: Some(lease),
            timeout,
        };
        body.release_at_end();
        body
    }

    /// Takes what has come with the head, without waiting: a body that is broken already is an error
    /// before its head is passed on, not a connection that closes behind it.
    pub(super) fn poll_first(&mut self, cx: &mut Context<'_>) -> Result<(), UpstreamBodyError> {
        if self.is_end_stream() {
            return Ok(());
        }
        let Poll::Ready(Some(frame)) = self.poll_incoming(cx) else {
            return Ok(());
        };
        self.first = match frame?.into_data() {
            Ok(data) => First::Data(data),
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => First::Trailers(Box::new(trailers)),
                // There is no third kind of frame.
                Err(_) => First::Taken,
            },
        };
        Ok(())
    }

    /// Gives the connection back if no byte is missing: hyper does not poll a body beyond that.
    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
    }

    fn error(&mut self, error: hyper::Error) -> UpstreamBodyError {
        match self
            .lease
            .take()
            .and_then(|lease| lease.connection.failure())
        {
            Some(failure) if failure.is_user() => UpstreamBodyError::Request(failure),
            Some(failure) => UpstreamBodyError::Broken(failure),
            None => UpstreamBodyError::Broken(error),
        }
    }

    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        if let Some(lease) = &self.lease {
            lease.connection.taking();
        }
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(lease) = &self.lease {
                    lease.connection.paid();
                }
                if frame.is_trailers() {
                    self.release();
                }
                self.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.error(error)))),
            Poll::Ready(None) => {
                self.release();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let overdue = self.lease.as_ref().map_or(Poll::Pending, |lease| {
                    lease.connection.poll_overdue(self.timeout, cx)
                });
                overdue.map(|()| {
                    self.lease = None;
                    Some(Err(UpstreamBodyError::Timeout))
                })
            }
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let body = self.get_mut();
        match std::mem::replace(&mut body.first, First::Taken) {
            First::Taken => body.poll_incoming(cx),
            First::Data(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            First::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(*trailers)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.first, First::Taken) && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.incoming.size_hint();
        if let First::Data(data) = &self.first {
            let bytes = data.len() as u64;
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper + bytes);
            }
            hint.set_lower(hint.lower() + bytes);
        }
        hint
    }
}
