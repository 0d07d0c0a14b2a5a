//! The way of long and of chunked bodies around the parser.
//!
//! hyper reads a body through a buffer of its own, which it keeps as large as the body made it, and
//! passes on each chunk by itself. So [`Strict`](super::Strict) hands the data over here, as much at
//! once as has come, and leaves the parser the end of the body: the last byte of an announced length,
//! or the last chunk and the trailers. When to ask for the body (100), where it ends, whether the
//! connection can be used again, and what is wrong are thereby still the parser's to say.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Request};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::proxy::downstream::body::RequestBodyError;
use crate::proxy::downstream::request::IncomingBody;

/// What the reader of a connection hands over to the body of a request.
#[derive(Default)]
pub(crate) struct Diversion {
    /// Which request of the connection has a body that goes this way, counted from 1; 0: none.
    request: Cell<u64>,
    /// How much of an announced length goes this way; 0 if it is not announced.
    bytes: Cell<u64>,
    /// How many requests have begun.
    begun: Cell<u64>,
    /// What has been read and not been taken; at most one read.
    data: RefCell<Bytes>,
    /// Whether the body waits for more.
    is_wanted: Cell<bool>,
    /// Whoever reads.
    reader: RefCell<Option<Waker>>,
    /// Whoever waits for data.
    taker: RefCell<Option<Waker>>,
}

/// The body of a request, most of which goes around the parser.
#[derive(Debug)]
pub(crate) struct DivertedBody {
    diversion: Rc<Diversion>,
    /// How much of an announced length is still to come this way.
    left: u64,
    /// What the parser reads: the end.
    end: Incoming,
}

impl Diversion {
    /// Notes that the body of this request goes this way: all of it but its end, or `bytes` if its
    /// length was announced.
    pub(super) fn open(&self, request: u64, bytes: u64) {
        self.request.set(request);
        self.bytes.set(bytes);
    }

    /// Begins the next request, as the parser gives it: with a length that is shortened if its body goes
    /// this way.
    pub(crate) fn begin(self: &Rc<Self>, request: Request<Incoming>) -> Request<IncomingBody> {
        self.begun.set(self.begun.get() + 1);
        if self.request.get() != self.begun.get() {
            return request.map(IncomingBody::Http1);
        }
        let left = self.bytes.get();
        let mut request = request.map(|end| {
            IncomingBody::Diverted(Box::new(DivertedBody {
                diversion: Rc::clone(self),
                left,
                end,
            }))
        });
        if left > 0 {
            let length = request.body().size_hint().lower();
            let headers = request.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        request
    }

    /// Whether there is room, and somebody who waits; if not, whoever asks is woken when that changes.
    pub(super) fn has_room(&self, cx: &Context<'_>) -> bool {
        let has_room = self.data.borrow().is_empty() && self.is_wanted.get();
        if !has_room {
            self.reader.replace(Some(cx.waker().clone()));
        }
        has_room
    }

    /// Whether nothing waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.data.borrow().is_empty()
    }

    /// Hands over what has been read; nothing must wait to be taken.
    pub(super) fn put(&self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.data.replace(data);
        self.is_wanted.set(false);
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }

    fn poll_take(&self, cx: &Context<'_>) -> Poll<Bytes> {
        let data = self.data.take();
        if !data.is_empty() {
            return Poll::Ready(data);
        }
        self.taker.replace(Some(cx.waker().clone()));
        self.is_wanted.set(true);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Pending
    }

    /// Forgets what nobody takes any more.
    fn close(&self) {
        self.is_wanted.set(false);
        drop((self.data.take(), self.taker.take()));
    }
}

impl DivertedBody {
    /// Polls the next data or the trailers.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if let Poll::Ready(data) = self.diversion.poll_take(cx) {
            self.left = self.left.saturating_sub(data.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let polled = Pin::new(&mut self.end).poll_frame(cx);
        polled.map_err(|error| RequestBodyError::of(&error))
    }

    /// Whether all of it has been read.
    pub(crate) fn is_end(&self) -> bool {
        self.end.is_end_stream()
    }

    /// Returns how much is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.end.size_hint().exact() {
            Some(end) => SizeHint::with_exact(self.left + end),
            None => SizeHint::default(),
        }
    }
}

impl Drop for DivertedBody {
    fn drop(&mut self) {
        self.diversion.close();
    }
}

impl fmt::Debug for Diversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diversion")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
