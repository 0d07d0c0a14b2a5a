//! The files of the log, opened by name.

use std::io;
use std::path::{Path, PathBuf};

use super::sink::Sink;

/// The files of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFiles<'p> {
    /// Where events go; `None` means standard output.
    pub events: Option<&'p Path>,
    /// Where the access log goes; `None` means where events go.
    pub access: Option<&'p Path>,
}

/// A file of the log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the log {} ({key})", file.display())]
pub struct LogFileError {
    /// Key of the configuration that names the file.
    pub key: &'static str,
    /// The file.
    pub file: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl LogFiles<'_> {
    pub(super) fn open_events(self) -> Result<Sink, LogFileError> {
        match self.events {
            Some(file) => open(file, "log.file"),
            None => Ok(Sink::stdout()),
        }
    }

    pub(super) fn open_access(self) -> Result<Option<Sink>, LogFileError> {
        (self.access.map(|file| open(file, "log.access_file"))).transpose()
    }
}

fn open(file: &Path, key: &'static str) -> Result<Sink, LogFileError> {
    Sink::open(file).map_err(|source| LogFileError {
        key,
        file: file.to_owned(),
        source,
    })
}
