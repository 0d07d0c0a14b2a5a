//! The file that a command is about.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_CONFIG, unreadable};
use crate::config::report::Report;
use crate::config::{self, ConfigText, Loaded, MissingValues};
use crate::limit::plan::SeriesId;

/// Reads the file at `path`, of which nothing is run.
///
/// # Errors
/// The exit status, if it has mistakes, or if values are missing without which the rest cannot be read; that has been
/// printed.
pub(super) fn load(path: &Path, missing: MissingValues) -> Result<Loaded, ExitCode> {
    load_or(path, missing, |name, _| {
        eprintln!("{name}: too much needs values that are missing");
        ExitCode::from(EXIT_CONFIG)
    })
}

/// As [`load`], but `partial` says that too many values are missing, by the name of the file and the report of it.
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
