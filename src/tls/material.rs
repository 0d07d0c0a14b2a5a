//! The material of TLS: certificates and keys, as PEM files hold them.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use super::ServerProof;

/// Material of TLS to servers: texts of PEM files, and what servers must prove.
#[derive(Clone, Copy, Default)]
pub struct TlsMaterial<'m> {
    /// Authorities to trust; `None` means the system's.
    pub ca: Option<&'m [u8]>,
    /// The gateway's certificate as a client, followed by those that lead to an authority, and its key.
    pub identity: Option<(&'m [u8], &'m [u8])>,
    /// What servers must prove.
    pub proof: ServerProof,
}

/// A part of the material that cannot be used, and why; the message is a predicate whose subject is the part's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// The file of authorities.
    #[error("{0}")]
    Ca(&'static str),
    /// The file of the client's certificate.
    #[error("{0}")]
    Certificate(&'static str),
    /// The file of the client's key.
    #[error("{0}")]
    Key(&'static str),
    /// The system's own authorities.
    #[error("has no CA certificates")]
    System,
}

/// Reads the authorities of a file; fails if any of them cannot be read.
pub(super) fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsFault> {
    trust(&certificates(pem).map_err(TlsFault::Ca)?)
}

/// Makes trusted authorities of certificates.
pub(super) fn trust(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate.clone())
            .map_err(|_| TlsFault::Ca("holds a certificate that cannot be read"))?;
    }
    Ok(roots)
}

/// Reads a certificate, those that lead from it to an authority, and its key.
pub(super) fn identity(
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsFault> {
    let chain = certificates(certificate).map_err(TlsFault::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        TlsFault::Key(match error {
            PemError::NoItemsFound => "holds no private key",
            _ => "is not a PEM file",
        })
    })?;
    let key = (provider.key_provider)
        .load_private_key(key)
        .map_err(|_| TlsFault::Key("holds a private key that cannot be used"))?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(identity),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsFault::Key(
            "holds the private key of another certificate",
        )),
        Err(_) => Err(TlsFault::Certificate(
            "holds a certificate that cannot be read; X.509 version 3 is needed",
        )),
    }
}

/// Reads the certificates of a file, at least one.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate"),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err("is not a PEM file"),
    }
}

/// Returns the digest of everything that TLS is made of.
pub(super) fn digest(material: TlsMaterial<'_>) -> blake3::Hash {
    let (certificate, key) = material.identity.unzip();
    digest_of([material.ca, certificate, key, Some(&[material.proof as u8])])
}

/// Returns the digest of several parts, some of which may be absent.
pub(super) fn digest_of<'p>(parts: impl IntoIterator<Item = Option<&'p [u8]>>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        // The length tells an absent part from an empty one, and keeps parts from running together.
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hasher.update(&length.to_le_bytes());
        hasher.update(part.unwrap_or_default());
    }
    hasher.finalize()
}
