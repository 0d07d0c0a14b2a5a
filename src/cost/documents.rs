//! Walks JSON documents that come in pieces along the tree of pointers.
//!
//! It checks as much as it needs to know where it is. In what no pointer leads into it only counts
//! brackets, and does not tell square from curly; it looks into no string that is not a key. So what it calls
//! broken is no JSON, but it does not find everything that is no JSON.

use super::decimal::{Decimal, NUMBER_BYTES_MAX};
use super::key::{KeyMatch, KeyStep};
use super::pointers::{NodeId, Pointers};
use super::skip::{self, Skipped};

/// The walk, and the largest number that it has met at each pointer.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may be true together"
)]
#[derive(Debug)]
pub(super) struct Documents {
    next: Next,
    /// The containers that are open, and that a pointer leads into: never more than a pointer has keys, and one.
    levels: Vec<Level>,
    /// Where the value leads that is read or comes next.
    node: Option<NodeId>,
    key: KeyMatch,
    /// Whether the piece ended behind a backslash in a string.
    is_escaped: bool,
    /// A number or literal that is cut by the end of a piece, and at most one byte more than can be read.
    scalar: Vec<u8>,
    /// How many containers are open that no pointer leads into.
    skipped_depth: u64,
    numbers: Box<[Option<Decimal>]>,
    has_whole: bool,
    /// Whether a number at a pointer was too long to be read.
    has_unread: bool,
    has_object: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A document, or nothing.
    Document,
    Value,
    ElementOrEnd,
    KeyOrEnd,
    PointerKey,
    Colon,
    CommaOrEnd,
    InKey,
    InScalar,
    InString(StringIs),
    InSkipped,
    /// Nothing, until the next document begins.
    Broken,
}

/// What a string is that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringIs {
    PointerKey,
    Value,
    PartOfSkipped,
}

/// A container that is open.
#[derive(Clone, Copy, Debug)]
enum Level {
    Object(NodeId),
    Array(NodeId, u32),
}

impl Documents {
    pub(super) fn new(pointers: &Pointers) -> Self {
        Self {
            next: Next::Document,
            levels: Vec::with_capacity(pointers.levels()),
            node: Some(Pointers::TOP),
            key: KeyMatch::default(),
            is_escaped: false,
            scalar: Vec::new(),
            skipped_depth: 0,
            numbers: vec![None; pointers.count()].into(),
            has_whole: false,
            has_unread: false,
            has_object: false,
        }
    }

    /// Reads a piece; returns what is left of it because the document is broken.
    pub(super) fn read<'b>(&mut self, pointers: &Pointers, mut bytes: &'b [u8]) -> &'b [u8] {
        // Where it is stays in registers from token to token.
        let mut next = self.next;
        while let Some((&byte, rest)) = bytes.split_first() {
            (next, bytes) = match next {
                Next::Document | Next::Value => self.value(pointers, next, bytes),
                Next::CommaOrEnd => match byte {
                    b',' => (self.comma(pointers), rest),
                    b']' | b'}' => (self.end_container(byte), rest),
                    _ => other(next, bytes),
                },
                Next::KeyOrEnd | Next::PointerKey => match byte {
                    b'"' => self.member(pointers, rest),
                    b'}' if next == Next::KeyOrEnd => (self.end_container(byte), rest),
                    _ => other(next, bytes),
                },
                Next::ElementOrEnd => match byte {
                    b']' => (self.end_container(byte), rest),
                    _ => self.value(pointers, next, bytes),
                },
                Next::Colon => match byte {
                    b':' => (Next::Value, rest),
                    _ => other(next, bytes),
                },
                Next::InKey => self.key(pointers, bytes),
                Next::InScalar => self.scalar(pointers, bytes),
                Next::InString(is) => self.string(bytes, is),
                Next::InSkipped => self.skipped(bytes),
                Next::Broken => break,
            };
        }
        self.next = next;
        bytes
    }

    /// Says that no more comes of what was read; returns whether it ended where a document may end.
    /// What is read next is a new document.
    pub(super) fn end(&mut self, pointers: &Pointers) -> bool {
        // What a number inside of a container would have been is not known.
        if self.next == Next::InScalar && self.levels.is_empty() {
            self.read(pointers, b" ");
        }
        let is_sound = self.next == Next::Document;
        self.next = Next::Document;
        self.node = Some(Pointers::TOP);
        self.is_escaped = false;
        self.levels.clear();
        self.scalar.clear();
        self.has_object = false;
        is_sound
    }

    /// Ends an event. One that has begun an object is whole, whatever it held.
    pub(super) fn end_event(&mut self, pointers: &Pointers) {
        self.has_whole |= self.has_object;
        self.end(pointers);
    }

    /// Notes an object in which no pointer leads anywhere.
    pub(super) fn pass_object(&mut self) {
        self.has_whole = true;
    }

    /// Whether an object has begun since the last [`end`](Self::end).
    pub(super) fn has_object(&self) -> bool {
        self.has_object
    }

    /// Whether any document has been read from its begin to its end, and every number at a pointer.
    pub(super) fn has_whole(&self) -> bool {
        self.has_whole && !self.has_unread
    }

    /// The largest number at each pointer.
    pub(super) fn into_numbers(self) -> Box<[Option<Decimal>]> {
        self.numbers
    }

    fn comma(&mut self, pointers: &Pointers) -> Next {
        match self.levels.last_mut() {
            Some(Level::Array(node, position)) => {
                *position = position.saturating_add(1);
                let (node, position) = (*node, *position);
                self.element(pointers, node, position, Next::Value)
            }
            _ => Next::PointerKey,
        }
    }

    fn end_container(&mut self, byte: u8) -> Next {
        match (byte, self.levels.pop()) {
            (b']', Some(Level::Array(..))) | (b'}', Some(Level::Object(_))) => self.end_value(),
            _ => Next::Broken,
        }
    }

    /// Begins a value.
    fn value<'b>(&mut self, pointers: &Pointers, next: Next, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let (byte, rest) = (bytes[0], &bytes[1..]);
        let next = match (byte, self.node) {
            (b'{', Some(node)) if pointers.has_children(node) => {
                self.has_object = true;
                self.levels.push(Level::Object(node));
                Next::KeyOrEnd
            }
            (b'[', Some(node)) if self.levels.is_empty() || !pointers.is_past(node, 0) => {
                self.levels.push(Level::Array(node, 0));
                self.element(pointers, node, 0, Next::ElementOrEnd)
            }
            (b'{' | b'[', _) => {
                self.has_object |= byte == b'{';
                self.skip()
            }
            (b'"', _) => return self.string(rest, StringIs::Value),
            (b'-' | b'0'..=b'9' | b'f' | b'n' | b't', _) => return self.scalar(pointers, bytes),
            _ => return other(next, bytes),
        };
        (next, rest)
    }

    /// Comes to an element of the innermost array, or behind the last that leads anywhere.
    fn element(&mut self, pointers: &Pointers, array: NodeId, position: u32, next: Next) -> Next {
        if self.levels.len() == 1 {
            self.node = Some(pointers.element_top(position));
        } else if pointers.is_past(array, position) {
            self.levels.pop();
            return self.skip();
        } else {
            self.node = pointers.element(array, position);
        }
        next
    }

    /// Reads a key behind its opening quotation mark: to behind its colon, if both stand in the piece as they
    /// are mostly written.
    fn member<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let Some(Level::Object(node)) = self.levels.last() else {
            unreachable!("keys are in objects");
        };
        let children = pointers.children(*node);
        let found = children.iter().find_map(|child| {
            let member = child.key.member.as_deref()?;
            Some((child.node, bytes.strip_prefix(member)?))
        });
        if let Some((node, value)) = found {
            self.node = Some(node);
            return (Next::Value, value);
        }
        if let Some(end) = skip::quote_or_backslash(bytes)
            && let [b'"', b':', value @ ..] = &bytes[end..]
        {
            self.node = None;
            return (Next::Value, value);
        }
        self.key = KeyMatch::begin(children);
        (Next::InKey, bytes)
    }

    fn key<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let Some(Level::Object(node)) = self.levels.last() else {
            unreachable!("keys are in objects");
        };
        let children = pointers.children(*node);
        match self.key.read(children, bytes) {
            KeyStep::Ended(rest) => {
                self.node = self.key.node(children);
                (Next::Colon, rest)
            }
            KeyStep::Unknown(rest) => {
                self.node = None;
                (Next::InString(StringIs::PointerKey), rest)
            }
            KeyStep::More => (Next::InKey, &[]),
        }
    }

    fn string<'b>(&mut self, bytes: &'b [u8], is: StringIs) -> (Next, &'b [u8]) {
        let mut is_escaped = std::mem::take(&mut self.is_escaped);
        let Some(rest) = skip::string(bytes, &mut is_escaped) else {
            self.is_escaped = is_escaped;
            return (Next::InString(is), &[]);
        };
        let next = match is {
            StringIs::PointerKey => Next::Colon,
            StringIs::Value => self.end_value(),
            StringIs::PartOfSkipped => Next::InSkipped,
        };
        (next, rest)
    }

    /// Skips the rest of a container.
    fn skip(&mut self) -> Next {
        self.skipped_depth = 1;
        Next::InSkipped
    }

    fn skipped<'b>(&mut self, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        match skip::container(bytes, &mut self.skipped_depth) {
            Skipped::More => (Next::InSkipped, &[]),
            Skipped::InString { is_escaped } => {
                self.is_escaped = is_escaped;
                (Next::InString(StringIs::PartOfSkipped), &[])
            }
            Skipped::ToEnd(at) => (self.end_value(), &bytes[at..]),
            Skipped::Broken(at) => (Next::Broken, &bytes[at..]),
        }
    }

    fn scalar<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        if self.scalar.is_empty()
            && pointers.is_end(self.node)
            && let Some((number, rest @ [behind, ..])) = Decimal::plain(bytes)
            && !is_of_scalar(*behind)
        {
            self.note(pointers, &number);
            return (self.end_value(), rest);
        }
        let end = bytes.iter().position(|byte| !is_of_scalar(*byte));
        let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        let next = if end.is_some() && self.scalar.is_empty() {
            self.end_scalar(pointers, piece)
        } else {
            self.cut_scalar(pointers, piece, end.is_some())
        };
        (next, rest)
    }

    /// Reads a scalar whose begin or end is in another piece.
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
            [b'a'..=b'z', ..] => matches!(scalar, b"null" | b"true" | b"false"),
            _ if !pointers.is_end(self.node) => true,
            _ if scalar.len() > NUMBER_BYTES_MAX => {
                self.has_unread = true;
                true
            }
            _ => self.number(pointers, scalar),
        };
        if is_sound {
            self.end_value()
        } else {
            Next::Broken
        }
    }

    /// Reads a number at which a pointer ends; returns false if it is none.
    fn number(&mut self, pointers: &Pointers, text: &[u8]) -> bool {
        let number = Decimal::parse(text);
        if let Some((false, number)) = &number {
            self.note(pointers, number);
        }
        number.is_some()
    }

    /// Notes a number that is reported here.
    fn note(&mut self, pointers: &Pointers, number: &Decimal) {
        let Some(node) = self.node else { return };
        for pointer in pointers.ending_at(node) {
            let largest = &mut self.numbers[pointer];
            if largest.as_ref() < Some(number) {
                *largest = Some(number.clone());
            }
        }
    }

    fn end_value(&mut self) -> Next {
        if self.levels.is_empty() {
            self.has_whole = true;
            self.node = Some(Pointers::TOP);
            Next::Document
        } else {
            Next::CommaOrEnd
        }
    }
}

/// Goes on behind white space, which few tokens have before them; anything else breaks the document.
fn other(next: Next, bytes: &[u8]) -> (Next, &[u8]) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    match bytes.iter().position(|byte| !is_space(byte)) {
        Some(0) => (Next::Broken, &bytes[1..]),
        Some(at) => (next, &bytes[at..]),
        None => (next, &[]),
    }
}

fn is_of_scalar(byte: u8) -> bool {
    OF_SCALAR[usize::from(byte)]
}

/// The bytes of numbers and literals.
const OF_SCALAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < u8::MAX {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        byte += 1;
    }
    table
};
