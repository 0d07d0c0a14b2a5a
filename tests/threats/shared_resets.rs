//! HTTP/2 connections that clients share: if some leave early or take nothing, the others lose nothing, and neither
//! gateway nor origin is blamed.

use std::net::SocketAddr;

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use crate::support::redis::{Authority, Certificate};
use crate::support::{
    After, Client, Config, Exchange, Gate, Metered, Origin, Stepped, eventually, get, secs,
};

/// Whether a connection carries HTTP/2 in clear text or over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    H2c,
    Https,
}

/// A gateway that forwards over one connection to a second one, which forwards to an origin.
struct Chain {
    first: Stepped,
    second: Stepped,
    origin: Origin,
    /// Gate that lets the origin end its answers to `/kept`.
    gate: Gate,
}

/// Length of the answers to `/large`, which `h2` buffers whole.
const LARGE_BYTES: usize = 60_000;

impl Chain {
    fn start(scheme: Scheme, certificate: &Certificate, second: &str) -> Self {
        let gate = Gate::default();
        let origin = Origin::scripted({
            let gate = gate.clone();
            move |exchange| answer(exchange, &gate)
        });
        let patient = "response_timeout = '24h'\nbody_timeout = '24h'";
        let config = Config::to(origin.url()).admin("127.0.0.1:0");
        let config = config.listener(second).upstream(patient).route("/*", "");
        let second = Stepped::start(&config.listener(&listener(scheme, certificate)));
        let port = second.public.port();
        let config = match scheme {
            Scheme::H2c => Config::to(format!("h2c://127.0.0.1:{port}")),
            Scheme::Https => Config::to(format!("https://localhost:{port}"))
                .upstream(&format!("tls.ca = '{}'", certificate.authority.display())),
        };
        let config = config.listener("body_timeout = '5s'").upstream(patient);
        let first = Stepped::start(&config.admin("127.0.0.1:0").route("/*", ""));
        Self {
            first,
            second,
            origin,
            gate,
        }
    }

    /// Fails the test if an endpoint was blamed for failures, or a connection was ended because of its resets.
    #[track_caller]
    fn assert_nobody_is_blamed(&self) {
        for name in ["endpoint_failures", "endpoint_ejections"] {
            let name = format!("tollgate_{name}_total{{upstream=\"api\"");
            assert_eq!(self.first.metric(&name), 0, "{name}");
            assert_eq!(self.second.metric(&name), 0, "{name}");
        }
        let abused = "tollgate_errors_total{reason=\"too_many_resets\"}";
        assert_eq!(self.first.metric(abused) + self.second.metric(abused), 0);
    }
}

/// Answers a request in the way that its target names.
fn answer(exchange: &mut Exchange, gate: &Gate) -> std::io::Result<After> {
    let head = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    match exchange.target() {
        "/never" => {
            exchange.until_closed();
            return Ok(After::Close);
        }
        "/half" => {
            exchange.write(head(8) + "half")?;
            exchange.until_closed();
            return Ok(After::Close);
        }
        "/kept" => {
            exchange.write(head(4))?;
            gate.wait();
            exchange.write("kept")?;
        }
        "/large" => exchange.write(head(LARGE_BYTES) + &"x".repeat(LARGE_BYTES))?,
        _ => exchange.write(head(2) + "ok")?,
    }
    Ok(After::Keep)
}

/// Returns the listener's lines for that scheme.
fn listener(scheme: Scheme, certificate: &Certificate) -> String {
    let (file, key) = (certificate.file.display(), certificate.key.display());
    match scheme {
        Scheme::H2c => String::new(),
        Scheme::Https => {
            format!("tls = {{ certificates = [{{ certificate = '{file}', key = '{key}' }}] }}")
        }
    }
}

#[test]
fn clients_that_leave_early_cost_their_neighbours_nothing_behind_another_gateway() {
    // More resets than a connection may have.
    const BATCHES: usize = 5;
    const AT_ONCE: usize = 60;
    let authority = Authority::new();
    let certificate = authority.sign_local();
    let host = "Host: a.test\r\n";
    let leaving = [
        format!("GET /never HTTP/1.1\r\n{host}\r\n"),
        format!("GET /half HTTP/1.1\r\n{host}\r\n"),
        format!("POST /never HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\nhalf"),
    ];
    for (scheme, second) in [
        (Scheme::H2c, "trusted_proxies = ['127.0.0.1']"),
        (Scheme::H2c, ""),
        (Scheme::Https, "trusted_proxies = ['127.0.0.1']"),
        (Scheme::Https, ""),
    ] {
        let chain = Chain::start(scheme, &certificate, second);
        let mut neighbour = Client::connect(chain.first.public);
        neighbour.send(format!("GET /kept HTTP/1.1\r\n{host}\r\n"));
        let mut kept = neighbour.head().expect("a head");
        let mut left = 0;
        for request in &leaving {
            for _ in 0..BATCHES {
                let arrived = chain.origin.requests().len();
                let clients: Vec<Client> = (0..AT_ONCE)
                    .map(|_| {
                        let mut client = Client::connect(chain.first.public);
                        client.send(request);
                        client
                    })
                    .collect();
                chain.origin.wait_for_requests(arrived + AT_ONCE);
                drop(clients);
                left += AT_ONCE;
                chain.origin.wait_for_ended(left);
                let answer = get(chain.first.public, "/", "");
                assert_eq!(
                    (answer.status, &*answer.text()),
                    (200, "ok"),
                    "{scheme:?} {request}"
                );
            }
        }
        chain.gate.open();
        neighbour.finish(&mut kept).expect("the whole answer");
        assert_eq!(kept.text(), "kept", "{scheme:?}");
        chain.assert_nobody_is_blamed();
    }
}

#[test]
fn client_that_takes_back_its_room_costs_its_neighbours_nothing() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    for scheme in [Scheme::H2c, Scheme::Https] {
        let chain = Chain::start(scheme, &certificate, "");
        let mut neighbour = Client::asking(chain.first.public, "/kept", "");
        let mut kept = neighbour.head().expect("a head");
        let mut taker = Taker::connect(chain.first.public, None);
        taker.ask_and_take_back(&chain.first);
        for _ in 0..7 {
            chain.first.advance(secs(1));
            taker.take();
            let answer = get(chain.first.public, "/", "");
            assert_eq!((answer.status, &*answer.text()), (200, "ok"), "{scheme:?}");
        }
        assert_eq!(taker.ended + taker.reset, ANSWERS, "{scheme:?}");
        chain.gate.open();
        neighbour.finish(&mut kept).expect("the whole answer");
        assert_eq!(kept.text(), "kept", "{scheme:?}");
        chain.assert_nobody_is_blamed();
        let opened = chain
            .first
            .metric("tollgate_upstream_connections_opened_total{upstream=\"api\"");
        assert_eq!(opened, 1, "{scheme:?}");
    }
}

#[test]
fn client_that_takes_back_its_room_keeps_no_place_from_others() {
    let authority = Authority::new();
    let certificate = authority.sign_local();
    for scheme in [Scheme::H2c, Scheme::Https] {
        let origin = Origin::scripted(|exchange| answer(exchange, &Gate::default()));
        let lines = "max_connections = 2\nbody_timeout = '5s'\nidle_timeout = '1h'";
        let config = Config::to(origin.url()).admin("127.0.0.1:0");
        let config = config.listener(lines).route("/*", "");
        let running = Stepped::start(&config.listener(&listener(scheme, &certificate)));
        let tls = (scheme == Scheme::Https).then_some(&certificate);
        let mut neighbour = Taker::connect(running.public, tls);
        let mut taker = Taker::connect(running.public, tls);
        taker.ask_and_take_back(&running);
        for _ in 0..8 {
            running.advance(secs(1));
            taker.take();
            assert_eq!(neighbour.answered(), b"ok", "{scheme:?}");
        }
        assert_eq!(taker.ended + taker.reset, ANSWERS, "{scheme:?}");
        let mut newcomer = Taker::connect(running.public, tls);
        assert_eq!(newcomer.answered(), b"ok", "{scheme:?}");
        assert_eq!(neighbour.answered(), b"ok", "{scheme:?}");
        assert!(taker.is_closed(), "{scheme:?}");
    }
}

/// Number of answers: together, more than the kernels' buffers hold.
const ANSWERS: usize = 40;

/// A client whose kernel takes in little ahead of what is read.
struct Taker {
    peer: Peer,
    stream: u32,
    /// Number of answers that have arrived to their end; then, of streams that were reset.
    ended: usize,
    reset: usize,
}

impl Taker {
    fn connect(address: SocketAddr, tls: Option<&Certificate>) -> Self {
        let tcp = Client::connect_narrow(address).wire.second_handle();
        // A window of 2^24 bytes for each stream, and as much in addition for the connection.
        let mut peer = Peer::over(tcp, tls, b"\0\x04\x01\0\0\0");
        peer.send(WINDOW_UPDATE, 0, 0, b"\x01\0\0\0");
        Self {
            peer,
            stream: 1,
            ended: 0,
            reset: 0,
        }
    }

    /// Sends a request for a target, and returns its stream.
    fn ask(&mut self, target: &str) -> u32 {
        let (stream, length) = (
            self.stream,
            target.len().try_into().expect("a short target"),
        );
        self.stream += 2;
        let fields = [
            &b"\x82\x86\x04"[..],
            &[length],
            target.as_bytes(),
            b"\x01\x06a.test",
        ];
        let flags = END_HEADERS | END_STREAM;
        self.peer.send(HEADERS, flags, stream, &fields.concat());
        stream
    }

    /// Asks for more than the client takes, and then closes the windows that it has opened.
    fn ask_and_take_back(&mut self, running: &Stepped) {
        for _ in 0..ANSWERS {
            self.ask("/large");
        }
        let answered = "tollgate_requests_total{route=\"/*\",class=\"2xx\"}";
        eventually("all are answered", || {
            (running.metric(answered) >= ANSWERS as u64).then_some(())
        });
        self.peer.send(SETTINGS, 0, 0, b"\0\x04\0\0\0\0");
        for _ in 0..3 {
            self.take();
            running.settle();
        }
        assert!(self.ended < ANSWERS, "some are left");
    }

    /// Reads up to the answer to a PING, which comes after everything that the gateway can send.
    #[track_caller]
    fn take(&mut self) {
        self.peer.send(PING, 0, 0, b"all sent");
        while self.next().expect("the connection goes on").kind != PING {}
    }

    /// Sends a request, reads its answer, and returns the body.
    #[track_caller]
    fn answered(&mut self) -> Vec<u8> {
        let (stream, ended) = (self.ask("/"), self.ended);
        let mut body = Vec::new();
        while self.ended == ended {
            let frame = self.next().expect("the connection goes on");
            if (frame.kind, frame.stream) == (DATA, stream) {
                body.extend(frame.payload);
            }
        }
        body
    }

    /// Reads until the gateway closes the connection; always returns true, because a connection that stays open fails.
    fn is_closed(&mut self) -> bool {
        while self.next().is_some() {}
        true
    }

    /// Reads a frame; `None` at the end of the connection.
    fn next(&mut self) -> Option<Frame> {
        let frame = self.peer.next()?;
        self.ended += usize::from(frame.kind == DATA && frame.flags & END_STREAM != 0);
        self.reset += usize::from(frame.kind == RST_STREAM);
        Some(frame)
    }
}
