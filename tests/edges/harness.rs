//! A gateway in this process, and clients and origins whose every byte the test writes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tollgate::clock::{Clock, Timestamp};
use tollgate::gateway::Gateway;

/// A gateway with one listener, `public`, and a log that only it writes.
pub struct Running {
    pub gateway: Gateway,
    pub address: SocketAddr,
    pub clock: Clock,
    log: tempfile::NamedTempFile,
}

/// The parts of a file that a test changes.
#[derive(Clone, Default)]
pub struct File<'f> {
    pub top: &'f str,
    pub listener: &'f str,
    /// An origin's address; none: the gateway echoes.
    pub origin: Option<SocketAddr>,
    pub route: &'f str,
    pub rest: &'f str,
}

impl File<'_> {
    pub fn text(&self, log: &std::path::Path) -> String {
        let endpoint = match self.origin {
            Some(origin) => format!("http://{origin}"),
            None => "builtin:echo".into(),
        };
        format!(
            "{}\nworkers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [log]\nformat = \"json\"\nfile = \"{}\"\n\
             [listeners.public]\naddress = \"127.0.0.1:0\"\n{}\n\
             [upstreams.api]\nendpoints = [\"{endpoint}\"]\n\
             [[routes]]\npath = \"/*\"\nupstream = \"api\"\n{}\n{}\n",
            self.top,
            log.display(),
            self.listener,
            self.route,
            self.rest
        )
    }
}

impl Running {
    pub fn start(file: &File<'_>) -> Self {
        let clock = Clock::manual(Timestamp(1_800_000_000_000_000));
        let log = tempfile::NamedTempFile::new().expect("a file");
        let gateway = Gateway::start(&file.text(log.path()), clock.clone()).expect("a good file");
        let address = gateway.address("public").expect("a listener");
        Self {
            gateway,
            address,
            clock,
            log,
        }
    }

    pub fn reload(&mut self, file: &File<'_>) {
        let text = file.text(self.log.path());
        self.gateway.reload(&text).expect("a good file");
    }

    pub fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).expect("a connection"))
    }

    /// Sends bytes on a connection of their own and reads all that comes back.
    pub fn ask(&self, request: &str) -> String {
        let mut client = self.connect();
        client.say(request);
        client.rest()
    }

    /// Reads the metrics.
    pub fn metrics(&self) -> String {
        let admin = self.gateway.admin_address().expect("an admin port");
        let mut client = Client(TcpStream::connect(admin).expect("a connection"));
        client.say("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        client.rest()
    }

    /// Ends the gateway and returns its access log.
    pub fn end(mut self) -> String {
        self.gateway.shutdown();
        std::fs::read_to_string(self.log.path()).expect("a log")
    }
}

/// A client's end of a connection, raw.
pub struct Client(pub TcpStream);

impl Client {
    pub fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).expect("a reader");
    }

    /// Reads up to and including `end`.
    pub fn read_to(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(end.as_bytes()) {
            self.0.read_exact(&mut byte).expect("more bytes");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("text")
    }

    /// Reads all until the other end closes.
    pub fn rest(&mut self) -> String {
        (self.0.set_read_timeout(Some(PATIENCE))).expect("a timeout");
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes.extend(b"<reset>"),
            Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Opens a port for an origin.
pub fn origin() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// How long a test waits for what must come; it fails after that.
pub const PATIENCE: Duration = Duration::from_secs(20);
