//! The chunked coding of a response's body (RFC 9112, section 7.1).

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

use super::FIELDS_MAX;
use super::bad_body::BadBody;
use crate::proxy::wire::chunks::{ChunkRules, Chunks};
use crate::proxy::wire::encoding::LARGE_BYTES_MIN;
use crate::proxy::wire::section::Section;

/// Decodes a chunked body, in whatever pieces it comes.
#[derive(Debug)]
pub(super) struct Chunked {
    chunks: Chunks,
    trailers: Section,
    trailer_bytes_max: usize,
    is_end: bool,
}

/// Data of chunks that came together, joined into one piece, because many pieces cost later stages more than a copy.
#[derive(Debug, Default)]
struct Joined {
    /// The first piece, which is all of the data as long as there is no other.
    first: Bytes,
    all: BytesMut,
}

impl Joined {
    /// Adds a piece; at most `more` bytes follow in later pieces.
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
            chunks: Chunks::new(ChunkRules::Lenient),
            trailers: Section::default(),
            trailer_bytes_max,
            is_end: false,
        }
    }

    /// Whether the body has ended.
    pub(super) fn is_end(&self) -> bool {
        self.is_end
    }

    /// Takes the data of the chunks in `bytes` up to a large one, which comes by itself, or the trailers; none if
    /// more must come first, or if the body has ended.
    pub(super) fn read(&mut self, bytes: &mut Bytes) -> Result<Option<Frame<Bytes>>, BadBody> {
        let mut data = Joined::default();
        while !bytes.is_empty() {
            if self.chunks.is_at_trailers() {
                if self.is_end || !data.is_empty() {
                    break;
                }
                let Some(section) = self.trailers.take(bytes, self.trailer_bytes_max)? else {
                    break;
                };
                self.is_end = true;
                return Ok(parse_trailers(&section)?.map(Frame::trailers));
            }
            let at_hand = self.chunks.data_at_hand(bytes.len());
            if at_hand > 0 {
                let is_large = at_hand >= LARGE_BYTES_MIN;
                if is_large && !data.is_empty() {
                    break;
                }
                self.chunks.take_data(at_hand);
                data.push(bytes.split_to(at_hand), bytes.len());
                if is_large {
                    break;
                }
                continue;
            }
            bytes.advance(match self.chunks.take_around(bytes) {
                Ok(taken) => taken,
                Err(bad) if data.is_empty() => return Err(bad.into()),
                // The data before it comes first, and the next read refuses it again.
                Err(_) => break,
            });
        }
        Ok((!data.is_empty()).then(|| Frame::data(data.into_bytes())))
    }
}

/// Reads the fields of a trailer section; none if it is empty.
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
    fn short_chunks_that_come_together_are_one_piece_and_a_large_one_is_a_piece_of_its_own() {
        let chunk = |bytes: usize| format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
        let large = LARGE_BYTES_MIN;
        let body = [1, 2, large, large, 3, 4, 0].map(chunk).concat();
        let (mut chunked, mut bytes) = (Chunked::new(16 << 10), Bytes::from(body));
        let mut pieces = Vec::new();
        while let Some(frame) = chunked.read(&mut bytes).expect("a body") {
            pieces.push(frame.into_data().expect("data").len());
        }
        assert_eq!((pieces, chunked.is_end()), (vec![3, large, large, 7], true));
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
