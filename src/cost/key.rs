//! Compares a key of an object, as its bytes arrive, with the keys that pointers name.

use super::skip::quote_or_backslash;
use super::tree::{Child, NodeId, bits};

/// A key that is being read. Only which pointers' keys it may still be is kept, not its bytes.
#[derive(Debug, Default)]
pub(super) struct KeyMatch {
    /// Children whose keys begin with what has been read, one bit each.
    candidates: u64,
    /// Bytes of the children's keys that have been matched, unescaped.
    matched: usize,
    escape: Escape,
    /// The first half of a surrogate pair if it was just read, otherwise 0.
    high: u32,
}

/// What has become of a key at the end of [`KeyMatch::read`].
pub(super) enum KeyStep<'b> {
    /// The key has ended, and these bytes follow its closing quotation mark.
    Ended(&'b [u8]),
    /// No child has this key, and these bytes begin with its rest, which is to be skipped like a string.
    Unknown(&'b [u8]),
    /// The piece has ended within the key.
    More,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// After a backslash.
    Begun,
    /// After `\u` and some hex digits.
    Hex { digits: u8, unit: u32 },
}

impl KeyMatch {
    /// Begins to match a key of an object with these children.
    pub(super) fn begin(children: &[Child]) -> Self {
        // There are at most 64 children, one for each bit: the first and second keys of 32 pointers.
        Self {
            candidates: children.iter().fold(0, |all, _| all << 1 | 1),
            ..Self::default()
        }
    }

    /// Reads more bytes of the key, which begins after the opening quotation mark.
    pub(super) fn read<'b>(&mut self, children: &[Child], mut bytes: &'b [u8]) -> KeyStep<'b> {
        while self.candidates != 0 {
            let Some((&byte, rest)) = bytes.split_first() else {
                return KeyStep::More;
            };
            bytes = match (self.escape, byte) {
                (Escape::None, b'"') => return KeyStep::Ended(rest),
                (Escape::None, b'\\') => {
                    self.escape = Escape::Begun;
                    rest
                }
                (Escape::None, _) => {
                    let end = quote_or_backslash(bytes).unwrap_or(bytes.len());
                    let (text, rest) = bytes.split_at(end);
                    self.text(children, text);
                    rest
                }
                (Escape::Begun, b'u') => {
                    self.escape = Escape::Hex { digits: 0, unit: 0 };
                    rest
                }
                (Escape::Begun, _) => {
                    self.escape = Escape::None;
                    self.text(children, unescaped(byte));
                    rest
                }
                (Escape::Hex { digits, unit }, _) => match char::from(byte).to_digit(16) {
                    Some(digit) => {
                        self.hex(children, digits + 1, (unit << 4) | digit);
                        rest
                    }
                    None => break,
                },
            };
        }
        KeyStep::Unknown(bytes)
    }

    /// Returns the node that the key leads to, once the key has ended.
    pub(super) fn node(&self, children: &[Child]) -> Option<NodeId> {
        let mut matching = bits(self.candidates).map(|number| &children[number]);
        let child = matching.find(|child| child.key.text.len() == self.matched)?;
        (self.high == 0).then_some(child.node)
    }

    fn hex(&mut self, children: &[Child], digits: u8, unit: u32) {
        if digits < 4 {
            self.escape = Escape::Hex { digits, unit };
            return;
        }
        self.escape = Escape::None;
        if self.high == 0 && matches!(unit, 0xD800..0xDC00) {
            self.high = unit;
            return;
        }
        let code = match (std::mem::take(&mut self.high), unit) {
            (0, _) => unit,
            (high, 0xDC00..0xE000) => 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00),
            _ => HALF,
        };
        match char::from_u32(code) {
            Some(character) => {
                self.text(children, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            // Half a surrogate pair is not a character, so no child's key has it.
            None => self.candidates = 0,
        }
    }

    /// Keeps the candidates whose keys go on with `text`.
    fn text(&mut self, children: &[Child], text: &[u8]) {
        for number in bits(self.candidates) {
            let rest = children[number].key.text.as_bytes().get(self.matched..);
            if self.high != 0 || !rest.is_some_and(|rest| rest.starts_with(text)) {
                self.candidates &= !(1 << number);
            }
        }
        self.matched += text.len();
    }
}

/// A code that is not a character.
const HALF: u32 = 0xD800;

/// Returns what a backslash and `byte` stand for. Escapes that JSON does not have become a byte that no key has.
fn unescaped(byte: u8) -> &'static [u8] {
    match byte {
        b'"' => b"\"",
        b'\\' => b"\\",
        b'/' => b"/",
        b'b' => b"\x08",
        b'f' => b"\x0C",
        b'n' => b"\n",
        b'r' => b"\r",
        b't' => b"\t",
        _ => b"\xFF",
    }
}
