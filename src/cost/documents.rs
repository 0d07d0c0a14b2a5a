//! Walks JSON documents, which arrive in pieces, along the tree of pointers.
//!
//! It checks only as much as it needs to know where it is. Inside of values that no pointer leads into, it only counts
//! brackets, and does not distinguish square from curly ones; of strings it looks only into keys and into texts at
//! pointers. So what it calls broken is not JSON, but it does not notice everything that is not JSON.

mod scalars;
mod texts;

use super::findings::Findings;
use super::key::{KeyMatch, KeyStep};
use super::pointers::Pointers;
use super::skip::{self, Skipped};
use super::steps::{Level, MemberBegin, Next, StringIs, is_blank, other};
use super::tree::{Node, NodeId};

/// The walk, and what it has found.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may be true together"
)]
#[derive(Debug)]
pub(super) struct Documents {
    next: Next,
    /// Open containers that a pointer leads into: at most as many as the longest pointer has keys, and one more.
    levels: Vec<Level>,
    /// The node of the value that is being read or comes next, if a pointer leads there.
    node: Option<NodeId>,
    key: KeyMatch,
    /// Whether the piece ended after a backslash in a string.
    is_escaped: bool,
    /// A number or literal that the end of a piece has cut, or a text: at most one byte more than can be read.
    scalar: Vec<u8>,
    /// How many open containers no pointer leads into.
    skipped_depth: u64,
    /// Pointers to the value that has just begun that ask whether it is empty, one bit each.
    members: u32,
    found: Findings,
    has_whole: bool,
    /// Whether a number at a pointer was too long to be read.
    has_unread: bool,
    has_object: bool,
    /// Whether the document is an object or array.
    is_container: bool,
}

impl Documents {
    pub(super) fn new(pointers: &Pointers) -> Self {
        Self {
            next: Next::Document,
            levels: Vec::with_capacity(pointers.levels()),
            node: Some(pointers.top()),
            key: KeyMatch::default(),
            is_escaped: false,
            scalar: Vec::new(),
            skipped_depth: 0,
            members: 0,
            found: Findings::new(pointers),
            has_whole: false,
            has_unread: false,
            has_object: false,
            is_container: false,
        }
    }

    /// Reads a piece; returns the rest of it if the document is broken, otherwise an empty slice.
    pub(super) fn read<'b>(&mut self, pointers: &Pointers, mut bytes: &'b [u8]) -> &'b [u8] {
        // Kept in a local variable, so that it stays in a register from token to token.
        let mut next = self.next;
        while let Some((&byte, rest)) = bytes.split_first() {
            (next, bytes) = match next {
                Next::Document => self.document(pointers, bytes),
                Next::Value => self.value(pointers, next, bytes),
                Next::CommaOrEnd => match byte {
                    b',' => (self.comma(pointers), rest),
                    b']' | b'}' => (self.end_container(pointers, byte), rest),
                    _ => other(next, bytes),
                },
                Next::KeyOrEnd | Next::PointerKey => match byte {
                    b'"' => self.member(pointers, rest),
                    b'}' if next == Next::KeyOrEnd => (self.end_container(pointers, byte), rest),
                    _ => other(next, bytes),
                },
                Next::ElementOrEnd => match byte {
                    b']' => (self.end_container(pointers, byte), rest),
                    _ => self.value(pointers, next, bytes),
                },
                Next::Colon => match byte {
                    b':' => (Next::Value, rest),
                    _ => other(next, bytes),
                },
                Next::InKey => self.key(pointers, bytes),
                Next::InScalar => self.more_scalar(pointers, bytes),
                Next::InText => self.text(pointers, bytes),
                Next::InString(is) => self.string(pointers, bytes, is),
                Next::InSkipped => self.skipped(pointers, bytes),
                Next::LineEnd => match byte {
                    b'\n' => (Next::Document, rest),
                    b' ' | b'\t' | b'\r' => (next, rest),
                    _ => (Next::Broken, rest),
                },
                Next::First(opened) => self.first(opened, bytes),
                Next::Broken => break,
            };
        }
        self.next = next;
        bytes
    }

    /// Ends what was read so far; returns whether it ended where a document may end. What is read next is a new
    /// document.
    pub(super) fn end(&mut self, pointers: &Pointers) -> bool {
        // A number at the top has ended; inside of a container it may have been cut.
        if self.next == Next::InScalar && self.levels.is_empty() {
            self.read(pointers, b" ");
        }
        let is_sound = matches!(self.next, Next::Document | Next::LineEnd);
        self.found.end(is_sound);
        while let Some(level) = self.levels.pop() {
            self.fold(pointers, level);
        }
        self.next = Next::Document;
        self.node = Some(pointers.top());
        self.is_escaped = false;
        self.scalar.clear();
        self.has_object = false;
        is_sound
    }

    /// Ends an event. If it has begun an object, it counts as whole, whatever it held.
    pub(super) fn end_event(&mut self, pointers: &Pointers) {
        self.has_whole |= self.has_object;
        self.end(pointers);
    }

    /// Notes a whole object that need not be read, because it has no value at any pointer.
    pub(super) fn pass_object(&mut self) {
        self.found.begin_document();
        self.has_whole = true;
    }

    /// Whether an object has begun since the last [`end`](Self::end).
    pub(super) fn has_object(&self) -> bool {
        self.has_object
    }

    /// Whether the last document is an object or array, which cannot be cut where it has ended.
    pub(super) fn is_container(&self) -> bool {
        self.is_container
    }

    /// Whether a document has been read from beginning to end, and every number at a pointer could be read.
    pub(super) fn has_whole(&self) -> bool {
        self.has_whole && !self.has_unread
    }

    /// Returns what has been found at the pointers.
    pub(super) fn into_found(self) -> Findings {
        self.found
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

    fn end_container(&mut self, pointers: &Pointers, byte: u8) -> Next {
        let Some(level) = self.levels.pop() else {
            return Next::Broken;
        };
        self.fold(pointers, level);
        match (byte, level) {
            (b']', Level::Array(..)) | (b'}', Level::Object(_)) => self.end_value(pointers),
            _ => Next::Broken,
        }
    }

    /// Hands on what a container has found, because nothing more of it counts.
    fn fold(&mut self, pointers: &Pointers, level: Level) {
        if self.found.has_sums() {
            let (Level::Object(node) | Level::Array(node, _)) = level;
            self.found.fold(pointers, pointers.node(node));
        }
    }

    /// Begins a document, unless a blank precedes it.
    fn document<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        if !is_blank(bytes[0]) {
            self.found.begin_document();
            self.is_container = matches!(bytes[0], b'{' | b'[');
        }
        self.value(pointers, Next::Document, bytes)
    }

    /// Begins a value.
    fn value<'b>(&mut self, pointers: &Pointers, next: Next, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let (members, texts) = pointers.members_and_texts(self.node);
        if texts != 0
            && let Some(begun) = self.begin_text(texts, bytes)
        {
            return begun;
        }
        let byte = bytes[0];
        let rest = &bytes[1..];
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
            (b'"', _) if members != 0 => Next::InString(StringIs::Value),
            (b'"', _) => return self.string(pointers, rest, StringIs::Value),
            (b'-' | b'0'..=b'9' | b'f' | b'n' | b't' | b'N' | b'I', _) => {
                return match self.plain_number(pointers, bytes) {
                    Some(read) => read,
                    None => self.scalar(pointers, bytes),
                };
            }
            _ => return other(next, bytes),
        };
        if members == 0 {
            return (next, rest);
        }
        self.members = members;
        let opened = match next {
            Next::KeyOrEnd => MemberBegin::Object,
            Next::InString(_) => MemberBegin::String,
            Next::InSkipped => MemberBegin::Skipped,
            _ => MemberBegin::Array,
        };
        (Next::First(opened), rest)
    }

    /// Notes the members of a value that has begun, unless its first byte shows that it is empty.
    fn first<'b>(&mut self, opened: MemberBegin, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let next = match opened {
            MemberBegin::Object => Next::KeyOrEnd,
            MemberBegin::Array => Next::ElementOrEnd,
            MemberBegin::Skipped => Next::InSkipped,
            MemberBegin::String => Next::InString(StringIs::Value),
        };
        let is_empty = match bytes[0] {
            byte if opened != MemberBegin::String && is_blank(byte) => {
                return (Next::First(opened), &bytes[1..]);
            }
            b'"' => opened == MemberBegin::String,
            b'}' | b']' => opened != MemberBegin::String,
            _ => false,
        };
        if !is_empty {
            self.found.note_members(self.members);
        }
        (next, bytes)
    }

    /// Goes on to an element of the innermost array, or skips the rest if no pointer leads to any more of them.
    fn element(&mut self, pointers: &Pointers, array: NodeId, position: u32, next: Next) -> Next {
        if self.levels.len() == 1 {
            if position > 0 {
                self.found.begin_document();
            }
            self.node = Some(pointers.element_top(position));
        } else if pointers.is_past(array, position) {
            self.levels.pop();
            self.fold(pointers, Level::Array(array, position));
            return self.skip();
        } else {
            self.node = pointers.element(array, position);
        }
        next
    }

    /// Reads a key after its opening quotation mark: up to its colon, if both are in this piece and written as usual.
    fn member<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let Some(Level::Object(node)) = self.levels.last() else {
            unreachable!("keys are in objects");
        };
        let Node {
            children, every, ..
        } = pointers.node(*node);
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
            self.node = *every;
            return (Next::Value, value);
        }
        self.key = KeyMatch::begin(children);
        (Next::InKey, bytes)
    }

    fn key<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        let Some(Level::Object(node)) = self.levels.last() else {
            unreachable!("keys are in objects");
        };
        let Node {
            children, every, ..
        } = pointers.node(*node);
        match self.key.read(children, bytes) {
            KeyStep::Ended(rest) => {
                self.node = self.key.node(children).or(*every);
                (Next::Colon, rest)
            }
            KeyStep::Unknown(rest) => {
                self.node = *every;
                (Next::InString(StringIs::PointerKey), rest)
            }
            KeyStep::More => (Next::InKey, &[]),
        }
    }

    fn string<'b>(
        &mut self,
        pointers: &Pointers,
        bytes: &'b [u8],
        is: StringIs,
    ) -> (Next, &'b [u8]) {
        let mut is_escaped = std::mem::take(&mut self.is_escaped);
        let Some(rest) = skip::string(bytes, &mut is_escaped) else {
            self.is_escaped = is_escaped;
            return (Next::InString(is), &[]);
        };
        let next = match is {
            StringIs::PointerKey => Next::Colon,
            StringIs::Value => self.end_value(pointers),
            StringIs::PartOfSkipped => Next::InSkipped,
        };
        (next, rest)
    }

    /// Skips the rest of a container.
    fn skip(&mut self) -> Next {
        self.skipped_depth = 1;
        Next::InSkipped
    }

    fn skipped<'b>(&mut self, pointers: &Pointers, bytes: &'b [u8]) -> (Next, &'b [u8]) {
        match skip::container(bytes, &mut self.skipped_depth) {
            Skipped::More => (Next::InSkipped, &[]),
            Skipped::InString { is_escaped } => {
                self.is_escaped = is_escaped;
                (Next::InString(StringIs::PartOfSkipped), &[])
            }
            Skipped::ToEnd(at) => (self.end_value(pointers), &bytes[at..]),
            Skipped::Broken(at) => (Next::Broken, &bytes[at..]),
        }
    }

    fn end_value(&mut self, pointers: &Pointers) -> Next {
        if self.levels.is_empty() {
            self.has_whole = true;
            self.node = Some(pointers.top());
            Next::LineEnd
        } else {
            Next::CommaOrEnd
        }
    }
}
