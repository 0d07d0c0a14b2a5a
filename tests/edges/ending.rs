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

#[test]
fn hurried_shutdown_does_not_wait_out_its_delay() {
    let mut running = Running::start(&File {
        top: "shutdown_delay = \"1h\"",
        ..File::default()
    });
    running.gateway.hurrier()();
    let began = Instant::now();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        running.gateway.shutdown();
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(PATIENCE).expect("an end");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn more_connections_are_accepted_once_a_reload_allows_them() {
    let mut running = Running::start(&File {
        listener: "max_connections = 1",
        ..File::default()
    });
    let mut first = running.connect();
    first.say(GET);
    first.read_to("}}\n");
    let mut second = running.connect();
    second.say(GET);
    running.reload(&File {
        listener: "max_connections = 2",
        ..File::default()
    });
    second
        .0
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    second.read_to("}}\n");
}

#[test]
fn refused_head_is_answered_even_if_more_is_on_its_way() {
    let running = Running::start(&File::default());
    for _ in 0..50 {
        let mut client = running.connect();
        client.say("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.say(&"x".repeat(300_000));
        std::thread::sleep(Duration::from_millis(10));
        // A connection that was reset says so here or when it is read.
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        let answer = client.rest();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer:?}");
        assert!(!answer.contains("<reset>"), "{answer:?}");
    }
}
