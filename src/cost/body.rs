//! Reads the numbers in a body that passes in pieces.

use std::sync::Arc;

use memchr::memchr;

use super::decimal::Decimal;
use super::documents::Documents;
use super::events::{EventPart, Events};
use super::findings::{FoundText, MembersFound};
use super::pointers::Pointers;

/// Finds the numbers at pointers in a body, whatever its length and however it is cut.
///
/// The reader holds a few words, a number of at most [`NUMBER_BYTES_MAX`](super::NUMBER_BYTES_MAX) bytes if a piece
/// ends within it, the text that is being read if a pointer looks for one, and the largest number at each pointer, or
/// the last, which takes 16 bytes if it has at most 19 digits; for pointers with `*` also the sums in progress. Null,
/// strings, literals, containers and negative numbers are not reported: they neither count nor undo what was reported.
/// If a number is longer, the body does not count as whole.
#[derive(Debug)]
pub struct NumberReader {
    pointers: Arc<Pointers>,
    documents: Documents,
    framing: FormatState,
    bom: usize,
    is_broken: bool,
}

/// How a body contains documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON: one document, or several, each of which begins on a new line (NDJSON). The elements of a top-level array
    /// count as documents.
    Json,
    /// `text/event-stream`, with a document in the data of each event.
    EventStream,
}

/// What was read from a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BodyNumbers {
    /// The number at each pointer, in the order of the pointers.
    pub numbers: Box<[Option<Decimal>]>,
    /// Whether the body had a document, all of its documents were complete, and no number was too long. If not, it was
    /// cut or is not JSON, and might have reported more: a broken document is not read any further, but what it
    /// reported counts, and the next one is read. An event of a stream is complete once it has ended, whatever it
    /// holds. The last event may end with the body if it begins no object (`[DONE]`).
    pub is_whole: bool,
    /// Whether the body ended where it cannot go on: its last document was an object or array that has closed, or an
    /// event said that the stream ends.
    pub is_closed: bool,
    /// For each pointer whose last number counts, the document that reported it; empty if no pointer is of this kind.
    documents: Box<[u32]>,
    members: MembersFound,
    /// The text at each pointer; empty if no pointer looks for one.
    texts: Box<[FoundText]>,
}

/// Where a member that is not null, false or empty was found first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPlace {
    /// In the first document or event.
    First,
    /// In a later one.
    Later,
}

#[derive(Debug)]
enum FormatState {
    Json,
    EventStream(Events),
}

impl BodyNumbers {
    /// Returns the number at a pointer, after the document that reported it if the last one counts, otherwise after 0.
    pub fn number(&self, pointer: usize) -> Option<(u32, &Decimal)> {
        let number = self.numbers.get(pointer)?.as_ref()?;
        Some((self.documents.get(pointer).copied().unwrap_or(0), number))
    }

    /// Returns the text at a pointer.
    pub fn text(&self, pointer: usize) -> &FoundText {
        self.texts.get(pointer).unwrap_or(&FoundText::Nothing)
    }

    /// Returns where the member at a pointer was found first.
    pub fn member(&self, pointer: usize) -> Option<MemberPlace> {
        if self.members.first >> pointer & 1 != 0 {
            Some(MemberPlace::First)
        } else {
            (self.members.later >> pointer & 1 != 0).then_some(MemberPlace::Later)
        }
    }
}

impl NumberReader {
    /// Begins a body; a stream of events ends with `[DONE]` or with an event named `last_event`.
    pub fn new(pointers: Arc<Pointers>, format: BodyFormat, last_event: Option<Arc<str>>) -> Self {
        Self {
            documents: Documents::new(&pointers),
            pointers,
            framing: match format {
                BodyFormat::Json => FormatState::Json,
                BodyFormat::EventStream => FormatState::EventStream(Events::new(last_event)),
            },
            bom: 0,
            is_broken: false,
        }
    }

    /// Reads a piece of the body.
    pub fn read(&mut self, mut bytes: &[u8]) {
        while let Some(expected) = BOM.get(self.bom) {
            match bytes.split_first() {
                None => return,
                Some((byte, rest)) if byte == expected => {
                    self.bom += 1;
                    bytes = rest;
                }
                Some(_) => {
                    let matched = std::mem::replace(&mut self.bom, BOM.len());
                    self.read_on(&BOM[..matched]);
                }
            }
        }
        self.read_on(bytes);
    }

    /// Ends the body, or as much of it as has arrived, and returns what was found.
    pub fn finish(mut self) -> BodyNumbers {
        let has_object = self.documents.has_object();
        let is_sound = self.documents.end(&self.pointers);
        let is_closed = match &self.framing {
            FormatState::Json => {
                self.is_broken |= !is_sound;
                self.documents.is_container()
            }
            FormatState::EventStream(events) => {
                self.is_broken |= !is_sound && has_object;
                events.has_ended()
            }
        };
        let is_whole = self.documents.has_whole() && !self.is_broken;
        let found = self.documents.into_found();
        BodyNumbers {
            numbers: found.numbers,
            is_whole,
            is_closed: is_closed && !self.is_broken,
            documents: found.documents,
            members: found.members,
            texts: found.texts,
        }
    }

    /// Reads on after a byte order mark, if there was one.
    fn read_on(&mut self, mut bytes: &[u8]) {
        let (documents, pointers) = (&mut self.documents, &*self.pointers);
        let is_broken = &mut self.is_broken;
        match &mut self.framing {
            FormatState::Json => {
                while !bytes.is_empty() {
                    bytes = documents.read(pointers, bytes);
                    *is_broken |= !bytes.is_empty();
                    // The next line may be a document of its own.
                    let Some(at) = memchr(b'\n', bytes) else {
                        return;
                    };
                    documents.end(pointers);
                    bytes = &bytes[at + 1..];
                }
            }
            FormatState::EventStream(events) => events.read(bytes, |part| match part {
                EventPart::Data(bytes) => {
                    documents.read(pointers, bytes);
                }
                EventPart::End => documents.end_event(pointers),
                EventPart::Event(object @ [b'{', ..]) if !pointers.may_report(object) => {
                    documents.pass_object();
                }
                EventPart::Event(data) => {
                    documents.read(pointers, data);
                    documents.end_event(pointers);
                }
            }),
        }
    }
}

/// The byte order mark, which may precede a text in UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";
