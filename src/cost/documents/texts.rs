//! The texts of documents, read where a pointer looks for one.

use super::Documents;
use crate::cost::pointers::Pointers;
use crate::cost::prices::PRICED_TEXT_MAX;
use crate::cost::skip;
use crate::cost::steps::{Next, is_blank};

impl Documents {
    /// Begins a value at which these pointers look for a text; `None` if it is another value, or has not begun yet.
    pub(super) fn begin_text<'b>(
        &mut self,
        texts: u32,
        bytes: &'b [u8],
    ) -> Option<(Next, &'b [u8])> {
        match bytes[0] {
            byte if is_blank(byte) => None,
            b'"' => {
                self.scalar.push(b'"');
                Some((Next::InText, &bytes[1..]))
            }
            _ => {
                self.found.note_text(texts, None);
                None
            }
        }
    }

    /// Reads more of a text.
    pub(super) fn text<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let mut is_escaped = std::mem::take(&mut self.is_escaped);
        let rest = skip::string(bytes, &mut is_escaped);
        let piece = &bytes[..bytes.len() - rest.map_or(0, <[u8]>::len)];
        let room = WRITTEN_BYTES_MAX + 1 - self.scalar.len();
        self.scalar
            .extend_from_slice(&piece[..piece.len().min(room)]);
        let Some(rest) = rest else {
            self.is_escaped = is_escaped;
            return (Next::InText, &[]);
        };
        let written = std::mem::take(&mut self.scalar);
        let text = serde_json::from_slice::<String>(&written).ok();
        let text = text.filter(|text| text.len() <= PRICED_TEXT_MAX);
        let texts = self.node.map_or(0, |node| pointers.node(node).texts);
        self.found.note_text(texts, text.as_deref());
        (self.end_value(pointers), rest)
    }
}

/// Longest text as it may be written: six bytes (`\u0061`) for each of its own, and the quotation marks.
const WRITTEN_BYTES_MAX: usize = 6 * PRICED_TEXT_MAX + 2;
