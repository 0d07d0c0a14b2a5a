//! The body of an answer, sent in pieces: until the client has taken the last one, the connection does not count as
//! waiting for a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::LocalBoxStream;
use http_body::{Body, Frame, SizeHint};

/// A body that tells when hyper has taken all of it.
pub(super) struct AnswerBody {
    rest: Bytes,
    /// Pieces that follow `rest`, if the body is a stream.
    more: Option<LocalBoxStream<'static, Bytes>>,
    _until_taken: WhenDropped,
}

/// Calls a function when it is dropped.
struct WhenDropped(Box<dyn Fn()>);

impl AnswerBody {
    /// Makes a body that calls `when_taken` once hyper has taken the last piece, or given up.
    pub(super) fn new(
        rest: Bytes,
        more: Option<LocalBoxStream<'static, Bytes>>,
        when_taken: Box<dyn Fn()>,
    ) -> Self {
        Self {
            rest,
            more,
            _until_taken: WhenDropped(when_taken),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty()
            && let Some(more) = &mut self.more
        {
            match ready!(more.poll_next_unpin(context)) {
                Some(piece) => self.rest = piece,
                None => self.more = None,
            }
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.more.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.more {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.rest.len() as u64),
        }
    }
}

impl Drop for WhenDropped {
    fn drop(&mut self) {
        self.0();
    }
}

/// Most bytes that hyper takes at once, so that it buffers no more than a few times this many.
const PIECE_BYTES: usize = 16 * 1024;
