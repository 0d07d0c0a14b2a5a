//! Which clients a listener lets in, which certificate it shows, and which sessions are resumed.

mod handshake;

use rustls::{HandshakeKind, SignatureScheme};

use super::*;
use handshake::{ECDSA, RSA, agree, any_client, client, shake};

macro_rules! pair {
    ($name:literal) => {
        (
            include_bytes!(concat!("../../../tests/config/tls/", $name, ".pem")),
            include_bytes!(concat!("../../../tests/config/tls/", $name, ".key")),
        )
    };
}

type Pair = (&'static [u8], &'static [u8]);

/// `example.com` and `www.example.com`, P-256
const PUBLIC: Pair = pair!("public");
/// The same names, RSA
const PUBLIC_RSA: Pair = pair!("public-rsa");
/// `*.example.com` and `*.Example.org`
const WILDCARD: Pair = pair!("wildcard");
const NAMELESS: Pair = pair!("nameless");
const CLIENT: Pair = pair!("client");
const CLIENTS_CA: &[u8] = include_bytes!("../../../tests/config/tls/clients-ca.pem");
const OTHER_CA: &[u8] = include_bytes!("../../../tests/config/tls/other-ca.pem");

fn material(certificates: &[Pair]) -> ServerMaterial<'static> {
    ServerMaterial {
        certificates: certificates.to_vec(),
        client_ca: None,
        min_version: TlsVersion::Tls12,
        http2: true,
    }
}

fn made(material: &ServerMaterial<'_>) -> ServerTls {
    ServerTls::new(material).expect("good material")
}

fn with_client_ca(client_ca: &'static [u8]) -> ServerTls {
    let client_ca = Some(client_ca);
    made(&ServerMaterial {
        client_ca,
        ..material(&[PUBLIC])
    })
}

#[test]
fn of_two_certificates_for_a_name_the_first_that_the_client_can_verify_is_shown() {
    let tls = made(&material(&[NAMELESS, PUBLIC, PUBLIC_RSA]));
    for (schemes, certificate) in [
        (&[ECDSA, RSA][..], "public"),
        (&[RSA, ECDSA], "public"),
        (&[RSA], "public-rsa"),
    ] {
        for version in [&version::TLS13, &version::TLS12] {
            let client = client(&[version], schemes, None);
            assert_eq!(agree(&tls, client, "example.com").certificate, certificate);
        }
    }
    let neither = client(ALL_VERSIONS, &[SignatureScheme::ED25519], None);
    assert!(shake(&tls, &Arc::new(neither), "example.com").is_err());
}

#[test]
fn hosts_are_alike_if_they_select_the_same_certificates() {
    let names = made(&material(&[NAMELESS, PUBLIC, PUBLIC_RSA, WILDCARD])).names;
    for (one, other, expected) in [
        ("example.com", "www.example.com", true),
        ("example.com", "Example.COM", true),
        ("a.example.com", "b.example.org", true),
        ("elsewhere.test", "example.org", true),
        ("elsewhere.test", "elsewhere.test", true),
        ("example.com", "a.example.com", false),
        ("a.example.com", "b.a.example.com", false),
        ("example.com", "elsewhere.test", false),
    ] {
        assert_eq!(names.are_alike(one, other), expected, "{one} and {other}");
        assert_eq!(names.are_alike(other, one), expected, "{other} and {one}");
    }
}

#[test]
fn certificates_are_called_by_their_first_name_or_subject() {
    let tls = made(&material(&[PUBLIC, WILDCARD, NAMELESS]));
    let known: Vec<_> = tls
        .certificates
        .iter()
        .map(|certificate| (&*certificate.name, certificate.has_names))
        .collect();
    let expected = [
        ("example.com", true),
        ("*.example.com", true),
        ("CN=nameless of tests", false),
    ];
    assert_eq!(known, expected);
}

/// Whether the second listener resumes a session that the client has with the first.
fn resumes(first: &ServerTls, then: &ServerTls, client: rustls::ClientConfig) -> bool {
    let client = Arc::new(client);
    let begun = shake(first, &client, "example.com").expect("they agree");
    assert_eq!(begun.kind, HandshakeKind::Full);
    match shake(then, &client, "example.com") {
        Ok(agreed) => {
            assert!(!agreed.early_data, "0-RTT is off");
            agreed.kind == HandshakeKind::Resumed
        }
        Err(_) => false,
    }
}

#[test]
fn sessions_are_resumed_within_a_listener_and_never_across_two() {
    let public = || made(&material(&[PUBLIC]));
    let known = || with_client_ca(CLIENTS_CA);
    for version in [&version::TLS13, &version::TLS12] {
        let anonymous = || client(&[version], &[ECDSA], None);
        let named = || client(&[version], &[ECDSA], Some(CLIENT));
        let (one, other, strict) = (public(), public(), known());
        assert!(resumes(&one, &one, anonymous()));
        assert!(resumes(&strict, &strict, named()));
        assert!(!resumes(&one, &other, anonymous()));
        assert!(!resumes(&one, &strict, anonymous()));
        assert!(!resumes(&one, &strict, named()));
    }
    assert_eq!(public().config.max_early_data_size, 0);
}

#[test]
fn tickets_outlive_a_reload_unless_other_clients_are_let_in() {
    let renewed = |material: &ServerMaterial<'_>, old: &ServerTls| {
        let mut tls = made(material);
        tls.succeed(old);
        tls
    };
    let old = made(&material(&[PUBLIC]));
    let same = renewed(&material(&[PUBLIC]), &old);
    assert!(Arc::ptr_eq(&same.config, &old.config));
    let more = renewed(&material(&[PUBLIC, WILDCARD]), &old);
    assert_ne!(more, old);
    assert!(resumes(&old, &more, any_client()));
    assert!(resumes(&more, &old, any_client()));
    let strict = ServerMaterial {
        client_ca: Some(CLIENTS_CA),
        ..material(&[PUBLIC])
    };
    let strict = renewed(&strict, &old);
    let named = || client(ALL_VERSIONS, &[ECDSA], Some(CLIENT));
    assert!(!resumes(&old, &strict, named()));
    let others = ServerMaterial {
        client_ca: Some(OTHER_CA),
        ..material(&[PUBLIC])
    };
    assert!(!resumes(&strict, &renewed(&others, &strict), named()));
}

#[test]
fn every_part_that_cannot_be_used_is_named() {
    let bad = ServerMaterial {
        certificates: vec![(PUBLIC.0, WILDCARD.1), PUBLIC, (PUBLIC.1, PUBLIC.1)],
        client_ca: Some(PUBLIC.1),
        ..material(&[])
    };
    let faults = ServerTls::new(&bad).expect_err("nothing of it is right");
    let expected = [
        (
            Some(0),
            TlsFault::Key("holds the private key of another certificate"),
        ),
        (Some(2), TlsFault::Certificate("holds no certificate")),
        (None, TlsFault::Ca("holds no certificate")),
    ];
    let expected = expected.map(|(certificate, fault)| ServerTlsFault { certificate, fault });
    assert_eq!(faults, expected);
}

#[test]
fn tls_is_equal_if_made_of_the_same_material() {
    let one = || material(&[PUBLIC]);
    let tls = made(&one());
    assert_eq!(tls, made(&one()));
    assert!(!tls.wants_clients_certificates());
    assert!(with_client_ca(CLIENTS_CA).wants_clients_certificates());
    for other in [
        material(&[WILDCARD]),
        material(&[PUBLIC, WILDCARD]),
        ServerMaterial {
            client_ca: Some(CLIENTS_CA),
            ..one()
        },
        ServerMaterial {
            min_version: TlsVersion::Tls13,
            ..one()
        },
        ServerMaterial {
            http2: false,
            ..one()
        },
    ] {
        assert_ne!(tls, made(&other));
    }
    assert_eq!(format!("{tls:?}"), "ServerTls");
}
