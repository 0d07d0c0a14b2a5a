//! Slow clients, and clients that leave.

use std::io::{Read, Write};
use std::time::Duration;

use tollgate::clock::Micros;

use super::harness::{Client, File, Running, origin};

/// Serves `bytes` to one request, and holds on to the connection.
fn serve(listener: std::net::TcpListener, bytes: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut wire = Client(listener.accept().expect("a request").0);
        wire.read_to("\r\n\r\n");
        wire.say(&format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n"
        ));
        // The gateway may break off.
        let _ = wire.0.write_all(&vec![b'x'; bytes]);
    })
}

/// A connection that takes few bytes at a time.
fn narrow(running: &Running) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a size");
    socket
        .connect(&running.address.into())
        .expect("a connection");
    Client(socket.into())
}

/// Reads to the end, `step` bytes every `pause` of the gateway's time.
fn sip(running: &Running, client: &mut Client, step: usize, pause: Micros) -> usize {
    client
        .0
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    let (mut total, mut sip) = (0, vec![0; step]);
    loop {
        running.clock.advance(pause);
        // Longer than a sweep's period, so that what is overdue is found out.
        std::thread::sleep(Duration::from_millis(250));
        let mut taken = 0;
        while taken < step {
            match client.0.read(&mut sip[taken..]) {
                Ok(0) | Err(_) => return total + taken,
                Ok(bytes) => taken += bytes,
            }
        }
        total += taken;
    }
}

#[test]
fn client_that_takes_its_answer_slowly_but_steadily_gets_all_of_it() {
    let (listener, address) = origin();
    let running = Running::start(&File {
        origin: Some(address),
        listener: "body_timeout = \"30s\"",
        ..File::default()
    });
    let bytes = 8 << 20;
    let origin = serve(listener, bytes);
    let mut client = narrow(&running);
    client.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = client.read_to("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let taken = sip(&running, &mut client, 256 * 1024, Micros::from_secs(20));
    assert_eq!(taken, bytes);
    origin.join().expect("an origin");
}

#[test]
fn answer_is_not_cut_short_by_the_idle_timeout() {
    let (listener, address) = origin();
    let running = Running::start(&File {
        origin: Some(address),
        listener: "body_timeout = \"1h\"\nidle_timeout = \"1s\"",
        ..File::default()
    });
    let bytes = 8 << 20;
    let origin = serve(listener, bytes);
    let mut client = narrow(&running);
    client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_to("\r\n\r\n");
    let taken = sip(&running, &mut client, 512 * 1024, Micros::from_secs(2));
    assert_eq!(taken, bytes);
    origin.join().expect("an origin");
}

#[test]
fn client_that_leaves_during_its_answer_is_recorded_as_gone() {
    let (listener, address) = origin();
    let running = Running::start(&File {
        origin: Some(address),
        ..File::default()
    });
    let origin = serve(listener, 64 << 20);
    let mut client = running.connect();
    client.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_to("\r\n\r\n");
    drop(client);
    origin.join().expect("an origin");
    let log = running.end();
    assert!(log.contains("\"reason\":\"client_gone\""), "{log}");
}

#[test]
fn body_that_is_found_too_large_after_the_answer_began_is_recorded_as_that() {
    let (listener, address) = origin();
    let running = Running::start(&File {
        origin: Some(address),
        listener: "max_body_bytes = \"10B\"",
        ..File::default()
    });
    let mut client = running.connect();
    client.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    let mut wire = Client(listener.accept().expect("a request").0);
    wire.read_to("\r\n\r\n");
    wire.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx");
    client.read_to("\r\n\r\n");
    client.say("20\r\n01234567890123456789012345678901\r\n");
    client.rest();
    let log = running.end();
    assert!(log.contains("\"reason\":\"body_too_large\""), "{log}");
}

#[test]
fn refusal_that_leaves_a_body_unread_says_that_the_connection_closes() {
    let (listener, address) = origin();
    drop(listener);
    let running = Running::start(&File {
        origin: Some(address),
        ..File::default()
    });
    let mut client = running.connect();
    client.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
    let head = client.read_to("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
}

#[test]
fn refusal_does_not_wait_for_a_body_that_does_not_come() {
    let running = Running::start(&File {
        route: "policies = [\"one\"]",
        rest: "[policies.one]\nquota = \"1 per hour\"",
        ..File::default()
    });
    running.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut client = running.connect();
    // The gateway's clock stands still, so no deadline of the listener's helps.
    client.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    let head = client.read_to("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
}
