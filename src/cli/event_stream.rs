//! Server-sent events, as the admin port writes them.

use memchr::memmem;
use serde_json::Value;

/// An event of the admin port.
#[derive(Debug, PartialEq)]
pub struct AdminEvent {
    /// Type of the event: `step`, `trace` and the like.
    pub name: String,
    /// Data of the event.
    pub data: Value,
}

/// Finds events in the bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    unread: Vec<u8>,
    /// How many of the unread bytes are known to contain no end of an event.
    searched: usize,
}

/// The stream contains something that is no event, or is too large for one.
#[derive(Debug, PartialEq)]
pub(super) struct BadEvent;

impl EventReader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Returns the next event, if all of it has arrived; skips comments.
    pub(super) fn next(&mut self) -> Result<Option<AdminEvent>, BadEvent> {
        while let Some(end) = memmem::find(&self.unread[self.searched..], END) {
            let event: Vec<u8> = self.unread.drain(..self.searched + end).collect();
            self.unread.drain(..END.len());
            self.searched = 0;
            let text = str::from_utf8(&event).map_err(|_| BadEvent)?;
            if let Some(event) = event_of(text)? {
                return Ok(Some(event));
            }
        }
        if self.unread.len() > EVENT_BYTES_MAX {
            return Err(BadEvent);
        }
        // Half of the end may have arrived.
        self.searched = self.unread.len().saturating_sub(1);
        Ok(None)
    }
}

/// Reads the lines of an event; returns `None` if they have no data, as comments do not.
fn event_of(lines: &str) -> Result<Option<AdminEvent>, BadEvent> {
    let (mut name, mut data) = ("message", None);
    for line in lines.lines() {
        match line.split_once(':') {
            Some(("event", value)) => name = value.trim_start(),
            Some(("data", value)) => data = Some(value),
            _ => {}
        }
    }
    let event = data.map(|data| {
        let data = serde_json::from_str(data).map_err(|_| BadEvent)?;
        let name = name.to_owned();
        Ok(AdminEvent { name, data })
    });
    event.transpose()
}

const END: &[u8] = b"\n\n";
/// Most bytes of an event: ten minutes of a hundred policies and a hundred routes take one or two million.
const EVENT_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_all(reader: &mut EventReader) -> Result<Vec<(String, Value)>, BadEvent> {
        let mut events = Vec::new();
        while let Some(AdminEvent { name, data }) = reader.next()? {
            events.push((name, data));
        }
        Ok(events)
    }

    #[test]
    fn events_are_found_however_they_are_cut() {
        let stream = b": ready\n\nevent: step\ndata: {\"a\":1}\n\n:\n\ndata: 2\n\nevent: half";
        for size in 1..stream.len() {
            let (mut reader, mut events) = (EventReader::default(), Vec::new());
            for piece in stream.chunks(size) {
                reader.push(piece);
                events.extend(read_all(&mut reader).expect("events"));
            }
            let expected = [
                ("step".to_owned(), json!({ "a": 1 })),
                ("message".to_owned(), json!(2)),
            ];
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused_and_so_is_one_without_an_end() {
        for stream in ["data: {\n\n", "<html>\ndata:\n\n"] {
            let mut reader = EventReader::default();
            reader.push(stream.as_bytes());
            assert_eq!(reader.next(), Err(BadEvent), "{stream}");
        }
        let mut reader = EventReader::default();
        let piece = vec![b'x'; EVENT_BYTES_MAX / 4];
        let pieces = (0..5).map(|_| {
            reader.push(&piece);
            reader.next()
        });
        let expected = [Ok(None), Ok(None), Ok(None), Ok(None), Err(BadEvent)];
        assert_eq!(pieces.collect::<Vec<_>>(), expected);
    }
}
