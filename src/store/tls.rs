//! TLS to Redis: read and checked once, when the file is compiled.
//!
//! Nothing here opens a file or a connection. Some authorities are trusted, and never all: a store
//! without authorities of its own trusts those of the system. The server's name is always verified.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore};
use rustls_platform_verifier::Verifier;

/// How connections to Redis are encrypted.
///
/// Two are equal if they are made of the same certificates and key.
#[derive(Clone)]
pub struct Tls {
    /// Made once, so that TLS sessions can be resumed.
    pub(super) config: Arc<ClientConfig>,
    /// The digest of everything that it was made of.
    digest: blake3::Hash,
}

/// What TLS is made of: texts of PEM files.
#[derive(Clone, Copy, Default)]
pub struct TlsMaterial<'m> {
    /// The authorities to trust; none means the system's.
    pub ca: Option<&'m [u8]>,
    /// This client's certificate, followed by those that lead to an authority, and its key.
    pub identity: Option<(&'m [u8], &'m [u8])>,
}

/// Which part of the material cannot be used, and why: a predicate whose subject is its file.
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
    #[error("has no certificates of authorities")]
    System,
}

impl Tls {
    /// Makes TLS 1.2 and later of its material.
    ///
    /// # Errors
    /// The first part that cannot be used; there is no TLS without it.
    pub fn new(material: TlsMaterial<'_>) -> Result<Self, TlsFault> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites of both versions");
        let builder = match material.ca {
            Some(pem) => builder.with_root_certificates(authorities(pem)?),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(system(&provider)?),
        };
        let config = match material.identity {
            Some((certificate, key)) => {
                let identity = identity(certificate, key, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
            digest: digest(material),
        })
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Reads the authorities of a file. If one of them cannot be read, the file is wrong.
fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(TlsFault::Ca)? {
        roots
            .add(certificate)
            .map_err(|_| TlsFault::Ca("holds a certificate that cannot be read"))?;
    }
    Ok(roots)
}

/// Returns the verifier of the system's authorities, which are read once in a process's life.
fn system(provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsFault> {
    static SYSTEM: OnceLock<Arc<Verifier>> = OnceLock::new();
    if let Some(verifier) = SYSTEM.get() {
        return Ok(Arc::clone(verifier) as Arc<dyn ServerCertVerifier>);
    }
    // A failure is not kept: a system without authorities may have some at the next reload.
    let verifier = Verifier::new(Arc::clone(provider)).map_err(|_| TlsFault::System)?;
    Ok(Arc::clone(SYSTEM.get_or_init(|| Arc::new(verifier))) as Arc<dyn ServerCertVerifier>)
}

fn identity(
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsFault> {
    let chain = certificates(certificate).map_err(TlsFault::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        TlsFault::Key(match error {
            PemError::NoItemsFound => "holds no private key",
            _ => "is no PEM file",
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
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate"),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err("is no PEM file"),
    }
}

fn digest(material: TlsMaterial<'_>) -> blake3::Hash {
    let (certificate, key) = material.identity.unzip();
    let mut hasher = blake3::Hasher::new();
    for part in [material.ca, certificate, key] {
        // The length tells an absent part from an empty one, and keeps parts from running together.
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hasher.update(&length.to_le_bytes());
        hasher.update(part.unwrap_or_default());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests;
