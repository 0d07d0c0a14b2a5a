//! Clients that share a connection to the gateway, as those of another proxy do.

use super::{HAS_PRIORITY, MALFORMED, clear_and_secure, large_heads, on_stream};
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, FRAME_BYTES, Frame, GET, HEADERS, PRIORITY, Peer, RST_STREAM,
    WINDOW_UPDATE, field, frame, head, indexed,
};
use crate::support::process::free_address;
use crate::support::redis::Authority;
use crate::support::{After, Certificate, Config, Gate, Origin, Process};

const PROTOCOL_ERROR: u8 = 1;
const STREAM_CLOSED: u8 = 5;
const FRAME_SIZE_ERROR: u8 = 6;
const ENHANCE_YOUR_CALM: u8 = 11;
/// `:method: POST`, `:scheme: http`, `:path: /` and an authority.
const POST: &[u8] = b"\x83\x86\x84\x01\x06a.test";
/// An index of HPACK's dynamic table: the entry before the latest one.
const SECOND_NEWEST: u8 = 0xbf;

/// A gateway, and a connection to it on which one answer, the neighbour's, is still awaited.
struct Shared {
    process: Process,
    client: Peer,
    next: u32,
    /// Gate that lets the neighbour's answer go.
    gate: Gate,
    _origin: Origin,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Status(u16),
    Reset(u8),
}

impl Shared {
    #[track_caller]
    fn new(certificate: Option<&Certificate>, listener: &str) -> Self {
        let gate = Gate::default();
        let origin = Origin::scripted({
            let gate = gate.clone();
            move |exchange| {
                exchange.read_body()?;
                if exchange.head.field("x-neighbour").is_some() {
                    gate.wait();
                }
                let mark = exchange.head.field("x-mark").unwrap_or("none").to_owned();
                let length = mark.len();
                exchange.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{mark}"
                ))?;
                Ok(After::Keep)
            }
        });
        let (secure, tls) = (free_address(), certificate);
        let tls = tls.map(|tl| {
            let (file, key) = (tl.file.display(), tl.key.display());
            format!(
                "[listeners.secure]\naddress = '{secure}'\n{listener}\n\
                 tls = {{ certificates = [{{ certificate = '{file}', key = '{key}' }}] }}"
            )
        });
        let config = Config::to(origin.url())
            .listener(listener)
            .policy(
                "held",
                "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 9\npartition = []",
            )
            .route("/*", "")
            .route("/held", "policies = ['held']");
        let process = Process::start(&config.with(&tls.unwrap_or_default()));
        let address = certificate.map_or(process.public, |_| secure);
        let mut client = Peer::connect(address, certificate, &[]);
        client.send(WINDOW_UPDATE, 0, 0, &[1, 0, 0, 0]);
        let neighbour = [GET, &field(b"x-neighbour", b"y")].concat();
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &neighbour);
        Self {
            process,
            client,
            next: 3,
            gate,
            _origin: origin,
        }
    }

    fn stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// Sends frames on a new stream, and returns how it ends; the connection must stay open.
    #[track_caller]
    fn seen(&mut self, frames: &[u8]) -> Seen {
        let stream = self.stream();
        self.client.send_all(&on_stream(frames, stream));
        self.client.sync();
        let is_it = |it: &Frame| it.stream == stream && matches!(it.kind, HEADERS | RST_STREAM);
        match self.client.peek(is_it).kind {
            RST_STREAM => Seen::Reset(self.client.reset(stream)),
            _ => Seen::Status(self.client.status(stream)),
        }
    }

    /// Checks that the connection is still open, and that the gateway decodes further heads as the client means them.
    #[track_caller]
    fn finish(mut self, what: &str) {
        let stream = self.stream();
        self.client
            .send(HEADERS, END_HEADERS | END_STREAM, stream, GET);
        assert_eq!(self.client.status(stream), 200, "behind {what}");
        self.gate.open();
        assert_eq!(self.client.status(1), 200, "beside {what}");
        assert_eq!(self.client.body(1), b"none", "beside {what}");
    }
}

#[test]
fn a_malformed_field_of_a_request_costs_that_request_and_the_next_heads_are_understood() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let mut shared = Shared::new(certificate.as_ref(), "");
        let odd = MALFORMED
            .iter()
            .map(|(name, value)| [GET, &indexed(b"x-mark", b"a"), &indexed(name, value)].concat());
        let methods = [&b"G T"[..], b"GET\0", b"\xe4"].map(|method| {
            let method = indexed(b":method", method);
            [&indexed(b"x-mark", b"a"), &method, &GET[1..]].concat()
        });
        for block in odd.chain(methods) {
            let what = String::from_utf8_lossy(&block).into_owned();
            for size in [FRAME_BYTES, 5] {
                let seen = shared.seen(&head(END_STREAM, 0, &block, size));
                assert_eq!(seen, Seen::Reset(PROTOCOL_ERROR), "{what:?}");
                let next = shared.stream();
                let block = [GET, &[SECOND_NEWEST]].concat();
                shared
                    .client
                    .send(HEADERS, END_HEADERS | END_STREAM, next, &block);
                assert_eq!(shared.client.status(next), 200, "behind {what:?}");
                assert_eq!(shared.client.body(next), b"a", "behind {what:?}");
            }
        }
        shared.finish("malformed fields");
    }
}

#[test]
fn a_large_head_of_a_request_costs_that_request_and_little_memory() {
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let mut shared = Shared::new(certificate.as_ref(), "");
        shared.client.sync();
        let before = shared.process.peak_memory();
        for (what, block, size) in large_heads(GET) {
            let seen = shared.seen(&head(END_STREAM, 0, &block, size));
            assert_eq!(seen, Seen::Status(431), "{what}");
            let upload = [
                frame(HEADERS, END_HEADERS, 0, POST),
                frame(DATA, 0, 0, b"half"),
                head(END_STREAM, 0, &block[GET.len()..], size),
            ];
            let seen = shared.seen(&upload.concat());
            assert_eq!(seen, Seen::Reset(ENHANCE_YOUR_CALM), "trailers: {what}");
        }
        let taken = shared.process.peak_memory() - before;
        assert!(taken < 4 << 20, "{taken} bytes");
        shared.finish("large heads");
    }
}

#[test]
fn a_head_of_as_many_fields_as_fit_is_refused_alone() {
    let names = |count: usize| {
        let names = (0..count).map(|number| field(format!("x-{number}").as_bytes(), b"y"));
        names.flatten().collect::<Vec<_>>()
    };
    let cookies = field(b"cookie", b"a=b").repeat(200);
    let mut shared = Shared::new(None, "max_header_bytes = '1MiB'");
    for (block, expected) in [
        ([GET, &names(100)].concat(), Seen::Status(200)),
        ([GET, &names(101)].concat(), Seen::Status(431)),
        ([GET, &names(24_575)].concat(), Seen::Status(431)),
        ([GET, &names(24_576)].concat(), Seen::Status(431)),
        ([GET, &names(24_577)].concat(), Seen::Status(431)),
        // Cookies are merged into one field.
        ([GET, &cookies].concat(), Seen::Status(200)),
    ] {
        let bytes = head(END_STREAM, 0, &block, FRAME_BYTES);
        let stream = shared.stream();
        shared.client.send_all(&on_stream(&bytes, stream));
        let seen = Seen::Status(shared.client.status(stream));
        assert_eq!(seen, expected, "{} bytes", block.len());
    }
    let upload = [
        frame(HEADERS, END_HEADERS, 0, POST),
        head(END_STREAM, 0, &names(24_576), FRAME_BYTES),
    ];
    let stream = shared.stream();
    shared.client.send_all(&on_stream(&upload.concat(), stream));
    assert_eq!(shared.client.status(stream), 400);
    shared.finish("many fields");
}

#[test]
fn an_odd_frame_of_a_request_costs_that_request() {
    let get = frame(HEADERS, END_HEADERS | END_STREAM, 0, GET);
    let post = frame(HEADERS, END_HEADERS, 0, POST);
    let (data, end) = (frame(DATA, 0, 0, b"more"), frame(DATA, END_STREAM, 0, b""));
    let length = |bytes: &[u8]| [POST, &field(b"content-length", bytes)].concat();
    let on_itself = [&[0; 5], GET].concat();
    let protocol_error = Seen::Reset(PROTOCOL_ERROR);
    let closed = Seen::Reset(STREAM_CLOSED);
    let cases = [
        ("data behind the end", [&*get, &data].concat(), closed),
        (
            "trailers behind the end",
            [&*get, &head(END_STREAM, 0, b"", FRAME_BYTES)].concat(),
            closed,
        ),
        (
            "trailers without an end",
            [&*post, &frame(HEADERS, END_HEADERS, 0, b"")].concat(),
            protocol_error,
        ),
        (
            "an increment of 0",
            [&*post, &frame(WINDOW_UPDATE, 0, 0, &[0; 4])].concat(),
            protocol_error,
        ),
        (
            "a priority of 4 bytes",
            [&*post, &frame(PRIORITY, 0, 0, &[0; 4])].concat(),
            Seen::Reset(FRAME_SIZE_ERROR),
        ),
        (
            "a head that depends on itself",
            frame(
                HEADERS,
                END_HEADERS | END_STREAM | HAS_PRIORITY,
                0,
                &on_itself,
            ),
            protocol_error,
        ),
        (
            "more bytes than announced",
            [&*frame(HEADERS, END_HEADERS, 0, &length(b"2")), &data].concat(),
            protocol_error,
        ),
        (
            "fewer bytes than announced",
            [&*frame(HEADERS, END_HEADERS, 0, &length(b"9")), &data, &end].concat(),
            protocol_error,
        ),
        (
            "a length that is none",
            [&*frame(HEADERS, END_HEADERS, 0, &length(b"x")), &end].concat(),
            protocol_error,
        ),
    ];
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let mut shared = Shared::new(certificate.as_ref(), "");
        for (what, frames, expected) in &cases {
            let seen = shared.seen(frames);
            assert_eq!(seen, *expected, "{what}");
        }
        // These do no harm.
        let own_priority = frame(PRIORITY, 0, 0, &[0; 5]);
        for (what, frames) in [
            (
                "150 empty frames",
                [&*post, &frame(DATA, 0, 0, b"").repeat(150), &end].concat(),
            ),
            (
                "10,000 empty frames",
                [&*post, &frame(DATA, 0, 0, b"").repeat(10_000), &end].concat(),
            ),
            (
                "a priority of its own",
                [&*post, &own_priority, &end].concat(),
            ),
            (
                "an unknown frame",
                [&*post, &frame(0xbb, 0, 0, b"?"), &end].concat(),
            ),
        ] {
            let stream = shared.stream();
            shared.client.send_all(&on_stream(&frames, stream));
            assert_eq!(shared.client.status(stream), 200, "{what}");
        }
        shared.finish("odd frames");
    }
}

#[test]
fn what_comes_on_streams_that_were_ended_early_and_forgotten_harms_nobody() {
    // More streams than `h2` remembers: each of their DATA frames would be answered with a reset, of which a connection
    // may have 1,024 in its life.
    const ROUNDS: usize = 12;
    const STREAMS: usize = 100;
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let mut shared = Shared::new(certificate.as_ref(), "");
        for _ in 0..ROUNDS {
            let streams: Vec<_> = (1..STREAMS).map(|_| shared.stream()).collect();
            let refused = [POST, &field(b"expect", b"nothing")].concat();
            for &stream in &streams {
                shared.client.send(HEADERS, END_HEADERS, stream, &refused);
            }
            for &stream in &streams {
                shared
                    .client
                    .wait(|client| client.kind == RST_STREAM && client.stream == stream);
            }
            for &stream in &streams {
                shared.client.send(DATA, 0, stream, b"it was on its way");
                shared.client.send(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    stream,
                    &field(b"x-sum", b"1"),
                );
            }
            shared.client.sync();
        }
        shared.finish("forgotten streams");
    }
}

#[test]
fn held_uploads_in_small_frames_hold_their_windows_and_no_other_request() {
    const PIECE: usize = 25;
    const WINDOW: usize = 65_535;
    let authority = Authority::new();
    for certificate in clear_and_secure(&authority) {
        let mut shared = Shared::new(certificate.as_ref(), "");
        let held = [b"\x83\x86\x01\x06a.test", &*field(b":path", b"/held")].concat();
        shared.client.sync();
        let before = shared.process.peak_memory();
        // The first request is not held.
        for _ in 0..8 {
            let stream = shared.stream();
            shared.client.send(HEADERS, END_HEADERS, stream, &held);
            let pieces = frame(DATA, 0, stream, &[b'u'; PIECE]).repeat(WINDOW / PIECE);
            shared.client.send_all(&pieces);
        }
        shared.client.sync();
        let taken = shared.process.peak_memory() - before;
        let windows = u64::try_from(8 * WINDOW).expect("a number of bytes");
        assert!(taken < 3 * windows + (2 << 20), "{taken} bytes");
        shared.finish("held uploads");
    }
}
