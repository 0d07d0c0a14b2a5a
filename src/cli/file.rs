//! The file that a command is about.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_CONFIG, unreadable};
use crate::config::report::Report;
use crate::config::{self, ConfigText, Loaded, MissingValues};
use crate::limit::plan::SeriesId;

/// Reads the file at `path`, without running anything.
///
/// # Errors
/// The exit status, if the file has mistakes, or if too many values are missing to read the rest; what is wrong has
/// been printed.
pub(super) fn load(path: &Path, missing: MissingValues) -> Result<Loaded, ExitCode> {
    load_or(path, missing, |name, _| {
        eprintln!("{name}: cannot be read: too many variables or secret files are missing");
        ExitCode::from(EXIT_CONFIG)
    })
}

/// Like [`load`], but if too many values are missing, `partial` says so, given the file's name and its report.
pub(super) fn load_or(
    path: &Path,
    missing: MissingValues,
    partial: impl FnOnce(&str, &Report) -> ExitCode,
) -> Result<Loaded, ExitCode> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        eprintln!("{}", unreadable(path, &error));
        ExitCode::from(EXIT_CONFIG)
    })?;
    let config = ConfigText {
        missing,
        ..ConfigText::of(path, &text)
    };
    config::load(config, &config::environment, &mut |_| SeriesId(0)).map_err(|report| {
        if report.is_empty() {
            return partial(&name, &report);
        }
        let color = std::io::stderr().is_terminal();
        eprint!("{}", report.render(&name, &text, color));
        ExitCode::from(EXIT_CONFIG)
    })
}
