//! Input of a load: the text of a file, its path, and how missing values are treated.

use std::path::Path;

/// The text of a configuration file, its path, and how missing values are treated.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'t> {
    /// Text of the file.
    pub text: &'t str,
    /// Path of the file, in whose folder the files that it includes are looked for. Empty for a text that is not in a
    /// file: then the working directory takes that place.
    pub path: &'t Path,
    /// How missing values are treated.
    pub missing: MissingValues,
}

/// How values are treated that come from variables or other files, if these are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingValues {
    /// Each missing value is a mistake.
    AreMistakes,
    /// Each missing value is assumed to exist; the rest of the file is checked.
    AreGiven,
}

impl<'t> ConfigText<'t> {
    /// Returns the text of the file at `path`, in which missing values are mistakes.
    pub fn of(path: &'t Path, text: &'t str) -> Self {
        Self {
            text,
            path,
            missing: MissingValues::AreMistakes,
        }
    }
}

impl<'t> From<&'t str> for ConfigText<'t> {
    fn from(text: &'t str) -> Self {
        Self::of(Path::new(""), text)
    }
}

impl<'t> From<&'t String> for ConfigText<'t> {
    fn from(text: &'t String) -> Self {
        text.as_str().into()
    }
}
