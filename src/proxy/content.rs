//! What an answer's body streams from.

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, SizeHint};
use http_body_util::Full;

use super::downstream::body::RequestBody;
use super::tunnel::TunnelBody;
use super::upstream::builtin::BuiltinBody;
use super::upstream::{Switched, UpstreamBody};

/// What an answer's body streams from.
pub(crate) enum Content {
    /// The body of a refusal.
    Refusal(Full<Bytes>),
    /// The body of a built-in answer.
    Builtin(BuiltinBody<RequestBody>),
    /// The body of an origin's response, from which the head has been taken.
    Upstream(Box<Response<UpstreamBody>>),
    /// A connection to an origin, after a 101, until a tunnel takes it.
    Switched(Box<Switched>),
    /// What an origin sends through a tunnel over HTTP/2.
    Tunnel(Box<TunnelBody>),
}

impl Content {
    /// Whether the end of the body can be told from a connection that broke.
    pub(crate) fn has_known_end(&self) -> bool {
        match self {
            Self::Upstream(response) => response.body().has_known_end(),
            _ => true,
        }
    }

    /// Whether the head of the answer can tell how long the body is.
    pub(crate) fn has_length(&self) -> bool {
        self.is_end_stream() || self.size_hint().exact().is_some()
    }

    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Self::Refusal(full) => full.is_end_stream(),
            Self::Builtin(body) => body.is_end_stream(),
            Self::Upstream(response) => response.body().is_end_stream(),
            Self::Tunnel(tunnel) => tunnel.is_over(),
            Self::Switched(_) => true,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Refusal(full) => full.size_hint(),
            Self::Builtin(body) => body.size_hint(),
            Self::Upstream(response) => response.body().size_hint(),
            Self::Tunnel(_) | Self::Switched(_) => SizeHint::default(),
        }
    }

    /// Whether the gateway itself answers.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Refusal(_) | Self::Builtin(_))
    }

    /// Whether the body is the request's own, echoed, so that neither ends before the other.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Self::Builtin(BuiltinBody::Echo(_)))
    }
}
