//! What the log is written to, and whether writing works.
//!
//! If the log cannot be written, a line on standard error says so, once; another one says how many lines are lost when
//! the log can be written again.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Whole lines, each with its newline.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lines: u64,
}

/// Standard output or a file, opened to append to.
#[derive(Debug)]
pub(super) struct Sink {
    file: Option<File>,
    name: Box<str>,
}

/// A sink, and the state of writing to it.
#[derive(Debug)]
pub(super) struct Destination {
    sink: Sink,
    /// Whether the last block broke off, possibly within a line.
    is_torn: bool,
    /// Lines that were lost since writing failed; `None` if it works.
    lines_lost: Option<u64>,
}

impl Sink {
    pub(super) fn stdout() -> Self {
        Self {
            file: None,
            name: "standard output".into(),
        }
    }

    pub(super) fn open(file: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Some(OpenOptions::new().create(true).append(true).open(file)?),
            name: file.display().to_string().into(),
        })
    }

    /// Writes all of `bytes` through to the operating system.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.write_all(bytes);
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }
}

impl Destination {
    pub(super) fn new(sink: Sink) -> Self {
        Self {
            sink,
            is_torn: false,
            lines_lost: None,
        }
    }

    /// Writes to `sink` from now on.
    pub(super) fn replace(&mut self, sink: Sink) {
        self.sink = sink;
        self.is_torn = false;
    }

    /// Writes a block, and returns how many lines are lost: all if that fails, though some may have been written.
    pub(super) fn write(&mut self, block: &Block) -> u64 {
        // Ends a line that broke off, so that it spoils only itself.
        let mended = if self.is_torn {
            self.sink.write_all(b"\n")
        } else {
            Ok(())
        };
        let written = mended.and_then(|()| self.sink.write_all(&block.bytes));
        self.is_torn = written.is_err();
        let name = &self.sink.name;
        match (written, self.lines_lost) {
            (Ok(()), None) => 0,
            (Ok(()), Some(lines)) => {
                say(format_args!(
                    "the log can be written to {name} again: {lines} lines are lost"
                ));
                self.lines_lost = None;
                0
            }
            (Err(error), lost) => {
                if lost.is_none() {
                    say(format_args!(
                        "the log cannot be written to {name}: {error}; its lines are lost until it can"
                    ));
                }
                self.lines_lost = Some(lost.unwrap_or(0) + block.lines);
                block.lines
            }
        }
    }
}

/// Writes to standard error what the log cannot say.
pub(super) fn say(message: fmt::Arguments<'_>) {
    // If standard error is gone, too, nobody can be told.
    let _ = writeln!(io::stderr(), "tollgate: {message}");
}
