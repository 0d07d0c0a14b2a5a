//! Verification of servers.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_cert::der::Decode as _;

use super::x509::Certificate;

/// What a server must prove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerProof {
    /// That it has a certificate for its name, either issued by a trusted authority or trusted itself.
    #[default]
    Full,
    /// Only that it holds the key of the certificate that it shows, whatever that is.
    None,
}

/// Verifies servers. In every case, they must prove that they hold the key of their certificate.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    /// Verifies that a trusted authority has issued a certificate; `None` accepts every certificate.
    pub(super) chain: Option<Arc<dyn ServerCertVerifier>>,
    /// Servers' own certificates that are trusted without an authority, as long as their names and dates hold.
    pub(super) pinned: Vec<CertificateDer<'static>>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        if self.pinned.iter().any(|pinned| pinned == leaf) {
            verify_dates(leaf, now)?;
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let verified = chain.verify_server_cert(leaf, intermediates, name, ocsp_response, now);
        verified.map_err(|error| match error {
            // The server shows an authority's certificate as its own, and no trusted authority has issued it.
            Error::InvalidCertificate(CertificateError::Other(_)) if is_self_issued(leaf) => {
                CertificateError::UnknownIssuer.into()
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Whether a certificate names itself as its issuer.
fn is_self_issued(leaf: &CertificateDer<'_>) -> bool {
    Certificate::from_der(leaf).is_ok_and(|leaf| {
        let leaf = leaf.tbs_certificate();
        leaf.subject() == leaf.issuer()
    })
}

/// Checks that a certificate is valid now.
fn verify_dates(leaf: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let leaf = Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let validity = leaf.tbs_certificate().validity();
    let now = Duration::from_secs(now.as_secs());
    if now < validity.not_before.to_unix_duration() {
        return Err(CertificateError::NotValidYet);
    }
    if now > validity.not_after.to_unix_duration() {
        return Err(CertificateError::Expired);
    }
    Ok(())
}
