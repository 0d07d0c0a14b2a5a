//! Where log lines go: standard output or a file, written by one thread.
//!
//! Whoever has lines hands them over through a bounded queue and never waits. Lines that do not
//! fit, or that the file system refuses, are dropped and counted. Access-log blocks may take only
//! part of the queue, so that a flood of requests cannot crowd out the line that says why.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Takes finished lines; cheap to clone.
#[derive(Clone, Debug)]
pub struct Output {
    queue: SyncSender<Message>,
    shared: Arc<OutputState>,
}

/// Whole lines, each with its newline.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lines: u64,
}

/// Hands each event over as one block.
#[derive(Debug)]
pub struct EventWriter<'o>(&'o Output);

#[derive(Debug)]
struct OutputState {
    access_blocks_queued: AtomicUsize,
    lines_dropped: Arc<AtomicU64>,
    /// What the thread writes to from the next block on.
    next_sink: Mutex<Option<Sink>>,
}

#[derive(Debug)]
enum Message {
    Events(Block),
    Access(Block),
    /// There is a new sink.
    Reopened,
    /// Everything before this must be written, and then confirmed.
    Flush(SyncSender<()>),
}

#[derive(Debug)]
enum Sink {
    Stdout(io::Stdout),
    File(File),
}

/// What the thread owns.
struct Thread {
    sink: Sink,
    shared: Arc<OutputState>,
    /// Whether the last block broke off, possibly within a line.
    is_torn: bool,
}

impl Output {
    /// Opens `file`, or standard output if there is none, and starts the thread that writes to it.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or no thread can be started.
    pub fn open(file: Option<&Path>) -> io::Result<Self> {
        Self::start(Sink::open(file)?)
    }

    /// Opens `file` again by its name, or opens another one; what is queued may go to either.
    ///
    /// # Errors
    /// The file cannot be opened; lines go where they went before.
    pub fn reopen(&self, file: Option<&Path>) -> io::Result<()> {
        let sink = Sink::open(file)?;
        *self.shared.next_sink() = Some(sink);
        // A full queue keeps the thread awake, so it will see the sink without being told.
        let _ = self.queue.try_send(Message::Reopened);
        Ok(())
    }

    /// Waits until everything handed over so far is written, but for a few seconds at most.
    ///
    /// For the end of the process; blocks its thread.
    pub fn flush(&self) {
        let (confirm, confirmed) = sync_channel(1);
        let mut message = Message::Flush(confirm);
        for _ in 0..FLUSH_TRIES {
            match self.queue.try_send(message) {
                Ok(()) => {
                    // An output that is stuck or gone is not waited for any longer.
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

    /// Hands a block of the access log over, or drops it.
    pub(crate) fn access(&self, block: Block) {
        if self.shared.access_blocks_queued.load(Relaxed) >= ACCESS_BLOCKS_MAX {
            self.shared.dropped(block.lines);
            return;
        }
        self.shared.access_blocks_queued.fetch_add(1, Relaxed);
        if let Err(error) = self.queue.try_send(Message::Access(block)) {
            self.shared.access_blocks_queued.fetch_sub(1, Relaxed);
            self.shared.lost(unsent(error));
        }
    }

    fn start(sink: Sink) -> io::Result<Self> {
        let shared = Arc::new(OutputState {
            access_blocks_queued: AtomicUsize::new(0),
            lines_dropped: Arc::default(),
            next_sink: Mutex::default(),
        });
        let (queue, messages) = sync_channel(BLOCKS_MAX);
        let thread = Thread {
            sink,
            shared: Arc::clone(&shared),
            is_torn: false,
        };
        thread::Builder::new()
            .name("log".into())
            .spawn(move || thread.run(&messages))?;
        Ok(Self { queue, shared })
    }
}

impl OutputState {
    fn dropped(&self, lines: u64) {
        self.lines_dropped.fetch_add(lines, Relaxed);
    }

    /// Counts the lines of a message that did not fit.
    fn lost(&self, message: Message) {
        if let Message::Events(block) | Message::Access(block) = message {
            self.dropped(block.lines);
        }
    }

    fn next_sink(&self) -> MutexGuard<'_, Option<Sink>> {
        self.next_sink
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    /// Writes until every [`Output`] is gone.
    fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            if let Some(sink) = self.shared.next_sink().take() {
                self.sink = sink;
                self.is_torn = false;
            }
            match message {
                Message::Events(block) => self.write(&block),
                Message::Access(block) => {
                    self.shared.access_blocks_queued.fetch_sub(1, Relaxed);
                    self.write(&block);
                }
                Message::Reopened => {}
                // Whoever waited may have given up.
                Message::Flush(confirm) => drop(confirm.send(())),
            }
        }
    }

    fn write(&mut self, block: &Block) {
        // A line that broke off is ended first, so that it spoils only itself.
        let mended = if self.is_torn {
            self.sink.write_all(b"\n")
        } else {
            Ok(())
        };
        let written = mended.and_then(|()| self.sink.write_all(&block.bytes));
        self.is_torn = written.is_err();
        if written.is_err() {
            self.shared.dropped(block.lines);
        }
    }
}

impl Sink {
    fn open(file: Option<&Path>) -> io::Result<Self> {
        match file {
            Some(file) => {
                let file = OpenOptions::new().create(true).append(true).open(file)?;
                Ok(Self::File(file))
            }
            None => Ok(Self::Stdout(io::stdout())),
        }
    }

    /// Writes all of `bytes` through to the operating system.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::File(file) => file.write_all(bytes),
        }
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

/// Most blocks that wait to be written; access-log blocks are 8 KiB or little more.
const BLOCKS_MAX: usize = 320;

/// How many of them may be the access log's: 2 MiB.
const ACCESS_BLOCKS_MAX: usize = 256;

/// How long the end of the process waits for room in the queue, and then for the output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a full queue is tried within that time.
const FLUSH_TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        Block {
            bytes: text.as_bytes().to_vec(),
            lines: 1,
        }
    }

    #[test]
    fn lines_after_a_reopen_go_to_the_new_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (log, rotated) = (directory.path().join("log"), directory.path().join("log.1"));
        let output = Output::open(Some(&log)).expect("a log file");
        output.access(block("before\n"));
        output.flush();
        std::fs::rename(&log, &rotated).expect("a rotation");
        output.access(block("moved\n"));
        output.flush();
        output.reopen(Some(&log)).expect("the file again");
        output.access(block("after\n"));
        output.flush();
        let read = |path| std::fs::read_to_string(path).expect("a log");
        assert_eq!(
            (read(&rotated), read(&log)),
            ("before\nmoved\n".into(), "after\n".into())
        );
        assert_eq!(output.lines_dropped().load(Relaxed), 0);
    }

    #[test]
    fn failed_writes_are_counted_and_nobody_waits() {
        let output = Output::open(Some(Path::new("/dev/full"))).expect("a full disk");
        output.access(block("lost\n"));
        output.flush();
        assert_eq!(output.lines_dropped().load(Relaxed), 1);
    }

    #[test]
    fn a_stuck_output_drops_access_blocks_but_leaves_room_for_events() {
        let (queue, messages) = sync_channel(BLOCKS_MAX);
        let shared = Arc::new(OutputState {
            access_blocks_queued: AtomicUsize::new(0),
            lines_dropped: Arc::default(),
            next_sink: Mutex::default(),
        });
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
