//! Claims of tokens (RFC 7519) that name a client; only tokens that verify count.
//!
//! A [`TokenVerifier`] has the keys and rules of a configuration. A token that does not verify is
//! treated as if it were missing. The signature is checked by `jsonwebtoken`; the form of a token
//! and its validity in time are checked here, by the gateway's own clock. Verified tokens are
//! remembered ([`remembered`]), so that a token's signature is checked once and not per request.

mod claims;
mod json;
mod keys;
mod remembered;
mod token;
mod verifier;

pub use self::claims::TokenClaims;
pub use self::keys::{KeyFault, VerifyingKey};
pub use self::verifier::{TokenRules, TokenVerifier};

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SigningAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// EdDSA with Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// Every supported algorithm with its name (RFC 7518, section 3.1; RFC 8037).
    pub const NAMES: [(&'static str, Self); 4] = [
        ("HS256", Self::Hs256),
        ("RS256", Self::Rs256),
        ("ES256", Self::Es256),
        ("EdDSA", Self::EdDsa),
    ];

    /// Finds an algorithm by its name. `none` is not supported.
    fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find_map(|(known, algorithm)| (*known == name).then_some(*algorithm))
    }
}
