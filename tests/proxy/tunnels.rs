//! Tunnels over HTTP/1.1: what passes through one, how it ends, and what is recorded about it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use http::Method;
use serde_json::Value;
use tollgate::clock::Clock;

use crate::support::http2::Http2;
use crate::support::ratelimit::remaining;
use crate::support::wire::Wire;
use crate::support::{
    After, Client, Config, Flow, Gate, Origin, PATIENCE, Process, Stepped, eventually, secs,
};

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nHost: a.test\r\n\
     Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
     Upgrade: websocket\r\nSec-WebSocket-Accept: right\r\n\r\n";

/// An origin that switches to any protocol it is asked for, and hands its end of each tunnel to the test.
pub struct Tunnels {
    pub origin: Origin,
    pub sides: Receiver<Wire>,
}

impl Tunnels {
    /// Sends `first` directly after the head of each 101.
    pub fn beginning_with(first: &'static str) -> Self {
        let (sides, received) = channel();
        let sides = Mutex::new(sides);
        let origin = Origin::scripted(move |exchange| {
            let protocol = exchange.head.field("upgrade").unwrap_or("none");
            exchange.write(SWITCHED.replace("websocket", protocol) + first)?;
            let side = Wire::new(exchange.wire.second_handle());
            let sides = sides.lock().expect("sending does not panic");
            sides.send(side).expect("the test waits for it");
            Ok(After::Close)
        });
        Self {
            origin,
            sides: received,
        }
    }

    fn new() -> Self {
        Self::beginning_with("")
    }

    fn config(&self) -> Config {
        Config::to(self.origin.url()).route("/*", "")
    }

    /// Opens a tunnel and returns both of its ends.
    #[track_caller]
    fn open(&self, address: std::net::SocketAddr) -> (Client, Wire) {
        let mut client = Client::connect(address);
        assert_eq!(client.ask(UPGRADE).status, 101);
        (client, self.side())
    }

    #[track_caller]
    fn side(&self) -> Wire {
        let side = self.sides.recv_timeout(PATIENCE);
        side.expect("the origin has switched")
    }
}

/// Sends `bytes` through a tunnel, and fails the test unless the same bytes come out.
#[track_caller]
fn pass(from: &mut Wire, to: &mut Wire, bytes: &[u8]) {
    let received = thread::scope(|scope| {
        scope.spawn(|| from.write(bytes).expect("the tunnel takes it"));
        to.take(bytes.len()).expect("as much as was sent")
    });
    assert!(received == bytes, "{} bytes changed", bytes.len());
}

#[test]
fn nothing_that_a_client_sends_behind_its_head_reaches_the_origin_before_the_101_and_all_of_it_after()
 {
    let (forwarded, heard) = (Gate::default(), Gate::default());
    let (sides, side) = channel();
    let sides = Mutex::new(sides);
    let origin = Origin::scripted({
        let (forwarded, heard) = (forwarded.clone(), heard.clone());
        move |exchange| {
            forwarded.wait();
            assert!(exchange.wire.is_silent(), "bytes behind the head");
            heard.open();
            exchange.write(SWITCHED)?;
            let sides = sides.lock().expect("sending does not panic");
            let all = exchange.wire.take(SMUGGLED.len() + NO_HTTP.len() + 4);
            sides.send(all).expect("the test waits for it");
            Ok(After::Close)
        }
    });
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Client::connect(running.public);
    client.send(format!("{UPGRADE}{NO_HTTP}"));
    origin.wait_for_requests(1);
    client.send(SMUGGLED);
    running.settle();
    forwarded.open();
    heard.wait();
    assert_eq!(client.answer().status, 101);
    client.send("last");
    let all = side.recv_timeout(PATIENCE).expect("the origin has read");
    let expected = format!("{NO_HTTP}{SMUGGLED}last");
    assert_eq!(
        String::from_utf8_lossy(&all.expect("as much as was sent")),
        expected
    );
    assert_eq!(origin.targets(), ["/socket"]);
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
/// Bytes with which no connection of HTTP/1.1 could go on.
const NO_HTTP: &str = "a\nb\0c\r\n\r\n";

#[test]
fn bytes_pass_untouched_both_ways_whatever_they_are() {
    let tunnels = Tunnels::new();
    let running = Stepped::start(&tunnels.config().listener("max_body_bytes = '1KiB'"));
    let (mut client, mut origin) = tunnels.open(running.public);
    let every: Vec<u8> = (0..=255).collect();
    let mut large = vec![0; 4 << 20];
    getrandom::fill(&mut large).expect("randomness");
    for bytes in [
        b"\n",
        b"\0",
        &b"\r\n\r\n"[..],
        SMUGGLED.as_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"0\r\n\r\n",
        &every,
        &large,
    ] {
        pass(&mut client.wire, &mut origin, bytes);
        pass(&mut origin, &mut client.wire, bytes);
    }
}

#[test]
fn what_the_origin_sends_with_its_101_comes_first() {
    let tunnels = Tunnels::beginning_with("first\nHTTP/1.1 ");
    let running = Stepped::start(&tunnels.config());
    let (mut client, mut origin) = tunnels.open(running.public);
    origin.write(b"then").expect("the tunnel takes it");
    let received = client.wire.take(19).expect("as much as was sent");
    assert_eq!(String::from_utf8_lossy(&received), "first\nHTTP/1.1 then");
}

#[test]
fn either_side_may_close_its_direction_alone() {
    let tunnels = Tunnels::new();
    let running = Stepped::start(&tunnels.config());
    for is_client_first in [true, false] {
        let (mut client, mut origin) = tunnels.open(running.public);
        let (first, second) = if is_client_first {
            (&mut client.wire, &mut origin)
        } else {
            (&mut origin, &mut client.wire)
        };
        first.write(b"last").expect("the tunnel takes it");
        first.finish_writing();
        assert_eq!(second.read_to_fin().expect("an end"), b"last");
        running.settle();
        pass(second, first, b"still here");
        second.finish_writing();
        assert_eq!(first.read_to_fin().expect("an end"), b"");
    }
}

#[test]
fn a_reset_of_either_side_ends_the_other() {
    let tunnels = Tunnels::new();
    let running = Stepped::start(&tunnels.config());
    for is_client in [true, false] {
        let (client, origin) = tunnels.open(running.public);
        let (reset, mut other) = if is_client {
            (client.wire, origin)
        } else {
            (origin, client.wire)
        };
        reset.reset();
        assert_eq!(other.read_to_end().expect("an end"), b"");
    }
}

#[test]
fn tunnel_timeout_ends_a_tunnel_in_which_nothing_passes_and_no_other() {
    let tunnels = Tunnels::new();
    let deadlines = "tunnel_timeout = '5s'\nbody_timeout = '1s'\nidle_timeout = '1s'";
    let upstream = "body_timeout = '1s'\nresponse_timeout = '1s'";
    let config = tunnels.config().listener(deadlines).upstream(upstream);
    let running = Stepped::start(&config);
    let (mut client, mut origin) = tunnels.open(running.public);
    for _ in 0..2 {
        running.advance(secs(4));
        pass(&mut client.wire, &mut origin, b"a");
        running.advance(secs(4));
        pass(&mut origin, &mut client.wire, b"b");
    }
    running.advance(secs(4));
    assert!(client.is_silent() && origin.is_silent(), "early");
    running.advance(secs(1));
    client.assert_closed();
    assert_eq!(origin.read_to_end().expect("an end"), b"");
}

#[test]
fn a_client_that_takes_nothing_is_ended_by_tunnel_timeout_alone() {
    let tunnels = Tunnels::new();
    let deadlines = "tunnel_timeout = '5s'\nbody_timeout = '1s'\nidle_timeout = '1s'";
    let running = Stepped::start(&tunnels.config().listener(deadlines));
    let (mut client, mut origin) = tunnels.open(running.public);
    let flood = vec![b'x'; 64 << 20];
    let taken = origin.write_until_full(&flood, || running.settle());
    assert!(taken < flood.len(), "the client reads none of it");
    running.advance(secs(4));
    assert!(origin.is_silent(), "early");
    let received = client.wire.take(taken / 2).expect("what was sent");
    assert_eq!(received.len(), taken / 2, "it has not been cut");
    let taken = origin.write_until_full(&flood, || running.settle());
    assert!(taken > 0, "there was room again");
    // Bytes in buffers may still move for a while, so the test does not know when the timeout starts.
    let _flow = Flow::of(&running.clock, secs(1));
    assert_eq!(origin.read_to_end().expect("an end"), b"");
}

#[test]
fn a_101_tells_what_the_request_was_charged_and_which_protocol_it_got() {
    let tunnels = Tunnels::new();
    let config = Config::to(tunnels.origin.url())
        .policy("p", "quota = '9 per day'\npartition = []")
        .route("/*", "policies = ['p']")
        .route("/dull", "policies = ['p']\nupgrades = []");
    let running = Stepped::start(&config);
    for left in [8, 7] {
        let mut client = Client::connect(running.public);
        let answer = client.ask(UPGRADE);
        assert_eq!(answer.status, 101);
        for (name, value) in [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-accept", "right"),
            ("ratelimit-policy", "\"p\";q=9;w=86400"),
        ] {
            assert_eq!(answer.field(name), Some(value), "{answer:#?}");
        }
        for name in ["content-length", "transfer-encoding"] {
            assert_eq!(answer.field(name), None);
        }
        assert_eq!(remaining(&answer, "p"), left);
        pass(&mut client.wire, &mut tunnels.side(), b"costs nothing");
    }
}

#[test]
fn only_what_the_route_lets_pass_is_asked_for_and_never_with_a_body() {
    let origin = Origin::plain();
    let config = Config::to(origin.url())
        .route("/websocket", "")
        .route("/none", "upgrades = []")
        .route("/other", "upgrades = ['other', 'third']")
        .route("/version", "upgrades = ['SPDY/3.1']")
        .route("/versions", "upgrades = ['spdy']");
    let running = Stepped::start(&config);
    for (target, protocol, body, is_told) in [
        ("/websocket", "websocket", "", true),
        ("/websocket", "WebSocket", "", true),
        ("/websocket", "other", "", false),
        ("/websocket", "websocket", "x", false),
        ("/none", "websocket", "", false),
        ("/other", "third", "", true),
        ("/other", "OTHER", "", true),
        ("/other", "websocket", "", false),
        ("/other", "other/2", "", true),
        ("/version", "SPDY/3.1", "", true),
        ("/version", "spdy/3.1", "", true),
        ("/version", "SPDY/3", "", false),
        ("/version", "SPDY", "", false),
        ("/versions", "SPDY/3.1", "", true),
        ("/versions", "spdy/4", "", true),
        ("/versions", "spdy", "", true),
        ("/versions", "spdy2/3.1", "", false),
    ] {
        let mut client = Client::connect(running.public);
        let fields = format!("Connection: upgrade\r\nUpgrade: {protocol}\r\n");
        let answer = client.post(target, &fields, body);
        assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()));
        let seen = origin.requests().pop().expect("it has arrived");
        let told = seen.head.field("upgrade").is_some();
        assert_eq!(told, is_told, "{target} {protocol} {body:?}");
        assert_eq!(seen.body, body.as_bytes());
    }
}

#[test]
fn a_426_says_which_protocol_the_origin_requires_and_no_other_answer_does() {
    let origin = Origin::scripted(|exchange| {
        let status = exchange.target().trim_start_matches('/').to_owned();
        exchange.write(format!(
            "HTTP/1.1 {status} x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: a/1\r\nUpgrade: b\r\n\
             Content-Length: 2\r\n\r\nno"
        ))?;
        Ok(After::Keep)
    });
    let running = Stepped::start(&Config::to(origin.url()).route("/*", ""));
    let request = |version: &str, fields: &str, status: u16| {
        let request = format!("GET /{status} HTTP/{version}\r\nHost: a.test\r\n{fields}\r\n");
        Client::connect(running.public).ask(request)
    };
    let close = "Connection: close\r\n";
    for (version, fields, status, options, protocols) in [
        ("1.1", "", 426, &["upgrade"][..], &["a/1", "b"][..]),
        ("1.1", UPGRADE_FIELDS, 426, &["upgrade"], &["a/1", "b"]),
        ("1.1", close, 426, &["upgrade", "close"], &["a/1", "b"]),
        ("1.0", "", 426, &["upgrade"], &["a/1", "b"]),
        ("1.1", "", 200, &[], &[]),
        ("1.1", "", 400, &[], &[]),
    ] {
        let answer = request(version, fields, status);
        assert_eq!(answer.status, status);
        let seen = (
            answer.head.listed("connection"),
            answer.head.listed("upgrade"),
        );
        let expected = (strings(options), strings(protocols));
        assert_eq!(seen, expected, "{version} {fields:?} {status}");
    }
    let mut client = Http2::connect(running.public, 1024);
    let mut stream = client.ask(Method::GET, "/426");
    let head = stream.head().expect("an answer");
    assert_eq!(
        (head.status().as_u16(), head.headers().get("upgrade")),
        (426, None)
    );
    assert_eq!(stream.rest(), Ok(b"no".to_vec()));
}

const UPGRADE_FIELDS: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// A gateway with an access log, and a tunnel through which the origin has sent five bytes.
fn recorded(listener: &str) -> (Tunnels, Process, Client, Wire) {
    let tunnels = Tunnels::new();
    let top = "shutdown_grace = '2s'";
    let process = Process::start(&tunnels.config().listener(listener).top(top));
    let (mut client, mut origin) = tunnels.open(process.public);
    pass(&mut origin, &mut client.wire, b"hello");
    pass(&mut client.wire, &mut origin, b"question");
    (tunnels, process, client, origin)
}

/// Fails the test unless there is one record, of a 101 that ended for this reason.
#[track_caller]
fn assert_recorded(process: &Process, reason: Option<&str>) {
    let records = process.wait_for_records(1);
    let [record] = &records[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(record["status"], 101, "{record}");
    assert_eq!(record["sent_bytes"], 5, "{record}");
    let told = record.get("reason").and_then(Value::as_str);
    assert_eq!(told, reason, "{record}");
}

#[test]
fn a_tunnel_is_recorded_at_its_end_with_what_it_carried_and_why_it_ended() {
    let (_tunnels, process, client, origin) = recorded("");
    client.wire.finish_writing();
    let before = process.lines();
    assert!(
        !before.iter().any(|line| line.contains("/socket")),
        "{before:#?}"
    );
    origin.finish_writing();
    assert_recorded(&process, None);

    let (_tunnels, process, client, _origin) = recorded("");
    client.wire.reset();
    assert_recorded(&process, Some("client_gone"));

    let (_tunnels, process, _client, origin) = recorded("");
    origin.reset();
    assert_recorded(&process, Some("response_aborted"));

    let (_tunnels, process, mut client, _origin) = recorded("tunnel_timeout = '500ms'");
    client.assert_closed();
    assert_recorded(&process, Some("tunnel_timeout"));
}

#[test]
fn tunnels_go_on_until_the_last_quarter_of_the_grace() {
    let clock = Clock::system();
    let (_tunnels, mut process, mut client, mut origin) = recorded("");
    let began = clock.now();
    process.signal("TERM");
    eventually("nobody listens", || {
        Client::try_connect(process.public).err()
    });
    pass(&mut client.wire, &mut origin, b"on it goes");
    client.assert_closed();
    let passed = clock.now().since(began);
    assert!(passed.0 >= 1_400_000, "ended after {passed:?}");
    assert_eq!(origin.read_to_end().expect("an end"), b"");
    assert!(process.wait().success());
    assert_recorded(&process, Some("shut_down"));
}

#[test]
fn a_tunnel_that_is_cut_is_recorded_with_what_it_carried() {
    let (_tunnels, mut process, mut client, _origin) = recorded("");
    process.signal("INT");
    client.assert_closed();
    assert!(process.wait().success());
    assert_recorded(&process, Some("shut_down"));
}
