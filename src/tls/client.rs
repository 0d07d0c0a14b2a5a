//! TLS to a server, which is Redis or an origin.
//!
//! Some authorities are trusted, and never all: who names no authorities trusts those of the system.
//! The server's name is always verified.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use rustls_platform_verifier::Verifier;

use super::material::{authorities, digest, identity};
use super::{TlsFault, TlsMaterial};
use crate::fault::TlsFailure;

/// How connections to a server are encrypted.
///
/// Two are equal if they are made of the same certificates and key.
#[derive(Clone)]
pub struct ClientTls {
    /// Made once, so that TLS sessions can be resumed.
    pub config: Arc<ClientConfig>,
    /// The digest of everything that it was made of.
    digest: blake3::Hash,
}

impl ClientTls {
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

impl ClientTls {
    /// Offers these protocols to servers, the one that is liked best first (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&[u8]]) -> Self {
        let offered = protocols.iter().map(|name| name.to_vec());
        Arc::make_mut(&mut self.config).alpn_protocols = offered.collect();
        self
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

/// Says why TLS to a server failed with `error`; none if its connection failed below TLS.
pub fn failure_of(error: &io::Error) -> Option<TlsFailure> {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Some(TlsFailure::Closed);
    }
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(bad) => match bad {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsFailure::Expired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsFailure::NotYetValid
            }
            CertificateError::UnknownIssuer => TlsFailure::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFailure::WrongName
            }
            _ => TlsFailure::BadCertificate,
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied => TlsFailure::ClientCertificate,
            _ => TlsFailure::Refused,
        },
        _ => TlsFailure::Malformed,
    })
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

#[cfg(test)]
mod tests;
