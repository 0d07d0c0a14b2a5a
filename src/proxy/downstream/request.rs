//! A client's request as the journey knows it, whatever version of HTTP it came in.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::body_error::RequestBodyError;
use super::http1::{BodyBypass, BypassedBody, Http1State, TunnelTask};
use super::http2::{Http2Body, StreamState};
use crate::proxy::wire::interim::InterimSink;

/// What is known of a request's client while the request is being worked on.
///
/// An HTTP/1 connection has one, an HTTP/2 connection one for each stream.
#[derive(Clone, Debug)]
pub(crate) enum RequestState {
    Http1(Rc<Http1State>),
    Http2(Rc<StreamState>),
}

/// A request that is being worked on, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestGuard(RequestState);

/// The body of a request, as it comes in.
#[derive(Debug)]
pub(crate) enum IncomingBody {
    Http1(Incoming),
    /// A long or chunked body over HTTP/1.1, which goes around the parser.
    Diverted(Box<BypassedBody>),
    Http2(Box<Http2Body>),
    /// No body.
    Empty,
}

impl RequestState {
    /// Begins a request whose head is complete: from now on, the gateway does not wait for the client.
    pub(crate) fn begin(&self) -> RequestGuard {
        if let Self::Http1(state) = self {
            state.begin();
        }
        RequestGuard(self.clone())
    }

    /// Whether the request came over HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Whether the request may ask for another protocol.
    pub(crate) fn may_switch(&self) -> bool {
        match self {
            Self::Http1(state) => state.gate.is_upgrade_pending(),
            Self::Http2(_) => true,
        }
    }

    /// Whether the request's target had characters that no URL may hold, which have been escaped. Over HTTP/2, no
    /// target is escaped.
    pub(crate) fn is_target_escaped(&self) -> bool {
        match self {
            Self::Http1(state) => state.gate.is_target_escaped(),
            Self::Http2(_) => false,
        }
    }

    /// Notes that the head of the answer goes out: from now on, the client may be silent.
    pub(crate) fn answer(&self) {
        match self {
            Self::Http1(state) => state.answer(),
            Self::Http2(state) => state.answer(),
        }
    }

    /// Lets the client reset the stream without that being counted, because the request has been charged. Over HTTP/1,
    /// a client that leaves ends its connection, and nothing is counted.
    pub(crate) fn excuse_leaving(&self) {
        if let Self::Http2(state) = self {
            state.excuse_reset();
        }
    }

    /// Notes that only the end of the connection marks the end of the answer. A stream of HTTP/2 has an end of its own.
    pub(crate) fn end_by_close(&self) {
        if let Self::Http1(state) = self {
            state.end_by_close();
        }
    }

    /// Leaves the task that is to carry the bytes after the head of a 101. Over HTTP/2, the stream's data carries them.
    pub(crate) fn leave_tunnel(&self, tunnel: TunnelTask) {
        if let Self::Http1(state) = self {
            state.gate.leave(tunnel);
        }
    }

    /// Lets the request's connection end after the requests that are on their way.
    pub(crate) fn end_connection(&self) {
        match self {
            Self::Http1(state) => state.end_connection(),
            Self::Http2(state) => state.connection().end_connection(),
        }
    }

    /// Whether the request's connection ends after the answer, which must then say so. HTTP/2 says so by itself.
    pub(crate) fn is_ending(&self) -> bool {
        match self {
            Self::Http1(state) => state.is_ending(),
            Self::Http2(_) => false,
        }
    }

    /// Notes that the client may still be sending when its connection closes: the rest of a body, or what follows a
    /// request that is refused. A stream of HTTP/2 closes no connection.
    pub(crate) fn expect_more(&self) {
        if let Self::Http1(state) = self {
            state.expect_more();
        }
    }

    /// Notes that the request's body has been read to its end.
    pub(crate) fn expect_no_more(&self) {
        if let Self::Http1(state) = self {
            state.expect_no_more();
        }
    }

    /// Whether the client may still be sending when its connection closes.
    pub(crate) fn is_more_expected(&self) -> bool {
        match self {
            Self::Http1(state) => state.is_more_expected(),
            Self::Http2(_) => false,
        }
    }

    /// Returns where interim answers (1xx) are sent. Clients of HTTP/1.1 get none, because some take one for the
    /// answer.
    pub(crate) fn interim_sink(&self) -> Option<Rc<dyn InterimSink>> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(state) => Some(Rc::clone(state) as Rc<dyn InterimSink>),
        }
    }

    /// Polls whether the client takes too long to send more of its body, when none is there; repeated calls do not
    /// extend the wait. Over HTTP/1, the read fails instead.
    pub(crate) fn poll_overdue_body(&self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Self::Http1(state) => {
                state.await_body();
                Poll::Pending
            }
            Self::Http2(state) => state.poll_overdue_body(cx),
        }
    }

    /// Notes that the client sent some of its body.
    pub(crate) fn body_progressed(&self) {
        match self {
            Self::Http1(state) => state.body_progressed(),
            Self::Http2(state) => state.body_progressed(),
        }
    }

    /// Notes that this many bytes have come, of the request's body or through its tunnel.
    pub(crate) fn body_received(&self, bytes: u64) {
        match self {
            Self::Http1(state) => state.body_received(bytes),
            Self::Http2(state) => state.body_received(bytes),
        }
    }

    /// Returns how many bytes have come, of the request's body or through its tunnel.
    pub(crate) fn body_bytes(&self) -> u64 {
        match self {
            Self::Http1(state) => state.body_bytes(),
            Self::Http2(state) => state.body_bytes(),
        }
    }

    /// Whether a read failed because the client did not send in time what was awaited.
    pub(crate) fn is_overdue(&self) -> bool {
        match self {
            Self::Http1(state) => state.is_overdue(),
            Self::Http2(_) => false,
        }
    }

    /// Waits until the client leaves, whatever it has sent before.
    pub(crate) async fn gone(&self) {
        poll_fn(|cx| self.poll_gone(cx)).await;
    }

    /// Waits for `future`, or until the client leaves; then returns `None`.
    pub(crate) async fn unless_gone<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        poll_fn(|cx| match Pin::new(&mut future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Polls whether the client has left. The task that reads may call it too. Over HTTP/2, this is always pending: if
    /// the stream is reset, the task that answers it ends by itself.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Http1(state) => state.poll_gone(cx),
            Self::Http2(_) => Poll::Pending,
        }
    }
}

impl IncomingBody {
    /// Begins the next request of a connection, which the parser has read. If its body goes around the parser, its
    /// length was shortened for the parser and is restored here.
    pub(crate) fn begin(bypass: &Rc<BodyBypass>, request: Request<Incoming>) -> Request<Self> {
        let Some(left) = bypass.begin() else {
            return request.map(Self::Http1);
        };
        let mut request = request.map(|end| Self::Diverted(Box::new(bypass.body(left, end))));
        if left > 0 {
            let length = request.body().size_hint().lower();
            let headers = request.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        request
    }
}

impl Deref for RequestGuard {
    type Target = RequestState;

    fn deref(&self) -> &RequestState {
        &self.0
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // A stream of HTTP/2 has ended when nobody holds its state any more.
        if let RequestState::Http1(state) = &self.0 {
            state.end();
        }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self.get_mut() {
            Self::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| RequestBodyError::of(&error)),
            Self::Diverted(body) => body.poll_frame(cx),
            Self::Http2(body) => body.poll_frame(cx),
            Self::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Diverted(body) => body.is_end(),
            Self::Http2(body) => body.is_end(),
            Self::Empty => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Diverted(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
            Self::Empty => SizeHint::with_exact(0),
        }
    }
}
