//! Refusals: the one place where "no" becomes a response.
//!
//! Each refusal has a named constructor that fixes its status, its body (`application/problem+json`,
//! RFC 9457), whether the connection closes and, through its [`Reason`], whose fault it was. Bodies
//! are rendered when the gateway is compiled; only quota-exceeded, which names the violated
//! policies, renders its own. No byte of the request is ever reflected.
//!
//! What the RateLimit fields of a refusal say is [`annotate`](super::annotate)'s business.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::clock::Micros;
use crate::fault::Reason;
use crate::limit::Retry;

/// A request's "no", until it is turned into a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    page: &'static Page,
    /// Seconds, at least 1.
    retry_after_secs: Option<u64>,
    body: Bytes,
}

/// What is constant in a refusal.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    reason: Reason,
    status: StatusCode,
    connection: Afterwards,
    /// The whole body; for quota-exceeded, its part before the list of violated policies.
    body: &'static str,
    /// What a gRPC client is told, if gRPC has a word of its own for the status.
    grpc: Option<Grpc>,
}

/// What a gRPC client gets instead of the status: the values of `grpc-status` and `grpc-message`.
#[derive(Debug, PartialEq, Eq)]
struct Grpc {
    status: &'static str,
    message: &'static str,
}

/// What becomes of the client's connection after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It carries further requests.
    Keep,
    /// It closes, because it is in doubt where the next request begins, or what this one meant.
    Close,
}

/// How the client wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// With a status and problem+json.
    Http,
    /// With gRPC's own status, in a response that is only a head ("Trailers-Only").
    Grpc,
}

/// Defines a constructor and a page for each refusal whose body is constant.
macro_rules! refusals {
    ($($(#[$doc:meta])+ $name:ident: $reason:ident, $status:ident = $code:literal $title:literal,
       $connection:ident, $detail:literal;)+) => {
        impl Refusal {
            $($(#[$doc])+
            pub fn $name() -> Self {
                static PAGE: Page = Page {
                    reason: Reason::$reason,
                    status: StatusCode::$status,
                    connection: Afterwards::$connection,
                    body: concat!(
                        r#"{"type":"about:blank","title":""#, $title, r#"","status":"#, $code,
                        r#","detail":""#, $detail, "\"}\n",
                    ),
                    grpc: unavailable($code, $title),
                };
                Self::constant(&PAGE)
            })+
        }

        /// Every constructor of a refusal whose body is constant.
        #[cfg(test)]
        const CONSTANT: &[fn() -> Refusal] = &[$(Refusal::$name),+];
    };
}

refusals! {
    /// The path cannot be normalised, or the target has a form that is not served.
    bad_path: BadPath, BAD_REQUEST = 400 "Bad Request", Close,
        "The path is malformed or contains an escape that is not accepted.";
    /// The method differs from one that a route names only in case.
    bad_method_case: BadMethodCase, BAD_REQUEST = 400 "Bad Request", Close,
        "Methods are case-sensitive.";
    /// The host is missing, doubled or malformed.
    bad_host: BadHost, BAD_REQUEST = 400 "Bad Request", Close,
        "The host is missing or malformed.";
    /// The body's framing is malformed, or not one that every origin reads alike.
    bad_framing: BadFraming, BAD_REQUEST = 400 "Bad Request", Close,
        "The request's length or transfer coding is malformed or not supported.";
    /// No route matches.
    no_route: NoRoute, NOT_FOUND = 404 "Not Found", Keep,
        "No route matches.";
    /// The request's body is larger than allowed; the rest of it is not read.
    body_too_large: BodyTooLarge, PAYLOAD_TOO_LARGE = 413 "Content Too Large", Close,
        "The request's content is larger than allowed.";
    /// `Expect` asks for something other than `100-continue`; whether a body follows is unknown.
    expectation_failed: ExpectationFailed, EXPECTATION_FAILED = 417 "Expectation Failed", Close,
        "The only expectation that is supported is 100-continue.";
    /// CONNECT, after which a client may speak anything, or TRACE, which would reflect the request.
    method_unsupported: MethodUnsupported, NOT_IMPLEMENTED = 501 "Not Implemented", Close,
        "The method is not supported.";
    /// The client made no progress with its body for the listener's `body_timeout`.
    request_body_timeout: RequestBodyTimeout, REQUEST_TIMEOUT = 408 "Request Timeout", Close,
        "The request's content did not arrive in time.";
    /// The request has passed gateways of this kind too often.
    request_loop: Loop, LOOP_DETECTED = 508 "Loop Detected", Keep,
        "The request has passed gateways of this kind too often: it goes in circles.";
    /// No connection to the upstream could be made.
    connect_failed: ConnectFailed, BAD_GATEWAY = 502 "Bad Gateway", Keep,
        "The upstream cannot be reached.";
    /// The upstream's answer is not HTTP, or ended within its head.
    bad_response: BadResponse, BAD_GATEWAY = 502 "Bad Gateway", Keep,
        "The upstream's response is malformed.";
    /// The upstream's head did not come within `response_timeout`.
    response_timeout: ResponseTimeout, GATEWAY_TIMEOUT = 504 "Gateway Timeout", Keep,
        "The upstream did not respond in time.";
    /// No endpoint of the upstream can be tried.
    no_endpoint: NoEndpoint, SERVICE_UNAVAILABLE = 503 "Service Unavailable", Keep,
        "No endpoint of the upstream is available.";
}

impl Refusal {
    /// A policy's quota is used up.
    ///
    /// `retry` is the verdict's; `violated` yields the refusing quotas' names as structured-field
    /// strings (`PolicyQuota::item`), quotes included, in the route's order.
    pub fn quota_exceeded<'q>(
        retry: Retry,
        violated: impl Iterator<Item = &'q str> + Clone,
    ) -> Self {
        let list_bytes: usize = violated.clone().map(|item| item.len() + 1).sum();
        // Exactly as large as the body, so that it becomes `Bytes` without another allocation.
        let names_any = list_bytes > 0;
        let bytes =
            QUOTA_EXCEEDED.body.len() + list_bytes - usize::from(names_any) + BODY_END.len();
        let mut body = Vec::with_capacity(bytes);
        body.extend_from_slice(QUOTA_EXCEEDED.body.as_bytes());
        for (index, item) in violated.enumerate() {
            if index > 0 {
                body.push(b',');
            }
            // A structured-field string is ASCII and escapes as JSON does (RFC 9651, section 3.3.3).
            body.extend_from_slice(item.as_bytes());
        }
        body.extend_from_slice(BODY_END.as_bytes());
        Self {
            page: &QUOTA_EXCEEDED,
            retry_after_secs: match retry {
                Retry::After(retry) => Some(retry.secs_ceil().max(1)),
                Retry::Never => None,
            },
            body: Bytes::from(body),
        }
    }

    /// A policy requires a part of the partition that the request lacks; the answer names the
    /// policy.
    pub fn unidentified(policy: &str) -> Self {
        let mut body = String::from(UNIDENTIFIED.body);
        // A policy's name has no character that JSON escapes.
        body.push_str(policy);
        body.push_str("\"}\n");
        Self {
            body: Bytes::from(body),
            ..Self::constant(&UNIDENTIFIED)
        }
    }

    /// The store cannot answer and a policy is `closed`; `retry` is when to try again.
    pub fn limiter_unavailable(retry: Micros) -> Self {
        Self {
            retry_after_secs: Some(retry.secs_ceil().max(1)),
            ..Self::constant(&LIMITER_UNAVAILABLE)
        }
    }

    /// The listener holds as many requests of leaky-bucket policies as it may.
    pub fn held_full() -> Self {
        Self::constant(&HELD_FULL)
    }

    /// Says why, and so whose fault it is.
    pub fn reason(&self) -> Reason {
        self.page.reason
    }

    /// Returns the status, as it goes out to clients that do not speak gRPC.
    pub fn status(&self) -> StatusCode {
        self.page.status
    }

    /// Says what becomes of the client's connection.
    pub fn afterwards(&self) -> Afterwards {
        self.page.connection
    }

    /// Makes the response.
    ///
    /// `Content-Length` is left to hyper, which writes it from the body's length without another
    /// header value, to HEAD too.
    pub fn into_response(self, dialect: Dialect) -> Response<Bytes> {
        let grpc = self.page.grpc.as_ref();
        let mut response = if let Some(grpc) = grpc.filter(|_| dialect == Dialect::Grpc) {
            grpc.response()
        } else {
            let mut response = Response::new(self.body);
            *response.status_mut() = self.page.status;
            let problem = HeaderValue::from_static("application/problem+json");
            response.headers_mut().insert(CONTENT_TYPE, problem);
            response
        };
        let headers = response.headers_mut();
        if let Some(secs) = self.retry_after_secs {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if self.page.connection == Afterwards::Close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn constant(page: &'static Page) -> Self {
        Self {
            page,
            retry_after_secs: None,
            body: Bytes::from_static(page.body.as_bytes()),
        }
    }
}

impl Grpc {
    /// Makes a Trailers-Only response (gRPC over HTTP/2, "Responses").
    fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(GRPC_STATUS, HeaderValue::from_static(self.status));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(self.message));
        response
    }
}

impl Dialect {
    /// Tells from a request's fields how its client wants to be answered.
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

/// gRPC clients map every status but 429 and 503 correctly by themselves (gRPC, "HTTP to gRPC
/// Status Code Mapping"). 503 is UNAVAILABLE (14), which they may retry elsewhere.
const fn unavailable(code: u16, message: &'static str) -> Option<Grpc> {
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

/// Types and titles: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
static QUOTA_EXCEEDED: Page = Page {
    reason: Reason::QuotaExceeded,
    status: StatusCode::TOO_MANY_REQUESTS,
    connection: Afterwards::Keep,
    body: concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Request cannot be satisfied as assigned quota has been exceeded","#,
        r#""status":429,"violated-policies":["#,
    ),
    grpc: Some(Grpc {
        status: "8",
        message: "Request cannot be satisfied as assigned quota has been exceeded",
    }),
};

const BODY_END: &str = "]}\n";

static UNIDENTIFIED: Page = Page {
    reason: Reason::Unidentified,
    status: StatusCode::UNAUTHORIZED,
    connection: Afterwards::Keep,
    body: concat!(
        r#"{"type":"about:blank","title":"Unauthorized","status":401,"#,
        r#""detail":"The request does not identify its client.","policy":""#,
    ),
    grpc: None,
};

static LIMITER_UNAVAILABLE: Page = reduced_capacity(
    Reason::LimiterUnavailable,
    concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","#,
        r#""title":"Request cannot be satisfied due to temporary server capacity constraints","#,
        r#""status":503,"detail":"The limiter cannot answer."}"#,
        "\n"
    ),
);

static HELD_FULL: Page = reduced_capacity(
    Reason::HeldFull,
    concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","#,
        r#""title":"Request cannot be satisfied due to temporary server capacity constraints","#,
        r#""status":503,"detail":"Too many requests are waiting for their turn."}"#,
        "\n"
    ),
);

const fn reduced_capacity(reason: Reason, body: &'static str) -> Page {
    Page {
        reason,
        status: StatusCode::SERVICE_UNAVAILABLE,
        connection: Afterwards::Keep,
        body,
        grpc: unavailable(
            503,
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
    }
}

#[cfg(test)]
mod tests;
