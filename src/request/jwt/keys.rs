//! Keys that verify tokens: public keys of a PEM file, or the keys of a JWKS file (RFC 7517).
//!
//! A key verifies tokens of one algorithm, that of its type. So a public key is never used as an
//! HMAC secret, and a token cannot choose how it is verified.

use std::fmt;

use aws_lc_rs::rsa::PublicKey as RsaPublicKey;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RsaPublicKeyComponents};
use jsonwebtoken::jwk::AlgorithmParameters;
use jsonwebtoken::jwk::{EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::Value;

use super::SigningAlgorithm;
use super::token::UnverifiedToken;

/// A key that verifies tokens of its own algorithm.
#[derive(Clone)]
pub struct VerifyingKey {
    /// The key id (`kid`) by which tokens name the key; a key without an id may verify any token.
    id: Option<Box<str>>,
    algorithm: SigningAlgorithm,
    key: DecodingKey,
}

/// Why no keys can be read from a file: messages are predicates whose subject is the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The file is neither PEM nor a JWKS.
    #[error("is neither a PEM nor a JWKS file")]
    Form,
    /// The PEM file has no public key.
    #[error("holds no public key")]
    NoKey,
    /// The file has a private key, which the gateway has no use for.
    #[error("holds a private key, but a public one is needed")]
    Private,
    /// The file has a certificate, whose dates would not be checked.
    #[error("holds a certificate, but a public key is needed")]
    Certificate,
    /// The file has a key of a kind or curve that is not supported.
    #[error("holds a key that is not supported: use RSA, P-256 or Ed25519")]
    Kind,
    /// The file has an RSA key that is too short or too long.
    #[error("holds an RSA key that does not have 2048 to 8192 bits")]
    RsaLength,
    /// A JWKS has no key that can be used.
    #[error("holds no key that can verify a token")]
    NoUsableKey,
}

impl VerifyingKey {
    /// Reads the keys of a file, at least one.
    ///
    /// In a PEM file everything must be usable. A JWKS file may hold keys of other kinds and for other
    /// uses, which are left out.
    ///
    /// # Errors
    /// If the file has no keys, or, in PEM, something that cannot be used.
    pub fn read(file: &[u8]) -> Result<Vec<Self>, KeyFault> {
        match file.trim_ascii_start().first() {
            Some(b'{') => of_jwks(file),
            _ => of_pem(file),
        }
    }

    /// Returns the algorithm of the tokens that the key verifies.
    pub fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// Whether a token may be signed by this key, judging by the token's header.
    pub(super) fn may_verify(&self, token: &UnverifiedToken<'_>) -> bool {
        let is_named = match (&self.id, &token.key_id) {
            (Some(id), Some(wanted)) => id == wanted,
            _ => true,
        };
        is_named && self.algorithm == token.algorithm
    }

    /// Whether the token is signed by this key.
    pub(super) fn verifies(&self, token: &UnverifiedToken<'_>) -> bool {
        let (message, algorithm) = (token.message.as_bytes(), self.algorithm.into());
        jsonwebtoken::crypto::verify(token.signature, message, &self.key, algorithm)
            .is_ok_and(|verifies| verifies)
    }

    /// Returns the bytes of the key, for comparison.
    fn material(&self) -> (&[u8], &[u8]) {
        match self.key.kind() {
            DecodingKeyKind::SecretOrDer(key) => (key, b""),
            DecodingKeyKind::RsaModulusExponent { n, e } => (n, e),
        }
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, self.algorithm, self.material())
            == (&other.id, other.algorithm, other.material())
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({:?})", self.algorithm)
    }
}

impl From<SigningAlgorithm> for Algorithm {
    fn from(algorithm: SigningAlgorithm) -> Self {
        match algorithm {
            SigningAlgorithm::Hs256 => Self::HS256,
            SigningAlgorithm::Rs256 => Self::RS256,
            SigningAlgorithm::Es256 => Self::ES256,
            SigningAlgorithm::EdDsa => Self::EdDSA,
        }
    }
}

fn of_pem(file: &[u8]) -> Result<Vec<VerifyingKey>, KeyFault> {
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(file) {
        let (kind, der) = section.map_err(|_| KeyFault::Form)?;
        keys.push(match kind {
            SectionKind::PublicKey => of_spki(&der)?,
            SectionKind::Certificate => return Err(KeyFault::Certificate),
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                return Err(KeyFault::Private);
            }
            _ => return Err(KeyFault::Kind),
        });
    }
    if !keys.is_empty() {
        return Ok(keys);
    }
    let is_pem = file.windows(BEGIN.len()).any(|window| window == BEGIN);
    Err(if is_pem {
        KeyFault::NoKey
    } else {
        KeyFault::Form
    })
}

/// Reads a SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7).
///
/// A key of P-256 or Ed25519 has only one DER form, so the bytes before it are a constant.
fn of_spki(der: &[u8]) -> Result<VerifyingKey, KeyFault> {
    let (algorithm, key) = if let Some(point) = der.strip_prefix(&P256_SPKI[..]) {
        (SigningAlgorithm::Es256, p256(point).ok_or(KeyFault::Kind)?)
    } else if let Some(key) = der.strip_prefix(&ED25519_SPKI[..]) {
        (SigningAlgorithm::EdDsa, ed25519(key).ok_or(KeyFault::Kind)?)
    } else {
        let key = RsaPublicKey::from_der(der).map_err(|_| KeyFault::Kind)?;
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(&key);
        (
            SigningAlgorithm::Rs256,
            rsa(&n, &e).ok_or(KeyFault::RsaLength)?,
        )
    };
    Ok(VerifyingKey {
        id: None,
        algorithm,
        key,
    })
}

fn of_jwks(file: &[u8]) -> Result<Vec<VerifyingKey>, KeyFault> {
    let set: Value = serde_json::from_slice(file).map_err(|_| KeyFault::Form)?;
    let keys = set["keys"].as_array().ok_or(KeyFault::Form)?;
    let read = |key: &Value| of_jwk(&serde_json::from_value(key.clone()).ok()?);
    let keys: Vec<_> = keys.iter().filter_map(read).collect();
    if keys.is_empty() {
        return Err(KeyFault::NoUsableKey);
    }
    Ok(keys)
}

/// Reads a key of a JWKS; none if it cannot verify signatures of a supported algorithm.
fn of_jwk(jwk: &Jwk) -> Option<VerifyingKey> {
    let common = &jwk.common;
    let is_for = |purpose: &PublicKeyUse| *purpose == PublicKeyUse::Signature;
    let can = |operations: &Vec<_>| operations.contains(&KeyOperations::Verify);
    if !common.public_key_use.as_ref().is_none_or(is_for)
        || !common.key_operations.as_ref().is_none_or(can)
    {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let (algorithm, name, key) = match (&jwk.algorithm, key.kind()) {
        (AlgorithmParameters::OctetKey(_), DecodingKeyKind::SecretOrDer(secret)) => {
            let is_long = secret.len() >= SECRET_BYTES_MIN;
            (
                SigningAlgorithm::Hs256,
                KeyAlgorithm::HS256,
                is_long.then_some(key),
            )
        }
        (AlgorithmParameters::RSA(_), DecodingKeyKind::RsaModulusExponent { n, e }) => {
            (SigningAlgorithm::Rs256, KeyAlgorithm::RS256, rsa(n, e))
        }
        (AlgorithmParameters::EllipticCurve(it), DecodingKeyKind::SecretOrDer(point))
            if it.curve == EllipticCurve::P256 =>
        {
            (SigningAlgorithm::Es256, KeyAlgorithm::ES256, p256(point))
        }
        (AlgorithmParameters::OctetKeyPair(it), DecodingKeyKind::SecretOrDer(key))
            if it.curve == EllipticCurve::Ed25519 =>
        {
            (SigningAlgorithm::EdDsa, KeyAlgorithm::EdDSA, ed25519(key))
        }
        _ => return None,
    };
    if common
        .key_algorithm
        .is_some_and(|key_algorithm| key_algorithm != name)
    {
        return None;
    }
    let id = common.key_id.as_deref().map(Into::into);
    Some(VerifyingKey {
        id,
        algorithm,
        key: key?,
    })
}

/// Makes an RSA key from a modulus and an exponent, if the modulus is neither too short nor too long.
fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<DecodingKey> {
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let modulus = &modulus[zeros..];
    let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
    let key = || DecodingKey::from_rsa_raw_components(modulus, exponent);
    RSA_BITS.contains(&bits).then(key)
}

/// Makes a P-256 key from an uncompressed point, if that is on the curve.
fn p256(point: &[u8]) -> Option<DecodingKey> {
    let is_point =
        point.len() == 65 && ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok();
    is_point.then(|| DecodingKey::from_ec_der(point))
}

fn ed25519(key: &[u8]) -> Option<DecodingKey> {
    (key.len() == 32).then(|| DecodingKey::from_ed_der(key))
}

const BEGIN: &[u8] = b"-----BEGIN ";
/// The bytes of a SubjectPublicKeyInfo before the point: id-ecPublicKey and prime256v1 (RFC 5480, section 2.1.1).
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The bytes of a SubjectPublicKeyInfo before the key: id-Ed25519 (RFC 8410, section 4).
const ED25519_SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Bits of a modulus: RS256 needs 2048 (RFC 7518, section 3.3), and more than 8192 would be slow to verify.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Fewest bytes of a secret for HS256 (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;
