//! What is to be loaded: the text of a file, where the file is, and how strictly it is taken.

use std::path::Path;

/// The text of a configuration file, and what is known of the file besides.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'t> {
    /// What is in it.
    pub text: &'t str,
    /// Where it is: the files that it includes are beside it. Empty for a text that is in no file: those that it
    /// includes are in the working directory.
    pub path: &'t Path,
    /// What becomes of values that are not there.
    pub missing: MissingValues,
}

/// What becomes of values that the file takes from variables and from files with secrets, where these are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingValues {
    /// Each is a mistake.
    AreMistakes,
    /// Each is assumed to be there: what the file says besides is checked.
    AreGiven,
}

impl<'t> ConfigText<'t> {
    /// The text of the file at `path`.
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
