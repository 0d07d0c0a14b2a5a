//! What TLS is made of, and whom it then believes.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConfig, ServerConnection};

use super::*;
use crate::tls::in_memory::exchange;
use crate::tls::material::certificates;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

const CA: &[u8] = include_bytes!("../../../tests/config/tls/redis-ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../../tests/config/tls/gateway.pem");
const KEY: &[u8] = include_bytes!("../../../tests/config/tls/gateway.key");
const OTHER_CA: &[u8] = include_bytes!("../../../tests/config/tls/other-ca.pem");
const SERVER: &[u8] = include_bytes!("../../../tests/config/tls/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../../../tests/config/tls/server.key");
const OTHER_KEY: &[u8] = include_bytes!("../../../tests/config/tls/other.key");
const ENCRYPTED_KEY: &[u8] = include_bytes!("../../../tests/config/tls/encrypted.key");
const DER: &[u8] = include_bytes!("../../../tests/config/tls/gateway.der");
const VERSION_1: &[u8] = include_bytes!("../../../tests/config/tls/version-1.pem");
const CUT_SHORT: &[u8] = include_bytes!("../../../tests/config/tls/cut-short.pem");

fn made(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientTls, TlsFault> {
    let ca = Some(ca);
    ClientTls::new(TlsMaterial { ca, identity })
}

#[test]
fn material_of_no_use_makes_no_tls() {
    use TlsFault::{Ca, Certificate, Key};
    for (ca, identity, fault) in [
        (&b""[..], None, Ca("holds no certificate")),
        (KEY, None, Ca("holds no certificate")),
        (DER, None, Ca("holds no certificate")),
        (CUT_SHORT, None, Ca("is not a PEM file")),
        (CA, Some((KEY, KEY)), Certificate("holds no certificate")),
        (
            CA,
            Some((CERTIFICATE, CERTIFICATE)),
            Key("holds no private key"),
        ),
        (
            CA,
            Some((CERTIFICATE, ENCRYPTED_KEY)),
            Key("holds no private key"),
        ),
        (
            CA,
            Some((CERTIFICATE, OTHER_KEY)),
            Key("holds the private key of another certificate"),
        ),
        (
            CA,
            Some((VERSION_1, KEY)),
            Certificate("holds a certificate that cannot be read; X.509 version 3 is needed"),
        ),
    ] {
        assert_eq!(made(ca, identity).err(), Some(fault));
    }
    let broken = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let fault = Ca("holds a certificate that cannot be read");
    assert_eq!(made(broken, None).err(), Some(fault));
    let both = [CA, &broken[..]].concat();
    assert_eq!(made(&both, None).err(), Some(fault));
}

#[test]
fn tls_is_equal_if_made_of_the_same_material() {
    let plain = || made(CA, None).expect("good material");
    let known = || made(CA, Some((CERTIFICATE, KEY))).expect("good material");
    assert_eq!(plain(), plain());
    assert_eq!(known(), known());
    assert_ne!(plain(), known());
    assert_ne!(plain(), made(CERTIFICATE, None).expect("good material"));
    assert!(known().config.client_auth_cert_resolver.has_certs());
    assert!(!plain().config.client_auth_cert_resolver.has_certs());
    assert_eq!(format!("{:?}", known()), "ClientTls");
}

/// Shakes hands with a server whose certificate is for `localhost` and `127.0.0.1`.
fn handshake(tls: &ClientTls, name: &str) -> Result<(), rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY).expect("a key");
    let chain = certificates(SERVER).expect("a certificate");
    let config = builder.with_single_cert(chain, key).expect("a server");
    let mut server = ServerConnection::new(Arc::new(config))?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::clone(&tls.config), name)?;
    exchange(&mut client, &mut server)
}

#[test]
fn only_the_named_server_of_a_trusted_authority_is_spoken_to() {
    let trusting = made(CA, None).expect("good material");
    for name in ["localhost", "127.0.0.1"] {
        assert_eq!(handshake(&trusting, name), Ok(()));
    }
    let both = made(&[OTHER_CA, CA].concat(), None).expect("good material");
    assert_eq!(handshake(&both, "localhost"), Ok(()));
    let system = ClientTls::new(TlsMaterial::default());
    let others = [made(OTHER_CA, None).ok(), system.ok()];
    for tls in others.into_iter().flatten() {
        let refused = handshake(&tls, "localhost").expect_err("an unknown authority");
        assert!(matches!(refused, rustls::Error::InvalidCertificate(_)));
    }
    for name in ["redis.internal", "127.0.0.2", "::1"] {
        let refused = handshake(&trusting, name).expect_err("another server");
        assert!(
            matches!(refused, rustls::Error::InvalidCertificate(_)),
            "{name}"
        );
    }
}
