//! How the binary is started again.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Program and arguments that start the binary again.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Launch {
    /// Returns how this process was started. Call it at the start: paths may depend on the working directory.
    pub fn of_this_process() -> Option<Self> {
        let mut arguments = std::env::args_os();
        let named = arguments.next()?;
        Some(Self {
            program: found(&named)?,
            arguments: arguments.collect(),
        })
    }
}

/// Finds a program as a shell does. Links are not resolved, so that an upgrade starts the binary that is at this path
/// by then.
fn found(named: &OsStr) -> Option<PathBuf> {
    let path = Path::new(named);
    if path.components().count() > 1 {
        return std::path::absolute(path).ok();
    }
    let folders = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&folders).map(|folder| folder.join(path));
    let found = programs.into_iter().find(|program| program.is_file());
    found.or_else(|| std::env::current_exe().ok())
}
