//! A file's whole way: read, compiled, and every mistake of both in one report.

use super::compile::{compile, warnings};
use super::file::File;
use super::read::{Env, read};
use super::report::Report;
use crate::limit::plan::SeriesId;
use crate::snapshot::Snapshot;
use crate::store::Series;

/// A good file.
#[derive(Debug)]
pub struct Loaded {
    /// What the data plane runs on.
    pub snapshot: Snapshot,
    /// What the file says, for the next reload to be compared with.
    pub file: File,
    /// What is valid but probably not what was meant, one sentence each.
    pub warnings: Vec<String>,
}

/// Loads a file's text, or says everything that is wrong with it.
///
/// `env` looks variables up; `slot_of` is the store's, and is asked only if nothing is wrong.
pub fn load(
    text: &str,
    env: &Env<'_>,
    slot_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    let (file, mut report) = read(text, env);
    if report.is_empty() {
        let snapshot = compile(&file, slot_of).map_err(|later| {
            report.absorb(later);
            report
        })?;
        let warnings = warnings(&file, &snapshot);
        return Ok(Loaded {
            snapshot,
            file,
            warnings,
        });
    }
    if let Err(later) = compile(&file, &mut |_| SeriesId(0)) {
        report.absorb(later);
    }
    Err(report)
}

/// Looks a variable up in the process's environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
