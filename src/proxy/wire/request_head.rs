//! The head of a request, and its bytes in HTTP/1.1 (RFC 9112, sections 3 to 7).

use std::io::Write as _;
use std::rc::Rc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::body::BodyFraming;

/// Fields that many requests have in common, written once.
#[derive(Debug)]
pub struct CommonFields {
    fields: Box<[(HeaderName, HeaderValue)]>,
    /// The fields as they are written in a head of HTTP/1.1.
    lines: Box<[u8]>,
}

/// The head of a request, as it is sent to an origin.
#[derive(Debug)]
pub struct RequestHead {
    /// Method of the request.
    pub method: Method,
    /// Target, in origin-form.
    pub target: Uri,
    /// Fields of the request, except for `common` and `id`; those of framing and connection are not sent.
    pub headers: HeaderMap,
    /// Fields that follow `headers`, which has none of their names.
    pub common: Option<Rc<CommonFields>>,
    /// The field with the request's id, which comes before `common`.
    pub id: Option<(HeaderName, HeaderValue)>,
    /// How the request's body is framed.
    pub framing: BodyFraming,
    /// Whether the request asks for the protocol that its Upgrade field names.
    pub is_upgrade: bool,
}

impl CommonFields {
    /// Takes the fields, and writes them as lines.
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

impl RequestHead {
    /// Whether the request must be the last on its connection: it has content, which means nothing in
    /// GET, HEAD and DELETE (RFC 9110, sections 9.3.1, 9.3.2 and 9.3.5), so the origin is likely to leave
    /// it unread, and to take it for the next request.
    pub fn is_last(&self) -> bool {
        let is_unexpected = matches!(self.method, Method::GET | Method::HEAD | Method::DELETE);
        is_unexpected && self.framing.has_content()
    }

    /// Writes the head, its empty line included.
    pub fn encode(&self, host: &HeaderValue, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        // An empty path is written as "/" (section 3.2.1).
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
            // Some origins do not understand a list of options, so TE is left out.
            out.extend_from_slice(b"connection: close\r\n");
        } else if self.is_upgrade {
            out.extend_from_slice(b"connection: upgrade\r\n");
        } else if let Some(te) = te {
            // TE concerns this connection alone, so Connection has to name it (RFC 9110, section 10.1.4).
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
pub fn encode_field(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}
