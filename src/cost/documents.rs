//! Walks JSON documents that come in pieces along the tree of pointers.
//!
//! It checks as much as it needs to know where it is. In what no pointer leads into it only counts
//! brackets, and takes one for the other; it looks into no string that is not a key. So what it takes for
//! broken is no JSON, but not everything that is no JSON is found to be broken.

use super::decimal::{Decimal, NUMBER_BYTES_MAX};
use super::key::{KeyMatch, KeyStep};
use super::pointers::{NodeId, Pointers};
use super::skip::{self, Skipped};

/// The walk, and the largest number that it has met at each pointer.
#[derive(Debug)]
pub(super) struct Documents {
    next: Next,
    /// The containers that are open, and that a pointer leads into: never more than a pointer has keys.
    levels: Vec<Level>,
    /// Where the value leads that is read or comes next.
    node: Option<NodeId>,
    key: KeyMatch,
    /// A number or literal that is cut by the end of a piece, and at most one byte more than can be read.
    scalar: Vec<u8>,
    /// How many containers are open that no pointer leads into.
    skipped_depth: u64,
    numbers: Box<[Option<Decimal>]>,
    has_whole: bool,
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
    Key,
    Colon,
    CommaOrEnd,
    InKey,
    InScalar,
    InString {
        is_escaped: bool,
        is: StringIs,
    },
    InSkipped,
    /// Nothing, until the next document begins.
    Broken,
}

/// What a string is that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringIs {
    Key,
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
            scalar: Vec::new(),
            skipped_depth: 0,
            numbers: vec![None; pointers.count()].into(),
            has_whole: false,
            has_object: false,
        }
    }

    /// Reads a piece; returns what is left of it because the document is broken.
    pub(super) fn read<'b>(&mut self, pointers: &Pointers, mut bytes: &'b [u8]) -> &'b [u8] {
        while !bytes.is_empty() {
            bytes = match self.next {
                Next::InKey => self.key(pointers, bytes),
                Next::InScalar => self.scalar(pointers, bytes),
                Next::InString { is_escaped, is } => self.string(bytes, is_escaped, is),
                Next::InSkipped => self.skipped(bytes),
                Next::KeyOrEnd | Next::Key => self.member(pointers, bytes),
                Next::Broken => break,
                _ => self.token(pointers, bytes),
            };
        }
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
        self.begin_document();
        self.levels.clear();
        self.scalar.clear();
        self.has_object = false;
        is_sound
    }

    /// Ends an event, which is whole whatever it held if it has begun an object.
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

    /// Whether any document has been read from its begin to its end.
    pub(super) fn has_whole(&self) -> bool {
        self.has_whole
    }

    /// The largest number at each pointer.
    pub(super) fn into_numbers(self) -> Box<[Option<Decimal>]> {
        self.numbers
    }

    fn token<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> &'b [u8] {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let Some(at) = bytes.iter().position(|byte| !is_space(byte)) else {
            return &[];
        };
        let (byte, rest) = (bytes[at], &bytes[at + 1..]);
        match (self.next, byte, self.levels.last().copied()) {
            (Next::ElementOrEnd | Next::CommaOrEnd, b']', Some(Level::Array(..)))
            | (Next::KeyOrEnd | Next::CommaOrEnd, b'}', Some(Level::Object(_))) => {
                self.levels.pop();
                self.end_value();
            }
            (Next::Document | Next::Value | Next::ElementOrEnd, ..) => {
                return self.value(pointers, &bytes[at..]);
            }
            (Next::KeyOrEnd | Next::Key, b'"', Some(Level::Object(node))) => {
                self.key = KeyMatch::begin(pointers.children(node));
                self.next = Next::InKey;
            }
            (Next::Colon, b':', _) => self.next = Next::Value,
            (Next::CommaOrEnd, b',', Some(Level::Object(_))) => self.next = Next::Key,
            (Next::CommaOrEnd, b',', Some(Level::Array(node, at))) => {
                self.levels.pop();
                self.element(pointers, node, at.saturating_add(1));
            }
            _ => self.next = Next::Broken,
        }
        rest
    }

    /// Begins a value.
    fn value<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> &'b [u8] {
        self.has_object |= bytes[0] == b'{';
        match (bytes[0], self.node) {
            (b'{', Some(node)) if !pointers.children(node).is_empty() => {
                self.levels.push(Level::Object(node));
                self.next = Next::KeyOrEnd;
            }
            (b'[', Some(node)) => self.element(pointers, node, 0),
            (b'{' | b'[', _) => self.skip(),
            (b'"', _) => return self.string(&bytes[1..], false, StringIs::Value),
            (b'-' | b'0'..=b'9' | b'f' | b'n' | b't', _) => return self.scalar(pointers, bytes),
            _ => self.next = Next::Broken,
        }
        &bytes[1..]
    }

    /// Comes to an element of the array that stands behind the levels.
    fn element(&mut self, pointers: &Pointers, array: NodeId, position: u32) {
        if self.levels.is_empty() {
            self.node = Some(pointers.element_top(position));
        } else if pointers.is_past(array, position) {
            self.skip();
            return;
        } else {
            self.node = pointers.element(array, position);
        }
        self.levels.push(Level::Array(array, position));
        self.next = match position {
            0 => Next::ElementOrEnd,
            _ => Next::Value,
        };
    }

    /// Reads a key to behind its colon, if both stand in the piece as they are mostly written; otherwise a token.
    fn member<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> &'b [u8] {
        if let [b'"', rest @ ..] = bytes
            && let Some(end) = skip::quote_or_backslash(rest)
            && let [b'"', b':', value @ ..] = &rest[end..]
            && let Some(Level::Object(node)) = self.levels.last()
        {
            self.node = pointers.child(*node, &rest[..end]);
            self.next = Next::Value;
            return value;
        }
        self.token(pointers, bytes)
    }

    fn key<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> &'b [u8] {
        let Some(Level::Object(node)) = self.levels.last() else {
            unreachable!("keys are in objects");
        };
        let children = pointers.children(*node);
        match self.key.read(children, bytes) {
            KeyStep::Ended(rest) => {
                self.node = self.key.node(children);
                self.next = Next::Colon;
                rest
            }
            KeyStep::Unknown(rest) => {
                self.node = None;
                self.next = Next::InString {
                    is_escaped: false,
                    is: StringIs::Key,
                };
                rest
            }
            KeyStep::More => &[],
        }
    }

    fn string<'b>(&mut self, bytes: &'b [u8], mut is_escaped: bool, is: StringIs) -> &'b [u8] {
        let Some(rest) = skip::string(bytes, &mut is_escaped) else {
            self.next = Next::InString { is_escaped, is };
            return &[];
        };
        match is {
            StringIs::Key => self.next = Next::Colon,
            StringIs::Value => self.end_value(),
            StringIs::PartOfSkipped => self.next = Next::InSkipped,
        }
        rest
    }

    /// Skips the rest of a container.
    fn skip(&mut self) {
        self.skipped_depth = 1;
        self.next = Next::InSkipped;
    }

    fn skipped<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        match skip::container(bytes, &mut self.skipped_depth) {
            Skipped::More => &[],
            Skipped::InString { is_escaped } => {
                let is = StringIs::PartOfSkipped;
                self.next = Next::InString { is_escaped, is };
                &[]
            }
            Skipped::ToEnd(at) => {
                self.end_value();
                &bytes[at..]
            }
        }
    }

    fn scalar<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> &'b [u8] {
        let is_of_scalar =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let end = bytes.iter().position(|byte| !is_of_scalar(byte));
        let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if end.is_some() && self.scalar.is_empty() {
            self.end_scalar(pointers, piece);
            return rest;
        }
        let room = NUMBER_BYTES_MAX + 1 - self.scalar.len();
        self.scalar
            .extend_from_slice(&piece[..piece.len().min(room)]);
        if end.is_some() {
            let scalar = std::mem::take(&mut self.scalar);
            self.end_scalar(pointers, &scalar);
        } else {
            self.next = Next::InScalar;
        }
        rest
    }

    fn end_scalar(&mut self, pointers: &Pointers, scalar: &[u8]) {
        let is_sound = match scalar {
            [b'a'..=b'z', ..] => matches!(scalar, b"null" | b"true" | b"false"),
            _ => scalar.len() > NUMBER_BYTES_MAX || self.number(pointers, scalar),
        };
        if is_sound {
            self.end_value();
        } else {
            self.next = Next::Broken;
        }
    }

    /// Notes a number if a pointer ends at it; returns false if it is none.
    fn number(&mut self, pointers: &Pointers, text: &[u8]) -> bool {
        let Some(node) = self.node else { return true };
        let mut ending = pointers.ending_at(node).peekable();
        if ending.peek().is_none() {
            return true;
        }
        let Some((is_negative, number)) = Decimal::parse(text) else {
            return false;
        };
        if !is_negative {
            for pointer in ending {
                let largest = &mut self.numbers[pointer];
                if largest.as_ref() < Some(&number) {
                    *largest = Some(number.clone());
                }
            }
        }
        true
    }

    fn end_value(&mut self) {
        if self.levels.is_empty() {
            self.has_whole = true;
            self.begin_document();
        } else {
            self.next = Next::CommaOrEnd;
        }
    }

    fn begin_document(&mut self) {
        self.node = Some(Pointers::TOP);
        self.next = Next::Document;
    }
}
