//! The head of a request, and its bytes in HTTP/1.1 (RFC 9112, sections 3 to 7).

use std::io::Write as _;
use std::rc::Rc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::body::BodyFraming;

/// Fields that many requests have alike, written once.
#[derive(Debug)]
pub struct CommonFields {
    fields: Box<[(HeaderName, HeaderValue)]>,
    /// As they stand in a head of HTTP/1.1.
    lines: Box<[u8]>,
}

/// The head of a request, decided.
#[derive(Debug)]
pub struct RequestHead {
    /// Its method.
    pub method: Method,
    /// In origin-form.
    pub target: Uri,
    /// All other fields; those of framing and connection are not sent.
    pub headers: HeaderMap,
    /// Fields that follow these, which have none of those names.
    pub common: Option<Rc<CommonFields>>,
    /// A field that comes before those.
    pub id: Option<(HeaderName, HeaderValue)>,
    /// How its body is framed.
    pub framing: BodyFraming,
    /// Whether it asks for another protocol, by its field Upgrade.
    pub is_upgrade: bool,
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

impl RequestHead {
    /// Whether an origin is likely to leave the body unread and take it for the next request:
    /// content of these methods means nothing (RFC 9110, sections 9.3.1, 9.3.2 and 9.3.5). So the
    /// request is the last on its connection.
    pub fn is_last(&self) -> bool {
        let is_unexpected = matches!(self.method, Method::GET | Method::HEAD | Method::DELETE);
        is_unexpected && self.framing.has_content()
    }

    /// Writes the head, its empty line included.
    pub fn encode(&self, host: &HeaderValue, out: &mut Vec<u8>) {
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
pub fn encode_field(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}
