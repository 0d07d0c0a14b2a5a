//! Claims of tokens (RFC 7519) that name a client: of tokens that verify, and of no others.

mod claims;

pub use self::claims::TokenClaims;
