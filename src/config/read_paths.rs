//! Paths of the files that a configuration is made of, so that they can be watched without knowing its keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Paths that were read to load a configuration, including those of missing files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPaths {
    /// The configuration file itself, the files that it includes by name, and those that its values name: certificates,
    /// keys, overrides, secrets.
    pub files: BTreeSet<PathBuf>,
    /// Patterns of `include`: paths whose last part has a `*`.
    pub patterns: BTreeSet<PathBuf>,
}

impl ReadPaths {
    /// Notes a file; ignores the empty path of a text that is not in a file.
    pub(super) fn add_file(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if !path.as_os_str().is_empty() {
            self.files.insert(path.to_owned());
        }
    }

    /// Notes a pattern, which stands for files that exist now or later.
    pub(super) fn add_pattern(&mut self, pattern: PathBuf) {
        self.patterns.insert(pattern);
    }

    /// Adds all files and patterns of `other`.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.patterns.extend(other.patterns);
    }
}
