//! A body that passes by in pieces.

use std::sync::Arc;

use memchr::memchr;

use super::decimal::Decimal;
use super::documents::Documents;
use super::events::{Events, Part};
use super::pointers::Pointers;

/// Finds the numbers at pointers in a body, whatever its length and however it is cut.
///
/// What it holds: a few words, a number of at most [`NUMBER_BYTES_MAX`](super::NUMBER_BYTES_MAX) bytes
/// if a piece ends within it, and the largest number at each pointer, which takes 16 bytes if it has at
/// most 26 digits. Null, strings, literals, containers, negative and longer numbers are not told: they
/// neither count nor undo what was told.
#[derive(Debug)]
pub struct BodyReader {
    pointers: Arc<Pointers>,
    documents: Documents,
    framing: Framing,
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
pub struct Reading {
    /// The largest number at each pointer, in their order.
    pub numbers: Box<[Option<Decimal>]>,
    /// Whether the body had a document, and ended with one that was complete. Otherwise it was cut or is no JSON,
    /// and might have told more: a broken document is not read any further, but what it told counts, and so
    /// does the next one's. Of JSON each document must be complete. An event of a stream is, whatever it holds,
    /// once it has ended; the last one need not if it begins no object (`[DONE]`).
    pub is_whole: bool,
}

#[derive(Debug)]
enum Framing {
    Json,
    EventStream(Events),
}

impl BodyReader {
    /// Begins a body.
    pub fn new(pointers: Arc<Pointers>, format: BodyFormat) -> Self {
        Self {
            documents: Documents::new(&pointers),
            pointers,
            framing: match format {
                BodyFormat::Json => Framing::Json,
                BodyFormat::EventStream => Framing::EventStream(Events::default()),
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

    /// Ends the body, or what came of it.
    pub fn finish(mut self) -> Reading {
        self.is_broken |= match self.framing {
            Framing::Json => !self.documents.end(&self.pointers),
            Framing::EventStream(_) => {
                let has_object = self.documents.has_object();
                !self.documents.end(&self.pointers) && has_object
            }
        };
        Reading {
            is_whole: self.documents.has_whole() && !self.is_broken,
            numbers: self.documents.into_numbers(),
        }
    }

    /// Reads on behind a byte order mark.
    fn read_on(&mut self, mut bytes: &[u8]) {
        let (documents, pointers) = (&mut self.documents, &*self.pointers);
        let is_broken = &mut self.is_broken;
        match &mut self.framing {
            Framing::Json => {
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
            Framing::EventStream(events) => events.read(bytes, |part| match part {
                Part::Data(bytes) => {
                    documents.read(pointers, bytes);
                }
                Part::End => documents.end_event(pointers),
                Part::Event(object @ [b'{', ..]) if !pointers.may_tell(object) => {
                    documents.pass_object();
                }
                Part::Event(data) => {
                    documents.read(pointers, data);
                    documents.end_event(pointers);
                }
            }),
        }
    }
}

/// What may stand before a text in UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";
