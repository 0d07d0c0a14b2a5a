//! Claims of tokens (RFC 7519) that name a client: of tokens that verify, and of no others.
//!
//! A [`TokenVerifier`] has the keys and rules of a configuration. A token that does not verify is as good
//! as none. The signature is checked by `jsonwebtoken`; what a token may look like, and whether its
//! time has come, is decided here, by the gateway's own clock. Verified tokens are remembered
//! ([`remembered`]), so that the signature of a token is checked once and not per request.

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
    /// Every algorithm with its name (RFC 7518, section 3.1; RFC 8037).
    pub const NAMES: [(&'static str, Self); 4] = [
        ("HS256", Self::Hs256),
        ("RS256", Self::Rs256),
        ("ES256", Self::Es256),
        ("EdDSA", Self::EdDsa),
    ];

    /// Finds an algorithm by its name; there is none called `none`.
    fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find_map(|(known, algorithm)| (*known == name).then_some(*algorithm))
    }
}
