//! The body of a request on a stream.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::{Frame, SizeHint};

use super::FIELDS_MAX;
use super::state::StreamState;
use crate::proxy::downstream::body_error::RequestBodyError;
use crate::request::are_tokens;

/// The body of a request on a stream. What has been read of it makes room for the client to send as much again.
#[derive(Debug)]
pub(crate) struct Http2Body {
    receiving: RecvStream,
    stream: Rc<StreamState>,
    /// Bytes still to come, if the head announces a length, which `h2` holds the client to.
    announced: Option<u64>,
    /// Whether the client withholds the body until it is told to go on (100).
    is_withheld: bool,
    /// Whether only trailers can come.
    is_data_over: bool,
}

impl Http2Body {
    /// Wraps the body that follows a head with these fields.
    pub(super) fn new(
        receiving: RecvStream,
        stream: &Rc<StreamState>,
        headers: &HeaderMap,
    ) -> Self {
        let announced = headers.get(CONTENT_LENGTH).map(|value| value.to_str());
        Self {
            is_withheld: !receiving.is_end_stream() && headers.contains_key(EXPECT),
            receiving,
            stream: Rc::clone(stream),
            announced: announced.and_then(|value| value.ok()?.parse().ok()),
            is_data_over: false,
        }
    }

    /// Tells a client that withholds the body to go on (100).
    pub(crate) fn ask_for(&mut self) {
        if std::mem::take(&mut self.is_withheld) {
            self.stream.ask_to_continue();
        }
    }

    /// Polls the next piece.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if !self.is_data_over {
            let polled = self.receiving.poll_data(cx);
            if polled.is_pending() {
                self.ask_for();
            }
            match ready!(polled) {
                Some(Ok(data)) => {
                    let bytes = data.len();
                    // This fails only for more bytes than have come.
                    let _ = self.receiving.flow_control().release_capacity(bytes);
                    if let Some(announced) = &mut self.announced {
                        *announced = announced.saturating_sub(bytes as u64);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(broken(&error)))),
                None => self.is_data_over = true,
            }
        }
        let trailers = ready!(self.receiving.poll_trailers(cx)).map_err(|error| broken(&error));
        let is_sound = |fields: &HeaderMap| fields.len() <= FIELDS_MAX && are_tokens(fields);
        Poll::Ready(match trailers.transpose() {
            Some(Ok(trailers)) if !is_sound(&trailers) => Some(Err(RequestBodyError::Malformed)),
            trailers => trailers.map(|trailers| trailers.map(Frame::trailers)),
        })
    }

    /// Whether nothing more can come.
    pub(crate) fn is_end(&self) -> bool {
        self.receiving.is_end_stream()
    }

    /// Returns how many bytes are still to come, if that is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        if self.is_end() {
            return SizeHint::with_exact(0);
        }
        self.announced
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Distinguishes a body that breaks the rules from a client that left.
fn broken(error: &h2::Error) -> RequestBodyError {
    if error.is_library() {
        RequestBodyError::Malformed
    } else {
        RequestBodyError::Aborted
    }
}
