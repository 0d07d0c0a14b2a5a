//! Which material makes TLS to servers, and which servers are then trusted.

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
const SELF_SIGNED: &[u8] = include_bytes!("../../../tests/config/tls/self-signed.pem");
const SELF_SIGNED_KEY: &[u8] = include_bytes!("../../../tests/config/tls/self-signed.key");
const EXPIRED: &[u8] = include_bytes!("../../../tests/config/tls/expired.pem");
const EXPIRED_KEY: &[u8] = include_bytes!("../../../tests/config/tls/expired.key");
const OTHER_KEY: &[u8] = include_bytes!("../../../tests/config/tls/other.key");
const ENCRYPTED_KEY: &[u8] = include_bytes!("../../../tests/config/tls/encrypted.key");
const DER: &[u8] = include_bytes!("../../../tests/config/tls/gateway.der");
const VERSION_1: &[u8] = include_bytes!("../../../tests/config/tls/version-1.pem");
const CUT_SHORT: &[u8] = include_bytes!("../../../tests/config/tls/cut-short.pem");

fn made(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientTls, TlsFault> {
    let ca = Some(ca);
    ClientTls::new(TlsMaterial {
        ca,
        identity,
        ..TlsMaterial::default()
    })
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
    handshake_with((SERVER, SERVER_KEY), tls, name)
}

/// Shakes hands with a server that has this certificate and key.
fn handshake_with(
    (chain, key): (&[u8], &[u8]),
    tls: &ClientTls,
    name: &str,
) -> Result<(), rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
    let chain = certificates(chain).expect("a certificate");
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

/// A server's certificate that is named itself is accepted, whether it is an authority or not.
#[test]
fn a_pinned_certificate_is_accepted_while_its_names_and_dates_hold() {
    let pinned = |ca| made(ca, None).expect("good material");
    let result = |server, ca, name| {
        let shaken = handshake_with(server, &pinned(ca), name);
        shaken.map_err(|error| failure_of(&io::Error::other(error)))
    };
    let (server, own) = ((SERVER, SERVER_KEY), (SELF_SIGNED, SELF_SIGNED_KEY));
    let expired = (EXPIRED, EXPIRED_KEY);
    for (server, ca, name, expected) in [
        (server, SERVER, "localhost", Ok(())),
        (own, SELF_SIGNED, "localhost", Ok(())),
        (own, &[CA, SELF_SIGNED].concat(), "localhost", Ok(())),
        (
            own,
            SELF_SIGNED,
            "redis.internal",
            Err(TlsFailure::WrongName),
        ),
        (
            expired,
            EXPIRED,
            "expired.example.com",
            Err(TlsFailure::Expired),
        ),
        (own, SERVER, "localhost", Err(TlsFailure::UnknownIssuer)),
        (
            server,
            SELF_SIGNED,
            "localhost",
            Err(TlsFailure::UnknownIssuer),
        ),
    ] {
        assert_eq!(result(server, ca, name), expected.map_err(Some), "{name}");
    }
}

#[test]
fn who_asks_for_it_believes_every_server() {
    let tls = ClientTls::new(TlsMaterial {
        proof: ServerProof::None,
        ..TlsMaterial::default()
    });
    let tls = tls.expect("good material");
    for server in [
        (SERVER, SERVER_KEY),
        (SELF_SIGNED, SELF_SIGNED_KEY),
        (EXPIRED, EXPIRED_KEY),
    ] {
        assert_eq!(handshake_with(server, &tls, "redis.internal"), Ok(()));
    }
}
