//! The chunked coding of a response's body (RFC 9112, section 7.1).

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

use super::FIELDS_MAX;
use super::bad_body::BadBody;
use super::section::Section;

/// Decodes a chunked body, in whatever pieces it comes.
#[derive(Debug)]
pub(super) struct Chunked {
    place: ChunkPlace,
    /// Bytes of extensions so far, in all chunks, and of white space before them.
    extension_bytes: usize,
    trailers: Section,
    trailer_bytes_max: usize,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    /// In a chunk's size, of which this many digits have come.
    Size { digits: u8, size: u64 },
    /// In white space after a chunk's size.
    WhiteSpace { size: u64 },
    /// In a chunk's extensions.
    Extension { size: u64 },
    /// Before the line feed after a chunk's size.
    SizeEnd { size: u64 },
    /// In a chunk that has this many bytes left.
    Data(u64),
    /// Before the carriage return after a chunk.
    DataEnd,
    /// Before the line feed after a chunk.
    DataLineFeed,
    /// In the trailers, or the empty line in their place.
    Trailers,
    /// After all of it.
    End,
}

/// Before the first digit of a chunk's size.
const SIZE: ChunkPlace = ChunkPlace::Size { digits: 0, size: 0 };

/// Most digits of a chunk's size: as many as 64 bits have.
const SIZE_DIGITS_MAX: u8 = 16;

/// Most bytes of chunk extensions in one body. They are read past, never passed on.
const EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The data of chunks that came together, as one piece: for those behind, many cost more than a copy.
#[derive(Debug, Default)]
struct Joined {
    /// All of it, as long as there is only one.
    first: Bytes,
    all: BytesMut,
}

impl Joined {
    /// Adds a piece; at most `more` bytes of others follow.
    fn push(&mut self, piece: Bytes, more: usize) {
        if self.first.is_empty() {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(self.first.len() + piece.len() + more);
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}

impl Chunked {
    /// Begins a body whose trailers have at most `trailer_bytes_max`.
    pub(super) fn new(trailer_bytes_max: usize) -> Self {
        Self {
            place: SIZE,
            trailer_bytes_max,
            extension_bytes: 0,
            trailers: Section::default(),
        }
    }

    /// Whether the body has ended.
    pub(super) fn is_end(&self) -> bool {
        self.place == ChunkPlace::End
    }

    /// Takes the data of all chunks in `bytes`, or the trailers; none if more must come first, or if
    /// the body has ended.
    pub(super) fn read(&mut self, bytes: &mut Bytes) -> Result<Option<Frame<Bytes>>, BadBody> {
        let mut data = Joined::default();
        while let Some(&byte) = bytes.first() {
            match self.place {
                ChunkPlace::Data(left) => {
                    let taken =
                        usize::try_from(left).map_or(bytes.len(), |value| value.min(bytes.len()));
                    self.place = match left - taken as u64 {
                        0 => ChunkPlace::DataEnd,
                        left => ChunkPlace::Data(left),
                    };
                    data.push(bytes.split_to(taken), bytes.len());
                }
                ChunkPlace::Trailers if data.is_empty() => {
                    let Some(section) = self.trailers.take(bytes, self.trailer_bytes_max)? else {
                        break;
                    };
                    self.place = ChunkPlace::End;
                    return Ok(parse_trailers(&section)?.map(Frame::trailers));
                }
                ChunkPlace::Trailers | ChunkPlace::End => break,
                place => match self.step(place, byte) {
                    Ok(place) => {
                        self.place = place;
                        bytes.advance(1);
                    }
                    Err(bad) if data.is_empty() => return Err(bad),
                    // Refused again by the next read.
                    Err(_) => break,
                },
            }
        }
        Ok((!data.is_empty()).then(|| Frame::data(data.into_bytes())))
    }

    /// Takes one byte of what stands around the data.
    fn step(&mut self, place: ChunkPlace, byte: u8) -> Result<ChunkPlace, BadBody> {
        Ok(match (place, byte) {
            (ChunkPlace::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(BadBody::Chunk);
                }
                let value = char::from(byte).to_digit(16).map_or(0, u64::from);
                ChunkPlace::Size {
                    digits: digits + 1,
                    size: size << 4 | value,
                }
            }
            (
                ChunkPlace::Size { digits: 1.., size }
                | ChunkPlace::WhiteSpace { size }
                | ChunkPlace::Extension { size },
                b'\r',
            ) => ChunkPlace::SizeEnd { size },
            (ChunkPlace::Size { digits: 1.., size } | ChunkPlace::WhiteSpace { size }, b';') => {
                ChunkPlace::Extension { size }
            }
            (
                ChunkPlace::Size { digits: 1.., size } | ChunkPlace::WhiteSpace { size },
                b' ' | b'\t',
            ) => {
                self.count_extension()?;
                ChunkPlace::WhiteSpace { size }
            }
            (ChunkPlace::Extension { .. }, b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_extension()?;
                place
            }
            (ChunkPlace::SizeEnd { size: 0 }, b'\n') => ChunkPlace::Trailers,
            (ChunkPlace::SizeEnd { size }, b'\n') => ChunkPlace::Data(size),
            (ChunkPlace::DataEnd, b'\r') => ChunkPlace::DataLineFeed,
            (ChunkPlace::DataLineFeed, b'\n') => SIZE,
            _ => return Err(BadBody::Chunk),
        })
    }

    /// Counts a byte of extensions, or of the white space before them.
    fn count_extension(&mut self) -> Result<(), BadBody> {
        self.extension_bytes += 1;
        let fits = self.extension_bytes <= EXTENSION_BYTES_MAX;
        fits.then_some(()).ok_or(BadBody::TooLong)
    }
}

/// Reads the fields of a trailer section; none if there are none.
fn parse_trailers(section: &Bytes) -> Result<Option<HeaderMap>, BadBody> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let parsed = httparse::parse_headers(section, &mut fields);
    let Ok(httparse::Status::Complete((_, fields))) = parsed else {
        return Err(BadBody::Trailer);
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(section.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(BadBody::Trailer);
        };
        trailers.append(name, value);
    }
    Ok((!trailers.is_empty()).then_some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body to its end.
    fn read(body: &'static str) -> Result<Vec<u8>, BadBody> {
        let (mut chunked, mut bytes) =
            (Chunked::new(16 << 10), Bytes::from_static(body.as_bytes()));
        let mut data = Vec::new();
        while let Some(frame) = chunked.read(&mut bytes)? {
            data.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        chunked.is_end().then_some(data).ok_or(BadBody::Incomplete)
    }

    #[test]
    fn size_is_followed_by_its_line_end_or_an_extension_alone() {
        for good in [
            "2\r\n",
            "2 \t\r\n",
            "2;a\r\n",
            "2 ;a b=\"c\"\r\n",
            "2\t; a\r\n",
        ] {
            let body = format!("{good}ok\r\n0\r\n\r\n");
            assert_eq!(read(body.leak()), Ok(b"ok".into()), "{good}");
        }
        for bad in [
            "2 2\r\n", "2 a\r\n", "2\t=\r\n", "2,a\r\n", " 2\r\n", "2\n", "2 \n",
        ] {
            let body = format!("{bad}ok\r\n0\r\n\r\n");
            assert_eq!(read(body.leak()), Err(BadBody::Chunk), "{bad}");
        }
    }
}
