//! How a connection ends: by deadlines, and when the gateway ends.

use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GET, GOAWAY, HEADERS, NO_ERROR, PING,
    WINDOW_UPDATE, get,
};
use crate::support::{Client, Config, Gate, Origin, Process, Stepped, secs};

/// The PADDED flag of DATA.
const PADDED: u8 = 8;

/// Opens a connection on which one request has been answered.
fn answered(running: &Stepped) -> Frames {
    let mut client = Frames::connect(running.public, b"");
    client.send_all(&get(1));
    assert_eq!(client.until(DATA).payload, b"ok");
    client
}

#[test]
fn a_connection_that_stops_before_its_first_head_ends_at_a_deadline() {
    let running = Stepped::start(&Config::to("builtin:echo").route("/*", ""));
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for begun in [&preface[..10], preface] {
        let mut client = Client::connect(running.public);
        client.send(begun);
        running.advance(secs(75));
        client.rest();
    }
    let mut client = Frames::connect(running.public, b"");
    running.advance(secs(75));
    assert_eq!(client.end(), NO_ERROR);
}

#[test]
fn a_head_that_is_not_completed_ends_its_connection_after_the_header_timeout() {
    let origin = Origin::plain();
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = answered(&running);
    client.send(HEADERS, END_STREAM, 3, &GET[..1]);
    running.advance(secs(9));
    assert!(client.client.is_silent(), "10 seconds are not over");
    // A further piece of the head does not extend the deadline.
    client.send(CONTINUATION, 0, 3, &GET[1..2]);
    running.settle();
    assert!(client.client.is_silent(), "10 seconds are not over");
    running.advance(secs(1));
    assert_eq!(client.end(), NO_ERROR);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn frames_without_a_byte_win_no_time_for_a_body() {
    let origin = Origin::plain();
    let config = Config::to(origin.url()).listener("body_timeout = '5s'");
    let running = Stepped::start(&config.route("/*", ""));
    let mut client = Frames::connect(running.public, b"");
    let post = [b"\x83", &GET[1..]].concat();
    client.send(HEADERS, END_HEADERS, 1, &post);
    origin.wait_for_requests(1);
    client.send(DATA, 0, 1, b"half");
    // Padding is no byte of the body either.
    for (flags, payload) in [(0, &b""[..]), (PADDED, b"\x03\0\0\0"), (0, b"")] {
        client.ping();
        running.advance(secs(2));
        client.send(DATA, flags, 1, payload);
    }
    assert_eq!(client.until(HEADERS).stream, 1);
    origin.wait_for_ended(1);
    assert!(!origin.only_request().is_complete);
}

#[test]
fn pings_keep_no_idle_connection() {
    let origin = Origin::plain();
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = answered(&running);
    for _ in 0..3 {
        running.advance(secs(20));
        client.ping();
    }
    running.advance(secs(14));
    assert!(client.client.is_silent(), "75 seconds are not over");
    running.advance(secs(1));
    assert_eq!(client.end(), NO_ERROR);
}

/// Because memory that a large head has taken in the decoder is freed only with the connection.
#[test]
fn a_connection_that_had_a_head_of_several_frames_is_idle_for_five_seconds_at_most() {
    let origin = Origin::plain();
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = answered(&running);
    running.advance(secs(6));
    client.send(HEADERS, END_STREAM, 3, &GET[..1]);
    client.send(CONTINUATION, END_HEADERS, 3, &GET[1..]);
    assert_eq!(client.until(DATA).payload, b"ok");
    running.settle();
    running.advance(secs(4));
    assert!(client.client.is_silent(), "5 seconds are not over");
    running.advance(secs(1));
    assert_eq!(client.end(), NO_ERROR);
}

#[test]
fn a_connection_is_idle_only_once_its_client_has_taken_all_answers() {
    // For some of these sizes, the answer's last part is still in the gateway when all the rest is in the kernels'
    // buffers.
    for bytes in [128, 160, 192, 224].map(|kib| kib * 1024) {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'x');
        let origin = Origin::answering(answer);
        let deadlines = "body_timeout = '1h'\nidle_timeout = '10s'";
        let running = Stepped::start(&Config::to(origin.url()).listener(deadlines).route("/*", ""));
        // A window of 2^24 bytes for each stream, and more than the first 65,535 for the connection.
        let settings = b"\0\x04\x01\0\0\0";
        let narrow = Client::connect_narrow(running.public);
        let mut client = Frames::on(narrow, settings);
        client.send(WINDOW_UPDATE, 0, 0, b"\x01\0\0\0");
        client.send_all(&get(1));
        let mut taken = 0;
        origin.wait_for_requests(1);
        for _ in 0..3 {
            running.advance(secs(9));
            taken += client.until(DATA).payload.len();
            running.settle();
        }
        running.advance(secs(11));
        while taken < bytes {
            taken += client.until(DATA).payload.len();
        }
        assert_eq!(taken, bytes);
        running.settle();
        running.advance(secs(10));
        assert_eq!(client.end(), NO_ERROR);
    }
}

#[test]
fn a_gateway_that_ends_answers_what_is_under_way_and_waits_for_no_ping() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let mut process = Process::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Frames::connect(process.public, b"");
    client.send_all(&get(1));
    let mut polite = Frames::connect(process.public, b"");
    polite.send_all(&get(1));
    let mut idle = Frames::connect(process.public, b"");
    idle.ping();
    origin.wait_for_requests(2);
    process.signal("TERM");
    assert_eq!(idle.end(), NO_ERROR);
    let goaway = client.until(GOAWAY).payload;
    assert!(goaway[..4] >= [0, 0, 0, 3][..], "{goaway:?}");
    assert_eq!(goaway[4..], [0; 4]);
    // This request was on its way before its client knew of the GOAWAY.
    client.send_all(&get(3));
    // The last stream of this connection is announced once its client answers the PING.
    let ping = polite.until(PING).payload;
    polite.send(PING, ACK, 0, &ping);
    assert_eq!(polite.until(GOAWAY).payload, [0, 0, 0, 1, 0, 0, 0, 0]);
    origin.wait_for_requests(3);
    gate.open();
    assert_eq!(polite.until(DATA).payload, b"ok");
    while polite.next().is_some() {}
    let mut answers = [client.until(DATA), client.until(DATA)];
    answers.sort_by_key(|frame| frame.stream);
    assert_eq!(
        answers
            .each_ref()
            .map(|each_ref| (each_ref.stream, &*each_ref.payload)),
        [(1, &b"ok"[..]), (3, b"ok")]
    );
    assert_eq!(client.end(), NO_ERROR);
    assert!(process.wait().success());
}

#[test]
fn a_head_that_a_client_has_begun_to_send_is_awaited_when_the_gateway_ends() {
    let mut process = Process::start(&Config::to("builtin:echo").route("/*", ""));
    let head = get(1);
    let mut clients = [9, 12, head.len() - 1].map(|come| {
        let mut client = Frames::connect(process.public, b"");
        client.ping();
        client.send_all(&head[..come]);
        (client, &head[come..])
    });
    // A connection on which no head has begun is closed at once, so it shows that the gateway is ending.
    let mut idle = Frames::connect(process.public, b"");
    idle.ping();
    process.signal("TERM");
    assert_eq!(idle.end(), NO_ERROR);
    for (client, rest) in &mut clients {
        client.send_all(rest);
        client.until(HEADERS);
        assert_eq!(client.end(), NO_ERROR);
    }
    assert!(process.wait().success());
}
