//! Reloads and the end of a gateway.

use std::time::{Duration, Instant};

use super::harness::{File, PATIENCE, Running};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn request_that_was_queued_when_the_gateway_ended_is_answered() {
    for _ in 0..20 {
        let mut running = Running::start(&File::default());
        let mut clients: Vec<_> = (0..100).map(|_| running.connect()).collect();
        for client in &mut clients {
            client.say(GET);
        }
        running.gateway.shutdown();
        for client in &mut clients {
            let answer = client.rest();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        }
    }
}
