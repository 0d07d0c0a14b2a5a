//! Which files a configuration is made of, so that whoever watches them need not know what the file may name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What was read to load a configuration, or should have been: a file that is not there is named too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPaths {
    /// The file itself, those that it includes by name, and those that its values name: certificates, keys,
    /// overrides, secrets.
    pub files: BTreeSet<PathBuf>,
    /// Patterns of `include`: paths whose last part has a `*`.
    pub patterns: BTreeSet<PathBuf>,
}

impl ReadPaths {
    /// Notes a file; a text that is in no file has none.
    pub(super) fn add_file(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if !path.as_os_str().is_empty() {
            self.files.insert(path.to_owned());
        }
    }

    /// Notes what a pattern names, whenever that is there.
    pub(super) fn add_pattern(&mut self, pattern: PathBuf) {
        self.patterns.insert(pattern);
    }

    /// Adds all of another list.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.patterns.extend(other.patterns);
    }
}
