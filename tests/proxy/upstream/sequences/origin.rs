//! An origin that follows the plan, reads strictly, and records what arrived.

use std::cell::RefCell;
use std::io::{ErrorKind, Result};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};

use super::answers::{answer, surplus};
use super::plan::{End, Exchange, Sequence, Surplus, UP, UploadEnd, UploadFraming, content};
use super::turns;
use crate::support::Draws;

/// What the origins of a sequence saw of one request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// For each arrival of the request: how many requests its connection had carried before.
    pub arrivals: Vec<usize>,
    /// Whether any byte of an answer was sent.
    pub is_answered: bool,
    /// Whether the whole answer was sent in a way in which no gateway may lose it.
    pub is_served: bool,
}

/// State that the origins and clients of a sequence share.
pub struct Shared {
    pub sequence: Sequence,
    /// What was seen of each request, by its nonce.
    pub seen: RefCell<Vec<Seen>>,
}

/// The head of a request.
struct Head {
    method: String,
    nonce: usize,
    fields: Vec<(String, String)>,
}

/// A connection of the gateway.
struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How many requests have arrived on this connection.
    requests: usize,
    shared: Rc<Shared>,
}

/// Accepts connections until it is dropped; each connection has a task of its own.
pub async fn accept(listener: &TcpListener, shared: &Rc<Shared>, tasks: &RefCell<JoinSet<()>>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket takes options");
        let wire = Wire {
            stream,
            buffer: Vec::new(),
            requests: 0,
            shared: Rc::clone(shared),
        };
        tasks.borrow_mut().spawn_local(async move {
            // How a connection ends does not decide the test.
            let _ = wire.serve().await;
        });
    }
}

impl Wire {
    async fn serve(mut self) -> Result<()> {
        let shared = Rc::clone(&self.shared);
        while let Some(head) = self.head().await? {
            let exchange = &shared.sequence.exchanges[head.nonce];
            let is_first = self.arrived(&head, exchange);
            if !exchange.script.is_early {
                self.upload(&head, exchange).await?;
            }
            let is_cut = exchange.script.cut.is_some() && is_first;
            self.answer(exchange, is_cut).await?;
            if exchange.script.is_early {
                if is_cut || exchange.script.idle == 0 {
                    // While the upload is unread, most ways to end a connection are a reset.
                    self.end(exchange.script.end, Some(&head)).await?;
                }
                self.upload(&head, exchange).await?;
            }
            let has_surplus = self.idle(exchange, is_cut).await?;
            if is_cut || has_surplus || !exchange.leaves_connection_open() {
                let next = self.head().await;
                let is_over = !matches!(next, Ok(Some(_)));
                assert!(is_over, "used again after {exchange:?}");
                break;
            }
        }
        Ok(())
    }

    /// Records a request; returns whether this is its first arrival.
    fn arrived(&mut self, head: &Head, exchange: &Exchange) -> bool {
        assert_eq!(head.method, exchange.method, "the method of {}", head.nonce);
        let seen = &mut self.shared.seen.borrow_mut()[head.nonce];
        assert!(
            !seen.is_answered,
            "sent again although answered: {exchange:?}"
        );
        seen.arrivals.push(self.requests);
        self.requests += 1;
        seen.arrivals.len() == 1
    }

    /// Sends the answer, or the part of it that the script asks for.
    async fn answer(&mut self, exchange: &Exchange, is_cut: bool) -> Result<()> {
        let script = &exchange.script;
        let mut draws = exchange.draws;
        let mut bytes = answer(exchange, &mut draws.fork());
        if let Some(cut) = script.cut
            && is_cut
        {
            bytes.truncate(bytes.len() * cut / 1000);
        }
        let surplus = if script.idle == 0 {
            surplus(script.surplus)
        } else {
            b""
        };
        if !bytes.is_empty() {
            self.seen(exchange, |seen| seen.is_answered = true);
        }
        self.write(&bytes, surplus, &mut draws).await?;
        // A reset may lose bytes that are on their way, and so may a close while bytes are unread.
        let is_safe = match script.end {
            End::Keep | End::HalfClose => true,
            End::Close => !script.is_early || exchange.upload.framing == UploadFraming::None,
            End::Reset => false,
        };
        if !is_cut && is_safe && script.surplus == Surplus::None {
            self.seen(exchange, |seen| seen.is_served = true);
        }
        Ok(())
    }

    fn seen(&self, exchange: &Exchange, note: impl FnOnce(&mut Seen)) {
        note(&mut self.shared.seen.borrow_mut()[exchange.nonce]);
    }

    /// Does what the script asks for after the answer; returns whether bytes that nobody asked for were sent.
    async fn idle(&mut self, exchange: &Exchange, is_cut: bool) -> Result<bool> {
        let script = &exchange.script;
        let mut has_surplus = script.surplus != Surplus::None;
        if !is_cut && script.idle > 0 {
            turns(script.idle).await;
            // After the next request, any gateway would take them for its answer.
            has_surplus = has_surplus && self.is_quiet();
            if has_surplus {
                self.stream.write_all(surplus(script.surplus)).await?;
            }
        }
        self.end(script.end, None).await?;
        Ok(has_surplus)
    }

    /// Ends the connection in that way, with the body of `unread` still to come; returns an error once it has ended.
    async fn end(&mut self, end: End, unread: Option<&Head>) -> Result<()> {
        match end {
            End::Keep => return Ok(()),
            End::Close => {}
            End::Reset => SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))?,
            End::HalfClose => {
                self.stream.shutdown().await?;
                let shared = Rc::clone(&self.shared);
                if let Some(head) = unread {
                    let exchange = &shared.sequence.exchanges[head.nonce];
                    self.upload(head, exchange).await?;
                }
                while let Some(head) = self.head().await? {
                    let exchange = &shared.sequence.exchanges[head.nonce];
                    self.arrived(&head, exchange);
                    self.upload(&head, exchange).await?;
                }
            }
        }
        Err(ErrorKind::ConnectionAborted.into())
    }

    /// Whether nothing has arrived, according to the socket itself.
    fn is_quiet(&self) -> bool {
        let peeked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        self.buffer.is_empty()
            && matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Writes `bytes` in pieces, the last of them in one write with `behind`.
    async fn write(&mut self, bytes: &[u8], behind: &[u8], draws: &mut Draws) -> Result<()> {
        let piece_max = draws.one_of(&[1, 20, 500, 20_000, 1 << 20, 1 << 20]);
        let mut rest = bytes;
        // Bounds the number of pieces, because a long body in tiny ones would only take long.
        for _ in 0..PIECES_MAX {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((1 + draws.below(piece_max)).min(rest.len()));
            if after.is_empty() {
                break;
            }
            self.stream.write_all(piece).await?;
            turns(draws.one_of(&[0, 0, 1, 4])).await;
            rest = after;
        }
        self.stream.write_all(&[rest, behind].concat()).await
    }
}

impl Wire {
    /// Reads a head; `None` if the connection ended before its first byte.
    async fn head(&mut self) -> Result<Option<Head>> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if self.fill().await? == 0 {
                return Ok(None);
            }
        };
        let bytes: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let text = str::from_utf8(&bytes[..end]).expect("a head in ASCII");
        let mut lines = text.split("\r\n");
        let start: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.1"] = start.as_slice() else {
            panic!("a message that nobody sent: {text:?}");
        };
        let nonce = target.strip_prefix('/').and_then(|rest| rest.parse().ok());
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_owned(), value.to_owned())
        };
        Ok(Some(Head {
            method: (*method).to_owned(),
            nonce: nonce.unwrap_or_else(|| panic!("a message that nobody sent: {text:?}")),
            fields: lines.map(field).collect(),
        }))
    }

    /// Reads a request's body, and fails the test unless it is the right one; returns an error if the body breaks off.
    async fn upload(&mut self, head: &Head, exchange: &Exchange) -> Result<()> {
        let (nonce, upload) = (exchange.nonce, &exchange.upload);
        let length = head.field("content-length");
        let (body, trailers) = match (upload.framing, head.field("transfer-encoding"), length) {
            (UploadFraming::None, None, None | Some("0")) => Default::default(),
            (UploadFraming::Length, None, Some(length)) => {
                assert_eq!(length, upload.bytes.to_string(), "the length of {nonce}");
                (self.take(upload.bytes).await?, String::new())
            }
            (
                UploadFraming::Chunked | UploadFraming::ChunkedWithTrailers,
                Some("chunked"),
                None,
            ) => self.chunks().await?,
            framing => panic!("the framing of {nonce}: {framing:?}"),
        };
        let is_whole = matches!(upload.end, UploadEnd::Whole | UploadEnd::Long);
        assert!(is_whole, "{nonce} arrived as if it were whole");
        assert!(
            body == content(UP, nonce, upload.bytes),
            "the body of {nonce}"
        );
        let sum = match upload.framing {
            UploadFraming::ChunkedWithTrailers => format!("x-sum: {nonce}\r\n"),
            _ => String::new(),
        };
        assert_eq!(trailers, sum, "the trailers of {nonce}");
        Ok(())
    }

    async fn chunks(&mut self) -> Result<(Vec<u8>, String)> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = usize::from_str_radix(&line, 16).expect("the size of a chunk");
            if size == 0 {
                break;
            }
            body.append(&mut self.take(size).await?);
            assert_eq!(self.line().await?, "", "the end of a chunk");
        }
        let mut trailers = String::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok((body, trailers));
            }
            trailers = trailers + &line + "\r\n";
        }
    }

    async fn line(&mut self) -> Result<String> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                break at;
            }
            if self.fill().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        };
        let line = self.take(end + 2).await?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    async fn take(&mut self, bytes: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < bytes {
            if self.fill().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.buffer.split_off(bytes);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    async fn fill(&mut self) -> Result<usize> {
        let bytes = self.stream.read_buf(&mut self.buffer).await?;
        if bytes > 0 {
            yield_now().await;
        }
        Ok(bytes)
    }
}

impl Head {
    fn field(&self, name: &str) -> Option<&str> {
        let mut named = self.fields.iter().filter(|(it, _)| it == name);
        let found = named.next();
        assert!(named.next().is_none(), "{name} twice");
        found.map(|(_, value)| &**value)
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|at| at == needle)
}

/// Most pieces that an answer is cut into.
const PIECES_MAX: usize = 100;
