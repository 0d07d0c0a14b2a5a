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
fn header_that_names_the_client_has_no_double_in_disguise() {
    let (listener, address) = origin();
    let running = Running::start(&File {
        origin: Some(address),
        route: "policies = [\"per-key\"]",
        rest: "[policies.per-key]\nquota = \"1 per minute\"\npartition = [\"header:x-api-key\"]",
        ..File::default()
    });
    let mut client = running.connect();
    client.say("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: mine\r\nX_Api_Key: yours\r\n\r\n");
    let mut wire = super::harness::Client(listener.accept().expect("a request").0);
    let head = wire.read_to("\r\n\r\n");
    assert!(head.contains("x-api-key: mine\r\n"), "{head}");
    assert!(!head.contains("x_api_key"), "{head}");
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
