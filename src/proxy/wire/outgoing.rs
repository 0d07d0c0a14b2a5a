//! A request as it is to be written to an origin.
//!
//! The client's own fields of connection and framing are left out; what is written in their place is
//! decided here, from the body.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{HOST, TRAILER, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body::Body;

use super::body::BodyFraming;
use super::encoding::Http1Encoding;
use super::interim::InterimSink;
use super::request_head::{CommonFields, RequestHead};
use crate::request::hop_by_hop;

/// A request on its way to an origin: it can be begun again as long as nothing of it is lost.
#[derive(Debug)]
pub struct Outgoing<B> {
    /// The head as it was decided.
    pub head: RequestHead,
    /// The rest of the request: its body, and what is collected of it for an HTTP/1.1 origin.
    pub encoding: Http1Encoding<B>,
    /// Gets interim answers; if there is none, they are dropped.
    pub interim: Option<Rc<dyn InterimSink>>,
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
            encoding: Http1Encoding::new(framing.has_content().then_some(body), framing, trailers),
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

    /// Sets the fields that follow all others: the request's `id`, then `common`. The others must not have fields of
    /// these names.
    pub fn set_common(
        &mut self,
        common: Option<Rc<CommonFields>>,
        id: Option<(HeaderName, HeaderValue)>,
    ) {
        (self.head.common, self.head.id) = (common, id);
    }

    /// Returns the protocol that the request asks for, if it asks for one.
    pub fn upgrade(&self) -> Option<HeaderValue> {
        let head = &self.head;
        head.is_upgrade.then(|| head.headers[UPGRADE].clone())
    }

    /// Returns the client's Host field, if there is one.
    pub fn host(&self) -> Option<&HeaderValue> {
        self.head.headers.get(HOST)
    }

    /// Makes the request ask for the protocol that its Upgrade field names.
    pub fn ask_to_switch(&mut self) {
        self.head.is_upgrade = true;
    }

    /// Returns the rest of the body; none if there is none, or it has been taken to its end.
    pub fn body(&mut self) -> &mut Option<B> {
        &mut self.encoding.body
    }

    /// Whether the request may be sent twice: its method is idempotent (RFC 9110, section 9.2.2), and it has
    /// no content that would be used up.
    pub fn is_idempotent(&self) -> bool {
        !self.head.framing.has_content()
            && matches!(
                self.head.method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
            )
    }
}

impl<B: Body<Data = Bytes>> From<Request<B>> for Outgoing<B> {
    fn from(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self::new(head.method, head.uri, head.headers, body)
    }
}

/// Decides how a body is framed: by its length if that is known, otherwise in chunks.
fn framing_of(method: &Method, body: &impl Body) -> BodyFraming {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => empty_framing(method),
        Some(0) => empty_framing(method),
        Some(bytes) => BodyFraming::Length(bytes),
        None => BodyFraming::Chunked,
    }
}

/// Decides how an empty body is framed: by its length, if requests of this method usually have content
/// (RFC 9110, section 8.6).
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

/// Most names of trailers that one request can announce; further ones are ignored.
const ANNOUNCED_TRAILERS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::super::scripted_body::ScriptedBody;
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
