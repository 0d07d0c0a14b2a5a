//! Heads that mean harm.

use super::harness::{File, Running, origin};

#[test]
fn path_that_grows_beyond_a_target_when_normalised_is_refused() {
    let running = Running::start(&File::default());
    let path = "|".repeat(30_000);
    let answer = running.ask(&format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer:.80}");
    assert!(running.metrics().contains("tollgate_panics_total 0\n"));
}

#[test]
fn host_field_beside_an_absolute_target_names_no_client() {
    let running = Running::start(&File {
        route: "policies = [\"per-host\"]",
        rest: "[policies.per-host]\nquota = \"1 per minute\"\npartition = [\"header:host\"]",
        ..File::default()
    });
    let ask = |host: &str| {
        running.ask(&format!(
            "GET http://a/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    };
    assert!(ask("b").starts_with("HTTP/1.1 200 "));
    assert!(ask("c").starts_with("HTTP/1.1 429 "));
}
