//! A client that sends what it is told, byte by byte, and reads answers strictly.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use socket2::{Domain, Socket, Type};

use super::eventually;
use super::wire::{Body, Fields, Framing, Head, Wire};

/// A connection to the gateway.
#[derive(Debug)]
pub struct Client<S = TcpStream> {
    pub wire: Wire<S>,
}

/// An answer read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: Head,
    pub framing: Framing,
    pub body: Vec<u8>,
    pub trailers: Fields,
}

/// Sends one GET on a connection of its own; the field lines each end with CRLF.
pub fn get(address: SocketAddr, target: &str, fields: &str) -> Answer {
    Client::connect(address).get(target, fields)
}

/// Sends `count` GETs one after the other on one connection, and returns their statuses.
pub fn statuses(address: SocketAddr, target: &str, count: usize) -> Vec<u16> {
    let mut client = Client::connect(address);
    (0..count).map(|_| client.get(target, "").status).collect()
}

/// Waits until one of the clients has been sent something, and returns which.
#[track_caller]
pub fn first_answered(clients: &mut [Client]) -> usize {
    eventually("one of the clients is answered", || {
        clients.iter_mut().position(|client| !client.is_silent())
    })
}

impl Client {
    /// Connects from whatever address the kernel picks.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the gateway accepts connections")
    }

    /// Connects and sends a GET with these field lines; the caller reads the answer.
    pub fn asking(address: SocketAddr, target: &str, fields: &str) -> Self {
        let mut client = Self::connect(address);
        client.begin(target, fields);
        client
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr) -> Result<Self> {
        let wire = Wire::new(TcpStream::connect(address)?);
        Ok(Self { wire })
    }

    /// Connects to a Unix socket, or says why not.
    pub fn try_connect_unix(path: &Path) -> Result<Self> {
        let socket = OwnedFd::from(UnixStream::connect(path)?);
        Ok(Self {
            wire: Wire::new(socket.into()),
        })
    }

    /// Connects from the given address of the loopback network.
    pub fn connect_from(source: [u8; 4], address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets are available");
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(source)), 0);
        socket
            .bind(&source.into())
            .expect("loopback addresses are free");
        socket
            .connect(&address.into())
            .expect("the gateway accepts connections");
        Self {
            wire: Wire::new(socket.into()),
        }
    }

    /// Connects with a small receive buffer (16 KiB), so that the kernel takes in little ahead of what the test reads.
    pub fn connect_narrow(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets are available");
        // Before connecting, because the buffer's size decides the window that the peer is offered.
        let set = socket.set_recv_buffer_size(16 * 1024);
        set.expect("a socket takes options");
        socket
            .connect(&address.into())
            .expect("the gateway accepts connections");
        Self {
            wire: Wire::new(socket.into()),
        }
    }

    /// Whether nothing has arrived by now, not even the end of the connection.
    ///
    /// It proves something only after an event by which something would have arrived.
    pub fn is_silent(&mut self) -> bool {
        self.wire.is_silent()
    }
}

impl<S: Read + Write> Client<S> {
    /// Sends raw bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = self.wire.write(bytes.as_ref());
        sent.expect("the gateway reads what it is sent");
    }

    /// Sends a GET with `Host: a.test` and these field lines. Targets of the admin port, which does not accept that
    /// name, get `Host: localhost`.
    fn begin(&mut self, target: &str, fields: &str) {
        let host = match target {
            "/metrics" | "/livez" | "/readyz" => "localhost",
            _ => "a.test",
        };
        self.send(format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
        ));
    }

    /// Sends a GET with these field lines, and reads the answer.
    pub fn get(&mut self, target: &str, fields: &str) -> Answer {
        self.begin(target, fields);
        self.answer()
    }

    /// Sends a body with its Content-Length and reads the answer.
    pub fn post(&mut self, target: &str, fields: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
        ));
        self.answer()
    }

    /// Sends raw bytes and reads one answer.
    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Answer {
        self.send(bytes);
        self.answer()
    }

    /// Reads one answer, which may be an interim one (1xx); fails the test if it is cut short.
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("a whole answer")
    }

    /// Reads an answer to HEAD: whatever its head says, no body follows.
    pub fn answer_to_head(&mut self) -> Answer {
        let mut answer = self.head().expect("a whole head");
        answer.framing = Framing::Empty;
        answer
    }

    /// Reads one answer, or returns the error that cut it short.
    pub fn try_answer(&mut self) -> Result<Answer> {
        let mut answer = self.head()?;
        self.finish(&mut answer)?;
        Ok(answer)
    }

    /// Reads the head of an answer and leaves its body on the wire.
    pub fn head(&mut self) -> Result<Answer> {
        let head = self.wire.read_head()?.ok_or(ErrorKind::UnexpectedEof)?;
        let status = status(&head.start);
        let framing = match status {
            100..=199 | 204 | 304 => Framing::Empty,
            _ => head.framing(Framing::Close)?,
        };
        Ok(Answer {
            status,
            head,
            framing,
            body: Vec::new(),
            trailers: Vec::new(),
        })
    }

    /// Reads the body that belongs to a head; keeps what arrived if it is cut short.
    pub fn finish(&mut self, answer: &mut Answer) -> Result<()> {
        let mut body = Body::default();
        let read = self.wire.read_body(answer.framing, &mut body);
        answer.body = body.bytes;
        answer.trailers = body.trailers;
        read
    }

    /// Reads until `text` has arrived, and returns everything up to its end.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        let read = self.wire.read_until(text.as_bytes()).expect(text);
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads server-sent events from a body without chunks until one named `name`, and returns its data.
    #[track_caller]
    pub fn event(&mut self, name: &str) -> serde_json::Value {
        self.until(&format!("event: {name}\ndata: "));
        serde_json::from_str(&self.until("\n")).expect("JSON")
    }

    /// Reads `length` bytes of a body and drops them.
    #[track_caller]
    pub fn skip(&mut self, length: usize) {
        let mut rest = length;
        while rest > 0 {
            let part = rest.min(1 << 20);
            self.wire.take(part).expect("the body goes on");
            rest -= part;
        }
    }

    /// Waits for the gateway to close and returns what it sent before that.
    pub fn rest(&mut self) -> Vec<u8> {
        let rest = self.wire.read_to_end();
        rest.expect("the gateway closes the connection")
    }

    /// Fails the test unless the gateway closes without sending another byte.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert_eq!(String::from_utf8_lossy(&rest), "", "bytes before the close");
    }
}

impl Answer {
    /// Returns the only field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body; fails the test if it is not JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Parses a problem document (RFC 9457), checks that it is complete, and returns it without its
    /// title, which is prose.
    #[track_caller]
    pub fn problem(&self) -> serde_json::Value {
        assert_eq!(
            self.field("content-type"),
            Some("application/problem+json"),
            "{self:#?}"
        );
        let mut body = self.json();
        let title = body.as_object_mut().expect("an object").remove("title");
        let title = title.expect("a title");
        assert!(
            title.as_str().is_some_and(|x| !x.is_empty()),
            "title {title}"
        );
        body
    }

    /// Whether the answer says that the connection ends after it.
    pub fn says_close(&self) -> bool {
        let options = self.head.listed("connection");
        options.iter().any(|x| x.eq_ignore_ascii_case("close"))
    }
}

#[track_caller]
fn status(line: &str) -> u16 {
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    assert!(
        matches!(version, "HTTP/1.1" | "HTTP/1.0"),
        "status line {line:?}"
    );
    let status = words.next().and_then(|word| word.parse().ok());
    status.expect("a status code")
}
