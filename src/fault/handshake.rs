//! Why a client's TLS handshake fails: words for metrics, and short texts for the log.

/// Why a client's TLS handshake with a listener failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeFailure {
    /// The client has no certificate, and the listener asks for one.
    #[error("the client has no certificate")]
    NoCertificate,
    /// The client's certificate has expired.
    #[error("the client's certificate has expired")]
    Expired,
    /// The client's certificate is not valid yet.
    #[error("the client's certificate is not valid yet")]
    NotYetValid,
    /// The client's certificate is not from an authority that the listener trusts.
    #[error("the client's certificate is from an unknown authority")]
    UnknownIssuer,
    /// The client's certificate cannot be used for another reason.
    #[error("the client's certificate is not acceptable")]
    BadCertificate,
    /// The client ended the handshake with an alert, for example because it does not accept the listener's certificate.
    #[error("the client ended TLS with an alert")]
    Refused,
    /// The two have no version, cipher suite or protocol in common.
    #[error("no version, cipher suite or protocol in common")]
    Incompatible,
    /// The client speaks HTTP without TLS.
    #[error("the client speaks HTTP without TLS")]
    PlainHttp,
    /// What the client sent is not TLS, or breaks its rules.
    #[error("the client does not speak TLS properly")]
    Malformed,
    /// The client left, or its connection broke off.
    #[error("closed within the handshake")]
    Closed,
    /// The handshake took longer than `handshake_timeout`.
    #[error("TLS handshake timed out")]
    Timeout,
}

impl HandshakeFailure {
    /// Every failure, in the order of their indices.
    pub const ALL: [Self; 11] = [
        Self::NoCertificate,
        Self::Expired,
        Self::NotYetValid,
        Self::UnknownIssuer,
        Self::BadCertificate,
        Self::Refused,
        Self::Incompatible,
        Self::PlainHttp,
        Self::Malformed,
        Self::Closed,
        Self::Timeout,
    ];

    /// Returns the failure's name in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::UnknownIssuer => "unknown_issuer",
            Self::BadCertificate => "bad_certificate",
            Self::Refused => "refused",
            Self::Incompatible => "incompatible",
            Self::PlainHttp => "plain_http",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the failure's place in [`HandshakeFailure::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
