//! Follows the bytes of one connection through heads and bodies.

use std::ops::Range;

use memchr::memchr_iter;
use smallvec::SmallVec;

use super::length::{shorten, value};
use super::target;
use crate::proxy::wire::chunks::{ChunkRules, Chunks};
use crate::proxy::wire::encoding::LARGE_BYTES_MIN;
use crate::request::upgrade::switches_protocol;

/// Where the next byte belongs in the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct FramingReader {
    pub(super) place: FramingState,
    /// How the body after the head is framed, according to what has been read of the head.
    framing: Framing,
    /// Whether the head asks for another protocol.
    is_upgrade: bool,
    /// Whole heads that have been read.
    pub(super) heads: u64,
    /// The beginning of a line whose end has not come yet.
    pub(super) line: Vec<u8>,
    /// Whether the next bytes belong to a request line that must be escaped first.
    pub(super) is_raw: bool,
    /// The length above which a body is diverted, as all chunked bodies are; `None` if no body is.
    diverts_above: Option<u64>,
    /// Whether the next bytes belong to a diverted body.
    pub(super) is_diverted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FramingState {
    /// Before a request line, or in it.
    #[default]
    RequestLine,
    /// In a later line of a head.
    Field,
    /// In a body that has this many bytes left.
    Length(u64),
    /// In a chunked body, before its trailers.
    Chunked(Chunks),
    /// In a line of the trailers.
    Trailer,
    /// After a request for another protocol.
    Upgrade,
    /// After something that the parser refuses: it reads no further request.
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    None,
    Length(u64),
    Chunked,
    /// Framed in a way that is refused.
    Bad,
}

/// A byte that must not be in a head, a chunk's size or a trailer.
pub(super) const NOWHERE: u8 = 0;
/// A byte that must not be in a chunk's extensions, where the parser checks nothing but line ends.
const NOT_IN_EXTENSIONS: u8 = b'\n';
/// A longer body is not diverted, because the parser refuses some lengths above this one.
const DIVERTED_BYTES_MAX: u64 = 1 << 62;

impl FramingReader {
    /// Makes a reader that diverts chunked bodies, and those that are longer than `bytes`.
    pub(super) fn diverting(bytes: u64) -> Self {
        Self {
            diverts_above: Some(bytes),
            ..Self::default()
        }
    }

    /// Returns how many bytes are diverted, 0 for a chunked body; `None` if the next bytes are not diverted.
    pub(super) fn diverted(&self) -> Option<u64> {
        self.is_diverted.then_some(match self.place {
            FramingState::Length(bytes) => bytes,
            _ => 0,
        })
    }

    /// Follows `bytes`, and overwrites the first one that must not be there. Returns how many at the end were not
    /// followed, because they come after a request for another protocol, belong to a diverted body, or must be escaped.
    pub(super) fn follow(&mut self, mut bytes: &mut [u8]) -> usize {
        while !bytes.is_empty() && !self.is_diverted && !self.is_raw {
            let taken = match &mut self.place {
                FramingState::RequestLine | FramingState::Field | FramingState::Trailer => {
                    let is_from_start =
                        matches!(self.place, FramingState::RequestLine) && self.line.is_empty();
                    let taken = self.follow_lines(bytes);
                    self.divert(&mut bytes[..taken], is_from_start);
                    taken
                }
                FramingState::Length(left) => {
                    let taken = take_data(left, bytes.len());
                    if *left == 0 {
                        self.place = FramingState::RequestLine;
                    }
                    taken
                }
                FramingState::Upgrade => return bytes.len(),
                FramingState::Refused => return 0,
                FramingState::Chunked(chunks) => match chunks.take_data(bytes.len()) {
                    0 => self.follow_chunk(bytes),
                    taken => taken,
                },
            };
            bytes = &mut bytes[taken..];
        }
        bytes.len()
    }

    /// Diverts the body after these lines, if they end a head and the body is chunked, or is long and its head has come
    /// whole. A length is then shortened to 1 for the parser, which reads the last byte.
    fn divert(&mut self, lines: &mut [u8], is_whole_head: bool) {
        let Some(above) = self.diverts_above else {
            return;
        };
        self.is_diverted = match &mut self.place {
            FramingState::Chunked(_) => true,
            FramingState::Length(bytes)
                if is_whole_head && (above + 1..=DIVERTED_BYTES_MAX).contains(bytes) =>
            {
                let is_shortened = shorten(lines);
                *bytes -= u64::from(is_shortened);
                is_shortened
            }
            _ => false,
        };
    }

    /// Follows the bytes of a diverted body. Returns where its data are and, once the bypass has ended, what the parser
    /// is to read. Short chunks are moved to the end of the data before them.
    pub(super) fn take_data(&mut self, bytes: &mut [u8]) -> (DataPieces, Vec<u8>) {
        let (mut data, mut at) = (DataPieces::new(), 0);
        while at < bytes.len() {
            let rest = bytes.len() - at;
            let taken = match &mut self.place {
                FramingState::Length(left) => take_data(left, rest),
                FramingState::Chunked(chunks) => chunks.take_data(rest),
                _ => 0,
            };
            if taken > 0 {
                match data.last_mut() {
                    Some(last) if taken < LARGE_BYTES_MIN => {
                        bytes.copy_within(at..at + taken, last.end);
                        last.end += taken;
                    }
                    _ => data.push(at..at + taken),
                }
                at += taken;
            } else {
                at += self.follow_chunk(&mut bytes[at..]);
            }
            let (place, begin) = match self.place {
                FramingState::Length(0) => (FramingState::Length(1), &b""[..]),
                FramingState::Trailer => (CHUNKED, &b"0\r\n"[..]),
                FramingState::Refused => (CHUNKED, &[NOWHERE][..]),
                _ => continue,
            };
            self.place = place;
            self.is_diverted = false;
            return (data, [begin, &bytes[at..]].concat());
        }
        (data, Vec::new())
    }

    /// Whether part of a head has come, but not all of it.
    pub(super) fn is_in_head(&self) -> bool {
        match self.place {
            FramingState::RequestLine => !self.line.is_empty(),
            FramingState::Field => true,
            _ => false,
        }
    }

    /// Whether nothing has come but whole requests and empty lines.
    pub(super) fn is_between_requests(&self) -> bool {
        matches!(self.place, FramingState::RequestLine)
            && self.line.is_empty()
            && !self.is_raw
            && !self.is_diverted
    }

    /// Follows lines up to the last one of a head or of trailers, and returns how many bytes they have.
    fn follow_lines(&mut self, bytes: &mut [u8]) -> usize {
        let (mut begin, mut bare) = (0, None);
        // Whether a field begins here: most lines are whole fields, which take a shorter path.
        let mut is_field = matches!(self.place, FramingState::Field) && self.line.is_empty();
        for end in memchr_iter(b'\n', bytes) {
            let line = &bytes[begin..end];
            if is_field
                && let Some((b'\r', field)) = line.split_last()
                && !field.is_empty()
            {
                self.end_field(field);
                begin = end + 1;
                continue;
            }
            if matches!(self.place, FramingState::RequestLine) && target::has_raw(&self.line, line)
            {
                self.is_raw = true;
                return begin;
            }
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
            is_field = matches!(self.place, FramingState::Field);
        }
        if let Some(end) = bare {
            bytes[end] = NOWHERE;
            self.place = FramingState::Refused;
        } else {
            let rest = &bytes[begin..];
            if matches!(self.place, FramingState::RequestLine) && target::has_raw(&self.line, rest)
            {
                self.is_raw = true;
                return begin;
            }
            self.line.extend_from_slice(rest);
        }
        bytes.len()
    }

    /// Moves on after a whole line, which is given without its end.
    fn end_line(&mut self, line: &[u8]) {
        match self.place {
            // Empty lines before a request are skipped (RFC 9112, section 2.2).
            FramingState::RequestLine if line.is_empty() => {}
            FramingState::RequestLine => self.place = FramingState::Field,
            FramingState::Field if line.is_empty() => self.place = self.end_head(),
            FramingState::Field => self.end_field(line),
            _ if line.is_empty() => self.place = FramingState::RequestLine,
            _ => {}
        }
    }

    /// Notes what a field says of the body's framing, or of another protocol.
    fn end_field(&mut self, line: &[u8]) {
        match line.first() {
            Some(b'c' | b'C') => {
                if let Some(length) = value(line, b"content-length") {
                    self.framing = self.framing.and_length(length);
                }
            }
            Some(b't' | b'T') => {
                if let Some(coding) = value(line, b"transfer-encoding") {
                    let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    self.framing = if is_chunked {
                        Framing::Chunked
                    } else {
                        Framing::Bad
                    };
                }
            }
            Some(b'u' | b'U') => {
                self.is_upgrade |= value(line, b"upgrade").is_some_and(switches_protocol);
            }
            _ => {}
        }
    }

    fn end_head(&mut self) -> FramingState {
        self.heads += 1;
        let is_upgrade = std::mem::take(&mut self.is_upgrade);
        match std::mem::take(&mut self.framing) {
            Framing::None | Framing::Length(0) if is_upgrade => FramingState::Upgrade,
            Framing::None | Framing::Length(0) => FramingState::RequestLine,
            Framing::Length(bytes) => FramingState::Length(bytes),
            Framing::Chunked => CHUNKED,
            Framing::Bad => FramingState::Refused,
        }
    }

    /// Follows some bytes of a chunked body that are not data, and returns how many.
    fn follow_chunk(&mut self, bytes: &mut [u8]) -> usize {
        let FramingState::Chunked(chunks) = &mut self.place else {
            return 1;
        };
        let is_in_extension = chunks.is_in_extension();
        let Ok(taken) = chunks.take_around(bytes) else {
            bytes[0] = if is_in_extension {
                NOT_IN_EXTENSIONS
            } else {
                NOWHERE
            };
            self.place = FramingState::Refused;
            return 1;
        };
        if chunks.is_at_trailers() {
            self.place = FramingState::Trailer;
        }
        taken
    }
}

impl FramingState {
    fn has_lines(&self) -> bool {
        matches!(self, Self::RequestLine | Self::Field | Self::Trailer)
    }
}

/// Where the data of a body are among the bytes that were read.
pub(super) type DataPieces = SmallVec<[Range<usize>; 4]>;

/// The state before a chunked body.
const CHUNKED: FramingState = FramingState::Chunked(Chunks::new(ChunkRules::Strict));

/// Takes as much of `left` bytes as is available.
fn take_data(left: &mut u64, available: usize) -> usize {
    let taken = usize::try_from(*left).map_or(available, |left| left.min(available));
    *left -= taken as u64;
    taken
}

impl Framing {
    /// Returns what is known of the framing once this value of Content-Length has been read too.
    fn and_length(self, length: &[u8]) -> Self {
        // A transfer coding wins over Content-Length, wherever it is in the head, known or not.
        if matches!(self, Self::Chunked | Self::Bad) {
            return self;
        }
        let length = str::from_utf8(length)
            .ok()
            .and_then(|from_utf8| from_utf8.parse().ok());
        length.map_or(Self::Bad, Self::Length)
    }
}
