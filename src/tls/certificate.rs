//! The certificate of a client, as partitions and origins know it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// A client's certificate, without those that lead from it to an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The value of `Client-Cert` (RFC 9440, section 2.1).
    pub header: HeaderValue,
    /// The SHA-256 of its DER, as 64 lower-case hex digits.
    pub sha256: Box<str>,
}

impl ClientCertificate {
    /// Makes it of its DER.
    pub fn of(der: &[u8]) -> Self {
        let header = format!(":{}:", STANDARD.encode(der));
        let digest = digest(&SHA256, der);
        Self {
            header: HeaderValue::try_from(header).expect("Base64 makes a value"),
            sha256: (digest.as_ref().iter())
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|digit| char::from(HEX[usize::from(digit)]))
                .collect(),
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_a_byte_sequence_and_a_digest() {
        let certificate = ClientCertificate::of(b"abc");
        assert_eq!(certificate.header, ":YWJj:");
        assert_eq!(
            &*certificate.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
