//! The body of an answer, in pieces: as long as its client has not taken the last one, the connection counts as
//! being answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body that tells when hyper has taken all of it.
pub(super) struct AnswerBody {
    rest: Bytes,
    _until_taken: WhenDropped,
}

/// Calls a function when it is dropped.
struct WhenDropped(Box<dyn Fn()>);

impl AnswerBody {
    /// Calls `when_taken` once hyper has taken the last piece, or given up.
    pub(super) fn new(rest: Bytes, when_taken: Box<dyn Fn()>) -> Self {
        Self {
            rest,
            _until_taken: WhenDropped(when_taken),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Drop for WhenDropped {
    fn drop(&mut self) {
        self.0();
    }
}

/// Most bytes that hyper takes at once: what it holds back is no more than a few of these.
const PIECE_BYTES: usize = 16 * 1024;
