//! Holds clients of HTTP/1.1 to the letter of its framing where the parser behind it is lenient.
//!
//! hyper accepts a line feed without its carriage return as the end of a line, white space after a
//! chunk's size, sizes of any number of digits, and anything in a chunk's extensions. None of that
//! is forwarded, but a proxy in front of the gateway may read it differently. [`Strict`] follows
//! the bytes through heads and bodies. It overwrites the first byte that must not be there with one
//! that the parser refuses in that place. So the refusal is the parser's own, and comes in its turn
//! after the answers to earlier requests. It does not change what it passes. The parser does not look
//! at an incomplete head twice, so a bad byte in a later piece of it is refused when the head is
//! complete or overdue.
//!
//! The parser alone says what a message is. This reader stops looking if it finds what the parser, or
//! the journey's check of transfer codings, refuses in any case.
//!
//! What follows a request for another protocol is held back until that request is answered: it may be
//! the next request, or no HTTP at all.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use memchr::memchr_iter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::switch::Switch;
use crate::request::upgrade::switches_protocol;

/// A client's connection whose requests must follow the framing to the letter.
#[derive(Debug)]
pub(crate) struct Strict<I> {
    io: I,
    reader: StrictReader,
    switch: Rc<Switch>,
    /// What has come behind it.
    held: Vec<u8>,
}

/// Where the next byte belongs in the requests of one connection.
#[derive(Debug, Default)]
struct StrictReader {
    place: Place,
    /// How the body after the head is framed, as far as the head has been read.
    framing: Framing,
    /// Whether the head asks for another protocol.
    is_upgrade: bool,
    /// How many heads have been read.
    heads: u64,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before a request line, or in it.
    #[default]
    RequestLine,
    /// In a later line of a head.
    Field,
    /// In a body that has this many bytes left.
    Length(u64),
    /// In a chunk's size, of which this many digits have come.
    Size { digits: u8, size: u64 },
    /// In white space after a chunk's size, where only an extension may follow.
    Space { size: u64 },
    /// In a chunk's extensions.
    Extension { size: u64, text: Quoting },
    /// Before the line feed after a chunk's size.
    SizeEnd { size: u64 },
    /// In a chunk that has this many bytes left.
    Data(u64),
    /// In the line end after a chunk.
    DataEnd,
    /// In a line of the trailers.
    Trailer,
    /// After a request for another protocol.
    Upgrade,
    /// After something that the parser refuses: it reads no further request.
    Refused,
}

/// Where a byte belongs in a chunk's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Plain,
    Quoted,
    /// After a backslash.
    Escaped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    None,
    Length(u64),
    Chunked,
    /// In a way that is refused.
    Bad,
}

/// A byte that must not be in a head, a chunk's size or a trailer.
const NOWHERE: u8 = 0;
/// A byte that must not be in a chunk's extensions, where the parser checks nothing but line ends.
const NOT_IN_EXTENSIONS: u8 = b'\n';
/// Most digits of a chunk's size, including leading zeros: as many as 64 bits have.
const SIZE_DIGITS_MAX: u8 = 16;

impl<I> Strict<I> {
    /// Reads from `io`; opens `switch` behind a request for another protocol, and reads no further
    /// while it is open.
    pub(crate) fn new(io: I, switch: Rc<Switch>) -> Self {
        Self {
            io,
            reader: StrictReader::default(),
            switch,
            held: Vec::new(),
        }
    }

    /// Returns the connection below, and what has been held back.
    pub(crate) fn into_parts(self) -> (I, Vec<u8>) {
        (self.io, self.held)
    }
}

impl StrictReader {
    /// Follows `bytes`, and overwrites the first of them that must not be there. Returns the number of
    /// those that stand behind a request for another protocol.
    fn follow(&mut self, mut bytes: &mut [u8]) -> usize {
        while !bytes.is_empty() {
            let taken = match &mut self.place {
                place if place.has_lines() => self.follow_lines(bytes),
                Place::Length(left) | Place::Data(left) => {
                    let taken =
                        usize::try_from(*left).map_or(bytes.len(), |it| it.min(bytes.len()));
                    *left -= taken as u64;
                    match self.place {
                        Place::Length(0) => self.place = Place::RequestLine,
                        Place::Data(0) => self.place = Place::DataEnd,
                        _ => {}
                    }
                    taken
                }
                Place::Upgrade => return bytes.len(),
                Place::Refused => return 0,
                _ => {
                    self.follow_chunk(&mut bytes[0]);
                    1
                }
            };
            bytes = &mut bytes[taken..];
        }
        0
    }

    /// Whether some of a head has come, and not all of it.
    fn is_in_head(&self) -> bool {
        match self.place {
            Place::RequestLine => !self.line.is_empty(),
            place => place == Place::Field,
        }
    }

    /// Follows lines up to the last of a head or of trailers, and returns the number of their
    /// bytes.
    fn follow_lines(&mut self, bytes: &mut [u8]) -> usize {
        let (mut begin, mut bare) = (0, None);
        for end in memchr_iter(b'\n', bytes) {
            let line = &bytes[begin..end];
            if line.last().or(self.line.last()) != Some(&b'\r') {
                bare = Some(end);
                break;
            }
            if self.line.is_empty() {
                self.end_line(&line[..line.len() - 1]);
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.end_line(&whole[..whole.len() - 1]);
            }
            begin = end + 1;
            if !self.place.has_lines() {
                return begin;
            }
        }
        if let Some(end) = bare {
            bytes[end] = NOWHERE;
            self.place = Place::Refused;
        } else {
            self.line.extend_from_slice(&bytes[begin..]);
        }
        bytes.len()
    }

    /// Moves on after a whole line, which is given without its end.
    fn end_line(&mut self, line: &[u8]) {
        self.place = match self.place {
            // Empty lines before a request are skipped (RFC 9112, section 2.2).
            Place::RequestLine if line.is_empty() => Place::RequestLine,
            Place::RequestLine => Place::Field,
            Place::Field if line.is_empty() => self.end_head(),
            Place::Field => {
                self.framing = self.framing.and(line);
                self.is_upgrade |= value(line, b"upgrade").is_some_and(switches_protocol);
                Place::Field
            }
            _ if line.is_empty() => Place::RequestLine,
            place => place,
        };
    }

    fn end_head(&mut self) -> Place {
        self.heads += 1;
        let is_upgrade = std::mem::take(&mut self.is_upgrade);
        match std::mem::take(&mut self.framing) {
            Framing::None | Framing::Length(0) if is_upgrade => Place::Upgrade,
            Framing::None | Framing::Length(0) => Place::RequestLine,
            Framing::Length(bytes) => Place::Length(bytes),
            Framing::Chunked => SIZE,
            Framing::Bad => Place::Refused,
        }
    }

    /// Follows a byte of a chunked body that is not data.
    fn follow_chunk(&mut self, byte: &mut u8) {
        self.place = match (self.place, *byte) {
            (Place::Size { digits, size }, digit) if digit.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    *byte = NOWHERE;
                    Place::Refused
                } else {
                    Place::Size {
                        digits: digits + 1,
                        size: size << 4 | u64::from(value_of(digit)),
                    }
                }
            }
            (Place::Size { size, .. }, b'\r') => Place::SizeEnd { size },
            (Place::Size { size, .. } | Place::Space { size }, b';') => Place::Extension {
                size,
                text: Quoting::Plain,
            },
            (Place::Size { size, .. } | Place::Space { size }, b' ' | b'\t') => {
                Place::Space { size }
            }
            (Place::Space { .. }, _) => {
                *byte = NOWHERE;
                Place::Refused
            }
            (Place::Extension { size, text }, _) => extension(size, text, byte),
            (Place::SizeEnd { size: 0 }, b'\n') => Place::Trailer,
            (Place::SizeEnd { size }, b'\n') => Place::Data(size),
            (Place::DataEnd, b'\r') => Place::DataEnd,
            (Place::DataEnd, b'\n') => SIZE,
            _ => Place::Refused,
        };
    }
}

impl Place {
    fn has_lines(self) -> bool {
        matches!(self, Self::RequestLine | Self::Field | Self::Trailer)
    }
}

/// The place before a chunk's size.
const SIZE: Place = Place::Size { digits: 0, size: 0 };

/// Follows a byte of a chunk's extensions (RFC 9112, section 7.1.1).
fn extension(size: u64, text: Quoting, byte: &mut u8) -> Place {
    let text = match (text, *byte) {
        (Quoting::Plain, b'\r') => return Place::SizeEnd { size },
        (_, b'\t' | b' '..=b'~' | 0x80..) => match (text, *byte) {
            (Quoting::Plain | Quoting::Escaped, b'"') | (Quoting::Escaped, _) => Quoting::Quoted,
            (Quoting::Quoted, b'"') => Quoting::Plain,
            (Quoting::Quoted, b'\\') => Quoting::Escaped,
            _ => text,
        },
        _ => {
            *byte = NOT_IN_EXTENSIONS;
            return Place::Refused;
        }
    };
    Place::Extension { size, text }
}

fn value_of(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

impl Framing {
    /// Returns what is known of the framing once the field `line` has been read too.
    fn and(self, line: &[u8]) -> Self {
        match line.first() {
            Some(b'c' | b'C') => match value(line, b"content-length") {
                // A transfer coding wins over it, wherever that is.
                Some(length) if self != Self::Chunked => {
                    let length = str::from_utf8(length).ok().and_then(|it| it.parse().ok());
                    length.map_or(Self::Bad, Self::Length)
                }
                _ => self,
            },
            Some(b't' | b'T') => match value(line, b"transfer-encoding") {
                Some(coding) if coding.eq_ignore_ascii_case(b"chunked") => Self::Chunked,
                Some(_) => Self::Bad,
                None => self,
            },
            _ => self,
        }
    }
}

/// Returns the value of `line`, if it is the field of that name.
fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    field.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

impl<I: AsyncRead + Unpin> AsyncRead for Strict<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.switch.is_open(cx) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let held = self.held.len().min(buf.remaining());
        if held > 0 {
            buf.put_slice(&self.held[..held]);
            self.held.drain(..held);
        } else {
            ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        }
        if self.reader.place == Place::Upgrade {
            self.reader.place = Place::RequestLine;
        }
        let bytes = &mut buf.filled_mut()[before..];
        let behind = self.reader.follow(bytes);
        if self.reader.place == Place::Upgrade {
            self.switch.open(self.reader.heads);
            let end = bytes.len() - behind;
            let rest = bytes[end..].to_vec();
            self.held.splice(..0, rest);
            buf.set_filled(before + end);
        }
        (self.switch).note_head(self.reader.is_in_head() || !self.held.is_empty());
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Strict<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
