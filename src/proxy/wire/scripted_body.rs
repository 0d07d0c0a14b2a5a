//! The body of a request, for tests.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// The body of a request, whose frames come one at a time, each after the body was pending once.
#[derive(Debug, Default)]
pub struct ScriptedBody {
    announced: Option<u64>,
    frames: VecDeque<Frame<Bytes>>,
    is_paused: bool,
}

impl ScriptedBody {
    /// Makes a body of these pieces, which announces this length, or none.
    pub fn new(announced: Option<u64>, pieces: &[&'static str]) -> Self {
        let frame = |piece: &&'static str| Frame::data(Bytes::from_static(piece.as_bytes()));
        Self {
            announced,
            frames: pieces.iter().map(frame).collect(),
            is_paused: false,
        }
    }

    /// Adds trailers to the body.
    #[must_use]
    pub fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.frames.push_back(Frame::trailers(trailers));
        self
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.is_paused = !self.is_paused;
        if self.is_paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
