//! Both ends of what passes through a gateway: an origin that sends and takes bodies, and its
//! clients.
//!
//! All content is the letter x. The reader of a body counts these, so no loss goes unnoticed, and
//! the framing of chunks is not mistaken for content.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use memchr::memchr_iter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What a body looks like on the wire.
#[derive(Clone, Copy)]
pub struct Content {
    /// Content bytes of each chunk; 0 if the body is not chunked, but has its length announced.
    pub chunk_bytes: usize,
    /// How many writes of about [`BLOCK_BYTES`] make up the body.
    pub blocks: usize,
}

/// Which way a body goes.
#[derive(Clone, Copy)]
pub enum Direction {
    /// From the origin to the client.
    Download,
    /// From the client to the origin.
    Upload,
}

/// An origin, with what it shares with the clients in the same process.
pub struct Origin {
    /// Permits for events: the next one is sent when the one before has arrived.
    events: Semaphore,
    /// Blocks that are written again and again, by the size of their chunks.
    blocks: RefCell<HashMap<usize, Rc<[u8]>>>,
}

/// How much both ends write or read at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// Bytes of an event.
const EVENT_BYTES: usize = 100;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl Content {
    /// Returns the bytes of the body without the framing of its chunks.
    fn bytes(self) -> usize {
        let per_block = match self.chunk_bytes {
            0 => BLOCK_BYTES,
            chunk => BLOCK_BYTES / chunk * chunk,
        };
        per_block * self.blocks
    }

    fn is_chunked(self) -> bool {
        self.chunk_bytes > 0
    }

    /// Returns the field that announces the body.
    fn framing(self) -> String {
        if self.is_chunked() {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {}", self.bytes())
        }
    }

    /// Returns the part of a path after its first segment.
    fn segments(self) -> String {
        format!("{}/{}", self.chunk_bytes, self.blocks)
    }
}

impl Origin {
    /// Serves every client that connects, in tasks of this thread.
    pub fn start(listener: TcpListener) -> Rc<Self> {
        let origin = Rc::new(Self {
            events: Semaphore::new(0),
            blocks: RefCell::default(),
        });
        let serving = Rc::clone(&origin);
        super::support::serve(listener, move |stream| {
            let origin = Rc::clone(&serving);
            async move { origin.serve(stream).await }
        });
        origin
    }

    /// Answers one request after the other, as their paths say, until the gateway leaves.
    async fn serve(&self, mut stream: TcpStream) {
        while let Some((head, body)) = read_head(&mut stream).await {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let mut segments = path.split('/').skip(1);
            let kind = segments.next().unwrap_or_default();
            let mut number = || segments.next().and_then(|word| word.parse().ok());
            let content = Content {
                chunk_bytes: number().unwrap_or(0),
                blocks: number().unwrap_or(0),
            };
            let answered = match kind {
                "download" => self.send_answer(&mut stream, content).await,
                "upload" => take_upload(&mut stream, body, content).await,
                "events" => self.send_events(&mut stream, content.blocks).await,
                _ => fall_silent(&mut stream).await,
            };
            if answered.is_err() {
                return;
            }
        }
    }

    async fn send_answer(&self, stream: &mut TcpStream, content: Content) -> io::Result<()> {
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", content.framing());
        stream.write_all(head.as_bytes()).await?;
        self.send(stream, content).await
    }

    async fn send_events(&self, stream: &mut TcpStream, events: usize) -> io::Result<()> {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await?;
        let event = framed(EVENT_BYTES);
        for _ in 0..events {
            self.events.acquire().await.expect("never closed").forget();
            stream.write_all(event.as_bytes()).await?;
        }
        stream.write_all(LAST_CHUNK).await
    }

    /// Passes a body through a gateway; returns the bytes of its content.
    pub async fn transfer(
        &self,
        stream: &mut TcpStream,
        direction: Direction,
        content: Content,
    ) -> usize {
        let segments = content.segments();
        match direction {
            Direction::Download => {
                ask(stream, &format!("/download/{segments}")).await;
                let body = read_answer(stream).await;
                receive(stream, body, content.bytes(), content.is_chunked()).await;
            }
            Direction::Upload => {
                let framing = content.framing();
                let head = format!(
                    "POST /upload/{segments} HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await.expect("it reads");
                self.send(stream, content).await.expect("it reads");
                read_answer(stream).await;
            }
        }
        content.bytes()
    }

    /// Has this many events sent, each when the one before has arrived.
    pub async fn take_events(&self, stream: &mut TcpStream, events: usize) {
        ask(stream, &format!("/events/0/{events}")).await;
        let mut body = read_answer(stream).await;
        for event in 1..=events {
            self.events.add_permits(1);
            receive(stream, body, EVENT_BYTES, event == events).await;
            body = Vec::new();
        }
    }

    async fn send(&self, stream: &mut TcpStream, content: Content) -> io::Result<()> {
        let block = self.block(content);
        for _ in 0..content.blocks {
            stream.write_all(&block).await?;
        }
        let end = if content.is_chunked() {
            LAST_CHUNK
        } else {
            b""
        };
        stream.write_all(end).await
    }

    /// Returns the block that is written at a time.
    fn block(&self, content: Content) -> Rc<[u8]> {
        let mut blocks = self.blocks.borrow_mut();
        let block =
            blocks
                .entry(content.chunk_bytes)
                .or_insert_with(|| match content.chunk_bytes {
                    0 => vec![b'x'; BLOCK_BYTES].into(),
                    chunk => framed(chunk)
                        .repeat(BLOCK_BYTES / chunk)
                        .into_bytes()
                        .into(),
                });
        Rc::clone(block)
    }
}

/// Returns a chunk with this many bytes of content.
fn framed(chunk_bytes: usize) -> String {
    format!("{chunk_bytes:x}\r\n{}\r\n", "x".repeat(chunk_bytes))
}

async fn take_upload(stream: &mut TcpStream, body: Vec<u8>, content: Content) -> io::Result<()> {
    receive(stream, body, content.bytes(), content.is_chunked()).await;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(answer).await
}

/// Announces a MiB, sends its first 100 bytes, and then nothing until the gateway leaves.
async fn fall_silent(stream: &mut TcpStream) -> io::Result<()> {
    let begin = "x".repeat(100);
    let begin = format!("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n{begin}");
    stream.write_all(begin.as_bytes()).await?;
    stream.read_u8().await.map(drop)
}

/// Sends a request for this path, which says what the origin should do.
pub async fn ask(stream: &mut TcpStream, path: &str) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it reads");
}

/// Reads the head of an answer; returns what has already come of its body.
async fn read_answer(stream: &mut TcpStream) -> Vec<u8> {
    let (head, body) = read_head(stream).await.expect("it answers");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body
}

/// Reads a head; returns it and what has already come of the body, or `None` if the peer is gone.
async fn read_head(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::with_capacity(4_096);
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = read.split_off(end + 4);
            return Some((String::from_utf8_lossy(&read).into_owned(), body));
        }
    }
}

/// Reads until this much content is there, and up to the last chunk if the body ends with one;
/// `read` has come already.
async fn receive(stream: &mut TcpStream, mut read: Vec<u8>, bytes: usize, to_last_chunk: bool) {
    let mut missing = bytes;
    let mut end = Vec::new();
    read.reserve(BLOCK_BYTES);
    loop {
        missing = missing
            .checked_sub(memchr_iter(b'x', &read).count())
            .expect("no more than was sent");
        end.extend_from_slice(&read[read.len().saturating_sub(LAST_CHUNK.len())..]);
        end.drain(..end.len().saturating_sub(LAST_CHUNK.len()));
        if missing == 0 && (!to_last_chunk || end == LAST_CHUNK) {
            return;
        }
        read.clear();
        let came = stream.read_buf(&mut read).await.expect("a body");
        assert!(came > 0, "{missing} bytes are missing");
    }
}
