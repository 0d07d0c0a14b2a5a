//! A client that is answered while it uploads, in every manner in which clients behave.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Answer, Client};

/// A request whose answer does not need its body.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The request line.
    pub line: String,
    /// Field lines, each with its CRLF, except those of the framing.
    pub fields: String,
    pub framing: Framed,
    pub bytes: Size,
    pub manner: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    Length,
    Chunks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Of(usize),
    /// Longer than any test sends.
    Endless,
}

/// When the client reads its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// After it has sent everything.
    SendingFirst,
    /// While it sends.
    ReadingAlong,
    /// After it has sent everything, in small pieces.
    Trickling,
}

/// Content of bodies: if any of it is taken for a request, the origin sees that.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
const PIECE_BYTES: usize = 16 * 1024;

impl Upload {
    pub fn new(target: &str, framing: Framed, bytes: Size, manner: Manner) -> Self {
        Self {
            line: format!("POST {target} HTTP/1.1"),
            fields: String::new(),
            framing,
            bytes,
            manner,
        }
    }

    pub fn with(mut self, fields: &str) -> Self {
        self.fields.push_str(fields);
        self
    }

    fn head(&self) -> String {
        let framing = match (self.framing, self.bytes) {
            (Framed::Length, Size::Of(bytes)) => format!("Content-Length: {bytes}"),
            (Framed::Length, Size::Endless) => "Content-Length: 1000000000000".to_owned(),
            (Framed::Chunks, _) => "Transfer-Encoding: chunked".to_owned(),
        };
        let Self { line, fields, .. } = self;
        format!("{line}\r\nHost: a.test\r\n{fields}{framing}\r\n\r\n")
    }

    /// Writes the body to its end, or until `stopped`.
    fn send_body(&self, stream: &mut impl std::io::Write, stopped: &AtomicBool) -> Result<()> {
        let (piece_bytes, pause) = match self.manner {
            Manner::Trickling => (1024, Duration::from_millis(1)),
            _ => (PIECE_BYTES, Duration::ZERO),
        };
        let piece: Vec<u8> = SMUGGLED.iter().copied().cycle().take(piece_bytes).collect();
        let mut left = match self.bytes {
            Size::Of(bytes) => bytes,
            Size::Endless => usize::MAX,
        };
        while left > 0 && !stopped.load(Ordering::SeqCst) {
            let part = &piece[..left.min(piece_bytes)];
            if self.framing == Framed::Chunks {
                write!(stream, "{:x}\r\n", part.len())?;
            }
            stream.write_all(part)?;
            if self.framing == Framed::Chunks {
                stream.write_all(b"\r\n")?;
            }
            left -= part.len();
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
        if left == 0 && self.framing == Framed::Chunks {
            stream.write_all(b"0\r\n\r\n")?;
        }
        Ok(())
    }

    /// Uploads the body and reads the whole answer. After that, the connection must serve another request, or
    /// end in FIN even while the client is still sending. An error says what went wrong.
    pub fn answered(
        &self,
        address: SocketAddr,
        after: &str,
    ) -> std::result::Result<Answer, String> {
        let stopped = Arc::new(AtomicBool::new(false));
        let mut client = Client::connect(address);
        client.send(self.head());
        let mut stream = client.wire.second_handle();
        let sending = thread::spawn({
            let (upload, stopped) = (self.clone(), Arc::clone(&stopped));
            move || upload.send_body(&mut stream, &stopped)
        });
        let join = |sending: thread::JoinHandle<Result<()>>| {
            let sent = sending.join().expect("sending does not panic");
            sent.map_err(|error| format!("cut while sending: {error}"))
        };
        let mut sending = Some(sending);
        if self.manner != Manner::ReadingAlong {
            join(sending.take().expect("it is there"))?;
        }
        let answer = client.try_answer();
        let answer = answer.map_err(|error| format!("no whole answer: {error}"))?;
        let options = answer.head.listed("connection");
        let is_kept = if answer.head.start.starts_with("HTTP/1.1") {
            !answer.says_close()
        } else {
            options.iter().any(|option| option == "keep-alive")
        };
        let is_reused = is_kept && self.bytes != Size::Endless;
        if is_reused {
            if let Some(sending) = sending.take() {
                join(sending)?;
            }
            client.send(format!("GET {after} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            let next = client.try_answer();
            let next = next.map_err(|error| format!("unusable afterwards: {error}"))?;
            if next.status != 200 {
                return Err(format!("{} afterwards", next.status));
            }
        } else {
            // If the sender is not done yet, it is still sending.
            let rest = client.wire.read_to_fin();
            let rest = rest.map_err(|error| format!("no end but {error}"))?;
            if !rest.is_empty() {
                let rest = String::from_utf8_lossy(&rest);
                return Err(format!("more than an answer: {rest:?}"));
            }
            stopped.store(true, Ordering::SeqCst);
            if let Some(sending) = sending.take() {
                join(sending)?;
            }
        }
        Ok(answer)
    }
}
