//! Tunnels on streams (RFC 8441): an extended CONNECT is an upgrade to an origin of HTTP/1.1.

use std::sync::mpsc::Receiver;

use h2::Reason;
use http::Method;

use crate::support::http2::{Http2, Stream};
use crate::support::wire::Wire;
use crate::support::{Config, Flow, Origin, PATIENCE, Stepped, secs, start};
use crate::tunnels::Tunnels;

const WINDOW: u32 = 1 << 20;
const DEADLINES: &str = "tunnel_timeout = '5s'\nbody_timeout = '1s'\nidle_timeout = '1s'";

/// Opens a tunnel through the gateway, and returns both of its ends.
fn open(running: &Stepped, sides: &Receiver<Wire>) -> (Http2, Stream, Wire) {
    let mut client = Http2::connect(running.public, WINDOW);
    let mut stream = client.ask_for("websocket", "/");
    assert_eq!(stream.status(), Ok(200));
    let side = sides.recv_timeout(PATIENCE).expect("it has switched");
    assert_eq!(stream.take(5), Ok(b"first".to_vec()));
    (client, stream, side)
}

#[track_caller]
fn pass_up(stream: &mut Stream, origin: &mut Wire, bytes: &[u8]) {
    stream.send(bytes);
    let received = origin.take(bytes.len()).expect("as much as was sent");
    assert_eq!(received, bytes);
}

#[track_caller]
fn pass_down(origin: &mut Wire, stream: &mut Stream, bytes: &[u8]) {
    origin.write(bytes).expect("the tunnel takes it");
    assert_eq!(stream.take(bytes.len()), Ok(bytes.to_vec()));
}

#[test]
fn a_tunnel_is_what_the_upgrade_would_be_over_http1() {
    let Tunnels { origin, sides } = Tunnels::beginning_with("first");
    let config = Config::to(origin.url())
        .policy("p", "quota = '9 per day'\npartition = []")
        .route("/*", "policies = ['p']\nupgrades = ['websocket', 'other']");
    let running = start(&config);
    let mut client = Http2::connect(running.public, WINDOW);
    for (protocol, left) in [("websocket", 8), ("other", 7)] {
        let mut stream = client.ask_for(protocol, "/path?query");
        let head = stream.head().expect("an answer");
        assert_eq!(head.status(), 200, "{head:?}");
        for gone in [
            "connection",
            "upgrade",
            "sec-websocket-accept",
            "content-length",
        ] {
            assert!(!head.headers().contains_key(gone), "{gone} in {head:?}");
        }
        let told = head.headers()["ratelimit"].to_str().expect("text");
        assert!(told.starts_with(&format!("\"p\";r={left}")), "{told}");
        let mut side = sides.recv_timeout(PATIENCE).expect("it has switched");
        assert_eq!(stream.take(5), Ok(b"first".to_vec()));
        pass_up(&mut stream, &mut side, b"\n\0GET / HTTP/1.1\r\n\r\n");
        pass_down(&mut side, &mut stream, b"\n\0HTTP/1.1 200 OK\r\n\r\n");
        let seen = origin.requests().pop().expect("it has arrived");
        assert_eq!(seen.head.start, "GET /path?query HTTP/1.1");
        assert_eq!(seen.head.field("host"), Some("a.test"));
        assert_eq!(seen.head.field("upgrade"), Some(protocol));
        assert_eq!(seen.head.field("connection"), Some("upgrade"));
        let is_websocket = protocol == "websocket";
        assert_eq!(seen.head.field("sec-websocket-key").is_some(), is_websocket);
        for gone in ["content-length", "transfer-encoding"] {
            assert_eq!(seen.head.field(gone), None);
        }
    }
}

#[test]
fn a_connect_that_may_not_be_a_tunnel_is_a_501_and_never_reaches_the_origin() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .route("/*", "upgrades = ['websocket', 'third']")
        .route("/none", "upgrades = []")
        .beside("echo", "builtin:echo", "/echo", "");
    let running = start(&config);
    let mut client = Http2::connect(running.public, WINDOW);
    for (protocol, path) in [
        ("h2c", "/"),
        ("H2C", "/"),
        ("other", "/"),
        ("websocket", "/none"),
        ("websocket", "/echo"),
    ] {
        let mut stream = client.ask_for(protocol, path);
        assert_eq!(stream.status(), Ok(501), "{protocol} {path}");
    }
    assert_eq!(origin.targets(), [""; 0]);
    assert_eq!(client.ask(Method::GET, "/").status(), Ok(200));
}

#[test]
fn an_origin_that_does_not_switch_is_never_taken_for_a_tunnel() {
    for (answer, status, body) in [
        ("200 OK", 502, None),
        ("204 No Content", 502, None),
        ("206 Partial Content", 502, None),
        ("302 Found", 302, Some("no")),
        ("403 Forbidden", 403, Some("no")),
        ("426 Upgrade Required", 426, Some("no")),
        ("503 Service Unavailable", 503, Some("no")),
    ] {
        let body_of = if answer.starts_with("204") {
            ""
        } else {
            "Content-Length: 2\r\n\r\nno"
        };
        let end = if body_of.is_empty() { "\r\n" } else { "" };
        let origin = Origin::answering(format!("HTTP/1.1 {answer}\r\n{body_of}{end}"));
        let running = start(&Config::to(origin.url()).route("/*", ""));
        let mut client = Http2::connect(running.public, WINDOW);
        let mut stream = client.ask_for("websocket", "/");
        assert_eq!(stream.status(), Ok(status), "{answer}");
        if let Some(body) = body {
            assert_eq!(stream.rest(), Ok(body.as_bytes().to_vec()));
        }
        assert_eq!(
            client.ask(Method::GET, "/").status(),
            Ok(answer[..3].parse().expect("a status"))
        );
    }
}

#[test]
fn the_end_of_either_side_is_the_end_of_the_other_and_a_reset_a_reset() {
    let Tunnels { origin, sides } = Tunnels::beginning_with("first");
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));

    let (_client, mut stream, mut side) = open(&running, &sides);
    stream.send(b"last");
    stream.finish();
    assert_eq!(side.read_to_fin().expect("an end"), b"last");
    pass_down(&mut side, &mut stream, b"still here");
    side.finish_writing();
    assert_eq!(stream.rest(), Ok(Vec::new()));

    let (_client, mut stream, side) = open(&running, &sides);
    side.finish_writing();
    assert_eq!(stream.rest(), Ok(Vec::new()));

    let (mut client, mut stream, side) = open(&running, &sides);
    side.reset();
    assert_eq!(stream.rest(), Err(Reason::INTERNAL_ERROR));
    assert_eq!(
        client.ask_for("websocket", "/").status(),
        Ok(200),
        "the connection goes on"
    );

    let _ = sides.recv_timeout(PATIENCE);
    let (_client, stream, mut side) = open(&running, &sides);
    stream.cancel();
    assert_eq!(side.read_to_end().expect("an end"), b"");
}

#[test]
fn tunnel_timeout_ends_a_stream_in_which_nothing_passes_and_no_other() {
    let Tunnels { origin, sides } = Tunnels::beginning_with("first");
    let config = Config::to(origin.url()).listener(DEADLINES).route("/*", "");
    let running = Stepped::start(&config);
    let (mut client, mut stream, mut side) = open(&running, &sides);
    for _ in 0..2 {
        running.advance(secs(4));
        pass_up(&mut stream, &mut side, b"a");
        running.advance(secs(4));
        pass_down(&mut side, &mut stream, b"b");
    }
    running.advance(secs(4));
    assert!(side.is_silent(), "early");
    running.advance(secs(1));
    assert_eq!(side.read_to_end().expect("an end"), b"");
    assert_eq!(stream.rest(), Err(Reason::INTERNAL_ERROR));
    assert_eq!(
        client.ask_for("websocket", "/").status(),
        Ok(200),
        "the connection goes on"
    );
}

#[test]
fn a_client_that_opens_no_window_is_ended_by_tunnel_timeout_alone() {
    let Tunnels { origin, sides } = Tunnels::beginning_with("first");
    let config = Config::to(origin.url()).listener(DEADLINES).route("/*", "");
    let running = Stepped::start(&config);
    let (_client, mut stream, mut side) = open(&running, &sides);
    let flood = vec![b'x'; 64 << 20];
    let taken = side.write_until_full(&flood, || running.settle());
    assert!(taken < flood.len(), "the client reads none of it");
    running.advance(secs(4));
    assert!(side.is_silent(), "early");
    assert_eq!(
        stream.take(1 << 20).map(|stream| stream.len() >= 1 << 20),
        Ok(true),
        "it has not been cut"
    );
    running.settle();
    side.write_until_full(&flood, || running.settle());
    // Bytes in buffers may still move for a while, so the test does not know when the timeout starts.
    let _flow = Flow::of(&running.clock, secs(1));
    assert_eq!(side.read_to_end().expect("an end"), b"");
}
