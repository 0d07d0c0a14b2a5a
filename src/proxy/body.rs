//! The body of an answer while it streams to the client, and what is known of its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::content::Content;
use super::downstream::body_error::RequestBodyError;
use super::exchange::Exchange;
use super::tunnel::BrokenTunnel;
use super::upstream::UpstreamBodyError;
use crate::fault::Reason;
use crate::request::hop_by_hop;

/// The body of an answer, and its exchange, which is over when this is dropped.
pub(crate) struct ResponseBody {
    content: Content,
    /// The exchange of the answer; none if a tunnel has it.
    exchange: Option<Box<Exchange>>,
    /// Whether the body ended or broke off by itself.
    is_over: bool,
    /// Whether the body ended.
    has_ended: bool,
}

/// Why an answer's body broke off. The connection ends with it, so the client notices.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseBodyError {
    #[error(transparent)]
    Upstream(#[from] UpstreamBodyError),
    #[error(transparent)]
    Client(#[from] RequestBodyError),
    #[error(transparent)]
    Tunnel(#[from] BrokenTunnel),
}

impl ResponseBodyError {
    /// Says what went wrong, and so whose fault it was.
    fn reason(&self) -> Reason {
        let request = match self {
            Self::Client(error) => Some(error),
            Self::Upstream(error) => error.request_error(),
            Self::Tunnel(BrokenTunnel::Timeout) => return Reason::TunnelTimeout,
            Self::Tunnel(BrokenTunnel::Origin) => return Reason::ResponseAborted,
            Self::Tunnel(BrokenTunnel::Client) => return Reason::ClientGone,
        };
        match (request, self) {
            (Some(RequestBodyError::TooLarge), _) => Reason::BodyTooLarge,
            (Some(RequestBodyError::TimedOut), _) => Reason::RequestBodyTimeout,
            (Some(RequestBodyError::Malformed), _) => Reason::BadFraming,
            (_, Self::Upstream(UpstreamBodyError::Timeout)) => Reason::ResponseBodyTimeout,
            (_, Self::Upstream(UpstreamBodyError::Broken(_))) => Reason::ResponseAborted,
            _ => Reason::ClientGone,
        }
    }
}

impl ResponseBody {
    /// Streams `content`; `exchange` is over when this is dropped.
    pub(crate) fn new(content: Content, exchange: Box<Exchange>) -> Self {
        Self {
            content,
            exchange: Some(exchange),
            is_over: false,
            has_ended: false,
        }
    }

    /// Returns the empty body of a 101, whose exchange goes on in a tunnel.
    pub(crate) fn switched() -> Self {
        Self {
            content: Content::Refusal(Full::default()),
            exchange: None,
            is_over: true,
            has_ended: true,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        let body = &mut *self;
        let frame = match &mut body.content {
            Content::Refusal(full) => ready!(Pin::new(full).poll_frame(cx))
                .map(|frame| frame.map_err(|never| match never {})),
            Content::Builtin(body) => ready!(Pin::new(body).poll_frame(cx))
                .map(|frame| frame.map_err(ResponseBodyError::Client)),
            Content::Upstream(upstream) => match Pin::new(upstream.body_mut()).poll_frame(cx) {
                Poll::Ready(Some(Ok(mut frame))) => {
                    if let Some(trailers) = frame.trailers_mut() {
                        hop_by_hop::strip_answer_trailers(trailers);
                    }
                    Some(Ok(frame))
                }
                Poll::Ready(Some(Err(error))) => Some(Err(error.into())),
                Poll::Ready(None) => None,
                Poll::Pending => {
                    let Some(exchange) = &body.exchange else {
                        return Poll::Pending;
                    };
                    ready!(exchange.request().poll_gone(cx));
                    Some(Err(RequestBodyError::Aborted.into()))
                }
            },
            Content::Tunnel(tunnel) => {
                ready!(tunnel.poll_data(cx)).map(|data| data.map(Frame::data).map_err(Into::into))
            }
            Content::Switched(_) => None,
        };
        let Some(exchange) = &mut body.exchange else {
            return Poll::Ready(frame);
        };
        match &frame {
            Some(Ok(frame)) => {
                body.is_over = frame.is_trailers();
                body.has_ended = body.is_over;
                let data = frame.data_ref();
                exchange.record.sent(data.map_or(0, Bytes::len));
                if let Some(reading) = &mut exchange.reading {
                    data.inspect(|data| reading.passed(data));
                }
            }
            Some(Err(error)) => {
                body.is_over = true;
                if let ResponseBodyError::Upstream(error) = error {
                    exchange.attempts.broke_off(error);
                    if let Some(reading) = &mut exchange.reading {
                        reading.cut();
                    }
                }
                exchange.record.broke_off(error.reason());
            }
            None => (body.is_over, body.has_ended) = (true, true),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // A body that says it is at its end is not polled again.
        self.has_ended |= !self.is_over && self.is_end_stream();
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        match &mut exchange.reading {
            Some(reading) if self.has_ended => reading.ended(self.content.has_known_end()),
            _ => {}
        }
        if !self.is_over && !self.has_ended {
            exchange.record.left_unsent();
        }
    }
}
