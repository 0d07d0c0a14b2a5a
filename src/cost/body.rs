//! A body that passes by in pieces.

use std::sync::Arc;

use memchr::memchr;

use super::decimal::Decimal;
use super::documents::Documents;
use super::events::{EventPart, Events};
use super::findings::{FoundText, MembersFound};
use super::pointers::Pointers;

/// Finds the numbers at pointers in a body, whatever its length and however it is cut.
///
/// What it holds: a few words, a number of at most [`NUMBER_BYTES_MAX`](super::NUMBER_BYTES_MAX) bytes
/// if a piece ends within it, and the largest number at each pointer, or the last, which takes 16 bytes if it has at
/// most 19 digits; of a pointer with `*` also the sums that are under way. Null, strings, literals, containers and
/// negative numbers are not reported: they neither count nor undo what was reported. A longer number leaves the body
/// unread.
#[derive(Debug)]
pub struct NumberReader {
    pointers: Arc<Pointers>,
    documents: Documents,
    framing: FormatState,
    bom: usize,
    is_broken: bool,
}

/// How a body holds documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON: one document, or several behind each other, such as a line each (NDJSON). The elements of
    /// a top-level array count like documents.
    Json,
    /// `text/event-stream`, with a document in the data of each event.
    EventStream,
}

/// What was read of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BodyNumbers {
    /// The number at each pointer, in their order.
    pub numbers: Box<[Option<Decimal>]>,
    /// Whether the body had a document, and all of them were complete. If not, it was cut or is no JSON, and might
    /// have reported more: a broken document is not read any further, but what it reported counts, and the next one is
    /// read. An event of a stream is complete once it has ended, whatever it holds. The last event may end with
    /// the body if it begins no object (`[DONE]`).
    pub is_whole: bool,
    /// Whether it ended as a body does that cannot go on: an object or array has closed last, or an event said that
    /// the stream ends.
    pub is_closed: bool,
    /// For each pointer of which the last number counts, the document that told it; empty if there is none.
    documents: Box<[u32]>,
    members: MembersFound,
    /// The text at each pointer; empty if none is looked for.
    texts: Box<[FoundText]>,
}

/// Where a member was found that is more than nothing.
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
    /// Returns the number at a pointer, behind the document that told it if the last counts.
    pub fn number(&self, pointer: usize) -> Option<(u32, &Decimal)> {
        let number = self.numbers.get(pointer)?.as_ref()?;
        Some((self.documents.get(pointer).copied().unwrap_or(0), number))
    }

    /// Returns the text at a pointer.
    pub fn text(&self, pointer: usize) -> &FoundText {
        self.texts.get(pointer).unwrap_or(&FoundText::Nothing)
    }

    /// Says where the member at a pointer was found first.
    pub fn member(&self, pointer: usize) -> Option<MemberPlace> {
        if self.members.first >> pointer & 1 != 0 {
            Some(MemberPlace::First)
        } else {
            (self.members.later >> pointer & 1 != 0).then_some(MemberPlace::Later)
        }
    }
}

impl NumberReader {
    /// Begins a body; a stream of events ends with `[DONE]` or an event of the name `last_event`.
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

    /// Reads a piece.
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

    /// Ends the body, or the part of it that has come.
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

    /// Reads on behind a byte order mark.
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

/// What may stand before a text in UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";
