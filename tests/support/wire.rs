//! HTTP/1.1 as bytes on a socket, read without the library under test.
//!
//! It is strict: anything a careful peer would stumble over (both framings at once, a short body,
//! a chunk without its end) is an error, so that a test fails on it.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use super::PATIENCE;

/// One side of a connection: the socket, or TLS over it, and the bytes that were read ahead.
#[derive(Debug)]
pub struct Wire<S = TcpStream> {
    pub stream: S,
    buffer: Vec<u8>,
}

/// Header fields, in their order on the wire.
pub type Fields = Vec<(String, String)>;

/// A request's or an answer's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The first line, without its CRLF.
    pub start: String,
    pub fields: Fields,
}

/// How the end of a message's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Empty,
    Length(usize),
    Chunked,
    /// Ends with the connection.
    Close,
}

/// A body that was read to its end, or as far as it arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub trailers: Fields,
}

impl Wire {
    /// Takes a connected socket; reads and writes on it fail after [`PATIENCE`].
    pub fn new(stream: TcpStream) -> Self {
        // A Unix socket, which also has this type here, has no such TCP option.
        let _ = stream.set_nodelay(true);
        stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a socket takes options");
        let wire = Self::over(stream);
        wire.patience(PATIENCE);
        wire
    }

    /// Sets how long a read waits before it fails.
    pub fn patience(&self, timeout: Duration) {
        self.stream
            .set_read_timeout(Some(timeout))
            .expect("a socket takes options");
    }

    /// Sends FIN; reading remains possible.
    pub fn finish_writing(&self) {
        // The peer may have closed first; there is then nothing left to finish.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection in both directions.
    pub fn close(&self) {
        // The peer may have closed first; there is then nothing left to end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the connection with a reset (RST) instead of FIN.
    pub fn reset(self) {
        let set = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        set.expect("a socket takes options");
    }

    /// Writes `bytes` until all buffers on the way are full, and returns how many were taken.
    ///
    /// Whatever is in between passes on what it can before `settle` returns; if no more is taken then, it is full.
    pub fn write_until_full(&mut self, bytes: &[u8], settle: impl Fn()) -> usize {
        let set = |is_nonblocking| {
            let set = self.stream.set_nonblocking(is_nonblocking);
            set.expect("a socket takes options");
        };
        let (mut taken, mut refusals) = (0, 0);
        while taken < bytes.len() && refusals < REFUSALS {
            set(true);
            let written = (&self.stream).write(&bytes[taken..]);
            set(false);
            match written {
                Ok(length) => {
                    taken += length;
                    refusals = 0;
                }
                Err(error) if is_timeout(&error) => {
                    refusals += 1;
                    settle();
                }
                Err(_) => break,
            }
        }
        taken
    }

    /// Returns a second handle to the same socket, for writing from another thread.
    pub fn second_handle(&self) -> TcpStream {
        self.stream.try_clone().expect("a socket can be duplicated")
    }

    /// Whether nothing has arrived by now, not even the end of the connection.
    pub fn is_silent(&mut self) -> bool {
        self.patience(AT_ONCE);
        let silent =
            self.buffer.is_empty() && matches!(self.fill(), Err(error) if is_timeout(&error));
        self.patience(PATIENCE);
        silent
    }
}

impl<S: Read + Write> Wire<S> {
    /// Wraps a stream on which a connection is read and written.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads a head; `None` if the peer closed before its first byte.
    pub fn read_head(&mut self) -> Result<Option<Head>> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if self.fill()? == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                return Err(cut("the connection ended within a head"));
            }
        };
        let bytes: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let fields = lines.map(field).collect::<Result<Fields>>()?;
        Ok(Some(Head { start, fields }))
    }

    /// Reads a body into `body`, which keeps what arrived if the connection is cut.
    pub fn read_body(&mut self, framing: Framing, body: &mut Body) -> Result<()> {
        match framing {
            Framing::Empty => Ok(()),
            Framing::Length(length) => self.take_into(length, &mut body.bytes),
            Framing::Chunked => self.read_chunks(body),
            Framing::Close => {
                while self.fill()? > 0 {}
                body.bytes.append(&mut self.buffer);
                Ok(())
            }
        }
    }

    fn read_chunks(&mut self, body: &mut Body) -> Result<()> {
        loop {
            let line = self.read_line()?;
            let size = usize::from_str_radix(&line, 16)
                .map_err(|_| cut(&format!("chunk size {line:?}")))?;
            if size == 0 {
                break;
            }
            self.take_into(size, &mut body.bytes)?;
            let end = self.read_line()?;
            if !end.is_empty() {
                return Err(cut("a chunk is longer than it said"));
            }
        }
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok(());
            }
            body.trailers.push(field(&line)?);
        }
    }

    /// Reads a line and returns it without its CRLF.
    pub fn read_line(&mut self) -> Result<String> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.fill()? == 0 {
                return Err(cut("the connection ended within a line"));
            }
        }
    }

    /// Reads exactly `length` raw bytes.
    pub fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.take_into(length, &mut bytes)?;
        Ok(bytes)
    }

    fn take_into(&mut self, length: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut missing = length;
        loop {
            let part = missing.min(self.buffer.len());
            out.extend_from_slice(&self.buffer[..part]);
            self.buffer.drain(..part);
            missing -= part;
            if missing == 0 {
                return Ok(());
            }
            if self.fill()? == 0 {
                return Err(cut("the connection ended within a body"));
            }
        }
    }

    /// Reads raw bytes until `needle` has arrived, and returns everything up to its end.
    pub fn read_until(&mut self, needle: &[u8]) -> Result<Vec<u8>> {
        loop {
            if let Some(at) = find(&self.buffer, needle) {
                return Ok(self.buffer.drain(..at + needle.len()).collect());
            }
            if self.fill()? == 0 {
                return Err(cut("the connection ended before what was expected"));
            }
        }
    }

    /// Reads until the peer closes or resets and returns what came before that.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        match self.read_to_fin() {
            Err(error) if is_reset(&error) => Ok(std::mem::take(&mut self.buffer)),
            read => read,
        }
    }

    /// Reads until the peer closes and returns what came before that; a reset is an error.
    pub fn read_to_fin(&mut self) -> Result<Vec<u8>> {
        while self.fill()? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    fn fill(&mut self) -> Result<usize> {
        let mut piece = [0; 16 * 1024];
        let length = loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.buffer.extend_from_slice(&piece[..length]);
        Ok(length)
    }
}

impl Head {
    /// Returns the only field of that name; fails the test if there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let all = self.fields(name);
        assert!(all.len() < 2, "{name} several times: {all:?}");
        all.first().copied()
    }

    /// Returns the values of all fields of that name, in order.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let named = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        let values = self.fields.iter().filter(named);
        values.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the comma-separated items of all fields of that name, in order.
    pub fn listed(&self, name: &str) -> Vec<String> {
        let joined = self.fields(name).join(",");
        let items = joined.split(',').map(str::trim);
        items.filter(|x| !x.is_empty()).map(str::to_owned).collect()
    }

    /// Returns how the body's end is found (RFC 9112 section 6.3), or `otherwise` if the head does not say.
    pub fn framing(&self, otherwise: Framing) -> Result<Framing> {
        let lengths = self.fields("content-length");
        let codings = self.fields("transfer-encoding");
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(otherwise),
            ([], ["chunked"]) => Ok(Framing::Chunked),
            ([length], []) => match length.parse() {
                Ok(length) => Ok(Framing::Length(length)),
                Err(_) => Err(cut("a Content-Length that is no number")),
            },
            _ => Err(cut(&format!("unclear framing: {lengths:?} {codings:?}"))),
        }
    }
}

fn field(line: &str) -> Result<(String, String)> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| cut(&format!("a field line without a colon: {line:?}")))?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|at| at == needle)
}

fn cut(what: &str) -> Error {
    Error::new(ErrorKind::UnexpectedEof, what)
}

/// The shortest wait for a read: the kernel rounds it up to its next tick.
const AT_ONCE: Duration = Duration::from_micros(1);
/// How many refusals in a row mean that the buffers are full: one for each of the two kernels' buffers, and one more.
const REFUSALS: usize = 3;

/// Whether the peer ended the connection with a reset rather than FIN.
pub fn is_reset(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

/// Whether a read or write timed out.
pub fn is_timeout(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
