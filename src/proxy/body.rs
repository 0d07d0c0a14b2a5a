//! The body of an answer while it streams to the client, and what is known of its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::downstream::body::{RequestBody, RequestBodyError};
use super::exchange::Exchange;
use super::tunnel::{BrokenTunnel, TunnelBody};
use super::upstream::builtin::BuiltinBody;
use super::upstream::{Switched, UpstreamBody, UpstreamBodyError};
use crate::fault::Reason;
use crate::request::hop_by_hop;

/// The body of an answer, and its exchange, which is over when this is dropped.
pub(crate) struct ResponseBody {
    content: Content,
    /// None if a tunnel has it.
    exchange: Option<Box<Exchange>>,
    /// Whether it ended or broke off by itself.
    is_over: bool,
    /// Whether it ended.
    has_ended: bool,
}

/// What an answer's body streams from.
pub(crate) enum Content {
    /// A refusal's.
    Refusal(Full<Bytes>),
    /// A built-in answer's.
    Builtin(BuiltinBody<RequestBody>),
    /// An origin's, in what is left of its response when the head has been taken.
    Upstream(Box<Response<UpstreamBody>>),
    /// A connection to an origin, after a 101, until a tunnel takes it.
    Switched(Box<Switched>),
    /// What an origin sends through a tunnel over HTTP/2.
    Tunnel(Box<TunnelBody>),
}

/// Why an answer's body broke off. The connection ends with it, so the client sees that.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseBodyError {
    #[error(transparent)]
    Upstream(#[from] UpstreamBodyError),
    #[error(transparent)]
    Client(#[from] RequestBodyError),
    #[error(transparent)]
    Tunnel(#[from] BrokenTunnel),
}

impl Content {
    /// Whether its end can be told from a connection that broke.
    pub(crate) fn is_end_told(&self) -> bool {
        match self {
            Self::Upstream(response) => response.body().is_end_told(),
            _ => true,
        }
    }

    /// Whether its head tells how long it is.
    pub(crate) fn has_length(&self) -> bool {
        self.is_end_stream() || self.size_hint().exact().is_some()
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Refusal(full) => full.is_end_stream(),
            Self::Builtin(body) => body.is_end_stream(),
            Self::Upstream(response) => response.body().is_end_stream(),
            Self::Tunnel(tunnel) => tunnel.is_over(),
            Self::Switched(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Refusal(full) => full.size_hint(),
            Self::Builtin(body) => body.size_hint(),
            Self::Upstream(response) => response.body().size_hint(),
            Self::Tunnel(_) | Self::Switched(_) => SizeHint::default(),
        }
    }

    /// Whether it is made of the request's body, so that neither ends before the other.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Self::Builtin(BuiltinBody::Echo(_)))
    }
}

impl ResponseBodyError {
    /// Says what went wrong, and so whose fault it was.
    fn reason(&self) -> Reason {
        let request = match self {
            Self::Client(error) => Some(error),
            Self::Upstream(error) => error.body_error(),
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

    /// The empty body of a 101, whose exchange goes on.
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
        // Nobody asks for more where no more can come.
        self.has_ended |= !self.is_over && self.is_end_stream();
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        match &mut exchange.reading {
            Some(reading) if self.has_ended => reading.ended(self.content.is_end_told()),
            _ => {}
        }
        if !self.is_over && !self.has_ended {
            exchange.record.left_unsent();
        }
    }
}
