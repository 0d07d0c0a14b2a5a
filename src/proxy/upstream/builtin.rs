//! Upstreams that are the gateway itself: an echo of the request, an empty answer, a redirect to HTTPS,
//! or a report of the client's remaining quotas.
//!
//! The first two stand in for an origin while a configuration is tried out. The echo describes a request
//! without a body as JSON, with its fields as an origin would have seen them. If a request has a
//! body, the echo streams it back as it was sent.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, TRAILER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use serde::{Serialize, Serializer};

/// The body of an answer that the gateway itself gives.
#[derive(Debug)]
pub enum BuiltinBody<B> {
    /// Text that has not been sent yet; none after that, or if there is no text.
    Text(Option<Bytes>),
    /// The request's body.
    Echo(B),
}

/// Echoes `request`: describes it as JSON, or sends its body back if it has one.
pub fn echo<B: Body<Data = Bytes>>(request: Request<B>) -> Response<BuiltinBody<B>> {
    if request.body().is_end_stream() {
        let description = describe(&request);
        let mut response = text(description);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        return response;
    }
    let (mut parts, body) = request.into_parts();
    let mut response = Response::new(if parts.method == Method::HEAD {
        BuiltinBody::Text(None)
    } else {
        BuiltinBody::Echo(body)
    });
    for name in [CONTENT_TYPE, TRAILER] {
        if let Some(value) = parts.headers.remove(&name) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Answers with `status` and no body.
pub fn status<B>(status: StatusCode) -> Response<BuiltinBody<B>> {
    let mut response = Response::new(BuiltinBody::Text(None));
    *response.status_mut() = status;
    response
}

/// Answers with `text`.
pub fn text<B>(text: String) -> Response<BuiltinBody<B>> {
    Response::new(BuiltinBody::Text(Some(text.into())))
}

/// Redirects the client to `location` permanently, with the same method and body (308).
pub fn redirect<B>(location: HeaderValue) -> Response<BuiltinBody<B>> {
    let mut response = status(StatusCode::PERMANENT_REDIRECT);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Returns the HTTPS URL of `target` at `host`, on the default port. Path and query stay as they came,
/// but bytes that are not visible ASCII are percent-encoded.
pub fn https(host: &str, target: &Uri) -> HeaderValue {
    let mut url = format!("https://{host}");
    let query = target.query().map(|query| ["?", query]);
    for byte in [target.path()]
        .into_iter()
        .chain(query.into_iter().flatten())
        .flat_map(str::bytes)
    {
        if byte.is_ascii_graphic() {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("memory takes every byte");
        }
    }
    HeaderValue::try_from(url).expect("visible ASCII is a field's value")
}

impl<B: Body<Data = Bytes> + Unpin> Body for BuiltinBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Echo(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Echo(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => {
                let bytes = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(bytes.try_into().unwrap_or(u64::MAX))
            }
            Self::Echo(body) => body.size_hint(),
        }
    }
}

/// The echo's description of a request without a body.
#[derive(Serialize)]
struct RequestDescription<'r> {
    method: &'r str,
    path: &'r str,
    query: Option<&'r str>,
    #[serde(serialize_with = "joined_fields")]
    headers: &'r HeaderMap,
}

/// Writes method, path, query and fields as JSON.
fn describe<B>(request: &Request<B>) -> String {
    let description = RequestDescription {
        method: request.method().as_str(),
        path: request.uri().path(),
        query: request.uri().query(),
        headers: request.headers(),
    };
    serde_json::to_string(&description).expect("its keys are texts") + "\n"
}

/// Writes fields as a map from their names; the lines of a field are joined by commas.
fn joined_fields<S: Serializer>(headers: &HeaderMap, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.keys().map(|name| {
        let lines = headers.get_all(name).iter();
        let lines: Vec<_> = lines
            .map(|line| String::from_utf8_lossy(line.as_bytes()))
            .collect();
        (name.as_str(), lines.join(", "))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Empty, Full};

    fn text<B: Body<Data = Bytes, Error: std::fmt::Debug> + Unpin>(
        response: Response<BuiltinBody<B>>,
    ) -> Bytes {
        let collected = response.into_body().collect().now_or_never();
        let body = collected.expect("a body at hand").expect("a whole body");
        body.to_bytes()
    }

    #[test]
    fn echo_describes_a_request_without_a_body() {
        let request = Request::get("/a/b?x=1")
            .header("host", "h")
            .header("accept", "a")
            .header("accept", "\"b\"\\\t")
            .body(Empty::new())
            .expect("a request");
        let json: serde_json::Value =
            serde_json::from_slice(&text(echo(request))).expect("what it says is JSON");
        let expected = serde_json::json!({
            "method": "GET", "path": "/a/b", "query": "x=1",
            "headers": { "host": "h", "accept": "a, \"b\"\\\t" },
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn echo_sends_a_body_back_as_it_was() {
        let request = Request::post("/")
            .header("content-type", "text/csv")
            .body(Full::from("a,b"))
            .expect("a request");
        let response = echo(request);
        assert_eq!(response.headers()["content-type"], "text/csv");
        assert_eq!(response.size_hint().exact(), Some(3));
        assert_eq!(text(response), "a,b");
    }

    #[test]
    fn status_is_all_that_is_answered() {
        let response = status::<Empty<Bytes>>(StatusCode::IM_A_TEAPOT);
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
        assert!(response.headers().is_empty() && response.body().is_end_stream());
    }
}
