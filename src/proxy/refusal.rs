//! Refusals: the one place where "no" becomes a response.
//!
//! Each refusal has a named constructor that fixes its status, its body (`application/problem+json`,
//! RFC 9457), whether the connection closes and, through its [`Reason`], whose fault it was. Bodies
//! are rendered when the gateway is compiled; only those that name policies are rendered later. A
//! policy may say itself how it refuses. No byte of the request is ever reflected.
//!
//! What the RateLimit fields of a refusal say is [`annotate`](super::annotate)'s business.

mod challenge;
mod dialect;
mod over_quota;

use bytes::Bytes;
pub use challenge::Challenge;
pub use dialect::Dialect;
use dialect::{Grpc, unavailable};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
pub use over_quota::OverQuota;

use crate::clock::Micros;
use crate::fault::Reason;

/// The refusal of a request, until it is turned into a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    page: &'static Page,
    /// The status of the page, or the policy's own.
    status: StatusCode,
    /// Seconds of Retry-After, at least 1.
    retry_after_secs: Option<u64>,
    challenge: Option<Challenge>,
    body: Bytes,
    content_type: HeaderValue,
}

/// The constant parts of a refusal.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    reason: Reason,
    status: StatusCode,
    connection: Afterwards,
    /// The whole body, or its beginning up to the first part that varies.
    body: &'static str,
    /// What a gRPC client is told; if there is none, the client maps the HTTP status itself.
    grpc: Option<Grpc>,
}

/// What becomes of the client's connection after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It carries further requests.
    Keep,
    /// It closes, because it is not certain where the next request begins, or what this one meant.
    Close,
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
    /// The client's certificate has expired since its handshake.
    client_certificate_expired: ClientCertificateExpired, BAD_REQUEST = 400 "Bad Request", Close,
        "The client's certificate has expired.";
    /// The listener's authorities have changed since the handshake, and none vouches for the client.
    client_certificate_untrusted: ClientCertificateUntrusted, BAD_REQUEST = 400 "Bad Request", Close,
        "The client's certificate is no longer accepted.";
    /// The host has a different certificate from that of the host that the client named in its handshake.
    misdirected: Misdirected, MISDIRECTED_REQUEST = 421 "Misdirected Request", Keep,
        "The host is not served on this connection: it has a different certificate.";
    /// The body's framing is malformed, or not one that every origin reads alike.
    bad_framing: BadFraming, BAD_REQUEST = 400 "Bad Request", Close,
        "The request's length or transfer coding is malformed or not supported.";
    /// What names the client could be read differently by different origins.
    ambiguous_client: AmbiguousClient, BAD_REQUEST = 400 "Bad Request", Keep,
        "What identifies the client comes twice or can be read in more than one way.";
    /// Connection names a field that the listener reads from trusted peers, or that the request's route reads.
    bad_connection_field: BadConnectionField, BAD_REQUEST = 400 "Bad Request", Keep,
        "Connection names a field that routes or limits the request.";
    /// The query of a request for usage does not name a request.
    bad_usage_query: BadUsageQuery, BAD_REQUEST = 400 "Bad Request", Keep,
        "The query must name a path, and may name a method and a host: ?path=/v1/items&method=POST.";
    /// The client has asked for its usage within the last second, or too many other clients have.
    usage_too_often: UsageTooOften, TOO_MANY_REQUESTS = 429 "Too Many Requests", Keep,
        "Usage is looked up once a second for each client.";
    /// No route matches.
    no_route: NoRoute, NOT_FOUND = 404 "Not Found", Keep,
        "No route matches.";
    /// The request's body is larger than allowed; the rest of it is not read.
    body_too_large: BodyTooLarge, PAYLOAD_TOO_LARGE = 413 "Content Too Large", Close,
        "The request's content is larger than allowed.";
    /// `Expect` asks for something other than `100-continue`; whether a body follows is unknown.
    expectation_failed: ExpectationFailed, EXPECTATION_FAILED = 417 "Expectation Failed", Close,
        "The only supported expectation is 100-continue.";
    /// The method is CONNECT, after which a client may speak anything, or TRACE, which would reflect the request.
    method_unsupported: MethodUnsupported, NOT_IMPLEMENTED = 501 "Not Implemented", Close,
        "The method is not supported.";
    /// The client made no progress with its body for the listener's `body_timeout`.
    request_body_timeout: RequestBodyTimeout, REQUEST_TIMEOUT = 408 "Request Timeout", Close,
        "The request's content did not arrive in time.";
    /// The request has passed gateways of this kind too often, or would be redirected to itself.
    request_loop: Loop, LOOP_DETECTED = 508 "Loop Detected", Keep,
        "The request is in a loop: it has passed too many gateways, or is redirected to itself.";
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
    /// A policy requires a part of the partition that the request lacks; the answer names the
    /// policy, and says how the client may identify itself.
    pub fn unidentified(policy: &str, challenge: Challenge) -> Self {
        Self {
            challenge: Some(challenge),
            ..Self::naming(policy, &UNIDENTIFIED)
        }
    }

    /// A policy blocks the client; the answer names the policy.
    pub fn blocked(policy: &str) -> Self {
        Self::naming(policy, &BLOCKED)
    }

    /// The field that a policy takes a request's cost from is no plain decimal; the answer names the
    /// policy.
    pub fn bad_cost(policy: &str) -> Self {
        Self::naming(policy, &BAD_COST)
    }

    /// A policy has no price for what the request's content asks for; the answer names the policy.
    pub fn unknown_price(policy: &str) -> Self {
        Self::naming(policy, &UNKNOWN_PRICE)
    }

    /// The store cannot answer and a policy is `closed`; `retry` is when to try again.
    pub fn limiter_unavailable(retry: Micros) -> Self {
        Self::constant(&LIMITER_UNAVAILABLE).after(retry)
    }

    /// The listener holds as many requests of leaky-bucket policies as it may.
    pub fn delayed_full() -> Self {
        Self::constant(&DELAYED_FULL)
    }

    /// The listener holds as many bytes of request bodies as it may.
    pub fn bodies_full() -> Self {
        Self::constant(&BODIES_FULL)
    }

    /// The upstream has as many requests as its `max_requests` allows.
    pub fn upstream_full() -> Self {
        Self::constant(&UPSTREAM_FULL)
    }

    /// The process has as many sockets as its limit of open files allows.
    pub fn no_descriptors() -> Self {
        Self::constant(&NO_DESCRIPTORS)
    }

    /// Sets how long the client is told to wait before it tries again.
    #[must_use]
    pub fn after(self, retry: Micros) -> Self {
        Self {
            retry_after_secs: Some(retry.secs_ceil().max(1)),
            ..self
        }
    }

    /// Returns why the request is refused, and so whose fault that is.
    pub fn reason(&self) -> Reason {
        self.page.reason
    }

    /// Returns the status, as it goes out to clients that do not speak gRPC.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the seconds of Retry-After, if the refusal has one.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after_secs
    }

    /// Says what becomes of the client's connection.
    pub fn afterwards(&self) -> Afterwards {
        self.page.connection
    }

    /// Makes the response; its fields reuse the allocation of `room`, whose own fields are no longer needed.
    ///
    /// `Content-Length` is left to hyper, which writes it from the body's length without another
    /// header value, to HEAD too.
    pub fn into_response(self, dialect: Dialect, mut room: HeaderMap) -> Response<Bytes> {
        let grpc = self.page.grpc.as_ref();
        let mut response = if let Some(grpc) = grpc.filter(|_| dialect == Dialect::Grpc) {
            grpc.response()
        } else {
            let mut response = Response::new(self.body);
            *response.status_mut() = self.status;
            room.clear();
            room.insert(CONTENT_TYPE, self.content_type);
            *response.headers_mut() = room;
            response
        };
        let headers = response.headers_mut();
        if let Some(secs) = self.retry_after_secs {
            let mut digits = itoa::Buffer::new();
            let secs = HeaderValue::from_str(digits.format(secs)).expect("digits make a value");
            headers.insert(RETRY_AFTER, secs);
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge.field());
        }
        if self.page.connection == Afterwards::Close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn constant(page: &'static Page) -> Self {
        Self {
            page,
            status: page.status,
            retry_after_secs: None,
            challenge: None,
            body: Bytes::from_static(page.body.as_bytes()),
            content_type: PROBLEM_JSON,
        }
    }

    /// Makes a refusal whose body ends with the name of a policy.
    fn naming(policy: &str, page: &'static Page) -> Self {
        let mut body = String::from(page.body);
        // A policy's name has no character that JSON escapes.
        body.push_str(policy);
        body.push_str("\"}\n");
        Self {
            body: Bytes::from(body),
            ..Self::constant(page)
        }
    }
}

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

static UNIDENTIFIED: Page = naming_policy(
    Reason::Unidentified,
    StatusCode::UNAUTHORIZED,
    concat!(
        r#"{"type":"about:blank","title":"Unauthorized","status":401,"#,
        r#""detail":"The request does not identify its client.","policy":""#,
    ),
);

static BLOCKED: Page = naming_policy(
    Reason::Blocked,
    StatusCode::FORBIDDEN,
    concat!(
        r#"{"type":"about:blank","title":"Forbidden","status":403,"#,
        r#""detail":"The client is blocked.","policy":""#,
    ),
);

static BAD_COST: Page = naming_policy(
    Reason::BadCost,
    StatusCode::BAD_REQUEST,
    concat!(
        r#"{"type":"about:blank","title":"Bad Request","status":400,"#,
        r#""detail":"The field that declares the request's cost must be one plain decimal number, such as 5.","#,
        r#""policy":""#,
    ),
);

static UNKNOWN_PRICE: Page = naming_policy(
    Reason::UnknownPrice,
    StatusCode::BAD_REQUEST,
    concat!(
        r#"{"type":"about:blank","title":"Bad Request","status":400,"#,
        r#""detail":"The request's content does not name anything that has a price, or cannot be read.","#,
        r#""policy":""#,
    ),
);

/// A page whose body ends with the name of a policy.
const fn naming_policy(reason: Reason, status: StatusCode, body: &'static str) -> Page {
    Page {
        reason,
        status,
        connection: Afterwards::Keep,
        body,
        grpc: None,
    }
}

/// Makes a page of the problem type that says that the gateway cannot serve as much as usual now.
macro_rules! reduced_capacity {
    ($reason:ident, $detail:literal) => {
        reduced_capacity(
            Reason::$reason,
            concat!(
                r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","#,
                r#""title":"Request cannot be satisfied due to temporary server capacity constraints","#,
                r#""status":503,"detail":""#,
                $detail,
                "\"}\n"
            ),
        )
    };
}

static LIMITER_UNAVAILABLE: Page =
    reduced_capacity!(LimiterUnavailable, "The limiter is unavailable.");

static DELAYED_FULL: Page = reduced_capacity!(DelayedFull, "Too many requests are delayed.");

static BODIES_FULL: Page =
    reduced_capacity!(BodiesFull, "Too much request content is being buffered.");

static UPSTREAM_FULL: Page = reduced_capacity!(
    UpstreamFull,
    "The upstream has reached its limit of concurrent requests."
);

static NO_DESCRIPTORS: Page = reduced_capacity!(
    NoDescriptors,
    "The limit of connections to upstreams is reached."
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
