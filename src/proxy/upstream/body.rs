//! The body of an origin's response on its way to the client.
//!
//! Frames pass through untouched, including trailers, and are never collected: the origin is not
//! asked for what the client does not take. The body holds its connection and returns it to the
//! pool as soon as the response has ended properly. In every other case, including an early drop,
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
    /// The part of it that was read before its head was passed on.
    first: FirstFrame,
    /// The connection, until the response has ended.
    lease: Option<Lease>,
    /// How long the origin may send nothing.
    timeout: Duration,
}

/// The part of an origin's body that came with its head, until it is passed on.
pub(super) enum FirstFrame {
    None,
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
    /// The client's request failed while it was still being sent.
    #[error("the request's body broke off while its response was being sent")]
    Request(#[source] hyper::Error),
}

impl FirstFrame {
    /// Reads what has come with the head, without waiting. So a body that is already broken is an
    /// error before its head is passed on, and not a connection that closes after it.
    pub(super) fn poll(
        incoming: &mut Incoming,
        lease: &Lease,
        cx: &mut Context<'_>,
    ) -> Result<Self, UpstreamBodyError> {
        if incoming.is_end_stream() {
            return Ok(Self::None);
        }
        lease.connection.taking();
        let frame = match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => {
                return Err(UpstreamBodyError::of(error, lease.connection.failure()));
            }
            Poll::Ready(None) | Poll::Pending => return Ok(Self::None),
        };
        Ok(match frame.into_data() {
            Ok(data) => Self::Data(data),
            Err(frame) => {
                let trailers = frame.into_trailers().ok();
                trailers.map_or(Self::None, |trailers| Self::Trailers(Box::new(trailers)))
            }
        })
    }
}

impl UpstreamBodyError {
    /// Says why a body broke off; `failure` is the error that ended its connection, and says more.
    fn of(error: hyper::Error, failure: Option<hyper::Error>) -> Self {
        match failure {
            Some(failure) if failure.is_user() => Self::Request(failure),
            Some(failure) => Self::Broken(failure),
            None => Self::Broken(error),
        }
    }

    /// Returns the error of the request's body, if that ended the response and is an `E`.
    pub fn body_error<E: StdError + 'static>(&self) -> Option<&E> {
        match self {
            Self::Request(error) => error.source()?.downcast_ref(),
            Self::Timeout | Self::Broken(_) => None,
        }
    }
}

impl UpstreamBody {
    /// Wraps the body that `lease`'s connection will deliver, if there is any.
    pub(super) fn new(
        incoming: Incoming,
        first: FirstFrame,
        lease: Lease,
        timeout: Duration,
    ) -> Self {
        let mut body = Self {
            incoming,
            first,
            lease: Some(lease),
            timeout,
        };
        if matches!(body.first, FirstFrame::Trailers(_)) {
            body.release();
        }
        body.release_at_end();
        body
    }

    /// Returns the connection if no byte is missing: hyper does not poll a body beyond its end.
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
            Poll::Ready(Some(Err(error))) => {
                let failure = self.lease.take().and_then(|it| it.connection.failure());
                Poll::Ready(Some(Err(UpstreamBodyError::of(error, failure))))
            }
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
        match std::mem::replace(&mut body.first, FirstFrame::None) {
            FirstFrame::None => body.poll_incoming(cx),
            FirstFrame::Data(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            FirstFrame::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(*trailers)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.first, FirstFrame::None) && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.incoming.size_hint();
        if let FirstFrame::Data(data) = &self.first {
            let bytes = data.len() as u64;
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper + bytes);
            }
            hint.set_lower(hint.lower() + bytes);
        }
        hint
    }
}
