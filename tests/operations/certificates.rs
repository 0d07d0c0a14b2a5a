//! Certificates that expire: what the log and the metrics say of them.

use crate::support::{Config, Metered, Process, start};

/// A file with a listener that has this certificate and key of `tests/config/tls`.
fn with_certificate(name: &str) -> Config {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/tls");
    Config::to("builtin:echo")
        .admin("127.0.0.1:0")
        .listener(&format!(
            "tls.certificates = [{{ certificate = '{folder}/{name}.pem', key = '{folder}/{name}.key' }}]"
        ))
        .route("/*", "")
}

#[test]
fn an_expired_certificate_is_logged_at_the_start_and_at_a_reload() {
    let expired = ["a certificate has expired", "public", "expired.example.com"];
    let process = Process::start(&with_certificate("expired"));
    process.wait_for_line(&expired);
    let process = Process::start(&with_certificate("public"));
    process.rewrite(&with_certificate("expired"));
    process.signal("HUP");
    process.wait_for_line(&["reloaded", "listener public: tls.certificates"]);
    process.wait_for_line(&expired);
}

#[test]
fn a_metric_says_when_a_certificate_expires() {
    let running = start(&with_certificate("expired"));
    let labels = "listener=\"public\",certificate=\"expired.example.com\"";
    let name = "tollgate_certificate_expiration_timestamp_seconds";
    let expires: Option<u64> = running.series(&format!("{name}{{{labels}}}"));
    assert_eq!(expires, Some(1_795_298_390));
}
