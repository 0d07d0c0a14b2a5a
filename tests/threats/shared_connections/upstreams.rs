//! Clients that share a connection to an origin.

use std::net::TcpListener;

use super::{HAS_PRIORITY, MALFORMED, clear_and_secure, large_heads, on_stream};
use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_BYTES, GET, GOAWAY, HEADERS, PRIORITY, Peer,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, head, indexed,
};
use crate::support::redis::Authority;
use crate::support::{Certificate, Client, Config, Metered, Process};

/// `:status: 200`, as an index of HPACK's static table.
const OK: &[u8] = &[0x88];
/// An index of HPACK's dynamic table: the entry before the latest one.
const SECOND_NEWEST: u8 = 0xbf;
/// Bytes that may wait for a client that takes nothing: a stream's window.
const WINDOW: usize = 256 << 10;

/// Number of clients that take nothing of their answers.
const STALLED: u32 = 6;
const COMPRESSION_ERROR: u8 = 9;
const ENHANCE_YOUR_CALM: u8 = 11;

/// A gateway with one worker, in front of an origin that the test plays.
struct Shared<'c> {
    process: Process,
    listener: TcpListener,
    certificate: Option<&'c Certificate>,
}

/// A client whose answer has begun and is not complete.
struct Neighbour {
    client: Client,
    stream: u32,
}

impl<'c> Shared<'c> {
    fn new(certificate: Option<&'c Certificate>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (url, tls) = match certificate {
            None => (format!("h2c://127.0.0.1:{port}"), String::new()),
            Some(certificate) => (
                format!("https://localhost:{port}"),
                format!("tls = {{ ca = '{}' }}", certificate.authority.display()),
            ),
        };
        let config = Config::to(url).one_worker().upstream(&tls).route("/*", "");
        Self {
            process: Process::start(&config),
            listener,
            certificate,
        }
    }

    fn accept(&self) -> Peer {
        Peer::accept(&self.listener, self.certificate)
    }

    fn ask(&self, path: &str) -> Client {
        Client::asking(self.process.public, path, "")
    }

    /// Opens a connection to the origin, with an answer that has begun.
    fn begin(&self) -> (Peer, Neighbour) {
        let client = self.ask("/neighbour");
        let mut origin = self.accept();
        let stream = origin.request();
        origin.send(HEADERS, END_HEADERS, stream, OK);
        origin.send(DATA, 0, stream, b"begun, ");
        (origin, Neighbour { client, stream })
    }

    /// Checks that there is still one connection to the origin, and that no failure was counted that could eject it.
    #[track_caller]
    fn assert_unharmed(&self, what: &str) {
        let opened = self
            .process
            .metric("tollgate_upstream_connections_opened_total");
        assert_eq!(opened, 1, "{what}: connections");
        self.assert_unblamed(what);
    }

    #[track_caller]
    fn assert_unblamed(&self, what: &str) {
        assert_eq!(self.process.metric("tollgate_endpoint_ejections_total"), 0);
        let closed = "tollgate_endpoint_failures_total{upstream=\"api\",endpoint=";
        let failures: Vec<_> = self
            .process
            .metrics()
            .lines()
            .filter(|line| line.starts_with(closed) && !line.ends_with(" 0"))
            .filter(|line| !line.contains("\"malformed\""))
            .map(str::to_owned)
            .collect();
        assert_eq!(failures, Vec::<String>::new(), "{what}");
    }
}

impl Neighbour {
    /// Ends the neighbour's answer, which must arrive whole.
    #[track_caller]
    fn finish(mut self, origin: &mut Peer, what: &str) {
        origin.send(DATA, END_STREAM, self.stream, b"and ended");
        assert_eq!(
            self.client.answer().text(),
            "begun, and ended",
            "beside {what}"
        );
    }
}

/// What a client gets if its origin does something odd on its stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Refused,
    BrokenOff,
    Whole,
}

/// Has the origin answer a request with these frames, while another answer is under way, which must stay whole.
#[track_caller]
fn assert_harmless(shared: &Shared, origin: &mut Peer, what: &str, frames: &[u8]) -> Seen {
    let client = shared.ask("/neighbour");
    let stream = origin.request();
    origin.send(HEADERS, END_HEADERS, stream, OK);
    origin.send(DATA, 0, stream, b"begun, ");
    let neighbour = Neighbour { client, stream };
    let mut odd = shared.ask("/odd");
    let stream = origin.request();
    let frames = on_stream(frames, stream);
    origin.send_all(&frames);
    origin.sync();
    let seen = match odd.try_answer() {
        Ok(answer) if answer.status == 502 => Seen::Refused,
        Ok(answer) => {
            assert_eq!(answer.text(), "whole", "{what}");
            Seen::Whole
        }
        Err(_) => Seen::BrokenOff,
    };
    neighbour.finish(origin, what);
    seen
}

#[test]
fn a_malformed_field_in_an_answer_costs_its_own_request_and_the_next_heads_are_understood() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let shared = Shared::new(certificate.as_ref());
        let (mut origin, first) = shared.begin();
        let malformed =
            |(name, value)| [OK, &indexed(b"x-mark", b"a"), &indexed(name, value)].concat();
        let mut heads = MALFORMED.map(malformed).to_vec();
        for status in [&b"abc"[..], b"", b"99", b"200 OK"] {
            heads.push([indexed(b"x-mark", b"a"), indexed(b":status", status)].concat());
        }
        for block in heads {
            let what = format!("{:?}", String::from_utf8_lossy(&block));
            for size in [FRAME_BYTES, 5] {
                let bytes = head(END_STREAM, 0, &block, size);
                let seen = assert_harmless(&shared, &mut origin, &what, &bytes);
                assert_eq!(seen, Seen::Refused, "{what}");
                // The head was refused, but its field must still be in the decoder's dynamic table.
                let mut next = shared.ask("/next");
                let stream = origin.request();
                origin.send(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    stream,
                    &[0x88, SECOND_NEWEST],
                );
                let answer = next.answer();
                assert_eq!(answer.field("x-mark"), Some("a"), "{what}");
            }
        }
        first.finish(&mut origin, "all of them");
        shared.assert_unharmed("malformed fields");
    }
}

#[test]
fn a_large_head_of_an_answer_costs_its_own_request_and_little_memory() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let shared = Shared::new(certificate.as_ref());
        let (mut origin, first) = shared.begin();
        let before = shared.process.peak_memory();
        for (what, block, size) in large_heads(OK) {
            let bytes = head(END_STREAM, 0, &block, size);
            let seen = assert_harmless(&shared, &mut origin, what, &bytes);
            assert_eq!(seen, Seen::Refused, "{what}");
            let trailers = block[OK.len()..].to_vec();
            let bytes = [
                frame(HEADERS, END_HEADERS, 0, OK),
                frame(DATA, 0, 0, b"half"),
                head(END_STREAM, 0, &trailers, size),
            ];
            let seen = assert_harmless(&shared, &mut origin, what, &bytes.concat());
            assert_eq!(seen, Seen::BrokenOff, "trailers: {what}");
        }
        let taken = shared.process.peak_memory() - before;
        assert!(taken < 4 << 20, "{taken} bytes");
        first.finish(&mut origin, "all of them");
        shared.assert_unharmed("large heads");
        let log = shared.process.lines().join("\n");
        assert!(
            log.contains("head too large") && log.contains("head or trailers too large"),
            "{log}"
        );
    }
}

/// A name, the frames with which an origin answers a request, and what its client may get.
type OddAnswer = (&'static str, Vec<u8>, &'static [Seen]);

fn frames_out_of_place() -> Vec<OddAnswer> {
    let whole = whole_answer();
    let begun = frame(HEADERS, END_HEADERS, 0, OK);
    let with = |frames: &[&[u8]]| frames.concat();
    let in_front: &[u8] = &frame(DATA, 0, 0, b"in front");
    let (empty, end) = (frame(DATA, 0, 0, b""), frame(DATA, END_STREAM, 0, b""));
    vec![
        (
            "150 empty frames",
            with(&[&begun, &empty.repeat(150), &whole[begun.len()..]]),
            &[Seen::Whole],
        ),
        (
            "10,000 empty frames",
            with(&[&begun, &empty.repeat(10_000), &whole[begun.len()..]]),
            &[Seen::Whole],
        ),
        (
            "data before a head",
            with(&[in_front, &whole]),
            &[Seen::Refused],
        ),
        (
            "data behind the end",
            with(&[&whole, in_front]),
            &[Seen::Whole, Seen::BrokenOff, Seen::Refused],
        ),
        (
            "a head behind the end",
            with(&[&whole, &begun]),
            &[Seen::Whole, Seen::BrokenOff, Seen::Refused],
        ),
        (
            "trailers behind the end",
            with(&[&whole, &head(END_STREAM, 0, b"", FRAME_BYTES)]),
            &[Seen::Whole, Seen::BrokenOff, Seen::Refused],
        ),
        (
            "trailers without an end",
            with(&[&begun, &begun]),
            &[Seen::Refused, Seen::BrokenOff],
        ),
        (
            "data behind a reset",
            with(&[
                &begun,
                &frame(RST_STREAM, 0, 0, &[0, 0, 0, 8]),
                in_front,
                &end,
            ]),
            &[Seen::BrokenOff, Seen::Refused],
        ),
    ]
}

fn frames_of_odd_contents() -> Vec<OddAnswer> {
    let whole = whole_answer();
    let begun = frame(HEADERS, END_HEADERS, 0, OK);
    let with = |frames: &[&[u8]]| frames.concat();
    let length = |bytes: &[u8]| [OK, &indexed(b"content-length", bytes)].concat();
    let on_itself = [&[0; 5], OK].concat();
    vec![
        (
            "an increment of 0",
            with(&[&frame(WINDOW_UPDATE, 0, 0, &[0; 4]), &whole]),
            &[Seen::Refused],
        ),
        (
            "a window beyond 2^31, of which nothing is used",
            with(&[
                &frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
                &whole,
            ]),
            &[Seen::Whole],
        ),
        (
            "a priority of 4 bytes",
            with(&[&frame(PRIORITY, 0, 0, &[0; 4]), &whole]),
            &[Seen::Refused],
        ),
        (
            "more bytes than announced",
            with(&[
                &head(0, 0, &length(b"2"), FRAME_BYTES),
                &whole[begun.len()..],
            ]),
            &[Seen::Refused, Seen::BrokenOff],
        ),
        (
            "fewer bytes than announced",
            with(&[
                &head(0, 0, &length(b"9"), FRAME_BYTES),
                &whole[begun.len()..],
            ]),
            &[Seen::Refused, Seen::BrokenOff],
        ),
        (
            "a length that is none",
            head(END_STREAM, 0, &length(b"x"), FRAME_BYTES),
            &[Seen::Refused],
        ),
        (
            "100 interim answers",
            with(&[
                &head(0, 0, &indexed(b":status", b"103"), FRAME_BYTES).repeat(100),
                &whole,
            ]),
            &[Seen::Refused],
        ),
        (
            "a head that depends on itself",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM | HAS_PRIORITY,
                0,
                &on_itself,
            ),
            &[Seen::Refused],
        ),
        (
            "a reset",
            with(&[
                &begun,
                &frame(DATA, 0, 0, b"half"),
                &frame(RST_STREAM, 0, 0, &[0, 0, 0, 8]),
            ]),
            &[Seen::BrokenOff, Seen::Refused],
        ),
        (
            "an unknown frame",
            with(&[&frame(0xbb, 0, 0, b"?"), &whole]),
            &[Seen::Whole],
        ),
    ]
}

fn whole_answer() -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, 0, OK);
    [head, frame(DATA, END_STREAM, 0, b"whole")].concat()
}

#[test]
fn an_odd_frame_of_an_origin_costs_its_own_request() {
    let cases = [frames_out_of_place(), frames_of_odd_contents()].concat();
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let shared = Shared::new(certificate.as_ref());
        let (mut origin, first) = shared.begin();
        for (what, frames, expected) in &cases {
            let seen = assert_harmless(&shared, &mut origin, what, frames);
            assert!(expected.contains(&seen), "{what}: {seen:?}");
        }
        first.finish(&mut origin, "all of them");
        let opened = shared
            .process
            .metric("tollgate_upstream_connections_opened_total");
        assert_eq!(opened, 1);
        assert_eq!(
            shared.process.metric("tollgate_endpoint_ejections_total"),
            0
        );
    }
}

/// Has the origin answer other clients, which take nothing, with full windows, in pieces of that many bytes.
#[track_caller]
fn stall(shared: &Shared, origin: &mut Peer, piece: usize) -> (Peer, Vec<u32>) {
    // A window without room for any byte of an answer.
    let mut stalled = Peer::connect(shared.process.public, None, &[0, 4, 0, 0, 0, 0]);
    let own: Vec<u32> = (0..STALLED).map(|number| 2 * number + 1).collect();
    for &stream in &own {
        stalled.send(HEADERS, END_HEADERS | END_STREAM, stream, GET);
    }
    let streams: Vec<u32> = own.iter().map(|_| origin.request()).collect();
    for &stream in &streams {
        origin.send(HEADERS, END_HEADERS, stream, OK);
        let pieces = (0..WINDOW / piece)
            .map(|number| frame(DATA, 0, stream, &vec![number.to_le_bytes()[0]; piece]));
        origin.send_all(&pieces.flatten().collect::<Vec<_>>());
        origin.send(DATA, END_STREAM, stream, b"");
    }
    origin.sync();
    (stalled, own)
}

#[test]
fn clients_that_take_nothing_of_small_events_hold_their_windows_and_no_other_client() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        for piece in [20, 4] {
            let shared = Shared::new(certificate.as_ref());
            let (mut origin, neighbour) = shared.begin();
            let before = shared.process.peak_memory();
            let (mut stalled, own) = stall(&shared, &mut origin, piece);
            let taken = shared.process.peak_memory() - before;
            let windows = u64::try_from(own.len() * WINDOW).expect("a number of bytes");
            assert!(taken < 3 * windows + (2 << 20), "{taken} bytes");
            // The buffered answers are whole, and in order.
            stalled.send(WINDOW_UPDATE, 0, 0, &[1, 0, 0, 0]);
            stalled.send(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
            for stream in own {
                assert_eq!(stalled.status(stream), 200);
                let body = stalled.body(stream);
                assert_eq!(body.len(), WINDOW / piece * piece);
                let is_it = |(at, byte): (usize, &u8)| *byte == (at / piece).to_le_bytes()[0];
                assert!(body.iter().enumerate().all(is_it));
            }
            neighbour.finish(&mut origin, "clients that take nothing");
            shared.assert_unharmed("clients that take nothing");
            let log = shared.process.lines().join("\n");
            assert!(!log.contains("\"cause\""), "nobody is blamed: {log}");
        }
    }
}

#[test]
fn a_head_that_cannot_be_decoded_retires_its_connection_and_others_are_sent_again() {
    // The last frame is the first that is too much: with more, the connection would end with unread bytes, and GOAWAY
    // could get lost.
    let endless = |block: &[u8]| {
        let first = frame(HEADERS, 0, 0, block);
        let more = frame(CONTINUATION, 0, 0, &indexed(b"x-a", &[b'v'; 16_000]));
        [first, more.repeat(66)].concat()
    };
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        for (what, frames, code) in [
            (
                "an index of nothing",
                frame(HEADERS, END_HEADERS, 0, &[0xff, 0x7f]),
                COMPRESSION_ERROR,
            ),
            (
                "an end within a field",
                frame(HEADERS, END_HEADERS, 0, b"\0\x05x"),
                COMPRESSION_ERROR,
            ),
            ("more than 1 MiB", endless(OK), ENHANCE_YOUR_CALM),
        ] {
            // Five failures in a row would eject an endpoint; up to 30 retries are always allowed.
            let shared = Shared::new(certificate.as_ref());
            for _ in 0..6 {
                let mut waiting: Vec<_> = (0..4).map(|_| shared.ask("/waiting")).collect();
                let mut origin = shared.accept();
                for _ in &waiting {
                    origin.request();
                }
                let mut odd = shared.ask("/odd");
                let stream = origin.request();
                origin.send_all(&on_stream(&frames, stream));
                let goaway = origin.wait(|frame| frame.kind == GOAWAY);
                assert_eq!(goaway.payload[7], code, "{what}");
                assert_eq!(odd.answer().status, 502, "{what}");
                let mut again = shared.accept();
                for _ in &waiting {
                    let stream = again.request();
                    again.send(HEADERS, END_HEADERS | END_STREAM, stream, OK);
                }
                for client in &mut waiting {
                    assert_eq!(client.answer().status, 200, "beside {what}");
                }
                // The next requests must find no connection.
                again.send(GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
                again.wait(|frame| frame.kind == GOAWAY);
            }
            shared.assert_unblamed(what);
        }
    }
}

#[test]
fn what_comes_on_cancelled_and_forgotten_downloads_harms_nobody() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let shared = Shared::new(certificate.as_ref());
        let (mut origin, neighbour) = shared.begin();
        let mut leaving = Peer::connect(shared.process.public, None, &[]);
        let own: Vec<u32> = (0..90).map(|number| 2 * number + 1).collect();
        for &stream in &own {
            leaving.send(HEADERS, END_HEADERS | END_STREAM, stream, GET);
        }
        let streams: Vec<u32> = own.iter().map(|_| origin.request()).collect();
        for &stream in &streams {
            origin.send(HEADERS, END_HEADERS, stream, OK);
        }
        for &stream in &own {
            assert_eq!(leaving.status(stream), 200);
            leaving.send(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        }
        for &stream in &streams {
            origin.reset(stream);
        }
        // `h2` remembers some 50 of them; resets of others could reach the 1,024 that a connection may have.
        for _ in 0..30 {
            for &stream in &streams {
                origin.send(DATA, 0, stream, b"it was on its way");
            }
            origin.sync();
        }
        neighbour.finish(&mut origin, "cancelled downloads");
        shared.assert_unharmed("cancelled downloads");
    }
}
