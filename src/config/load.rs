//! Loads a file: it is read and compiled, and the mistakes of both steps go into one report.

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

/// A file without mistakes, read and compiled.
#[derive(Debug)]
pub struct Loaded {
    /// The snapshot that the data plane runs on.
    pub snapshot: Snapshot,
    /// The file's mirror, with which the next reload is compared.
    pub file: File,
    /// Warnings: what is valid but probably not what was meant, one sentence each.
    pub warnings: Vec<String>,
    /// Fingerprint that tells the configuration from others.
    pub hash: Box<str>,
    /// Names of the included files, in the order in which they are read.
    pub included: Vec<String>,
    /// Paths of all files that the configuration is made of.
    pub paths: ReadPaths,
    /// Variables and files that are missing and were assumed to exist, as written in the file.
    pub given: Vec<String>,
    /// Whether values were left out because they depend on something in `given`.
    pub is_partial: bool,
}

/// Loads a file and those that it includes, or reports everything that is wrong with them.
///
/// `env` looks variables up; `series_id_of` is the store's, and is called only if nothing is wrong. If too much
/// depends on values that are assumed to exist, there is nothing to load: then the report is empty.
pub fn load<'t>(
    config: impl Into<ConfigText<'t>>,
    env: &Env<'_>,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Loaded, Report> {
    load_beside(None, &config.into(), env, series_id_of)
}

/// Like [`load`], for a running gateway, which keeps its store until it is restarted, whatever the file says.
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
/// that gateway.
///
/// # Errors
/// The mistakes of the file, if `[admin]` has one of them, or may have one.
pub fn load_admin<'t>(config: impl Into<ConfigText<'t>>, env: &Env<'_>) -> Result<Admin, Report> {
    let (file, mut report, included) = read(&config.into(), env);
    let (title, admin) = (ADMIN.about.title, &file.admin);
    let is_lost = file.lost.may_be_any("admin") || file.lost.has_unreadable_statement(&admin.span);
    if admin.is_incomplete(title) || (is_lost && !report.is_empty()) {
        report.assign(&included);
        return Err(report);
    }
    Ok(file.admin.value)
}

/// Compiles the file that was read, and adds its mistakes to the report.
fn compiled(
    file: File,
    report: &mut Report,
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Option<(File, Snapshot, Vec<String>)> {
    let is_whole = report.is_empty() && !report.leaves_out();
    if !is_whole {
        // Only to find further mistakes: a file that lacks a value cannot run.
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

/// Drops the texts of the files of overrides, which the snapshot has, and notes their rows for the next reload.
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
