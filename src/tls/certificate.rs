//! The certificate of a client, as partitions and origins see it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use x509_cert::der::Decode as _;

use super::x509::{Certificate, expiry};

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The client's certificate, followed by those that lead from it to an authority.
    pub(super) chain: Vec<CertificateDer<'static>>,
    /// Last second of the certificate's validity, since 1970. The handshake has checked that the validity has begun.
    pub expires_secs: i64,
    /// Value of `Client-Cert` for this certificate (RFC 9440, section 2.1).
    pub header: HeaderValue,
    /// SHA-256 of the certificate's DER, as 64 lower-case hex digits.
    pub sha256: Box<str>,
}

impl ClientCertificate {
    /// Reads the chain that a client has shown; returns `None` if the chain is empty.
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let leaf = chain.first()?;
        let header = format!(":{}:", STANDARD.encode(leaf));
        let digest = digest(&SHA256, leaf);
        Some(Self {
            chain: chain
                .iter()
                .map(|chain| chain.clone().into_owned())
                .collect(),
            // A certificate that cannot be read counts as expired, so that it does not let its client in forever.
            expires_secs: Certificate::from_der(leaf).map_or(0, |leaf| expiry(&leaf)),
            header: HeaderValue::try_from(header).expect("Base64 makes a value"),
            sha256: (digest.as_ref().iter())
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|digit| char::from(HEX[usize::from(digit)]))
                .collect(),
        })
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_a_byte_sequence_and_a_digest() {
        let chain = [CertificateDer::from(&b"abc"[..])];
        let certificate = ClientCertificate::of(&chain).expect("there is one");
        assert_eq!(certificate.header, ":YWJj:");
        assert_eq!(
            &*certificate.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
