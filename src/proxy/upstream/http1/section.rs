//! Lines up to an empty one: the head of a response, or its trailers.

use bytes::{Bytes, BytesMut};
use memchr::memchr_iter;

/// Collects lines up to an empty one, in whatever pieces they come. No byte is searched twice.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// What has come, as long as the empty line has not.
    partial: BytesMut,
    /// How much of it has been searched.
    searched: usize,
    /// Where the line begins that has not ended yet.
    line: usize,
}

/// Why lines are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadSection {
    /// A line feed without its carriage return (RFC 9112, section 2.2).
    BareLineFeed,
    /// More bytes than there may be.
    TooLong,
}

impl Section {
    /// Takes the section's bytes, at most `bytes_max`, from `bytes`; returns it when it is whole, its
    /// empty line included.
    pub(super) fn take(
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
    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Finds the end of the empty line in `all`, of which the first bytes have been searched. After
    /// that, another section begins.
    fn find_end(&mut self, all: &[u8], bytes_max: usize) -> Result<Option<usize>, BadSection> {
        for at in memchr_iter(b'\n', &all[self.searched..]) {
            let end = self.searched + at;
            match &all[self.line..end] {
                [b'\r'] if end < bytes_max => {
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
