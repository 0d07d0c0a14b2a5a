//! One end of an HTTP/2 connection, client or server, on which the test writes every frame (RFC 9113, section 4.1).

use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use super::redis::Certificate;
use super::{PATIENCE, eventually};

/// One end of an HTTP/2 connection.
pub struct Peer {
    wire: BufReader<Box<dyn Wire>>,
    /// Frames that have been read but not asked for yet.
    waiting: VecDeque<Frame>,
}

/// A frame as it arrived.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Reads one frame by `take`, which returns exactly the number of bytes it is asked for, or `None` at the end.
    pub fn read(mut take: impl FnMut(usize) -> Option<Vec<u8>>) -> Option<Self> {
        let head = take(9)?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
        };
        Some(Self {
            kind: head[3],
            flags: head[4],
            stream: number(&head[5..]),
            payload: take(number(&head[..3]) as usize)?,
        })
    }
}

/// The byte stream that carries a connection: TCP, or TLS over it.
trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// Flags; ACK is for SETTINGS and PING.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The fields of `GET http://a.test/` (RFC 7541: three from the static table, one with a literal value).
pub const GET: &[u8] = b"\x82\x86\x84\x01\x06a.test";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Setting that forbids the other end a dynamic table, so that a field is always encoded as the same bytes.
const NO_TABLE: &[u8] = &[0, 1, 0, 0, 0, 0];
/// Largest payload of a frame unless the receiver allows more.
pub const FRAME_BYTES: usize = 16_384;

impl Peer {
    /// Connects as a client, over TLS if the server's certificate is given, with these additional settings.
    #[track_caller]
    pub fn connect(address: SocketAddr, tls: Option<&Certificate>, settings: &[u8]) -> Self {
        let tcp = TcpStream::connect(address).expect("the gateway accepts connections");
        Self::over(tcp, tls, settings)
    }

    /// Speaks as a client over an established connection.
    pub fn over(tcp: TcpStream, tls: Option<&Certificate>, settings: &[u8]) -> Self {
        let mut peer = Self::new(tcp, |tcp| match tls {
            None => Box::new(tcp),
            Some(certificate) => {
                let name = ServerName::try_from("localhost").expect("a name");
                let tls = ClientConnection::new(client_config(certificate), name);
                Box::new(StreamOwned::new(tls.expect("a configuration"), tcp))
            }
        });
        peer.send_all(PREFACE);
        peer.send(SETTINGS, 0, 0, &[NO_TABLE, settings].concat());
        peer
    }

    /// Accepts a connection as a server, over TLS if it has a certificate.
    #[track_caller]
    pub fn accept(listener: &TcpListener, tls: Option<&Certificate>) -> Self {
        listener.set_nonblocking(true).expect("a socket");
        let tcp = eventually("the gateway connects", || listener.accept().ok()).0;
        tcp.set_nonblocking(false).expect("a socket");
        let mut peer = Self::new(tcp, |tcp| match tls {
            None => Box::new(tcp),
            Some(certificate) => {
                let tls = ServerConnection::new(server_config(certificate));
                Box::new(StreamOwned::new(tls.expect("a configuration"), tcp))
            }
        });
        assert_eq!(peer.exactly(PREFACE.len()).as_deref(), Some(PREFACE));
        peer.send(SETTINGS, 0, 0, NO_TABLE);
        peer
    }

    fn new(tcp: TcpStream, wrap: impl FnOnce(TcpStream) -> Box<dyn Wire>) -> Self {
        tcp.set_read_timeout(Some(PATIENCE)).expect("a socket");
        tcp.set_write_timeout(Some(PATIENCE)).expect("a socket");
        tcp.set_nodelay(true).expect("a socket");
        Self {
            wire: BufReader::new(wrap(tcp)),
            waiting: VecDeque::new(),
        }
    }

    /// Sends one frame.
    #[track_caller]
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send_all(&frame(kind, flags, stream, payload));
    }

    /// Sends bytes of finished frames. If the other end has closed, a later read reports it.
    pub fn send_all(&mut self, frames: &[u8]) {
        let wire = self.wire.get_mut();
        let _ = wire.write_all(frames).and_then(|()| wire.flush());
    }

    /// Waits for a frame that is `wanted`, and keeps the others for later calls.
    #[track_caller]
    pub fn wait(&mut self, wanted: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(at) = self.waiting.iter().position(&wanted) {
            return self.waiting.remove(at).expect("it is there");
        }
        loop {
            let frame = self.next().expect("the connection goes on");
            if wanted(&frame) {
                return frame;
            }
            assert_ne!(frame.kind, GOAWAY, "the connection ends: {frame:?}");
            self.waiting.push_back(frame);
        }
    }

    /// Waits for a frame that is `wanted`, and leaves it to be read.
    #[track_caller]
    pub fn peek(&mut self, wanted: impl Fn(&Frame) -> bool) -> &Frame {
        let frame = self.wait(wanted);
        self.waiting.push_front(frame);
        &self.waiting[0]
    }

    /// Waits for the next request's head, and returns its stream.
    #[track_caller]
    pub fn request(&mut self) -> u32 {
        self.wait(|frame| frame.kind == HEADERS).stream
    }

    /// Waits until the other end has read everything that was sent.
    #[track_caller]
    pub fn sync(&mut self) {
        self.send(PING, 0, 0, b"all read");
        self.wait(|frame| {
            frame.kind == PING && frame.flags == ACK && frame.payload == *b"all read"
        });
    }

    /// Waits for the head of an answer, and returns its status.
    #[track_caller]
    pub fn status(&mut self, stream: u32) -> u16 {
        let is_it =
            |frame: &Frame| frame.stream == stream && matches!(frame.kind, HEADERS | RST_STREAM);
        let head = self.wait(is_it);
        assert_eq!(head.kind, HEADERS, "it is answered, not reset: {head:?}");
        // The first head begins with an update that sets the dynamic table's size to 0.
        let block = head.payload.strip_prefix(&[0x20]).unwrap_or(&head.payload);
        match *block {
            // From the static table (RFC 7541, appendix A), or a literal with its digits in Huffman code.
            [0x88, ..] => 200,
            [0x8c, ..] => 400,
            [0x08 | 0x48, 0x83, 0x69, 0x90, 0xff, ..] => 431,
            [0x08 | 0x48, 0x82, 0x6c, 0x02, ..] => 502,
            _ => panic!("a status that no test expects: {head:x?}"),
        }
    }

    /// Reads an answer's body to its end, and gives the other end room for more of it.
    #[track_caller]
    pub fn body(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let piece = self
                .wait(|frame| frame.stream == stream && matches!(frame.kind, DATA | RST_STREAM));
            assert_eq!(piece.kind, DATA, "the answer breaks off: {piece:?}");
            body.extend_from_slice(&piece.payload);
            if piece.flags & END_STREAM != 0 {
                return body;
            }
            if let Ok(room @ 1..) = u32::try_from(piece.payload.len()) {
                self.send(WINDOW_UPDATE, 0, 0, &room.to_be_bytes());
                self.send(WINDOW_UPDATE, 0, stream, &room.to_be_bytes());
            }
        }
    }

    /// Waits for the reset of a stream, and returns its code.
    #[track_caller]
    pub fn reset(&mut self, stream: u32) -> u8 {
        self.wait(|frame| frame.kind == RST_STREAM && frame.stream == stream)
            .payload[3]
    }

    /// Reads the next frame from the wire; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Frame> {
        let frame = Frame::read(|length| self.exactly(length))?;
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.send(SETTINGS, ACK, 0, &[]);
        }
        Some(frame)
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.wire.read_exact(&mut bytes).ok().map(|()| bytes)
    }
}

/// Returns the bytes of one frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame");
    let [_, length @ ..] = length.to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[..], &[kind, flags], &stream, payload].concat()
}

/// Returns the frames of a head, each with at most `size` bytes of `block`.
pub fn head(flags: u8, stream: u32, block: &[u8], size: usize) -> Vec<u8> {
    let count = block.len().div_ceil(size).max(1);
    let piece = |at: usize| {
        let fragment = &block[at * size..block.len().min((at + 1) * size)];
        let last = if at + 1 == count { END_HEADERS } else { 0 };
        match at {
            0 => frame(HEADERS, flags | last, stream, fragment),
            _ => frame(CONTINUATION, last, stream, fragment),
        }
    };
    (0..count).flat_map(piece).collect()
}

/// Encodes a field that enters the dynamic table (RFC 7541, section 6.2.1), without Huffman code.
pub fn indexed(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0x40], &*string(name), &*string(value)].concat()
}

/// Encodes a field that does not enter the dynamic table, without Huffman code.
pub fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0], &*string(name), &*string(value)].concat()
}

/// Encodes a string, without Huffman code, after its length (RFC 7541, section 5.2).
fn string(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len() + 5);
    if bytes.len() < 127 {
        encoded.push(u8::try_from(bytes.len()).expect("a small number"));
    } else {
        encoded.push(127);
        let mut left = bytes.len() - 127;
        while left >= 128 {
            encoded.push(0x80 | u8::try_from(left % 128).expect("seven bits"));
            left /= 128;
        }
        encoded.push(u8::try_from(left).expect("seven bits"));
    }
    encoded.extend_from_slice(bytes);
    encoded
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn client_config(server: &Certificate) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(&server.authority).expect("a certificate");
    roots.add(root).expect("an authority");
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("suites of these versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

fn server_config(own: &Certificate) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_file(&own.file).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(&own.key).expect("a key");
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("suites of these versions");
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
