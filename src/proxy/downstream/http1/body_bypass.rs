//! Passes long bodies and chunked bodies around the parser.
//!
//! hyper reads a body through a buffer of its own, which stays as large as the body made it grow, and passes on each
//! chunk separately. So [`FramingGuard`](super::FramingGuard) hands the data over here, as much at once as has come,
//! and leaves the parser the end of the body: the last byte of an announced length, or the last chunk and the trailers.
//! So the parser still decides when to ask for the body (100), where it ends, whether the connection can be used again,
//! and what is wrong.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::proxy::downstream::body_error::RequestBodyError;

/// Hands what the reader of a connection has read to the body of a request. Requests are counted from 1; a body may
/// outlive its answer, and so the beginning of the next request.
#[derive(Default)]
pub(crate) struct BodyBypass {
    /// The request whose body goes this way, or was the last that did; 0 if none has.
    request: Cell<u64>,
    /// Bytes of an announced length that go this way; 0 if no length is announced.
    bytes: Cell<u64>,
    /// Requests that have begun.
    begun: Cell<u64>,
    /// Data that has been read and not been taken: that of one read at most, in pieces that are not empty.
    data: RefCell<VecDeque<Bytes>>,
    /// The request whose body the data belong to.
    data_of: Cell<u64>,
    /// The request whose body waits for more; 0 if none does.
    wanted_by: Cell<u64>,
    /// The last request whose body has been dropped, so nobody takes its data any more.
    closed: Cell<u64>,
    /// The task that reads, while it waits for room.
    reader: RefCell<Option<Waker>>,
    /// The task that waits for data.
    taker: RefCell<Option<Waker>>,
}

/// The body of a request, most of which goes around the parser.
#[derive(Debug)]
pub(crate) struct BypassedBody {
    bypass: Rc<BodyBypass>,
    request: u64,
    /// Bytes of an announced length that are still to come this way.
    left: u64,
    /// The end of the body, which the parser reads.
    end: Incoming,
}

impl BodyBypass {
    /// Notes that the body of this request goes this way: all of it but its end, or `bytes` if its
    /// length was announced.
    pub(super) fn open(&self, request: u64, bytes: u64) {
        self.request.set(request);
        self.bytes.set(bytes);
    }

    /// Begins the next request. Returns how many bytes of an announced length go this way, 0 if no length is announced;
    /// `None` if the body does not go this way.
    pub(in crate::proxy::downstream) fn begin(&self) -> Option<u64> {
        self.begun.set(self.begun.get() + 1);
        (self.request.get() == self.begun.get()).then(|| self.bytes.get())
    }

    /// Returns the body of the request that has begun: `left` bytes of it go this way, and `end` comes from the parser.
    pub(in crate::proxy::downstream) fn body(
        self: &Rc<Self>,
        left: u64,
        end: Incoming,
    ) -> BypassedBody {
        BypassedBody {
            bypass: Rc::clone(self),
            request: self.request.get(),
            left,
            end,
        }
    }

    /// Whether there is room for data and a body waits for it; if not, the task that asks is woken when that changes.
    pub(super) fn has_room(&self, cx: &Context<'_>) -> bool {
        let has_room = self.is_empty() && self.wanted_by.get() == self.request.get();
        if !has_room {
            self.reader.replace(Some(cx.waker().clone()));
        }
        has_room
    }

    /// Whether nothing waits to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.data.borrow().is_empty()
    }

    /// Hands over what has been read. Earlier data must have been taken. The new data are dropped if the body has been
    /// dropped.
    pub(super) fn put(&self, data: impl Iterator<Item = Bytes>) {
        let request = self.request.get();
        if self.closed.get() >= request {
            return;
        }
        self.data.borrow_mut().extend(data);
        if self.is_empty() {
            return;
        }
        self.data_of.set(request);
        self.wanted_by.set(0);
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }

    /// Takes what has been read of this request's body.
    fn poll_take(&self, request: u64, cx: &Context<'_>) -> Poll<Bytes> {
        if self.data_of.get() == request
            && let Some(piece) = self.data.borrow_mut().pop_front()
        {
            return Poll::Ready(piece);
        }
        if self.request.get() == request {
            self.taker.replace(Some(cx.waker().clone()));
            self.wanted_by.set(request);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        Poll::Pending
    }

    /// Drops the data of this request's body, which nobody takes any more.
    fn close(&self, request: u64) {
        self.closed.set(self.closed.get().max(request));
        if self.data_of.get() == request {
            self.data.take();
        }
        if self.wanted_by.get() == request {
            self.wanted_by.set(0);
            self.taker.take();
        }
    }
}

impl BypassedBody {
    /// Polls the next data or the trailers.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if let Poll::Ready(data) = self.bypass.poll_take(self.request, cx) {
            self.left = self.left.saturating_sub(data.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let polled = Pin::new(&mut self.end).poll_frame(cx);
        polled.map_err(|error| RequestBodyError::of(&error))
    }

    /// Whether the whole body has been read.
    pub(crate) fn is_end(&self) -> bool {
        self.end.is_end_stream()
    }

    /// Returns how many bytes are still to come, if that is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.end.size_hint().exact() {
            Some(end) => SizeHint::with_exact(self.left + end),
            None => SizeHint::default(),
        }
    }
}

impl Drop for BypassedBody {
    fn drop(&mut self) {
        self.bypass.close(self.request);
    }
}

impl fmt::Debug for BodyBypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyBypass")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;

    use super::*;

    const DATA: Bytes = Bytes::from_static(b"data");

    #[test]
    fn body_that_outlives_its_answer_leaves_the_next_one_alone() {
        let (bypass, cx) = (BodyBypass::default(), Context::from_waker(noop_waker_ref()));
        bypass.open(1, 0);
        bypass.open(2, 0);
        assert!(bypass.poll_take(2, &cx).is_pending());
        assert!(bypass.poll_take(1, &cx).is_pending());
        assert!(bypass.has_room(&cx), "the second one still waits");
        bypass.put([DATA].into_iter());
        bypass.close(1);
        assert_eq!(bypass.poll_take(2, &cx), Poll::Ready(DATA));
    }

    #[test]
    fn end_of_a_body_is_taken_after_the_next_head_has_been_read() {
        let (bypass, cx) = (BodyBypass::default(), Context::from_waker(noop_waker_ref()));
        bypass.open(1, 0);
        bypass.put([DATA].into_iter());
        bypass.open(2, 0);
        assert!(!bypass.has_room(&cx));
        assert!(bypass.poll_take(2, &cx).is_pending());
        assert_eq!(bypass.poll_take(1, &cx), Poll::Ready(DATA));
        assert!(bypass.has_room(&cx));
    }

    #[test]
    fn nothing_of_a_body_that_nobody_takes_reaches_the_next_one() {
        let (bypass, cx) = (BodyBypass::default(), Context::from_waker(noop_waker_ref()));
        bypass.open(1, 0);
        bypass.put([DATA].into_iter());
        bypass.close(1);
        bypass.put([DATA].into_iter());
        bypass.open(2, 0);
        assert!(bypass.poll_take(2, &cx).is_pending());
    }
}
