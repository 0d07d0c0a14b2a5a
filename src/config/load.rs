//! A file's whole way: read, compiled, and every mistake of both in one report.

use super::compile::{check_store_in_force, compile, warnings};
use super::file::File;
use super::fingerprint::fingerprint;
use super::given::Incomplete;
use super::options::ADMIN;
use super::read::{Env, read};
use super::read_paths::ReadPaths;
use super::report::Report;
use super::text::ConfigText;
use crate::limit::plan::SeriesId;
use crate::snapshot::{Admin, Snapshot};
use crate::store::Series;
use crate::store::settings::Location;

/// A good file.
#[derive(Debug)]
pub struct Loaded {
    /// What the data plane runs on.
    pub snapshot: Snapshot,
    /// What the file says, for the next reload to be compared with.
    pub file: File,
    /// What is valid but probably not what was meant, one sentence each.
    pub warnings: Vec<String>,
    /// Tells the configuration from another one.
    pub hash: Box<str>,
    /// The files that it includes, in the order in which they are read.
    pub included: Vec<String>,
    /// What it is made of.
    pub paths: ReadPaths,
    /// What is not there and was assumed to be there: variables and files, as the file writes them.
    pub given: Vec<String>,
    /// Whether something is left out for that.
    pub is_partial: bool,
}

/// Loads a file and those that it includes, or says everything that is wrong with them.
///
/// `env` looks variables up; `series_id_of` is the store's, and is asked only if nothing is wrong. Where values may
/// be assumed to be there, so much may hang on them that there is nothing to load: then the report is empty.
pub fn load<'t>(
    config: impl Into<ConfigText<'t>>,
    env: &Env<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    load_beside(None, &config.into(), env, series_id_of)
}

/// As [`load`], for a gateway that runs: its store stays until it is restarted, whatever the file says.
pub fn reload<'t>(
    running: &Location,
    config: impl Into<ConfigText<'t>>,
    env: &Env<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    load_beside(Some(running), &config.into(), env, series_id_of)
}

fn load_beside(
    running: Option<&Location>,
    config: &ConfigText<'_>,
    env: &Env<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    let (file, mut report, included) = read(config, env);
    let hash = fingerprint(config.text, &included, &file);
    let Some((file, snapshot, mut warnings)) = compiled(file, &mut report, series_id_of) else {
        report.assign(&included);
        return Err(report);
    };
    if let Some(running) = running {
        check_store_in_force(&file, &snapshot, running, &mut report);
        if !report.is_empty() {
            report.assign(&included);
            return Err(report);
        }
    }
    let is_partial = report.leaves_out();
    let (more, given, paths) = report.into_remarks();
    warnings.extend(more);
    Ok(Loaded {
        snapshot,
        file,
        warnings,
        hash,
        included: included.into_iter().map(|file| file.name).collect(),
        paths,
        given,
        is_partial,
    })
}

/// Reads `[admin]` of a file, whatever is wrong with the rest: a command that asks a gateway about a file must find
/// the gateway.
///
/// # Errors
/// What is wrong with the file, if that table is among it or may be.
pub fn load_admin<'t>(config: impl Into<ConfigText<'t>>, env: &Env<'_>) -> Result<Admin, Report> {
    let (file, mut report, included) = read(&config.into(), env);
    let (title, admin) = (ADMIN.about.title, &file.admin);
    let is_lost = file.lost.may_be_any("admin") || file.lost.is_from(&admin.span);
    if admin.is_incomplete(title) || (is_lost && !report.is_empty()) {
        report.assign(&included);
        return Err(report);
    }
    Ok(file.admin.value)
}

/// Compiles what was read, and adds to the report what is wrong with it.
fn compiled(
    file: File,
    report: &mut Report,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Option<(File, Snapshot, Vec<String>)> {
    let is_whole = report.is_empty() && !report.leaves_out();
    if !is_whole {
        // For what is wrong only: what lacks a value cannot run.
        if let Err(later) = compile(&file, &mut |_| SeriesId(0)) {
            report.absorb(later);
        }
    }
    if !report.is_empty() {
        return None;
    }
    let incomplete = if is_whole {
        Incomplete::default()
    } else {
        Incomplete::of(&file)
    };
    let mut file = incomplete.taken_out(file);
    match compile(&file, series_id_of) {
        Ok(snapshot) => {
            let warnings = incomplete.without(warnings(&file, &snapshot));
            forget_rows(&mut file, &snapshot);
            Some((file, snapshot, warnings))
        }
        Err(later) => {
            report.absorb(later);
            None
        }
    }
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
