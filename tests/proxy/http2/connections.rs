//! How a connection ends: deadlines, resets and the end of the gateway.

use std::fs;

use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GET, GOAWAY, HEADERS, RST_STREAM,
    WINDOW_UPDATE, frame, get,
};
use crate::support::{
    After, Client, Config, Gate, Origin, Process, Stepped, eventually, get as get_once, secs,
};

const NO_ERROR: u8 = 0;
const ENHANCE_YOUR_CALM: u8 = 11;

/// Begins a connection, and has one request answered on it.
fn answered(running: &Stepped) -> Frames {
    let mut client = Frames::connect(running.public, b"");
    client.send_all(&get(1));
    assert_eq!(client.until(DATA).payload, b"ok");
    client
}

#[test]
fn a_head_that_is_not_completed_ends_its_connection_after_the_header_timeout() {
    let origin = Origin::plain();
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = answered(&running);
    client.send(HEADERS, END_STREAM, 3, &GET[..1]);
    running.advance(secs(9));
    assert!(client.client.is_silent(), "10 seconds are not over");
    // What trickles in wins no time.
    client.send(CONTINUATION, 0, 3, &GET[1..2]);
    running.settle();
    assert!(client.client.is_silent(), "10 seconds are not over");
    running.advance(secs(1));
    assert_eq!(client.end(), NO_ERROR);
    assert_eq!(origin.requests().len(), 1);
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

#[test]
fn a_connection_is_idle_only_once_its_client_has_taken_all_answers() {
    // What is the last part of some of them stays in the gateway, all else being in the kernels.
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

/// A gateway before an origin that never answers, with its log in a file.
fn beside_mute(origin: &Origin, log: &std::path::Path) -> Stepped {
    let config = Config::to(origin.url())
        .admin("127.0.0.1:0")
        .upstream("response_timeout = '24h'")
        .route("/*", "")
        .with(&format!("[log]\nfile = '{}'", log.display()));
    Stepped::start(&config)
}

/// Begins that many requests, and cancels them once they are under way.
fn cancel(client: &mut Frames, streams: &mut impl Iterator<Item = u32>, count: usize) {
    let begun: Vec<u32> = streams.take(count).collect();
    client.send_all(
        &begun
            .iter()
            .flat_map(|&stream| get(stream))
            .collect::<Vec<_>>(),
    );
    client.ping();
    let cancel = |&stream| frame(RST_STREAM, 0, stream, b"\0\0\0\x08");
    client.send_all(&begun.iter().flat_map(cancel).collect::<Vec<_>>());
}

#[test]
fn calls_that_are_cancelled_now_and_then_end_no_connection_and_many_at_once_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log);
    let mut streams = (1..).step_by(2);
    let mut client = Frames::connect(running.public, b"");
    for _ in 0..6 {
        cancel(&mut client, &mut streams, 50);
        client.ping();
        running.advance(secs(1));
    }
    client.ping();
    let read = || fs::read_to_string(&log).unwrap_or_default();
    assert!(!read().contains("too_many_resets"), "{}", read());

    let mut at_once = Frames::connect(running.public, b"");
    let mut streams = (1..).step_by(2);
    for _ in 0..3 {
        cancel(&mut at_once, &mut streams, 100);
    }
    assert_eq!(at_once.end(), ENHANCE_YOUR_CALM);
    assert_told(&running, "too_many_resets", 1, &log);
    client.ping();
}

#[test]
fn heads_that_are_reset_before_they_are_read_end_their_connection_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::mute();
    let running = beside_mute(&origin, &log);
    let mut client = Frames::connect(running.public, b"");
    let pair = |stream| [get(stream), frame(RST_STREAM, 0, stream, b"\0\0\0\x08")].concat();
    client.send_all(
        &(1..)
            .step_by(2)
            .take(300)
            .flat_map(pair)
            .collect::<Vec<_>>(),
    );
    assert_eq!(client.end(), ENHANCE_YOUR_CALM);
    assert_told(&running, "too_many_resets", 1, &log);
}

/// A target that no request has costs its own stream, and is told like a malformed head of HTTP/1.1.
#[test]
fn a_target_with_a_character_that_no_url_may_hold_is_reset_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let origin = Origin::plain();
    let running = beside_mute(&origin, &log);
    let mut client = Frames::connect(running.public, b"");
    let targets = ["/a<b", "/a>b", "/a`b", "/?\"", "/?<", "/?>"];
    for (target, stream) in targets.into_iter().zip((1..).step_by(2)) {
        let length = u8::try_from(target.len()).expect("a short target");
        // `:method`, `:scheme`, `:path` as it is, and `:authority` as in any GET.
        let head = [b"\x82\x86\x04", &[length][..], target.as_bytes(), &GET[3..]].concat();
        client.send(HEADERS, END_STREAM | END_HEADERS, stream, &head);
        let reset = client.until(RST_STREAM);
        assert_eq!(
            (reset.stream, &*reset.payload),
            (stream, &b"\0\0\0\x01"[..]),
            "{target}"
        );
    }
    client.send_all(&get(99));
    assert_eq!(client.until(HEADERS).stream, 99);
    assert_told(&running, "syntax", targets.len(), &log);
}

/// Waits until log and metrics tell of this reason that many times.
#[track_caller]
fn assert_told(running: &Stepped, reason: &str, times: usize, log: &std::path::Path) {
    let admin = running.gateway.admin_address().expect("an admin port");
    eventually("it is counted", || {
        let metrics = get_once(admin, "/metrics", "").text();
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.contains(&format!("{reason:?}")))?;
        line.ends_with(&format!(" {times}")).then_some(())
    });
    eventually("it is logged", || {
        let text = fs::read_to_string(log).ok()?;
        (text.matches(reason).count() == times).then_some(())
    });
}

#[test]
fn a_gateway_that_ends_answers_what_is_under_way_and_waits_for_no_ping() {
    let gate = Gate::default();
    let origin = Origin::scripted({
        let gate = gate.clone();
        move |exchange| {
            gate.wait();
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(After::Keep)
        }
    });
    let mut process = Process::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Frames::connect(process.public, b"");
    client.send_all(&get(1));
    let mut idle = Frames::connect(process.public, b"");
    idle.ping();
    origin.wait_for_requests(1);
    process.signal("TERM");
    assert_eq!(idle.end(), NO_ERROR);
    assert_eq!(client.until(GOAWAY).payload[4..], [0; 4]);
    // It was on its way before its client knew.
    client.send_all(&get(3));
    origin.wait_for_requests(2);
    gate.open();
    let mut answers = [client.until(DATA), client.until(DATA)];
    answers.sort_by_key(|frame| frame.stream);
    assert_eq!(
        answers.each_ref().map(|it| (it.stream, &*it.payload)),
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
    // One that has begun nothing shows when it would have been too late.
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
