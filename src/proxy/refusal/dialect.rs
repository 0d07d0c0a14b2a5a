//! How a client expects a refusal: as plain HTTP, or in gRPC's own form.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

/// How a client expects to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// With a status and problem+json.
    Http,
    /// With gRPC's own status, in a response that is only a head ("Trailers-Only").
    Grpc,
}

/// What a gRPC client gets instead of the status: the values of `grpc-status` and `grpc-message`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grpc {
    pub(super) status: &'static str,
    pub(super) message: &'static str,
}

impl Grpc {
    /// Makes a Trailers-Only response (gRPC over HTTP/2, "Responses").
    pub(super) fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(GRPC_STATUS, HeaderValue::from_static(self.status));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(self.message));
        response
    }
}

impl Dialect {
    /// Tells from a request's fields how its client expects to be refused.
    pub fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let rest = content_type.and_then(|value| value.strip_prefix(b"application/grpc"));
        match rest.map(<[u8]>::first) {
            // `application/grpc-web` is another protocol: its trailers are in the body.
            Some(None | Some(b'+' | b';')) => Self::Grpc,
            _ => Self::Http,
        }
    }
}

/// Returns what a gRPC client is told for a 503: UNAVAILABLE (14), which it may retry elsewhere. It maps other
/// statuses itself (gRPC, "HTTP to gRPC Status Code Mapping"); what it is told for an exceeded quota, its page says.
pub(super) const fn unavailable(code: u16, message: &'static str) -> Option<Grpc> {
    match code {
        503 => Some(Grpc {
            status: "14",
            message,
        }),
        _ => None,
    }
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
