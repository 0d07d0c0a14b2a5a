//! The body of an origin's response on its way to the client.
//!
//! Frames pass through untouched, including trailers, and are never collected: no more is read from the
//! origin than the client takes. The body holds its connection over HTTP/1.1 and returns it to the pool
//! as soon as the response has ended properly. In every other case, including an early drop, the
//! connection is closed. Over HTTP/2, the body holds a stream, which is reset instead.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::body_error::UpstreamBodyError;
use super::http1;
use super::http2;
use super::pool::PoolReturn;
use super::stream::Stream;

/// The body of a response, as its version of HTTP receives it.
pub(super) enum Received {
    /// The body, and where its connection goes when the response has ended.
    Http1(http1::Http1Receiving<Stream>, PoolReturn),
    Http2(http2::Http2Receiving),
}

/// The body of an origin's response.
pub struct UpstreamBody {
    received: Received,
    /// The next frame or error to pass on, if it has been read already.
    next: Option<Result<Frame<Bytes>, UpstreamBodyError>>,
    /// Whether something was passed on since the body last waited.
    is_flush_due: bool,
    /// How long the origin may send nothing; no limit if none.
    timeout: Option<Duration>,
    /// Whether the body's end can be told from a broken connection.
    has_known_end: bool,
}

impl UpstreamBody {
    /// Wraps a body.
    pub(super) fn new(received: Received, timeout: Option<Duration>) -> Self {
        Self {
            has_known_end: match &received {
                Received::Http1(receiving, _) => receiving.has_known_end(),
                Received::Http2(_) => true,
            },
            received,
            next: None,
            is_flush_due: false,
            timeout,
        }
    }

    /// Whether the body's end can be told from a broken connection.
    pub fn has_known_end(&self) -> bool {
        match &self.received {
            Received::Http1(..) => self.has_known_end,
            Received::Http2(receiving) => receiving.has_known_end(),
        }
    }

    /// Reads what has come with the head, without waiting. A body that is already broken is thus an
    /// error before its head is passed on, and not a connection that closes after it.
    pub(super) fn read_first(&mut self, cx: &mut Context<'_>) -> Result<(), UpstreamBodyError> {
        if let Poll::Ready(Some(first)) = self.poll_received(cx) {
            self.next = Some(Ok(first?));
        }
        Ok(())
    }

    fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        match &mut self.received {
            Received::Http1(receiving, pool_return) => {
                let polled = receiving.poll_frame(self.timeout, cx);
                // The body need not be polled after its last frame, so its connection is released now.
                if let Some(connection) = receiving.take_connection() {
                    pool_return.release(connection);
                }
                polled
            }
            Received::Http2(receiving) => receiving.poll_frame(self.timeout, cx),
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
        if let Some(next) = body.next.take() {
            body.is_flush_due = true;
            return Poll::Ready(Some(next));
        }
        let polled = body.poll_received(cx);
        let was_due = std::mem::replace(&mut body.is_flush_due, polled.is_ready());
        match polled {
            // hyper writes what it has buffered when a body waits, but drops it when a body fails. So
            // the error waits for one turn if something may still be buffered.
            Poll::Ready(Some(Err(error))) if was_due => {
                body.next = Some(Err(error));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
            && match &self.received {
                Received::Http1(receiving, _) => receiving.is_end(),
                Received::Http2(receiving) => receiving.is_end(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = match &self.received {
            Received::Http1(receiving, _) => receiving.size_hint(),
            Received::Http2(receiving) => receiving.size_hint(),
        };
        let data = match &self.next {
            None => return hint,
            Some(Ok(next)) => next.data_ref(),
            Some(Err(_)) => None,
        };
        // hyper leaves out trailers if the size hint says that the body is empty.
        let Some(data) = data else {
            return SizeHint::default();
        };
        let bytes = data.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + bytes);
        }
        hint.set_lower(hint.lower() + bytes);
        hint
    }
}
