//! Lines up to an empty one: a head, or trailers.

use bytes::{Bytes, BytesMut};
use memchr::memchr_iter;

/// Collects lines up to an empty one, in whatever pieces they come. No byte is searched twice.
#[derive(Debug, Default)]
pub struct Section {
    /// The bytes that have come, as long as the empty line has not.
    partial: BytesMut,
    /// Bytes of the section that have been searched.
    searched: usize,
    /// Where the line that has not ended yet begins.
    line: usize,
}

/// Why lines are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSection {
    /// A line feed without its carriage return (RFC 9112, section 2.2).
    BareLineFeed,
    /// More bytes than there may be.
    TooLong,
}

impl Section {
    /// Takes the section's bytes, at most `bytes_max`, from `bytes`; returns the section when it is
    /// whole, its empty line included.
    pub fn take(
        &mut self,
        bytes: &mut Bytes,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, BadSection> {
        if self.partial.is_empty() {
            // Most sections come in one piece, which need not be copied.
            if let Some(end) = self.find_end(bytes, bytes_max)? {
                return Ok(Some(bytes.split_to(end)));
            }
            self.partial.extend_from_slice(bytes);
            bytes.clear();
            return Ok(None);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        bytes.clear();
        let Some(end) = self.find_end(&partial, bytes_max)? else {
            self.partial = partial;
            return Ok(None);
        };
        *bytes = partial.freeze();
        Ok(Some(bytes.split_to(end)))
    }

    /// Returns what has come of a section that is not whole.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Finds the end of the empty line in `all`, of which the first bytes have been searched. Once it is
    /// found, another section can begin.
    fn find_end(&mut self, all: &[u8], bytes_max: usize) -> Result<Option<usize>, BadSection> {
        for at in memchr_iter(b'\n', &all[self.searched..]) {
            let end = self.searched + at;
            match &all[self.line..end] {
                _ if end >= bytes_max => return Err(BadSection::TooLong),
                [b'\r'] => {
                    *self = Self::default();
                    return Ok(Some(end + 1));
                }
                [.., b'\r'] => self.line = end + 1,
                _ => return Err(BadSection::BareLineFeed),
            }
        }
        self.searched = all.len();
        if all.len() > bytes_max {
            return Err(BadSection::TooLong);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 32 * 1024;

    /// Takes a section of `all` in pieces of this size; returns how long it is.
    fn take(all: &[u8], size: usize) -> Result<Option<usize>, BadSection> {
        let mut section = Section::default();
        let mut pieces = all.chunks(size).map(Bytes::copy_from_slice);
        while let Some(mut piece) = pieces.next() {
            if let Some(taken) = section.take(&mut piece, BYTES_MAX)? {
                let rest = pieces.flatten();
                let whole: Vec<u8> = taken.iter().chain(&piece).copied().chain(rest).collect();
                assert_eq!(whole, all, "no byte is lost or moved");
                return Ok(Some(taken.len()));
            }
            assert!(piece.is_empty());
        }
        Ok(None)
    }

    #[test]
    fn end_is_found_or_refused_at_the_bound_in_pieces_of_any_size() {
        let one_line = |bytes| [&vec![b'x'; bytes - 4], &b"\r\n\r\n"[..]].concat();
        let many_lines = |bytes| {
            let lines = (bytes - 5) / 3;
            let first = vec![b'x'; bytes - 3 * lines - 4];
            [&first, &b"\r\n"[..], &b"x\r\n".repeat(lines), b"\r\n"].concat()
        };
        for bytes in [BYTES_MAX - 1, BYTES_MAX, BYTES_MAX + 1] {
            let fits = bytes <= BYTES_MAX;
            let expected = fits.then_some(Some(bytes)).ok_or(BadSection::TooLong);
            for section in [one_line(bytes), many_lines(bytes)] {
                assert_eq!(section.len(), bytes);
                let followed = [&section, &b"rest\r\n"[..]].concat();
                for size in [1, 2, 3, 1000, followed.len()] {
                    assert_eq!(take(&section, size), expected, "{size}");
                    assert_eq!(take(&followed, size), expected, "{size}");
                }
            }
        }
    }

    #[test]
    fn line_without_its_carriage_return_is_refused_as_soon_as_it_ends() {
        for begun in ["\n", "x\n", "x\r\n\n", "x\r\ny\n", "\r\r\n\n"] {
            for size in [1, 2, begun.len()] {
                let taken = take(begun.as_bytes(), size);
                assert_eq!(taken, Err(BadSection::BareLineFeed), "{begun:?}");
            }
        }
    }
}
