//! Handshakes in memory, with clients that accept any server.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, ServerConnection,
    SignatureScheme,
};

use super::*;
use crate::tls::in_memory::exchange;

/// Accepts any server that signs with one of these schemes.
#[derive(Debug)]
struct AnyServer(Vec<SignatureScheme>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

pub(super) const ECDSA: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
pub(super) const RSA: SignatureScheme = SignatureScheme::RSA_PSS_SHA256;

/// Makes a client that verifies these signatures and has this certificate, if any.
pub(super) fn client(
    versions: &[&'static SupportedProtocolVersion],
    schemes: &[SignatureScheme],
    identity: Option<Pair>,
) -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(schemes.to_vec())));
    match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate)
                .map(|pem_slice_iter| pem_slice_iter.expect("PEM"));
            let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
            let client = builder.with_client_auth_cert(chain.collect(), key);
            client.expect("a certificate and its key")
        }
    }
}

pub(super) fn any_client() -> ClientConfig {
    client(ALL_VERSIONS, &[ECDSA, RSA], None)
}

/// What the two sides agreed on.
#[derive(Debug, PartialEq)]
pub(super) struct Agreed {
    /// Name of the certificate that the server has shown.
    pub(super) certificate: String,
    pub(super) kind: HandshakeKind,
    pub(super) early_data: bool,
}

pub(super) fn shake(
    tls: &ServerTls,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<Agreed, rustls::Error> {
    let mut server = ServerConnection::new(Arc::clone(&tls.config))?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let early_data = client.early_data().is_some();
    exchange(&mut client, &mut server)?;
    let shown = client.peer_certificates().expect("a server has one");
    let shown = Certificate::from_der(&shown[0]).expect("a certificate");
    let subject = shown.tbs_certificate().subject().to_string();
    let certificate = subject
        .trim_start_matches("CN=")
        .trim_end_matches(" of tests");
    Ok(Agreed {
        certificate: certificate.to_owned(),
        kind: server.handshake_kind().expect("it is complete"),
        early_data,
    })
}

pub(super) fn agree(tls: &ServerTls, client: ClientConfig, name: &str) -> Agreed {
    shake(tls, &Arc::new(client), name).expect("they agree")
}
