//! Where the gateway writes one message, every server reads one: the bytes that the gateway sent to an origin are
//! replayed to other servers, with another request after them.

use std::io::{self, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::{assert_none, canonical, shown};
use crate::support::garden::Garden;
use crate::support::wire::Body;
use crate::support::{Client, Config, Framing, Origin, start};

/// A request as a client sends it.
struct Sent {
    /// Method and target that every server must read.
    line: String,
    message: String,
    /// Body that every server must read.
    body: &'static str,
}

impl Sent {
    fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }
}

/// The request that follows every message; after it, the connection ends.
const MARKER: &str = "GET /marker HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE",
];

/// Framing and content, and the body that must be read from them.
const BODIES: [(&str, &str); 12] = [
    ("\r\n", ""),
    ("Content-Length: 0\r\n\r\n", ""),
    ("Content-Length: 5\r\n\r\n0\r\n\r\n", "0\r\n\r\n"),
    ("Content-Length: 007\r\n\r\nleading", "leading"),
    (
        "Content-Length: 16\r\n\r\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
    ),
    ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""),
    (
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n00002;a=b\r\n\r\n\r\n0;last\r\n\r\n",
        "abc\r\n",
    ),
    (
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "abc",
    ),
    (
        "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
        "abc",
    ),
    (
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
        "abc",
    ),
    (
        "Trailer: Content-Length, Transfer-Encoding, Host, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nHost: b.test\r\nX-Sum: 1\r\n\r\n",
        "abc",
    ),
    (
        "TE: trailers\r\nConnection: te, x-gone\r\nX-Gone: Content-Length\r\nContent-Length: 3\r\n\r\nabc",
        "abc",
    ),
];

/// Returns every method with every body, other things that clients send, and every other spelling that passes.
fn sent() -> Vec<Sent> {
    let mut sent = Vec::new();
    for method in METHODS {
        for (rest, body) in BODIES {
            sent.push(Sent {
                line: format!("{method} /a?b=c"),
                message: format!("{method} /a?b=c HTTP/1.1\r\nHost: a.test\r\n{rest}"),
                body,
            });
        }
    }
    for (version, fields) in [
        ("HTTP/1.0", ""),
        ("HTTP/1.0", "Connection: keep-alive\r\n"),
        ("HTTP/1.1", "Connection: close\r\n"),
        ("HTTP/1.1", "Connection: content-length, close\r\n"),
        ("HTTP/1.1", "Expect: 100-continue\r\n"),
        ("HTTP/1.1", "TE: trailers, gzip\r\nConnection: TE\r\n"),
        ("HTTP/1.1", "Connection: upgrade\r\nUpgrade: websocket\r\n"),
        (
            "HTTP/1.1",
            "Keep-Alive: timeout=1\r\nProxy-Connection: close\r\n",
        ),
    ] {
        sent.push(Sent {
            line: "POST /a?b=c".to_owned(),
            message: format!(
                "POST /a?b=c {version}\r\nHost: a.test\r\n{fields}Content-Length: 3\r\n\r\nabc"
            ),
            body: "abc",
        });
    }
    sent.extend(canonical::accepted().into_iter().map(accepted));
    sent
}

fn accepted((message, (line, _, body)): (Vec<u8>, canonical::Seen)) -> Sent {
    Sent {
        line: line.trim_end_matches(" HTTP/1.1").to_owned(),
        message: String::from_utf8(message).expect("ASCII"),
        body,
    }
}

/// Sends each request through a gateway, and returns the bytes that the gateway sent to the origin for it.
fn written(sent: &[Sent], in_pieces: bool) -> Vec<Vec<u8>> {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    // Each request has its own connection to the origin.
    let config = Config::to(format!("http://{address}")).upstream("pool = { max_idle = 0 }");
    let running = start(&config.route("/*", ""));
    let recording = thread::spawn({
        let (count, origin) = (sent.len(), origin.address);
        move || {
            let streams = listener.incoming().take(count);
            let written = streams.map(|stream| record(stream?, origin));
            written
                .collect::<Result<_>>()
                .expect("connections that stand")
        }
    });
    for Sent { message, .. } in sent {
        let mut client = Client::connect(running.public);
        let piece_bytes = if in_pieces { 1 } else { message.len() };
        for piece in message.as_bytes().chunks(piece_bytes) {
            client.send(piece);
        }
        let mut answer = client.answer_to_head();
        if answer.status == 100 {
            answer = client.answer_to_head();
        }
        assert_eq!(answer.status, 200, "{}", shown(message.as_bytes()));
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), sent.len());
    for request in requests {
        assert_eq!(canonical::check(&request), Ok(()));
    }
    recording.join().expect("a recorder that ends")
}

/// Relays between the gateway and the origin until the gateway closes; returns the bytes that the gateway sent.
fn record(mut gateway: TcpStream, origin: SocketAddr) -> Result<Vec<u8>> {
    let mut origin = TcpStream::connect(origin)?;
    let (mut answers, mut back) = (origin.try_clone()?, gateway.try_clone()?);
    let answering = thread::spawn(move || io::copy(&mut answers, &mut back));
    let (mut written, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let length = gateway.read(&mut piece)?;
        if length == 0 {
            break;
        }
        written.extend_from_slice(&piece[..length]);
        origin.write_all(&piece[..length])?;
    }
    origin.shutdown(Shutdown::Both)?;
    answering.join().expect("copying does not panic")?;
    Ok(written)
}

/// Sends `bytes` to a server; returns every request that the server read until it closed.
fn read_by(server: SocketAddr, bytes: &[u8], method: &str) -> Result<Vec<String>> {
    let mut client = Client::connect(server);
    client.send(bytes);
    let mut read = Vec::new();
    // All answers but the first belong to a GET.
    let mut method = method;
    while let Some(head) = client.wire.read_head()? {
        let framing = match method {
            "HEAD" => Framing::Empty,
            _ => head.framing(Framing::Close)?,
        };
        client.wire.read_body(framing, &mut Body::default())?;
        method = "GET";
        let text = head.field("x-read").map_or(head.start.clone(), unhex);
        read.push(text);
    }
    Ok(read)
}

/// Whether a message announces that it is the last on its connection.
fn is_last(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    let mut lines = text.split("\r\n").take_while(|line| !line.is_empty());
    lines.any(|line| line == "connection: close")
}

/// Decodes the hex in which an echo reports what it read.
pub fn unhex(hex: &str) -> String {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    let bytes = (0..hex.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes).expect("requests in ASCII")
}

#[test]
fn every_server_reads_one_message_where_the_gateway_wrote_one() {
    let garden = Garden::start(&[]);
    let sent = sent();
    let mut failures = Vec::new();
    for in_pieces in [false, true] {
        for (sent, bytes) in sent.iter().zip(written(&sent, in_pieces)) {
            for (name, server) in garden.echoes {
                let Sent { line, body, .. } = sent;
                let mut message = bytes.clone();
                let mut expected = vec![format!("{line}\na.test\n{body}")];
                // Node refuses a message that is the last on its connection if anything follows it.
                if !is_last(&bytes) {
                    message.extend_from_slice(MARKER.as_bytes());
                    expected.push("GET /marker\na.test\n".to_owned());
                }
                match read_by(server, &message, sent.method()) {
                    Ok(read) if read == expected => {}
                    read => failures.push(format!("{name} of {}: {read:?}", shown(&bytes))),
                }
            }
        }
    }
    assert_none(&failures);
}
