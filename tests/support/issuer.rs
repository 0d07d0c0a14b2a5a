//! An issuer of tokens: keys made by the test, their public files, and tokens with any content.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A key that signs tokens.
pub enum Issuer {
    Hmac(Vec<u8>),
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Issuer {
    /// Makes an issuer whose tokens are signed with RS256.
    pub fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    /// Makes an issuer whose tokens are signed with ES256.
    pub fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    /// Makes an issuer whose tokens are signed with EdDSA.
    pub fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().expect("a key"))
    }

    /// Makes an issuer whose tokens are signed with HS256 and this secret.
    pub fn hmac(secret: impl Into<Vec<u8>>) -> Self {
        Self::Hmac(secret.into())
    }

    /// Returns the name of the signature algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Hmac(_) => "HS256",
            Self::Rsa(_) => "RS256",
            Self::Ec(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    /// Returns the public key as a PEM file.
    pub fn pem(&self) -> String {
        let spki: PublicKeyX509Der<'_> = match self {
            Self::Hmac(_) => panic!("a secret has no public key"),
            Self::Rsa(key) => key.public_key().as_der(),
            Self::Ec(key) => key.public_key().as_der(),
            Self::Ed(key) => key.public_key().as_der(),
        }
        .expect("a public key");
        pem("PUBLIC KEY", spki.as_ref())
    }

    /// Returns the public key, or the secret, as a member of a JWKS.
    pub fn jwk(&self) -> Value {
        match self {
            Self::Hmac(secret) => json!({"kty": "oct", "k": encoded(secret)}),
            Self::Rsa(key) => {
                let RsaPublicKeyComponents { n, e } =
                    RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({"kty": "RSA", "n": encoded(n), "e": encoded(e)})
            }
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y)})
            }
            Self::Ed(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key())})
            }
        }
    }

    /// Issues a token with those claims.
    pub fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "typ": "JWT"});
        self.raw_token(&header.to_string(), claims.to_string())
    }

    /// Signs any header with any payload.
    pub fn raw_token(&self, header: &str, payload: impl AsRef<[u8]>) -> String {
        let message = format!("{}.{}", encoded(header), encoded(payload));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encoded(signature))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Hmac(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("a signature");
                signature
            }
            Self::Ec(key) => {
                let signature = key.sign(&random, message).expect("a signature");
                signature.as_ref().to_vec()
            }
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }
}

/// Returns a JWKS file with those keys, each with the given members added.
pub fn jwks(keys: &[(&Issuer, Value)]) -> String {
    let keys = keys.iter().map(|(issuer, more)| {
        let mut key = issuer.jwk();
        let more = more.as_object().expect("members").clone();
        key.as_object_mut().expect("an object").extend(more);
        key
    });
    json!({"keys": keys.collect::<Vec<_>>()}).to_string()
}

/// Returns a PEM section.
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|at| &text[at..text.len().min(at + 64)])
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// Encodes bytes as the parts of a token are (base64url without padding).
pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
