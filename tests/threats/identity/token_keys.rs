//! Files of keys, and files that contain none.

use serde_json::json;
use tollgate::request::jwt::{KeyFault, VerifyingKey};

use super::Cases;
use crate::support::issuer::{encoded, pem};
use crate::support::{Issuer, jwks};

/// A file, and the number of its keys, or why it has none.
type Row = (&'static str, String, Result<usize, KeyFault>);

fn check(rows: impl IntoIterator<Item = Row>) {
    let mut cases = Cases::default();
    for (name, file, expected) in rows {
        let found = VerifyingKey::read(file.as_bytes()).map(|keys| keys.len());
        cases.expect(name, found, expected);
    }
    cases.end();
}

/// Only a key that verifies signatures is accepted.
#[test]
fn files_that_hold_no_public_key_say_so() {
    let (rsa, ec) = (Issuer::rsa(), Issuer::ec());
    let p384 = {
        let mut der = vec![0x30, 0x76, 0x30, 0x10];
        der.extend([0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]);
        der.extend([
            0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00, 0x04,
        ]);
        der.extend([1; 96]);
        pem("PUBLIC KEY", &der)
    };
    let whole = ec.pem();
    check([
        ("RSA", rsa.pem(), Ok(1)),
        (
            "several",
            format!("first\n{}and\n{}", rsa.pem(), ec.pem()),
            Ok(2),
        ),
        ("empty", String::new(), Err(KeyFault::Form)),
        ("text", "no key".to_owned(), Err(KeyFault::Form)),
        ("cut short", whole[..60].to_owned(), Err(KeyFault::Form)),
        ("private", pem("PRIVATE KEY", b"x"), Err(KeyFault::Private)),
        (
            "private, of RSA",
            pem("RSA PRIVATE KEY", b"x"),
            Err(KeyFault::Private),
        ),
        (
            "private, of EC",
            pem("EC PRIVATE KEY", b"x"),
            Err(KeyFault::Private),
        ),
        (
            "private, encrypted",
            pem("ENCRYPTED PRIVATE KEY", b"x"),
            Err(KeyFault::NoKey),
        ),
        (
            "certificate",
            pem("CERTIFICATE", b"x"),
            Err(KeyFault::Certificate),
        ),
        (
            "public beside private",
            whole.clone() + &pem("PRIVATE KEY", b"x"),
            Err(KeyFault::Private),
        ),
        ("another curve", p384, Err(KeyFault::Kind)),
        ("RSA of 2048 bits", spki_of_rsa(&[255; 256]), Ok(1)),
        (
            "RSA of 2040 bits",
            spki_of_rsa(&[255; 255]),
            Err(KeyFault::RsaLength),
        ),
        (
            "RSA of 1024 bits",
            spki_of_rsa(&[255; 128]),
            Err(KeyFault::RsaLength),
        ),
        ("garbage", pem("PUBLIC KEY", b"x"), Err(KeyFault::Kind)),
    ]);
}

#[test]
fn a_set_gives_the_keys_that_can_be_used() {
    let (rsa, ec) = (Issuer::rsa(), Issuer::ec());
    check([
        ("JSON", "{}".to_owned(), Err(KeyFault::Form)),
        ("no JSON", "{".to_owned(), Err(KeyFault::Form)),
        ("empty set", jwks(&[]), Err(KeyFault::NoUsableKey)),
        (
            "a short secret",
            jwks(&[(&Issuer::hmac([7; 31]), json!({}))]),
            Err(KeyFault::NoUsableKey),
        ),
        (
            "a secret",
            jwks(&[(&Issuer::hmac([7; 32]), json!({}))]),
            Ok(1),
        ),
        (
            "a short modulus",
            jwks(&[(&rsa, json!({"n": encoded([255; 255])}))]),
            Err(KeyFault::NoUsableKey),
        ),
        (
            "off the curve",
            jwks(&[(&ec, json!({"y": encoded([1; 32])}))]),
            Err(KeyFault::NoUsableKey),
        ),
        (
            "a short point",
            jwks(&[(&ec, json!({"y": encoded([1; 31])}))]),
            Err(KeyFault::NoUsableKey),
        ),
        (
            "X25519",
            jwks(&[(&Issuer::ed(), json!({"crv": "X25519"}))]),
            Err(KeyFault::NoUsableKey),
        ),
        (
            "one of two",
            jwks(&[(&ec, json!({"kty": "x"})), (&ec, json!({}))]),
            Ok(1),
        ),
    ]);
}

/// Returns a public RSA key with that modulus, whose first bit must be set, as PEM (RFC 8017, appendix A.1.1).
fn spki_of_rsa(modulus: &[u8]) -> String {
    let der = |tag: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).expect("short").to_be_bytes();
        let head: &[u8] = match length {
            [0, short @ 0..128] => &[tag, short],
            [0, length] => &[tag, 0x81, length],
            [high, low] => &[tag, 0x82, high, low],
        };
        [head, content].concat()
    };
    let modulus = der(0x02, &[&[0], modulus].concat());
    let key = der(
        0x30,
        &[&modulus[..], &[0x02, 0x03, 0x01, 0x00, 0x01]].concat(),
    );
    let algorithm = [
        0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    let key = der(0x03, &[&[0], &key[..]].concat());
    pem("PUBLIC KEY", &der(0x30, &[&algorithm[..], &key].concat()))
}
