//! The body of a response as it comes.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Frame, SizeHint};

use super::FIELDS_MAX;
use super::connection::Slot;
use super::error::StreamError;
use crate::proxy::upstream::body_error::{BrokenBody, UpstreamBodyError};
use crate::proxy::upstream::http1::BadBody;
use crate::proxy::upstream::origin_deadline::OriginDeadline;
use crate::proxy::upstream::upload::Upload;
use crate::request::are_tokens;

/// How long the body of a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// The response cannot have a body.
    None,
    /// This many bytes are still to come.
    Known(u64),
    /// The length was not announced, and the stream's end ends the body.
    Unknown,
}

/// The body of a response as it comes; its stream is reset when this is dropped before the end.
pub struct Http2Receiving {
    /// The stream to read, and its place on the connection; none after the end.
    stream: Option<(RecvStream, Slot)>,
    /// The length of what has not been passed on.
    length: BodyLength,
    /// The rest of the request, if the response began before it was sent.
    upload: Option<Upload>,
    due: Rc<OriginDeadline>,
    /// Whether a reset that is no error ended the body.
    is_ended_by_reset: bool,
}

impl Http2Receiving {
    pub(super) fn new(
        slot: Slot,
        stream: RecvStream,
        length: BodyLength,
        upload: Option<Upload>,
        due: Rc<OriginDeadline>,
    ) -> Self {
        let mut receiving = Self {
            stream: Some((stream, slot)),
            length,
            upload,
            due,
            is_ended_by_reset: false,
        };
        receiving.end_with_stream();
        receiving
    }

    /// Whether the body has ended.
    pub fn is_end(&self) -> bool {
        self.stream.is_none()
    }

    /// Whether the body's end can be told from a broken connection: no reset has ended it, or its length
    /// was announced.
    pub fn has_known_end(&self) -> bool {
        !self.is_ended_by_reset || matches!(self.length, BodyLength::Known(_))
    }

    /// Returns how much is still to come.
    pub fn size_hint(&self) -> SizeHint {
        match self.length {
            _ if self.is_end() => SizeHint::with_exact(0),
            BodyLength::None => SizeHint::with_exact(0),
            BodyLength::Known(left) => SizeHint::with_exact(left),
            BodyLength::Unknown => SizeHint::default(),
        }
    }

    /// Polls the next data or the trailers, and fails if the origin sends nothing for `timeout`; no
    /// limit if none. After an error, the stream is reset.
    pub fn poll_frame(
        &mut self,
        timeout: Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let polled = self.poll_next(timeout, cx);
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.end();
        }
        polled
    }

    fn poll_next(
        &mut self,
        timeout: Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        if self.is_end() {
            return Poll::Ready(None);
        }
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(ended) = upload.poll(cx)
        {
            self.upload = None;
            if let Err(error) = ended {
                return Poll::Ready(Some(Err(UpstreamBodyError::Request(error))));
            }
        }
        let frame = match self.poll_stream(cx) {
            Poll::Ready(Ok(frame)) => frame,
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Some(Err(UpstreamBodyError::Broken(error))));
            }
            Poll::Pending => {
                let over = self.due.poll_over(timeout, cx);
                return over.map(|()| Some(Err(UpstreamBodyError::Timeout)));
            }
        };
        self.due.progressed();
        if frame.as_ref().is_none_or(Frame::is_trailers) {
            self.end_whole();
        } else {
            self.end_with_stream();
        }
        Poll::Ready(frame.map(Ok))
    }

    /// Polls the next data or the trailers of the stream; none at its end.
    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, BrokenBody>> {
        let Some((stream, slot)) = &mut self.stream else {
            return Poll::Ready(Ok(None));
        };
        let broken = |error: h2::Error| BrokenBody::Stream(slot.ended(error));
        while let Some(data) = ready!(stream.poll_data(cx)) {
            let data = match data {
                Ok(data) => data,
                // "A server MAY request that the client abort transmission of a request without error
                // by sending a RST_STREAM with an error code of NO_ERROR after sending a complete
                // response" (RFC 9113, section 8.1).
                Err(error) if error.is_remote() && error.reason() == Some(Reason::NO_ERROR) => {
                    slot.end();
                    if let BodyLength::Known(1..) = self.length {
                        return Poll::Ready(Err(BadBody::Incomplete.into()));
                    }
                    self.is_ended_by_reset = true;
                    return Poll::Ready(Ok(None));
                }
                Err(error) => return Poll::Ready(Err(broken(error))),
            };
            // The data is passed on to the client now, so the origin may send as much again.
            stream
                .flow_control()
                .release_capacity(data.len())
                .map_err(broken)?;
            match &mut self.length {
                _ if data.is_empty() => continue,
                BodyLength::None => return Poll::Ready(Err(StreamError::Content.into())),
                BodyLength::Known(left) => *left = left.saturating_sub(data.len() as u64),
                BodyLength::Unknown => {}
            }
            return Poll::Ready(Ok(Some(Frame::data(data))));
        }
        let trailers = ready!(stream.poll_trailers(cx)).map_err(broken)?;
        if trailers
            .as_ref()
            .is_some_and(|trailer| !are_tokens(trailer))
        {
            return Poll::Ready(Err(BadBody::Trailer.into()));
        }
        if trailers
            .as_ref()
            .is_some_and(|trailer| trailer.len() > FIELDS_MAX)
        {
            return Poll::Ready(Err(StreamError::TooLarge.into()));
        }
        Poll::Ready(Ok(trailers.map(Frame::trailers)))
    }

    /// Ends the body if its stream has ended.
    fn end_with_stream(&mut self) {
        if matches!(&self.stream, Some((stream, _)) if stream.is_end_stream()) {
            self.end_whole();
        }
    }

    /// Ends a complete response. Its stream counts as reset unless its request is complete too.
    fn end_whole(&mut self) {
        if let (Some((_, slot)), None) = (&self.stream, &self.upload) {
            slot.end();
        }
        self.end();
    }

    /// Drops the stream and the rest of the request, neither of which is needed any more.
    fn end(&mut self) {
        self.upload = None;
        self.stream = None;
    }
}
