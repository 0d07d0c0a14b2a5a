//! The most recent events, for operators who ask what has happened. They are few, and none is about a single request.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use tracing_subscriber::fmt::MakeWriter;

/// The most recent events, each a line of JSON; clones share them.
#[derive(Clone, Debug)]
pub struct RecentEvents {
    kept: Arc<Mutex<VecDeque<Arc<str>>>>,
    added: broadcast::Sender<Arc<str>>,
}

/// Takes one event, in a single write.
#[derive(Debug)]
pub struct RecentWriter<'e>(&'e RecentEvents);

impl RecentEvents {
    /// Returns the events, the oldest first.
    pub fn lines(&self) -> Vec<Arc<str>> {
        self.events().iter().cloned().collect()
    }

    /// Returns the events, and a receiver of those that follow. A receiver that falls behind by more than
    /// [`EVENTS_MAX`] misses some.
    pub fn follow(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let events = self.events();
        let lines = events.iter().cloned().collect();
        (lines, self.added.subscribe())
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Arc<str>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RecentEvents {
    fn default() -> Self {
        Self {
            kept: Arc::default(),
            added: broadcast::Sender::new(EVENTS_MAX),
        }
    }
}

impl<'e> MakeWriter<'e> for RecentEvents {
    type Writer = RecentWriter<'e>;

    fn make_writer(&'e self) -> Self::Writer {
        RecentWriter(self)
    }
}

impl Write for RecentWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(&line[..line.len().min(EVENT_BYTES_MAX)]);
        let mut events = self.0.events();
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        let event: Arc<str> = Arc::from(text.trim_end());
        events.push_back(Arc::clone(&event));
        // Usually nobody follows. It is sent under the lock, so that a new follower misses none.
        let _ = self.0.added.send(event);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Most events that are kept.
const EVENTS_MAX: usize = 200;

/// Most bytes that are kept of an event.
const EVENT_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_long_ones_cut() {
        let events = RecentEvents::default();
        for number in 0..EVENTS_MAX + 2 {
            let mut writer = events.make_writer();
            let line = format!("{number}\n");
            writer
                .write_all(line.as_bytes())
                .expect("memory never fails");
        }
        let mut writer = events.make_writer();
        let long = "é".repeat(EVENT_BYTES_MAX);
        writer
            .write_all(long.as_bytes())
            .expect("memory never fails");
        let lines = events.lines();
        assert_eq!(lines.len(), EVENTS_MAX);
        assert_eq!((&*lines[0], &*lines[EVENTS_MAX - 2]), ("3", "201"));
        assert_eq!(lines[EVENTS_MAX - 1].len(), EVENT_BYTES_MAX);
    }
}
