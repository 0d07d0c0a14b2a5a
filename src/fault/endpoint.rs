//! How an endpoint fails: words for metrics.

/// What an endpoint did wrong to a request, or to a connection for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointFailure {
    /// It refused the connection, or could not be reached.
    Connect,
    /// No connection was made within `connect_timeout`.
    ConnectTimeout,
    /// TLS with it failed.
    Tls,
    /// It did not agree to HTTP/2, and the file allows nothing else.
    Http2,
    /// It closed or reset the connection, or the stream, before the head of its response.
    Closed,
    /// The head of its response did not arrive within `response_timeout`.
    ResponseTimeout,
    /// The head or the body of its response breaks the rules of HTTP.
    Malformed,
    /// It closed or reset the connection within the body of its response.
    BodyClosed,
    /// It sent nothing more of its response's body for `body_timeout`.
    BodyTimeout,
}

impl EndpointFailure {
    /// Every failure, in the order of their indices.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Http2,
        Self::Closed,
        Self::ResponseTimeout,
        Self::Malformed,
        Self::BodyClosed,
        Self::BodyTimeout,
    ];

    /// Returns the failure's name in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Http2 => "http2",
            Self::Closed => "closed",
            Self::ResponseTimeout => "response_timeout",
            Self::Malformed => "malformed",
            Self::BodyClosed => "body_closed",
            Self::BodyTimeout => "body_timeout",
        }
    }

    /// Returns the failure's place in [`EndpointFailure::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
