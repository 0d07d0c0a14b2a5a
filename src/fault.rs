//! What can go wrong with a request, and whose fault it is: one closed list of constant words.
//!
//! The access log, a metric's label and the answer to the client go by the same [`Reason`], so an
//! operator who has seen one finds the others. It says nothing of statuses or bodies: those are
//! `proxy::refusal`'s.

mod endpoint;
mod handshake;
mod tls;

pub use endpoint::EndpointFailure;
pub use handshake::HandshakeFailure;
pub use tls::TlsFailure;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The client asked for what it cannot have, or left.
    Client,
    /// The gateway could not do its own part, or a bound that its operator set is reached.
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
    /// A client and the listener did not agree on how to encrypt.
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
    /// `Connection` names a field that the listener believes, or that the request's route reads.
    BadConnectionField,
    /// A request for usage does not name a request that it is about.
    BadUsageQuery,
    /// A client asks for its usage more often than it is looked up.
    UsageTooOften,
    /// A policy requires a part of the partition that the request lacks.
    Unidentified,
    /// A policy blocks the client.
    Blocked,
    /// The request's own word on its cost is no number.
    BadCost,
    /// A policy has no price for what the request's body names.
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
    /// The listener holds as many requests as it may.
    DelayedFull,
    /// The listener holds as many bytes of request bodies as it may.
    BodiesFull,
    /// The upstream has as many requests as its `max_requests` allows. That is the gateway's fault: it
    /// refuses by a bound of its own configuration, and no origin was asked.
    UpstreamFull,
    /// The process has as many sockets as its limit of open files allows, and needs one more.
    NoDescriptors,
    /// The gateway ended before the answer did: the grace was over, or it was told not to wait.
    ShutDown,
    /// The request has passed this gateway too often.
    Loop,
    /// No connection to the upstream could be made.
    ConnectFailed,
    /// The upstream's answer is not HTTP, or ended within its head.
    BadResponse,
    /// The upstream's head did not come in time.
    ResponseTimeout,
    /// No endpoint of the upstream can be tried.
    NoEndpoint,
    /// The upstream's body ended before its end; the status was already sent.
    ResponseAborted,
    /// The upstream's body stood still for too long; the status was already sent.
    ResponseBodyTimeout,
    /// Nothing passed through a tunnel for `tunnel_timeout`.
    TunnelTimeout,
}

impl Fault {
    /// Returns the fault's word in log and metrics.
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

    /// Returns the reason's word in log and metrics.
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

    /// Says whose fault it is.
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

    /// Says whether a limit refused the request.
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

    /// Says whether the message itself is wrong, whatever the configuration.
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

    /// Says whether the gateway answers in the upstream's place; if not, the request or its answer
    /// broke off.
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

    /// Fails unless each stands at its index, under a word that no other has.
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
