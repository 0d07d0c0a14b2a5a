//! Takes an event stream apart (WHATWG HTML, section 9.2.6) into the data of its events.

use memchr::memchr2;

/// Where an event stream stands.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: LineState,
    /// Whether a line has just ended with CR, so that LF would belong to it.
    is_after_cr: bool,
    /// Whether the event has a line of data.
    has_data: bool,
}

/// What is found in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventPart<'b> {
    /// More data of the event.
    Data(&'b [u8]),
    /// The event's end.
    End,
    /// All data of an event, and its end.
    Event(&'b [u8]),
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
enum LineState {
    /// Its bytes so far are the first ones of `data`, this many.
    Name(usize),
    /// Behind `data:`.
    Colon,
    Data,
    /// A comment, or a field of another name.
    Other,
}

impl Default for LineState {
    fn default() -> Self {
        Self::Name(0)
    }
}

impl Events {
    /// Reads a piece, and hands out what it has of events.
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
                    each(EventPart::Event(data));
                    bytes = rest;
                }
                LineState::Name(at) => {
                    self.line = match NAME.get(at) {
                        Some(expected) if *expected == byte => LineState::Name(at + 1),
                        None if byte == b':' => LineState::Colon,
                        _ => LineState::Other,
                    };
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
                each(EventPart::End);
            }
            LineState::Colon => self.begin_data(each),
            LineState::Name(at) if at == NAME.len() => self.begin_data(each),
            LineState::Name(_) | LineState::Data | LineState::Other => {}
        }
    }

    /// Begins a line of data; the lines of an event are joined by LF.
    fn begin_data(&mut self, each: &mut impl FnMut(EventPart<'_>)) {
        if std::mem::replace(&mut self.has_data, true) {
            each(EventPart::Data(b"\n"));
        }
    }
}

/// Takes an event that stands in a piece as most do: one line of data, and a blank line.
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
