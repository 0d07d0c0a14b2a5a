//! TLS to a server, which is Redis or an origin.
//!
//! A server must show a certificate of a trusted authority: of those that are named, or otherwise of the system's. The
//! server's own certificate may be named instead of an authority. Any certificate is accepted only on request.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use rustls_platform_verifier::Verifier;

use super::material::{certificates, digest, identity, trust};
use super::verifier::ServerVerifier;
use super::{ServerProof, TlsFault, TlsMaterial};
use crate::fault::TlsFailure;

/// How connections to a server are encrypted.
///
/// Two are equal if they are made of the same certificates and key, and expect the same name of servers.
#[derive(Clone)]
pub struct ClientTls {
    /// Configuration for handshakes, made once so that TLS sessions can be resumed.
    pub config: Arc<ClientConfig>,
    /// Name that servers must have; `None` means the one in each server's address.
    pub server_name: Option<ServerName<'static>>,
    /// Digest of everything that this was made of.
    digest: blake3::Hash,
}

impl ClientTls {
    /// Makes TLS 1.2 and later of the material.
    ///
    /// # Errors
    /// The first part of the material that cannot be used.
    pub fn new(material: TlsMaterial<'_>) -> Result<Self, TlsFault> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites of both versions");
        let verifier = verifier(material, &provider)?;
        let builder = (builder.dangerous()).with_custom_certificate_verifier(verifier);
        let config = match material.identity {
            Some((certificate, key)) => {
                let identity = identity(certificate, key, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
            server_name: None,
            digest: digest(material),
        })
    }
}

impl ClientTls {
    /// Expects servers to have this name, if one is given, instead of the one in their addresses.
    #[must_use]
    pub fn named(self, server_name: Option<ServerName<'static>>) -> Self {
        Self {
            server_name,
            ..self
        }
    }

    /// Offers these protocols to servers, the preferred one first (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&[u8]]) -> Self {
        let offered = protocols.iter().map(|name| name.to_vec());
        Arc::make_mut(&mut self.config).alpn_protocols = offered.collect();
        self
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, &self.server_name) == (other.digest, &other.server_name)
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

/// Returns why TLS to a server failed with `error`; `None` if the connection failed below TLS.
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

/// Makes the verifier of servers: by the authorities of the material or the system's, or one that accepts all.
fn verifier(
    material: TlsMaterial<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsFault> {
    let (chain, pinned) = match (material.proof, material.ca) {
        (ServerProof::None, _) => (None, Vec::new()),
        (ServerProof::Full, None) => (Some(system(provider)?), Vec::new()),
        (ServerProof::Full, Some(pem)) => {
            let pinned = certificates(pem).map_err(TlsFault::Ca)?;
            let roots = Arc::new(trust(&pinned)?);
            let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
            let chain = chain
                .build()
                .map_err(|_| TlsFault::Ca("holds no certificate"))?;
            (Some(chain as Arc<dyn ServerCertVerifier>), pinned)
        }
    };
    Ok(Arc::new(ServerVerifier {
        chain,
        pinned,
        provider: Arc::clone(provider),
    }))
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
