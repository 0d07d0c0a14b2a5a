//! Tokens: one that nobody signed never verifies, whatever it says.

use std::sync::LazyLock;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use tollgate::clock::Timestamp;
use tollgate::request::jwt::{TokenRules, TokenVerifier, VerifyingKey};

/// The input: the value of Authorization.
pub fn holds(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    assert_eq!(VERIFIER.claims(&headers, Timestamp(1)), None);
}

static VERIFIER: LazyLock<TokenVerifier> = LazyLock::new(|| {
    let file = include_bytes!("../../config/tls/issuer.pem");
    let keys = VerifyingKey::read(file).expect("a key");
    TokenVerifier::new(keys, TokenRules::default(), vec!["sub".into()])
});
