//! Splits an event stream (WHATWG HTML, section 9.2.6) into the data of its events, and notes whether the stream says
//! that it ends.

use std::sync::Arc;

use memchr::memchr2;

/// How far an event stream has been read.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them may be true together"
)]
#[derive(Debug, Default)]
pub(super) struct Events {
    line: LineState,
    /// Whether a line has just ended with CR, so that an LF would belong to its ending.
    is_after_cr: bool,
    /// Whether the current event has had a line of data.
    has_data: bool,
    /// Name of an event that ends the stream.
    last_event: Option<Arc<str>>,
    /// Whether the current event has the name `last_event`.
    is_last: bool,
    /// Bytes of [`DONE`] that the event's data has matched so far; more than its length if the data is something else.
    done: usize,
    has_ended: bool,
}

/// A part of an event, as found in a piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventPart<'b> {
    /// More data of the current event.
    Data(&'b [u8]),
    /// The end of the current event.
    End,
    /// A whole event: all of its data, and its end.
    Event(&'b [u8]),
}

/// How far a line has been read.
#[derive(Clone, Copy, Debug)]
enum LineState {
    /// The line so far is the first bytes of `data`, this many.
    Name(usize),
    /// After `data:`.
    Colon,
    Data,
    /// The line so far is the first bytes of `event:`, this many.
    EventName(usize),
    /// After `event:`, the line so far is the first bytes of the name that ends the stream, this many.
    LastEvent(usize),
    /// A comment, a field with another name, or an event with another name.
    Other,
}

impl Default for LineState {
    fn default() -> Self {
        Self::Name(0)
    }
}

impl Events {
    /// Begins a stream that ends with `[DONE]`, or with an event named `last_event`.
    pub(super) fn new(last_event: Option<Arc<str>>) -> Self {
        Self {
            last_event,
            ..Self::default()
        }
    }

    /// Whether the stream has said that it ends. The event that says so may lack its blank line.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended || self.has_data && self.says_end()
    }

    /// Reads a piece, and passes the parts of events in it to `each`.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut each: impl FnMut(EventPart<'_>)) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.is_after_cr) && byte == b'\n' {
                bytes = rest;
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                self.is_after_cr = byte == b'\r';
                self.end_line(&mut each);
                bytes = rest;
                continue;
            }
            match self.line {
                LineState::Name(0)
                    if !self.has_data
                        && let Some((data, rest)) = whole_event(bytes) =>
                {
                    self.match_done(data);
                    self.end_event();
                    each(EventPart::Event(data));
                    bytes = rest;
                }
                LineState::Name(at) => {
                    self.line = match NAME.get(at) {
                        Some(expected) if *expected == byte => LineState::Name(at + 1),
                        None if byte == b':' => LineState::Colon,
                        _ if at == 0 && byte == EVENT[0] && self.last_event.is_some() => {
                            LineState::EventName(1)
                        }
                        _ => LineState::Other,
                    };
                    bytes = rest;
                }
                LineState::EventName(at) => {
                    // If an event has several names, the last one counts.
                    self.is_last &= at < EVENT.len();
                    self.line = match EVENT.get(at) {
                        Some(expected) if *expected == byte => LineState::EventName(at + 1),
                        None if byte == b' ' => LineState::LastEvent(0),
                        None => self.match_name(0, byte),
                        Some(_) => LineState::Other,
                    };
                    bytes = rest;
                }
                LineState::LastEvent(at) => {
                    self.line = self.match_name(at, byte);
                    bytes = rest;
                }
                LineState::Colon => {
                    self.begin_data(&mut each);
                    self.line = LineState::Data;
                    if byte == b' ' {
                        bytes = rest;
                    }
                }
                LineState::Data | LineState::Other => {
                    let end = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
                    if matches!(self.line, LineState::Data) {
                        self.match_done(&bytes[..end]);
                        each(EventPart::Data(&bytes[..end]));
                    }
                    bytes = &bytes[end..];
                }
            }
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(EventPart<'_>)) {
        match std::mem::take(&mut self.line) {
            LineState::Name(0) => {
                self.has_data = false;
                self.end_event();
                each(EventPart::End);
            }
            LineState::Colon => self.begin_data(each),
            LineState::Name(at) if at == NAME.len() => self.begin_data(each),
            LineState::LastEvent(at) => {
                let name = self.last_event.as_deref();
                self.is_last = name.is_some_and(|name| at == name.len());
            }
            // A field without a colon has an empty value, so this is an empty name.
            LineState::EventName(at) => self.is_last &= at + 1 < EVENT.len(),
            LineState::Name(_) | LineState::Data | LineState::Other => {}
        }
    }

    fn end_event(&mut self) {
        self.has_ended |= self.says_end();
        (self.is_last, self.done) = (false, 0);
    }

    /// Whether the event says that the stream ends.
    fn says_end(&self) -> bool {
        self.is_last || self.done == DONE.len()
    }

    /// Compares the next byte of the event's name with the name that ends the stream.
    fn match_name(&self, at: usize, byte: u8) -> LineState {
        let name = self.last_event.as_deref().unwrap_or_default().as_bytes();
        if name.get(at) == Some(&byte) {
            LineState::LastEvent(at + 1)
        } else {
            LineState::Other
        }
    }

    /// Compares more of an event's data with `[DONE]`.
    fn match_done(&mut self, mut data: &[u8]) {
        let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n');
        while let Some((&byte, rest)) = data.split_first() {
            let is_outside = matches!(self.done, 0 | DONE_LENGTH) && is_blank(byte);
            self.done = match DONE.get(self.done) {
                _ if is_outside => self.done,
                Some(expected) if *expected == byte => self.done + 1,
                _ => return self.done = DONE.len() + 1,
            };
            data = rest;
        }
    }

    /// Begins a line of data; the lines of an event are joined by LF.
    fn begin_data(&mut self, each: &mut impl FnMut(EventPart<'_>)) {
        if std::mem::replace(&mut self.has_data, true) {
            self.match_done(b"\n");
            each(EventPart::Data(b"\n"));
        }
    }
}

/// Splits off an event if all of it is in this piece, in the usual form: one line of data, and a blank line.
fn whole_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = bytes.strip_prefix(b"data:")?;
    let line = line.strip_prefix(b" ").unwrap_or(line);
    let (data, end) = line.split_at(memchr2(b'\n', b'\r', line)?);
    let rest = [&b"\n\n"[..], b"\r\n\r\n"]
        .into_iter()
        .find_map(|value| end.strip_prefix(value));
    Some((data, rest?))
}

const NAME: &[u8] = b"data";

const EVENT: &[u8] = b"event:";

/// The data of an event that ends the streams of many APIs.
const DONE: &[u8; DONE_LENGTH] = b"[DONE]";

const DONE_LENGTH: usize = 6;
