//! Why TLS to a server fails: words for metrics, and short texts for the log.

/// Why there is no TLS connection to a server, or why it broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// The server's certificate has expired.
    #[error("the certificate has expired")]
    Expired,
    /// The server's certificate is not valid yet.
    #[error("the certificate is not valid yet")]
    NotYetValid,
    /// The server's certificate is not from a trusted authority.
    #[error("the certificate is from an unknown authority")]
    UnknownIssuer,
    /// The server's certificate is for other names.
    #[error("the certificate is for another name")]
    WrongName,
    /// The server's certificate cannot be used for another reason.
    #[error("the certificate is not acceptable")]
    BadCertificate,
    /// The server requires a certificate of the gateway, or does not accept the one it has.
    #[error("the server does not accept the gateway's certificate")]
    ClientCertificate,
    /// The server refused the handshake, or ended the session, with an alert.
    #[error("the server ended TLS with an alert")]
    Refused,
    /// What the server sent is not TLS, or breaks its rules.
    #[error("the server does not speak TLS properly")]
    Malformed,
    /// The connection was closed without the alert that ends TLS.
    #[error("closed without ending TLS")]
    Closed,
    /// The handshake took too long.
    #[error("TLS handshake timed out")]
    Timeout,
}

impl TlsFailure {
    /// Every failure, in the order of their indices.
    pub const ALL: [Self; 10] = [
        Self::Expired,
        Self::NotYetValid,
        Self::UnknownIssuer,
        Self::WrongName,
        Self::BadCertificate,
        Self::ClientCertificate,
        Self::Refused,
        Self::Malformed,
        Self::Closed,
        Self::Timeout,
    ];

    /// Returns the failure's name in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::UnknownIssuer => "unknown_issuer",
            Self::WrongName => "wrong_name",
            Self::BadCertificate => "bad_certificate",
            Self::ClientCertificate => "client_certificate",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the failure's place in [`TlsFailure::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
