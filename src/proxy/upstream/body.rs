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
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::Lease;

/// The body of an origin's response.
pub struct UpstreamBody<B> {
    incoming: Incoming,
    /// The connection, until the response has ended.
    lease: Option<Lease<B>>,
    /// How long the origin may leave the gateway without a byte.
    timeout: Duration,
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

impl<B> UpstreamBody<B> {
    /// Wraps the body that `lease`'s connection is about to deliver, if there is any.
    pub(super) fn new(incoming: Incoming, lease: Lease<B>, timeout: Duration) -> Self {
        let mut body = Self {
            incoming,
            lease: Some(lease),
            timeout,
        };
        body.release_at_end();
        body
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
}

impl<B> Body for UpstreamBody<B> {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let body = self.get_mut();
        if let Some(lease) = &body.lease {
            lease.connection.taking();
        }
        match Pin::new(&mut body.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(lease) = &body.lease {
                    lease.connection.paid();
                }
                if frame.is_trailers() {
                    body.release();
                }
                body.release_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(body.error(error)))),
            Poll::Ready(None) => {
                body.release();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let overdue = body.lease.as_ref().map_or(Poll::Pending, |lease| {
                    lease.connection.poll_overdue(body.timeout, cx)
                });
                overdue.map(|()| {
                    body.lease = None;
                    Some(Err(UpstreamBodyError::Timeout))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
