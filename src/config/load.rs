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
/// `env` looks variables up; `series_id_of` is the store's, and is asked only if nothing is wrong.
pub fn load(
    text: &str,
    env: &Env<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    let (mut file, mut report) = read(text, env);
    if report.is_empty() {
        let snapshot = match compile(&file, series_id_of) {
            Ok(snapshot) => snapshot,
            Err(later) => {
                report.absorb(later);
                return Err(report);
            }
        };
        let mut warnings = warnings(&file, &snapshot);
        warnings.extend(report.into_warnings());
        forget_rows(&mut file, &snapshot);
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

/// Drops what the snapshot has of the files of overrides; the next reload is told how many rows they had.
fn forget_rows(file: &mut File, snapshot: &Snapshot) {
    for (table, policy) in file.policies.iter_mut().zip(&snapshot.policies) {
        if let (Some(file), Some(overrides)) = (&mut table.value.overrides_file, &policy.overrides)
        {
            file.content = String::new();
            file.rows = overrides.file_rows;
        }
    }
}

/// Looks a variable up in the process's environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
