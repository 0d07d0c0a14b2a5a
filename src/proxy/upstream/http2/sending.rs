//! The body of a request on its way to an origin.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Frame;

use crate::proxy::upstream::origin_deadline::OriginDeadline;
use crate::proxy::wire::body::{BodyFraming, BoxError, UploadBody, WrongLength};
use crate::request::hop_by_hop;

/// A request whose head has been sent, and whose body is being sent.
pub(super) struct Http2Sending {
    stream: SendStream<Bytes>,
    /// Bytes that have been taken from the body and not been sent.
    piece: Bytes,
    /// Framing of the body; an announced length counts only what has not been taken yet.
    framing: BodyFraming,
    /// Whether anything of the body has been taken.
    has_begun: bool,
    state: SendState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    /// There may be more of the body.
    Open,
    /// The piece is the last of the body.
    Last,
    /// The request is sent, or the origin takes no more of it.
    Ended,
}

impl Http2Sending {
    /// Begins to send a body with this framing on `stream`; a request without content has ended at once.
    pub(super) fn new(stream: SendStream<Bytes>, framing: BodyFraming) -> Self {
        Self {
            stream,
            piece: Bytes::new(),
            framing,
            has_begun: false,
            state: if framing.has_content() {
                SendState::Open
            } else {
                SendState::Ended
            },
        }
    }

    /// Whether anything of the body has been taken.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether bytes of the body wait because the origin has no room for them.
    pub(super) fn is_stalled(&self) -> bool {
        !self.piece.is_empty()
    }

    /// Whether nothing is left to be sent.
    pub(super) fn has_ended(&self) -> bool {
        self.state == SendState::Ended
    }

    /// Sends until everything is sent, or the origin takes no more; an error is that of the request's body.
    pub(super) fn poll<B: UploadBody>(
        &mut self,
        body: &mut B,
        due: &OriginDeadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        while self.state != SendState::Ended {
            if !self.piece.is_empty() {
                ready!(self.poll_send(due, cx));
                continue;
            }
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                due.await_client();
                return Poll::Pending;
            };
            due.await_origin();
            self.has_begun = true;
            let taken = match frame.transpose().map_err(Into::into) {
                Ok(Some(frame)) => self.take(frame, body).map_err(Into::into),
                Ok(None) => self.take_end().map_err(Into::into),
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                self.stream.send_reset(Reason::CANCEL);
                self.state = SendState::Ended;
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next data or the trailers of the body, unless its length is not the announced one.
    fn take<B: UploadBody>(&mut self, frame: Frame<Bytes>, body: &B) -> Result<(), WrongLength> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                self.framing.end()?;
                let mut trailers = frame.into_trailers().unwrap_or_default();
                hop_by_hop::strip_trailers(&mut trailers);
                self.end(|stream| stream.send_trailers(trailers));
                return Ok(());
            }
        };
        self.framing.take(data.len())?;
        if body.is_end_stream() {
            self.framing.end()?;
            self.state = SendState::Last;
            if data.is_empty() {
                self.end(|stream| stream.send_data(data, true));
                return Ok(());
            }
        }
        self.piece = data;
        Ok(())
    }

    fn take_end(&mut self) -> Result<(), WrongLength> {
        self.framing.end()?;
        self.end(|stream| stream.send_data(Bytes::new(), true));
        Ok(())
    }

    fn end(&mut self, send: impl FnOnce(&mut SendStream<Bytes>) -> Result<(), h2::Error>) {
        // If the origin takes no more, the request has not failed: the response decides.
        let _ = send(&mut self.stream);
        self.state = SendState::Ended;
    }

    /// Sends as much of the piece as the origin lets through.
    fn poll_send(&mut self, due: &OriginDeadline, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.reserve_capacity(self.piece.len());
        let mut capacity = self.stream.capacity();
        if capacity == 0 {
            let Some(Ok(more)) = ready!(self.stream.poll_capacity(cx)) else {
                self.state = SendState::Ended;
                self.piece = Bytes::new();
                return Poll::Ready(());
            };
            capacity = more;
        }
        let data = self.piece.split_to(capacity.min(self.piece.len()));
        let is_last = self.state == SendState::Last && self.piece.is_empty();
        due.restart();
        if is_last {
            self.end(|stream| stream.send_data(data, true));
        } else if self.stream.send_data(data, false).is_err() {
            self.state = SendState::Ended;
            self.piece = Bytes::new();
        }
        Poll::Ready(())
    }
}
