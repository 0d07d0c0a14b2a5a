//! Answers of the admin port: text, JSON, events, or a problem (RFC 9457), never stored by a cache.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

/// An answer before it is sent.
pub(super) struct AdminReply {
    pub(super) status: StatusCode,
    pub(super) fields: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: ReplyBody,
}

/// The content of an answer.
pub(super) enum ReplyBody {
    Whole(Bytes),
    /// Pieces that are sent as they come; they may never end.
    Stream(BoxStream<'static, Bytes>),
}

impl AdminReply {
    /// Answers with a body of that content type.
    pub(super) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::with_body(status, content_type, ReplyBody::Whole(body.into()))
    }

    /// Answers with server-sent events.
    pub(super) fn stream(events: BoxStream<'static, Bytes>) -> Self {
        Self::with_body(StatusCode::OK, EVENT_STREAM, ReplyBody::Stream(events))
    }

    fn with_body(status: StatusCode, content_type: &'static str, body: ReplyBody) -> Self {
        let fields = vec![
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        Self {
            status,
            fields,
            body,
        }
    }

    /// Answers with text.
    pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body)
    }

    /// Answers with JSON.
    pub(super) fn json(value: &Value) -> Self {
        Self::new(StatusCode::OK, JSON, format!("{value}\n"))
    }

    /// Refuses a request; `detail` says why, and what to do.
    pub(super) fn problem(status: StatusCode, detail: impl AsRef<str>) -> Self {
        Self::problem_with(status, detail, Value::Null)
    }

    /// Refuses a request; the problem also has the members of `more`.
    pub(super) fn problem_with(status: StatusCode, detail: impl AsRef<str>, more: Value) -> Self {
        let mut body = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "detail": detail.as_ref(),
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        Self::new(status, PROBLEM, format!("{body}\n"))
    }

    /// Refuses a method that the path does not have.
    pub(super) fn method_not_allowed(allow: &str) -> Self {
        let detail = format!("This path takes {allow}.");
        let mut reply = Self::problem(StatusCode::METHOD_NOT_ALLOWED, detail);
        let allow = HeaderValue::from_str(allow).expect("methods are visible ASCII");
        reply.fields.push((ALLOW, allow));
        reply
    }

    /// Refuses a request whose token is missing or wrong.
    pub(super) fn unauthorized(challenge: &'static str, detail: &str) -> Self {
        let mut reply = Self::problem(StatusCode::UNAUTHORIZED, detail);
        let challenge = HeaderValue::from_static(challenge);
        reply.fields.push((WWW_AUTHENTICATE, challenge));
        reply
    }

    /// Has the connection closed after this answer.
    pub(super) fn closing(mut self) -> Self {
        let close = HeaderValue::from_static("close");
        self.fields.push((CONNECTION, close));
        self
    }
}

pub(super) const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
