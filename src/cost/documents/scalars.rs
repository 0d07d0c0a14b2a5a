//! The numbers and literals of documents.

use super::Documents;
use crate::cost::decimal::{Decimal, NUMBER_BYTES_MAX};
use crate::cost::pointers::Pointers;
use crate::cost::steps::{Next, is_of_scalar};

impl Documents {
    /// Reads a number that counts, if it begins here, ends in this piece, and is written as most are.
    #[expect(clippy::inline_always, reason = "each number at a pointer comes here")]
    #[inline(always)]
    pub(super) fn plain_number<'b>(
        &mut self,
        pointers: &Pointers,
        bytes: &'b [u8],
    ) -> Option<(Next, &'b [u8])> {
        let node = self.node.map(|node| pointers.node(node));
        let node = node.filter(|node| node.takes_number)?;
        let (number, rest) = Decimal::plain(bytes)?;
        if rest.first().is_none_or(|behind| is_of_scalar(*behind)) {
            return None;
        }
        self.found.note(pointers, node, &number);
        if node.members != 0 {
            self.found.note_members(node.members);
        }
        Some((self.end_value(pointers), rest))
    }

    /// Reads more of a scalar that an earlier piece began.
    #[inline(never)]
    pub(super) fn more_scalar<'b>(
        &mut self,
        pointers: &Pointers,
        bytes: &'b [u8],
    ) -> (Next, &'b [u8]) {
        self.scalar(pointers, bytes)
    }

    /// Reads a scalar, as far as it is in this piece.
    #[expect(clippy::inline_always, reason = "each scalar that is read comes here")]
    #[inline(always)]
    pub(super) fn scalar<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let end = bytes.iter().position(|byte| !is_of_scalar(*byte));
        let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        let next = if end.is_some() && self.scalar.is_empty() {
            self.end_scalar(pointers, piece)
        } else {
            self.cut_scalar(pointers, piece, end.is_some())
        };
        (next, rest)
    }

    /// Reads a scalar that begins or ends in another piece.
    fn cut_scalar(&mut self, pointers: &Pointers, piece: &[u8], has_end: bool) -> Next {
        let room = NUMBER_BYTES_MAX + 1 - self.scalar.len();
        self.scalar
            .extend_from_slice(&piece[..piece.len().min(room)]);
        if !has_end {
            return Next::InScalar;
        }
        let scalar = std::mem::take(&mut self.scalar);
        self.end_scalar(pointers, &scalar)
    }

    fn end_scalar(&mut self, pointers: &Pointers, scalar: &[u8]) -> Next {
        let is_sound = match scalar {
            // `NaN` and infinities are not JSON, but some programs write them where there is no number.
            b"null" | b"false" | b"NaN" | b"Infinity" | b"-Infinity" => {
                return self.end_value(pointers);
            }
            [b'a'..=b'z' | b'A'..=b'Z', ..] => scalar == b"true",
            _ if !pointers.takes_number(self.node) => true,
            _ if scalar.len() > NUMBER_BYTES_MAX => {
                self.has_unread = true;
                true
            }
            _ => self.number(pointers, scalar),
        };
        if is_sound {
            self.note_members(pointers);
            self.end_value(pointers)
        } else {
            Next::Broken
        }
    }

    /// Reads a number to which a pointer leads; returns false if it is malformed.
    fn number(&mut self, pointers: &Pointers, text: &[u8]) -> bool {
        let number = Decimal::parse(text);
        if let Some((false, number)) = &number {
            self.note(pointers, number);
        }
        number.is_some()
    }

    /// Notes a number at the current node.
    fn note(&mut self, pointers: &Pointers, number: &Decimal) {
        if let Some(node) = self.node {
            self.found.note(pointers, pointers.node(node), number);
        }
    }

    /// Notes a member that is a scalar other than null or false.
    fn note_members(&mut self, pointers: &Pointers) {
        let (members, _) = pointers.members_and_texts(self.node);
        if members != 0 {
            self.found.note_members(members);
        }
    }
}
