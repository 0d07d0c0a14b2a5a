//! Answers that a client does not take to their end, whatever else it sends in the meantime.

use std::collections::HashMap;

use super::frames::{
    CANCEL, DATA, END_STREAM, Frames, NO_ERROR, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
    get,
};
use crate::support::{After, Client, Config, Origin, Process, Stepped, get as get_once, secs};

/// Length of each answer, which `h2` buffers whole.
const ANSWER_BYTES: usize = 60_000;
/// Number of answers: together, more than the kernels' buffers hold.
const ANSWERS: u32 = 40;
/// SETTINGS_INITIAL_WINDOW_SIZE of 16 MiB, and of 0.
const WINDOW_OPEN: &[u8] = b"\0\x04\x01\0\0\0";
const WINDOW_CLOSED: &[u8] = b"\0\x04\0\0\0\0";

fn origin() -> Origin {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_BYTES}\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + ANSWER_BYTES, b'x');
    Origin::answering(answer)
}

/// A client that asks for more than it takes, and then closes the windows that it has opened.
struct Taker {
    frames: Frames,
    /// Bytes of DATA that have arrived, by stream.
    taken: HashMap<u32, usize>,
    /// Number of answers that have arrived to their end; then, of streams that were reset.
    ended: usize,
    reset: usize,
}

impl Taker {
    /// Asks for all answers; `is_queued` returns once the gateway has all of them.
    fn ask(address: std::net::SocketAddr, is_queued: impl Fn()) -> Self {
        let mut frames = Frames::on(Client::connect_narrow(address), WINDOW_OPEN);
        frames.send(WINDOW_UPDATE, 0, 0, b"\x01\0\0\0");
        for stream in (1..).step_by(2).take(ANSWERS as usize) {
            frames.send_all(&get(stream));
        }
        is_queued();
        frames.send(SETTINGS, 0, 0, WINDOW_CLOSED);
        Self {
            frames,
            taken: HashMap::new(),
            ended: 0,
            reset: 0,
        }
    }

    /// Reads up to the answer to a PING, which comes after everything that the gateway can send.
    #[track_caller]
    fn take(&mut self) {
        self.frames.send(PING, 0, 0, b"all sent");
        loop {
            let frame = self.frames.next().expect("the connection goes on");
            match frame.kind {
                DATA => {
                    *self.taken.entry(frame.stream).or_default() += frame.payload.len();
                    self.ended += usize::from(frame.flags & END_STREAM);
                }
                RST_STREAM => {
                    assert_eq!(frame.payload, [0, 0, 0, CANCEL]);
                    self.reset += 1;
                }
                PING if frame.payload == b"all sent" => return,
                _ => {}
            }
        }
    }
}

/// Starts a gateway with these lines of its listener, and a client to which it has sent everything that it can.
fn stuck(origin: &Origin, listener: &str) -> (Stepped, Taker) {
    let config = Config::to(origin.url()).listener(listener).route("/*", "");
    let config = config.upstream("body_timeout = '24h'");
    let running = Stepped::start(&config);
    let mut taker = Taker::ask(running.public, || {
        origin.wait_for_requests(ANSWERS as usize);
        running.settle();
    });
    // The first round reads what was sent before the windows closed, the others what the gateway can still send.
    for _ in 0..3 {
        taker.take();
        running.settle();
    }
    assert!(taker.ended < ANSWERS as usize, "some are left");
    (running, taker)
}

#[test]
fn answers_whose_room_is_taken_back_are_reset_in_time_whatever_their_client_sends() {
    let origin = origin();
    let (running, mut taker) = stuck(&origin, "body_timeout = '5s'\nidle_timeout = '60s'");
    let control: [(u8, u32, &[u8]); 4] = [
        (SETTINGS, 0, WINDOW_CLOSED),
        (2, 1, b"\0\0\0\0\x10"),
        (WINDOW_UPDATE, 0, b"\0\0\0\x01"),
        (0xbb, 0, b"unknown"),
    ];
    for (kind, stream, payload) in control {
        taker.frames.send(kind, 0, stream, payload);
        running.advance(secs(1));
        taker.take();
    }
    assert_eq!(taker.reset, 0, "5 seconds are not over");
    running.advance(secs(2));
    taker.take();
    assert_eq!(taker.ended + taker.reset, ANSWERS as usize);
    // The connection stays open until it has been idle for too long.
    taker.frames.send_all(&get(1001));
    taker.frames.send(WINDOW_UPDATE, 0, 1001, b"\0\x01\0\0");
    let mut come = 0;
    while come < ANSWER_BYTES {
        come += taker.frames.until(DATA).payload.len();
    }
    running.advance(secs(59));
    taker.take();
    running.advance(secs(1));
    assert_eq!(taker.frames.end(), NO_ERROR);
}

/// Each origin has sent all the events that it has for now.
#[test]
fn streams_of_events_whose_room_is_taken_back_are_reset_in_time_and_those_that_wait_are_not() {
    let chunk = format!("{ANSWER_BYTES:x}\r\n{}\r\n", "x".repeat(ANSWER_BYTES));
    let origin = Origin::scripted(move |exchange| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        exchange.write(head.to_owned() + &chunk)?;
        exchange.until_closed();
        Ok(After::Close)
    });
    let (running, mut taker) = stuck(&origin, "body_timeout = '5s'");
    for _ in 0..7 {
        running.advance(secs(1));
        taker.take();
    }
    let waiting = taker.taken.values().filter(|value| **value == ANSWER_BYTES);
    assert!(taker.reset > 0);
    assert_eq!(waiting.count() + taker.reset, ANSWERS as usize);
    running.advance(secs(60));
    let before = taker.reset;
    taker.take();
    assert_eq!(taker.reset, before, "they owe nothing to their client");
}

/// With this many answers, each stream waits longer for its turn than a client may go without taking anything.
#[test]
fn client_that_takes_many_answers_slowly_but_steadily_gets_all_of_them() {
    const STEP_BYTES: usize = 128 * 1024;
    let origin = origin();
    let config = Config::to(origin.url()).listener("body_timeout = '5s'\nidle_timeout = '5s'");
    let running = Stepped::start(&config.route("/*", ""));
    let mut frames = Frames::on(Client::connect_narrow(running.public), WINDOW_OPEN);
    frames.send(WINDOW_UPDATE, 0, 0, b"\x01\0\0\0");
    for stream in (1..).step_by(2).take(ANSWERS as usize) {
        frames.send_all(&get(stream));
    }
    origin.wait_for_requests(ANSWERS as usize);
    let mut left = ANSWERS as usize * ANSWER_BYTES;
    while left > 0 {
        running.settle();
        running.advance(secs(4));
        let enough = left.saturating_sub(STEP_BYTES);
        while left > enough {
            let frame = frames.next().expect("the connection goes on");
            assert_ne!(frame.kind, RST_STREAM, "{left} bytes are left");
            if frame.kind == DATA {
                left -= frame.payload.len();
            }
        }
    }
}

#[test]
fn eviction_frees_the_place_of_a_client_that_keeps_its_connection_by_pings() {
    let origin = origin();
    let listener = "max_connections = 1\nbody_timeout = '5s'\nidle_timeout = '1h'";
    let (running, mut taker) = stuck(&origin, listener);
    let mut newcomer = Client::asking(running.public, "/", "");
    for _ in 0..4 {
        running.advance(secs(1));
        taker.take();
    }
    assert!(newcomer.is_silent(), "it still may take its answers");
    running.advance(secs(2));
    taker.take();
    running.advance(secs(2));
    assert_eq!(newcomer.answer().status, 200);
    assert_eq!(taker.frames.end(), NO_ERROR);
}

#[test]
fn eviction_frees_the_place_of_a_client_that_hardly_reads_what_its_pings_are_answered() {
    let config = Config::to("builtin:status/200")
        .listener("max_connections = 1\nbody_timeout = '5s'\nidle_timeout = '1h'")
        .route("/*", "");
    let running = Stepped::start(&config);
    let mut slow = Frames::on(Client::connect_narrow(running.public), b"");
    let pings = frame(PING, 0, 0, b"flooding").repeat(1 << 20);
    let mut sent = 0;
    let mut newcomer = Client::asking(running.public, "/", "");
    for _ in 0..3 {
        let wire = &mut slow.client.wire;
        sent += wire.write_until_full(&pings[sent..], || running.settle());
        running.advance(secs(3));
        // Enough for the gateway to go on writing.
        if wire.take(256 * 1024).is_err() {
            break;
        }
    }
    assert_eq!(newcomer.answer().status, 200);
}

#[test]
fn gateway_that_ends_waits_for_no_client_that_takes_nothing() {
    let origin = origin();
    let config = Config::to(origin.url()).listener("body_timeout = '1s'");
    let mut process = Process::start(&config.route("/*", ""));
    let mut taker = Taker::ask(process.public, || {
        origin.wait_for_requests(ANSWERS as usize);
        // The same workers answer this after everything that was asked before.
        assert_eq!(get_once(process.public, "/", "").status, 200);
    });
    taker.take();
    process.signal("TERM");
    // The shutdown grace is 30 seconds, and PINGs keep the connection busy.
    let pinging = std::thread::spawn(move || {
        let mut frames = taker.frames;
        let ping = frame(PING, 0, 0, b"is alive");
        while frames.client.wire.write(&ping).is_ok() && frames.next().is_some() {}
    });
    assert!(process.wait().success());
    pinging.join().expect("no panic");
}
