//! Certificates of clients: what partitions and origins make of them, and who may speak of them.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use crate::support::{Config, start};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");

/// A listener that asks clients for certificates, and allows each of them one request.
fn strict() -> Config {
    Config::to("builtin:echo")
        .policy(
            "p",
            "quota = '1 per hour'\npartition = ['client-cert']\non_missing = 'refuse'",
        )
        .listener("trusted_proxies = ['127.0.0.1']")
        .listener(&format!(
            "[listeners.public.tls]\nclient_ca = '{FOLDER}/clients-ca.pem'\n\
             certificates = [{{ certificate = '{FOLDER}/public.pem', key = '{FOLDER}/public.key' }}]"
        ))
        .route("/limited", "policies = ['p']")
        .route("/*", "")
}

/// Asks with curl as `example.com`; returns the status and the body.
fn curl(address: SocketAddr, path: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new("curl")
        .args(["--silent", "--write-out", "\n%{http_code}"])
        .args(["--cacert", &format!("{FOLDER}/public-ca.pem")])
        .args(["--connect-to", &format!("::{address}")])
        .args(arguments)
        .arg(format!("https://example.com{path}"))
        .output()
        .expect("curl is installed");
    let said = String::from_utf8(output.stdout).expect("curl says text");
    let (body, status) = said.rsplit_once('\n').expect("a status comes last");
    (status.to_owned(), body.to_owned())
}

fn identity(name: &str) -> [String; 4] {
    let file = |end| format!("{FOLDER}/{name}.{end}");
    ["--cert".into(), file("pem"), "--key".into(), file("key")]
}

#[test]
fn an_origin_is_told_of_the_certificate_whatever_the_client_says_of_it() {
    let running = start(&strict());
    let identity = identity("client");
    let mut arguments: Vec<&str> = identity.iter().map(String::as_str).collect();
    let lies = [
        "Client-Cert",
        "Client_Cert",
        "Client-Cert-Chain",
        "client_cert_chain",
    ];
    let lies = lies.map(|name| format!("{name}: :YQ==:"));
    for lie in &lies {
        arguments.extend(["--header", lie]);
    }
    let pem = std::fs::read_to_string(format!("{FOLDER}/client.pem")).expect("a certificate");
    let base64 = pem.lines().filter(|line| !line.starts_with("-----"));
    let expected = format!(":{}:", base64.collect::<String>());
    for version in ["--http1.1", "--http2"] {
        arguments.push(version);
        let (status, body) = curl(running.public, "/", &arguments);
        assert_eq!(status, "200", "{version}");
        let seen: Value = serde_json::from_str(&body).expect("the echo is JSON");
        let seen = seen.to_string().to_ascii_lowercase();
        assert_eq!(seen.matches("client").count(), 1, "{seen}");
        assert!(seen.contains(&expected.to_ascii_lowercase()), "{seen}");
        assert!(!seen.contains(":yq==:"), "{seen}");
        arguments.pop();
    }
}

#[test]
fn a_certificate_names_a_client() {
    let running = start(&strict());
    let identity = identity("client");
    let arguments: Vec<&str> = identity.iter().map(String::as_str).collect();
    let ask = |arguments: &[&str]| curl(running.public, "/limited", arguments).0;
    assert_eq!(ask(&arguments), "200");
    assert_eq!(ask(&arguments), "429");
    assert_eq!(ask(&[]), "000", "no certificate, no answer");
}
