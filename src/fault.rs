//! What can go wrong with a request, and whose fault it is: one closed list of constant words.
//!
//! The access log, a metric's label and the response to the client have the same [`Reason`], so an operator
//! who has seen it in one of them finds it in the others. Statuses and bodies are the subject of
//! `proxy::refusal`.

mod endpoint;
mod handshake;
mod tls;

pub use endpoint::EndpointFailure;
pub use handshake::HandshakeFailure;
pub use tls::TlsFailure;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The client asked for something that it cannot have, or it left.
    Client,
    /// The gateway failed at its own part, or a bound set by its operator was reached.
    Gateway,
    /// The origin failed.
    Upstream,
}

/// What went wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The head is not HTTP.
    Syntax,
    /// The head is larger than the listener's `max_header_bytes`, or its target is too long.
    HeadTooLarge,
    /// The connection ended within a head.
    HeadIncomplete,
    /// The head did not arrive within `header_timeout`.
    HeadTimeout,
    /// A client of HTTP/2 reset too many streams before they were answered.
    TooManyResets,
    /// The client has as many connections as `max_connections_per_client` allows.
    TooManyConnections,
    /// The connection does not begin with a PROXY header of a trusted peer.
    ProxyHeader,
    /// The client and the listener could not agree on TLS parameters.
    HandshakeFailed,
    /// The TLS handshake was not complete within `handshake_timeout`.
    HandshakeTimeout,
    /// The certificate of the request's client has expired since its handshake.
    ClientCertificateExpired,
    /// The listener's `client_ca` has changed since the handshake, and no longer vouches for the client.
    ClientCertificateUntrusted,
    /// The host has another certificate than the one that the client asked for in its handshake.
    Misdirected,
    /// The path cannot be normalised, or the target has a form that is not served.
    BadPath,
    /// The method differs from one that a route names only in case.
    BadMethodCase,
    /// The host is missing, doubled or malformed.
    BadHost,
    /// The request's body is framed in a way that not every origin reads alike, or its chunks are
    /// malformed.
    BadFraming,
    /// No route matches.
    NoRoute,
    /// Origins could read in different ways what names the request's client.
    AmbiguousClient,
    /// `Connection` names a field that the listener trusts, or that the request's route reads.
    BadConnectionField,
    /// A request to the usage endpoint does not say which request it asks about.
    BadUsageQuery,
    /// A client asks for its usage more often than allowed.
    UsageTooOften,
    /// A policy requires a part of the partition that the request lacks.
    Unidentified,
    /// A policy blocks the client.
    Blocked,
    /// The cost that the request states is not a number.
    BadCost,
    /// A policy has no price for the value in the request's body, such as its model.
    UnknownPrice,
    /// The request's body is larger than allowed.
    BodyTooLarge,
    /// `Expect` asks for something other than `100-continue`.
    ExpectationFailed,
    /// CONNECT or TRACE.
    MethodUnsupported,
    /// A policy's quota is used up.
    QuotaExceeded,
    /// The client made no progress with its body.
    RequestBodyTimeout,
    /// The client left before it had the whole answer.
    ClientGone,
    /// The store cannot answer and a policy is `closed`.
    LimiterUnavailable,
    /// As many requests are being delayed on the listener as allowed.
    DelayedFull,
    /// As many bytes of request bodies are buffered on the listener as allowed.
    BodiesFull,
    /// The upstream has as many requests as its `max_requests` allows. This is the gateway's fault: the bound is
    /// from its own configuration, and no origin was asked.
    UpstreamFull,
    /// The process has as many sockets as its limit of open files allows, and needs one more.
    NoDescriptors,
    /// The gateway stopped before the response was complete: its grace period was over, or it was told not to wait.
    ShutDown,
    /// The request has passed this gateway too often.
    Loop,
    /// No connection to the upstream could be made.
    ConnectFailed,
    /// The upstream's answer is not HTTP, or ended within its head.
    BadResponse,
    /// The head of the upstream's response did not arrive in time.
    ResponseTimeout,
    /// No endpoint of the upstream can be tried.
    NoEndpoint,
    /// The body of the upstream's response broke off; the status was already sent.
    ResponseAborted,
    /// The body of the upstream's response stalled for too long; the status was already sent.
    ResponseBodyTimeout,
    /// Nothing passed through a tunnel for `tunnel_timeout`.
    TunnelTimeout,
}

impl Fault {
    /// Returns the fault's name in the log and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Upstream => "upstream",
        }
    }
}

impl Reason {
    /// Every reason, in the order of their indices.
    pub const ALL: [Self; 45] = [
        Self::Syntax,
        Self::HeadTooLarge,
        Self::HeadIncomplete,
        Self::HeadTimeout,
        Self::TooManyResets,
        Self::TooManyConnections,
        Self::ProxyHeader,
        Self::HandshakeFailed,
        Self::HandshakeTimeout,
        Self::ClientCertificateExpired,
        Self::ClientCertificateUntrusted,
        Self::Misdirected,
        Self::BadPath,
        Self::BadMethodCase,
        Self::BadHost,
        Self::BadFraming,
        Self::NoRoute,
        Self::AmbiguousClient,
        Self::BadConnectionField,
        Self::BadUsageQuery,
        Self::UsageTooOften,
        Self::Unidentified,
        Self::Blocked,
        Self::BadCost,
        Self::UnknownPrice,
        Self::BodyTooLarge,
        Self::ExpectationFailed,
        Self::MethodUnsupported,
        Self::QuotaExceeded,
        Self::RequestBodyTimeout,
        Self::ClientGone,
        Self::LimiterUnavailable,
        Self::DelayedFull,
        Self::BodiesFull,
        Self::UpstreamFull,
        Self::NoDescriptors,
        Self::ShutDown,
        Self::Loop,
        Self::ConnectFailed,
        Self::BadResponse,
        Self::ResponseTimeout,
        Self::NoEndpoint,
        Self::ResponseAborted,
        Self::ResponseBodyTimeout,
        Self::TunnelTimeout,
    ];

    /// Returns the reason's name in the log and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::HeadTooLarge => "too_large",
            Self::HeadIncomplete => "incomplete",
            Self::HeadTimeout => "timeout",
            Self::TooManyResets => "too_many_resets",
            Self::TooManyConnections => "too_many_connections",
            Self::ProxyHeader => "proxy_header",
            Self::HandshakeFailed => "handshake_failed",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::ClientCertificateExpired => "client_certificate_expired",
            Self::ClientCertificateUntrusted => "client_certificate_untrusted",
            Self::Misdirected => "misdirected",
            Self::BadPath => "bad_path",
            Self::BadMethodCase => "bad_method_case",
            Self::BadHost => "bad_host",
            Self::BadFraming => "bad_framing",
            Self::NoRoute => "no_route",
            Self::AmbiguousClient => "ambiguous_client",
            Self::BadConnectionField => "bad_connection_field",
            Self::BadUsageQuery => "bad_usage_query",
            Self::UsageTooOften => "usage_too_often",
            Self::Unidentified => "unidentified",
            Self::Blocked => "blocked",
            Self::BadCost => "bad_cost",
            Self::UnknownPrice => "unknown_price",
            Self::BodyTooLarge => "body_too_large",
            Self::ExpectationFailed => "expectation_failed",
            Self::MethodUnsupported => "method_unsupported",
            Self::QuotaExceeded => "quota_exceeded",
            Self::RequestBodyTimeout => "request_body_timeout",
            Self::ClientGone => "client_gone",
            Self::LimiterUnavailable => "limiter_unavailable",
            Self::DelayedFull => "delayed_full",
            Self::BodiesFull => "bodies_full",
            Self::UpstreamFull => "upstream_full",
            Self::NoDescriptors => "no_descriptors",
            Self::ShutDown => "shut_down",
            Self::Loop => "loop",
            Self::ConnectFailed => "connect_failed",
            Self::BadResponse => "bad_response",
            Self::ResponseTimeout => "response_timeout",
            Self::NoEndpoint => "no_endpoint",
            Self::ResponseAborted => "response_aborted",
            Self::ResponseBodyTimeout => "response_body_timeout",
            Self::TunnelTimeout => "tunnel_timeout",
        }
    }

    /// Returns whose fault it is.
    pub const fn fault(self) -> Fault {
        match self {
            Self::Syntax
            | Self::HeadTooLarge
            | Self::HeadIncomplete
            | Self::HeadTimeout
            | Self::TooManyResets
            | Self::TooManyConnections
            | Self::ProxyHeader
            | Self::HandshakeFailed
            | Self::HandshakeTimeout
            | Self::ClientCertificateExpired
            | Self::ClientCertificateUntrusted
            | Self::Misdirected
            | Self::BadPath
            | Self::BadMethodCase
            | Self::BadHost
            | Self::BadFraming
            | Self::NoRoute
            | Self::AmbiguousClient
            | Self::BadConnectionField
            | Self::BadUsageQuery
            | Self::UsageTooOften
            | Self::Unidentified
            | Self::Blocked
            | Self::BadCost
            | Self::UnknownPrice
            | Self::BodyTooLarge
            | Self::ExpectationFailed
            | Self::MethodUnsupported
            | Self::QuotaExceeded
            | Self::RequestBodyTimeout
            | Self::TunnelTimeout
            | Self::ClientGone => Fault::Client,
            Self::LimiterUnavailable
            | Self::DelayedFull
            | Self::BodiesFull
            | Self::UpstreamFull
            | Self::NoDescriptors
            | Self::ShutDown
            | Self::Loop => Fault::Gateway,
            Self::ConnectFailed
            | Self::BadResponse
            | Self::ResponseTimeout
            | Self::NoEndpoint
            | Self::ResponseAborted
            | Self::ResponseBodyTimeout => Fault::Upstream,
        }
    }

    /// Returns whether a limit refused the request.
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::QuotaExceeded
                | Self::Blocked
                | Self::Unidentified
                | Self::LimiterUnavailable
                | Self::DelayedFull
        )
    }

    /// Returns whether the message is malformed, whatever the configuration.
    pub const fn is_malformed(self) -> bool {
        matches!(
            self,
            Self::Syntax
                | Self::HeadTooLarge
                | Self::HeadIncomplete
                | Self::HeadTimeout
                | Self::BadPath
                | Self::BadMethodCase
                | Self::BadHost
                | Self::BadFraming
                | Self::ExpectationFailed
                | Self::MethodUnsupported
        )
    }

    /// Returns whether the gateway answers in the upstream's place; otherwise the request or its response broke
    /// off.
    pub const fn is_refusal(self) -> bool {
        !matches!(
            self,
            Self::HeadIncomplete
                | Self::TooManyResets
                | Self::TooManyConnections
                | Self::ProxyHeader
                | Self::HandshakeFailed
                | Self::HandshakeTimeout
                | Self::ClientGone
                | Self::ShutDown
                | Self::ResponseAborted
                | Self::ResponseBodyTimeout
                | Self::TunnelTimeout
        )
    }

    /// Returns the reason's place in [`Reason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails unless each value is at its index and has a name of its own.
    fn assert_indexed<T: Copy>(all: &[T], index: fn(T) -> usize, word: fn(T) -> &'static str) {
        for (at, one) in all.iter().enumerate() {
            assert_eq!(index(*one), at, "{}", word(*one));
            let same = all.iter().filter(|other| word(**other) == word(*one));
            assert_eq!(same.count(), 1, "{}", word(*one));
        }
    }

    #[test]
    fn every_reason_and_failure_stands_at_its_index_under_its_own_word() {
        assert_indexed(&Reason::ALL, Reason::index, Reason::word);
        assert_indexed(
            &EndpointFailure::ALL,
            EndpointFailure::index,
            EndpointFailure::word,
        );
        assert_indexed(
            &HandshakeFailure::ALL,
            HandshakeFailure::index,
            HandshakeFailure::word,
        );
        assert_indexed(&TlsFailure::ALL, TlsFailure::index, TlsFailure::word);
    }
}
