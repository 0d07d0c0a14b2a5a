//! Certificates that expire: what the log and the metrics say of them.

use crate::support::{Config, Metered, Process, start};

/// A listener with this certificate and key of `tests/config/tls`.
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
fn a_metric_says_how_many_days_are_left() {
    let running = start(&with_certificate("expired"));
    let days_left = || -> f64 {
        let labels = "listener=\"public\",certificate=\"expired.example.com\"";
        let days = running.series(&format!("tollgate_certificate_days_left{{{labels}}}"));
        days.expect("a number of days")
    };
    let before = days_left();
    assert!(before > 1000.0, "{before}");
    // By wall time, even where it has stepped away from the clock of the limits.
    (running.clock).set_wall_ahead(3650 * 24 * 60 * 60 * 1_000_000);
    let after = days_left();
    assert!(after < 0.0, "{after}");
    assert!(
        (before - after - 3650.0).abs() < 0.1,
        "{before} and {after}"
    );
}
