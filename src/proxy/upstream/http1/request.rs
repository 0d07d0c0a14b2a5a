//! A request as it is written to an origin (RFC 9112, sections 3 to 7).
//!
//! What a client wrote of connection and framing is left out; what is written of them is decided
//! here, from the body.

use std::io::Write as _;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Uri};
use http_body::Body;

use super::BodyFraming;
use super::sending::Sending;
use crate::proxy::interim::InterimSink;
use crate::request::hop_by_hop;

/// Fields that many requests have alike, written once.
#[derive(Debug)]
pub struct CommonFields {
    fields: Box<[(HeaderName, HeaderValue)]>,
    /// As they stand in a head of HTTP/1.1.
    lines: Box<[u8]>,
}

/// A request on its way to an origin: it can be begun again as long as nothing of it is lost.
#[derive(Debug)]
pub struct Outgoing<B> {
    pub(super) head: RequestHead,
    pub(super) sending: Sending<B>,
    /// Who is told of interim answers; none: they are dropped.
    pub(in crate::proxy::upstream) interim: Option<Rc<dyn InterimSink>>,
}

/// The head of a request, decided.
#[derive(Debug)]
pub(in crate::proxy::upstream) struct RequestHead {
    pub(in crate::proxy::upstream) method: Method,
    /// In origin-form.
    pub(in crate::proxy::upstream) target: Uri,
    /// All other fields; those of framing and connection are not sent.
    pub(in crate::proxy::upstream) headers: HeaderMap,
    /// Fields that follow these, which have none of those names.
    pub(in crate::proxy::upstream) common: Option<Rc<CommonFields>>,
    /// A field that comes before those.
    pub(in crate::proxy::upstream) id: Option<(HeaderName, HeaderValue)>,
    pub(in crate::proxy::upstream) framing: BodyFraming,
    /// Whether it asks for another protocol, by its field Upgrade.
    is_upgrade: bool,
}

impl<B: Body<Data = Bytes>> Outgoing<B> {
    /// Prepares a request: its `target` is in origin-form, and its fields, except for those of framing
    /// and connection, are what the origin must see.
    pub fn new(method: Method, target: Uri, headers: HeaderMap, body: B) -> Self {
        let framing = framing_of(&method, &body);
        let trailers = match framing {
            BodyFraming::Chunked => announced_trailers(&headers),
            _ => Vec::new(),
        };
        Self {
            sending: Sending::new(framing.has_content().then_some(body), framing, trailers),
            interim: None,
            head: RequestHead {
                is_upgrade: false,
                method,
                target,
                headers,
                common: None,
                id: None,
                framing,
            },
        }
    }

    /// Sets the fields that follow the others, whose names those do not have: `common`, and before them the
    /// request's `id`.
    pub fn set_common(
        &mut self,
        common: Option<Rc<CommonFields>>,
        id: Option<(HeaderName, HeaderValue)>,
    ) {
        (self.head.common, self.head.id) = (common, id);
    }

    /// Has `sink` told of interim answers.
    pub fn tell_interim(&mut self, sink: Option<Rc<dyn InterimSink>>) {
        self.interim = sink;
    }

    /// Returns the protocol that is asked for.
    pub(super) fn upgrade(&self) -> Option<HeaderValue> {
        let head = &self.head;
        head.is_upgrade.then(|| head.headers[UPGRADE].clone())
    }

    /// Returns the client's Host, unless there is none.
    pub fn host(&self) -> Option<&HeaderValue> {
        self.head.headers.get(HOST)
    }

    /// Asks for the protocol that the request's field Upgrade names.
    pub(in crate::proxy::upstream) fn ask_to_switch(&mut self) {
        self.head.is_upgrade = true;
    }

    /// Returns the head as it was decided.
    pub(in crate::proxy::upstream) fn head(&self) -> &RequestHead {
        &self.head
    }

    /// Returns the rest of the body; none if there is none, or it has been taken to its end.
    pub(in crate::proxy::upstream) fn body(&mut self) -> &mut Option<B> {
        self.sending.body_mut()
    }

    /// Whether the request may be done twice (RFC 9110, section 9.2.2), and no content of it is used
    /// up.
    pub(in crate::proxy::upstream) fn is_idempotent(&self) -> bool {
        !self.head.framing.has_content()
            && matches!(
                self.head.method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
            )
    }
}

impl CommonFields {
    /// Writes the fields.
    pub fn new(fields: Vec<(HeaderName, HeaderValue)>) -> Self {
        let mut lines = Vec::new();
        for (name, value) in &fields {
            encode_field(name, value, &mut lines);
        }
        Self {
            fields: fields.into(),
            lines: lines.into(),
        }
    }

    /// Returns the fields.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.fields.iter()
    }
}

impl<B: Body<Data = Bytes>> From<Request<B>> for Outgoing<B> {
    fn from(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self::new(head.method, head.uri, head.headers, body)
    }
}

impl RequestHead {
    /// Whether an origin is likely to leave the body unread and take it for the next request:
    /// content of these methods means nothing (RFC 9110, sections 9.3.1, 9.3.2 and 9.3.5). So the
    /// request is the last on its connection.
    pub(super) fn is_last(&self) -> bool {
        let is_unexpected = matches!(self.method, Method::GET | Method::HEAD | Method::DELETE);
        is_unexpected && self.framing.has_content()
    }

    /// Writes the head, its empty line included.
    pub(super) fn encode(&self, host: &HeaderValue, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        // "/" if it is empty (3.2.1).
        out.extend_from_slice(self.target.path().as_bytes());
        if let Some(query) = self.target.query() {
            out.push(b'?');
            out.extend_from_slice(query.as_bytes());
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        encode_field(&HOST, host, out);
        let mut te = None;
        for (name, value) in &self.headers {
            match *name {
                HOST | CONTENT_LENGTH | TRANSFER_ENCODING | CONNECTION => {}
                TE => te = te.or(Some(value)),
                _ => encode_field(name, value, out),
            }
        }
        if let Some((name, id)) = &self.id {
            encode_field(name, id, out);
        }
        if let Some(common) = &self.common {
            out.extend_from_slice(&common.lines);
        }
        if self.framing == BodyFraming::Chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        if self.is_last() {
            // Some origins know no list of options, so there is no TE beside it.
            out.extend_from_slice(b"connection: close\r\n");
        } else if self.is_upgrade {
            out.extend_from_slice(b"connection: upgrade\r\n");
        } else if let Some(te) = te {
            // It concerns this connection alone, and says so (RFC 9110, section 10.1.4).
            encode_field(&TE, te, out);
            out.extend_from_slice(b"connection: te\r\n");
        }
        if let BodyFraming::Length(bytes) = self.framing {
            write!(out, "content-length: {bytes}\r\n").expect("memory takes every byte");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes one field.
pub(super) fn encode_field(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Decides how a body is framed: by its length if that is known.
fn framing_of(method: &Method, body: &impl Body) -> BodyFraming {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => empty_framing(method),
        Some(0) => empty_framing(method),
        Some(bytes) => BodyFraming::Length(bytes),
        None => BodyFraming::Chunked,
    }
}

/// Decides what is said of a body that is empty: its length, if the method usually has content (RFC
/// 9110, section 8.6).
fn empty_framing(method: &Method) -> BodyFraming {
    match *method {
        Method::POST | Method::PUT | Method::PATCH => BodyFraming::Length(0),
        _ => BodyFraming::None,
    }
}

/// Returns the names that Trailer announces; others are not sent in trailers.
fn announced_trailers(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(TRAILER).iter();
    let names = values.flat_map(hop_by_hop::tokens);
    let names = names.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok());
    names.take(ANNOUNCED_TRAILERS_MAX).collect()
}

/// Most names of trailers that one request can announce.
const ANNOUNCED_TRAILERS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::super::scripted::ScriptedBody;
    use super::*;
    use crate::request::hop_by_hop::tests::fields;

    /// The lines of the head of a request with these fields.
    fn lines(method: &str, headers: &[(&str, &str)], body: ScriptedBody) -> Vec<String> {
        let request = Request::builder().method(method).uri("/a?b").body(body);
        let mut request = request.expect("a request");
        *request.headers_mut() = fields(headers);
        let mut out = Vec::new();
        let host = HeaderValue::from_static("shop");
        Outgoing::from(request).head.encode(&host, &mut out);
        let head = String::from_utf8(out).expect("text");
        let head = head.strip_suffix("\r\n\r\n").expect("an empty line");
        head.split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn framing_is_the_bodys_whatever_the_client_wrote() {
        let written: &[&[(&str, &str)]] = &[
            &[],
            &[("content-length", "9")],
            &[("content-length", "9"), ("content-length", "3, 3")],
            &[("transfer-encoding", "chunked")],
            &[("transfer-encoding", "gzip"), ("content-length", "0003")],
            &[("connection", "close, content-length"), ("host", "other")],
            &[("connection", "keep-alive"), ("connection", "x")],
        ];
        let bodies: &[(&str, Option<u64>, &[&str])] = &[
            ("POST", Some(3), &["content-length: 3"]),
            ("POST", Some(0), &["content-length: 0"]),
            ("POST", None, &["transfer-encoding: chunked"]),
            ("GET", Some(0), &[]),
            ("GET", Some(3), &["connection: close", "content-length: 3"]),
            (
                "DELETE",
                None,
                &["transfer-encoding: chunked", "connection: close"],
            ),
        ];
        for headers in written {
            for (method, length, framing) in bodies {
                let body = ScriptedBody::new(*length, &["abc"]);
                let first = format!("{method} /a?b HTTP/1.1");
                let expected = [&[&*first, "host: shop"], *framing].concat();
                assert_eq!(lines(method, headers, body), expected, "{headers:?}");
            }
        }
    }

    #[test]
    fn wish_for_trailers_is_named_in_connection() {
        let lines = |method| {
            let body = ScriptedBody::new(Some(3), &["abc"]);
            lines(method, &[("te", "trailers")], body)
        };
        assert!(lines("POST").contains(&"connection: te".into()));
        let last = lines("GET");
        assert!(last.contains(&"connection: close".into()));
        assert!(!last.iter().any(|line| line.starts_with("te:")));
    }
}
