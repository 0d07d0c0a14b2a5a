//! Where log lines go: standard output or files, written by one thread.
//!
//! Lines are handed over through a bounded queue, without ever waiting. Lines that do not fit, or that the file system
//! refuses, are dropped and counted. Access-log blocks may take only part of the queue, so that a flood of requests
//! cannot crowd out the event that explains it. They may have a file of their own; otherwise they go where events go.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use super::files::{LogFileError, LogFiles};
use super::sink::{Block, Destination, Sink, say};

/// Takes finished lines; cheap to clone.
#[derive(Clone, Debug)]
pub struct Output {
    queue: SyncSender<Message>,
    shared: Arc<OutputState>,
}

/// Why an [`Output`] cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum OutputError {
    /// A file cannot be opened.
    File(#[from] LogFileError),
    /// The system cannot start the thread.
    Thread(#[from] io::Error),
}

/// Hands each event over as one block.
#[derive(Debug)]
pub struct EventWriter<'o>(&'o Output);

#[derive(Debug, Default)]
struct OutputState {
    access_blocks_queued: AtomicUsize,
    lines_dropped: Arc<AtomicU64>,
    /// Dropped lines that had no room in the queue, and that have not been reported yet.
    lines_crowded_out: AtomicU64,
    /// What the thread writes to from the next message on.
    next_sinks: Mutex<NextSinks>,
}

/// Sinks that replace those in use; `None` leaves one as it is.
#[derive(Debug, Default)]
struct NextSinks {
    events: Option<Sink>,
    access: Option<AccessSink>,
}

/// What the access log is written to.
#[derive(Debug)]
enum AccessSink {
    Own(Sink),
    WithEvents,
}

#[derive(Debug)]
enum Message {
    Events(Block),
    Access(Block),
    /// There are new sinks to write to.
    Reopened,
    /// A request to confirm that everything before this message is written.
    Flush(SyncSender<()>),
}

/// What the writing thread owns.
struct Thread {
    events: Destination,
    /// Where the access log goes, if not to where events go.
    access: Option<Destination>,
    shared: Arc<OutputState>,
}

impl Output {
    /// Opens `files`, and starts the thread that writes to them.
    ///
    /// # Errors
    /// If a file cannot be opened for appending, or the thread cannot be started.
    pub fn open(files: LogFiles<'_>) -> Result<Self, OutputError> {
        let (events, access) = (files.open_events()?, files.open_access()?);
        Ok(Self::start(events, access)?)
    }

    /// Opens `files` again by their names, or opens other ones; lines in the queue may go to the old or the new.
    ///
    /// Returns the files that cannot be opened: their lines go where they went before.
    pub fn reopen(&self, files: LogFiles<'_>) -> Vec<LogFileError> {
        let (events, access) = (files.open_events(), files.open_access());
        let mut failed = Vec::new();
        let mut opened = |error| failed.push(error);
        let (events, access) = (
            events.map_err(&mut opened).ok(),
            access.map_err(&mut opened).ok(),
        );
        let access = access.map(|own| own.map_or(AccessSink::WithEvents, AccessSink::Own));
        let mut next = self.shared.next_sinks();
        next.events = events.or(next.events.take());
        next.access = access.or(next.access.take());
        drop(next);
        // A full queue keeps the thread awake, so it sees the sinks without this message.
        let _ = self.queue.try_send(Message::Reopened);
        failed
    }

    /// Waits until everything handed over so far is written, for a few seconds at most.
    ///
    /// To be called at the end of the process, because it blocks the thread.
    pub fn flush(&self) {
        let (confirm, confirmed) = sync_channel(1);
        let mut message = Message::Flush(confirm);
        for _ in 0..FLUSH_TRIES {
            match self.queue.try_send(message) {
                Ok(()) => {
                    // Do not wait any longer for an output that is stuck or gone.
                    let _ = confirmed.recv_timeout(FLUSH_TIMEOUT);
                    return;
                }
                Err(error) => message = unsent(error),
            }
            thread::sleep(FLUSH_TIMEOUT / FLUSH_TRIES);
        }
    }

    /// Returns the counter of lines that were dropped.
    pub fn lines_dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.lines_dropped)
    }

    /// Hands over a block of the access log, or drops it.
    pub(crate) fn access(&self, block: Block) {
        if self.shared.access_blocks_queued.load(Relaxed) >= ACCESS_BLOCKS_MAX {
            self.shared.crowded_out(block.lines);
            return;
        }
        self.shared.access_blocks_queued.fetch_add(1, Relaxed);
        if let Err(error) = self.queue.try_send(Message::Access(block)) {
            self.shared.access_blocks_queued.fetch_sub(1, Relaxed);
            self.shared.lost(unsent(error));
        }
    }

    fn start(events: Sink, access: Option<Sink>) -> io::Result<Self> {
        let shared = Arc::<OutputState>::default();
        let (queue, messages) = sync_channel(BLOCKS_MAX);
        let thread = Thread {
            events: Destination::new(events),
            access: access.map(Destination::new),
            shared: Arc::clone(&shared),
        };
        thread::Builder::new()
            .name("log".into())
            .spawn(move || thread.run(&messages))?;
        Ok(Self { queue, shared })
    }
}

impl OutputState {
    /// Counts lines that were not written.
    fn dropped(&self, lines: u64) {
        self.lines_dropped.fetch_add(lines, Relaxed);
    }

    /// Counts lines that had no room in the queue.
    fn crowded_out(&self, lines: u64) {
        self.dropped(lines);
        self.lines_crowded_out.fetch_add(lines, Relaxed);
    }

    /// Counts the lines of a message that did not fit.
    fn lost(&self, message: Message) {
        if let Message::Events(block) | Message::Access(block) = message {
            self.crowded_out(block.lines);
        }
    }

    fn next_sinks(&self) -> MutexGuard<'_, NextSinks> {
        self.next_sinks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    /// Writes until every [`Output`] is gone.
    fn run(mut self, messages: &Receiver<Message>) {
        while let Some(message) = self.next(messages) {
            self.take_sinks();
            match message {
                Message::Events(block) => self.write_events(&block),
                Message::Access(block) => {
                    self.shared.access_blocks_queued.fetch_sub(1, Relaxed);
                    self.write_access(&block);
                }
                Message::Reopened => {}
                // The thread that waited may have given up.
                Message::Flush(confirm) => drop(confirm.send(())),
            }
        }
    }

    /// Waits for the next message; `None` if no more can come.
    fn next(&self, messages: &Receiver<Message>) -> Option<Message> {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        // Everything that was queued is written, so there is room again.
        let lines = self.shared.lines_crowded_out.swap(0, Relaxed);
        if lines > 0 {
            say(format_args!(
                "the log did not keep up: {lines} lines are lost"
            ));
        }
        messages.recv().ok()
    }

    fn take_sinks(&mut self) {
        let next = std::mem::take(&mut *self.shared.next_sinks());
        if let Some(sink) = next.events {
            self.events.replace(sink);
        }
        match (next.access, &mut self.access) {
            (None, _) => {}
            (Some(AccessSink::Own(sink)), Some(access)) => access.replace(sink),
            (Some(AccessSink::Own(sink)), access) => *access = Some(Destination::new(sink)),
            (Some(AccessSink::WithEvents), access) => *access = None,
        }
    }

    fn write_events(&mut self, block: &Block) {
        self.shared.dropped(self.events.write(block));
    }

    fn write_access(&mut self, block: &Block) {
        let destination = self.access.as_mut().unwrap_or(&mut self.events);
        self.shared.dropped(destination.write(block));
    }
}

impl<'o> MakeWriter<'o> for Output {
    type Writer = EventWriter<'o>;

    fn make_writer(&'o self) -> Self::Writer {
        EventWriter(self)
    }
}

impl Write for EventWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let block = Block {
            bytes: line.to_vec(),
            lines: 1,
        };
        let output = self.0;
        if let Err(error) = output.queue.try_send(Message::Events(block)) {
            output.shared.lost(unsent(error));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unsent(error: TrySendError<Message>) -> Message {
    match error {
        TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
    }
}

/// Most blocks that wait to be written; an access-log block has 8 KiB or little more.
const BLOCKS_MAX: usize = 320;

/// How many of the [`BLOCKS_MAX`] may be the access log's: 2 MiB.
const ACCESS_BLOCKS_MAX: usize = 256;

/// How long the end of the process waits for room in the queue, and then for the output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// How many times a full queue is tried within [`FLUSH_TIMEOUT`].
const FLUSH_TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn block(text: &str) -> Block {
        Block {
            bytes: text.as_bytes().to_vec(),
            lines: 1,
        }
    }

    fn events(file: &Path) -> LogFiles<'_> {
        LogFiles {
            events: Some(file),
            access: None,
        }
    }

    /// Reads files that may not exist.
    fn read<const N: usize>(files: [&Path; N]) -> [String; N] {
        files.map(|file| std::fs::read_to_string(file).unwrap_or_default())
    }

    #[test]
    fn lines_after_a_reopen_go_to_the_new_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (log, rotated) = (directory.path().join("log"), directory.path().join("log.1"));
        let output = Output::open(events(&log)).expect("a log file");
        output.access(block("before\n"));
        output.flush();
        std::fs::rename(&log, &rotated).expect("a rotation");
        output.access(block("moved\n"));
        output.flush();
        assert!(output.reopen(events(&log)).is_empty(), "the file again");
        output.access(block("after\n"));
        output.flush();
        assert_eq!(read([&rotated, &log]), ["before\nmoved\n", "after\n"]);
        assert_eq!(output.lines_dropped().load(Relaxed), 0);
    }

    #[test]
    fn the_access_log_goes_to_its_own_file_as_long_as_it_has_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let [log, first, second] =
            ["log", "first", "second"].map(|name| directory.path().join(name));
        let missing = directory.path().join("no/such/folder");
        let both = |access| LogFiles {
            events: Some(&log),
            access,
        };
        let output = Output::open(both(Some(&first))).expect("two log files");
        let mut tell = output.make_writer();
        for (access, failed) in [
            (Some(&*second), None),
            (Some(&*missing), Some("log.access_file")),
            (None, None),
            (Some(&*first), None),
        ] {
            output.access(block("access\n"));
            tell.write_all(b"event\n").expect("events never fail");
            output.flush();
            let errors = output.reopen(both(access));
            let keys: Vec<_> = errors.iter().map(|error| error.key).collect();
            assert_eq!(keys, Vec::from_iter(failed));
        }
        output.flush();
        // If a file could not be opened, the access log stayed where it was.
        let events = "event\nevent\nevent\naccess\nevent\n";
        let expected = [events, "access\n", "access\naccess\n"];
        assert_eq!(read([&log, &first, &second]), expected);
    }

    #[test]
    fn a_stuck_output_drops_access_blocks_but_leaves_room_for_events() {
        let (queue, messages) = sync_channel(BLOCKS_MAX);
        let shared = Arc::default();
        let output = Output { queue, shared };
        for _ in 0..BLOCKS_MAX {
            output.access(block("access\n"));
        }
        let mut events = output.make_writer();
        for _ in ACCESS_BLOCKS_MAX..=BLOCKS_MAX {
            events.write_all(b"event\n").expect("events never fail");
        }
        let dropped = (BLOCKS_MAX - ACCESS_BLOCKS_MAX) as u64 + 1;
        assert_eq!(output.lines_dropped().load(Relaxed), dropped);
        assert_eq!(messages.try_iter().count(), BLOCKS_MAX);
    }
}
