//! Finds and reads the files that `include` names.
//!
//! A pattern is a path relative to the folder of the file that includes others. Its last part may have `*` for any
//! number of characters; as in a shell, a `*` at the beginning matches no hidden files. No file is read twice.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::file::Spanned;
use crate::config::report::{IncludedFile, Report};
use crate::config::secrets::redacted;
use crate::config::text::ConfigText;
use crate::config::value::file;

/// Reads the files that the patterns name, in the order of their paths. Reports what is wrong with a pattern or a file
/// at the place of the pattern.
pub(super) fn files(
    config: &ConfigText<'_>,
    patterns: &[Spanned<String>],
    report: &mut Report,
) -> Vec<IncludedFile> {
    let mut found = FoundFiles {
        beside: config.path.parent().unwrap_or(config.path),
        main: fs::metadata(config.path)
            .ok()
            .as_ref()
            .map(device_and_inode),
        known: HashSet::new(),
        paths: BTreeMap::new(),
    };
    for Spanned { value, span } in patterns {
        let path = found.beside.join(value);
        if value.contains('*') {
            report.paths_mut().add_pattern(path);
        } else {
            report.paths_mut().add_file(path);
        }
        let paths = match found.named_by(value) {
            Ok(paths) => paths,
            Err(wrong) => {
                say(wrong, span, report);
                continue;
            }
        };
        for path in paths {
            let Err(wrong) = found.add(path, span) else {
                continue;
            };
            say(wrong, span, report);
            if found.is_full() {
                break;
            }
        }
    }
    let (mut included, mut end, mut left) = (Vec::new(), config.text.len(), INCLUDED_BYTES_MAX);
    for (path, span) in found.paths {
        match text(&path, left) {
            Ok(text) => {
                left -= text.len() as u64;
                // Between two files is a line end that belongs to neither, so no place is in both.
                let start = end + 1;
                end = start + text.len();
                included.push(IncludedFile {
                    name: path.display().to_string(),
                    text,
                    start,
                });
            }
            Err(why) => say(
                WrongPath::of(&path, "cannot be read").hint(why),
                &span,
                report,
            ),
        }
    }
    included
}

/// Reports what is wrong with a path, without repeating a path that comes from a variable.
fn say(wrong: WrongPath, place: &Range<usize>, report: &mut Report) {
    let (subject, hint) = match report.redacts(place) {
        true => ("this path".to_owned(), wrong.hint),
        false if wrong.path.is_empty() => ("an empty string".to_owned(), wrong.hint),
        false => {
            let subject = format!("`{}`", redacted(&wrong.path));
            (subject, wrong.hint_with_path.or(wrong.hint))
        }
    };
    let message = format!("{subject} {}", wrong.problem);
    (report.mistake(place, message, EXPECTED)).maybe_hint(hint);
}

/// Reads a file of at most `most` bytes, or returns why it cannot be read.
fn text(path: &Path, most: u64) -> Result<String, String> {
    if fs::metadata(path).is_ok_and(|file| file.len() > most) {
        return Err(format!(
            "all included files together have at most {INCLUDED_BYTES_MAX} bytes"
        ));
    }
    let content = file(path, most).map_err(|unread| unread.why)?;
    String::from_utf8(content).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + memchr::memchr_iter(b'\n', valid).count();
        format!("it is not UTF-8: line {line} is the first that is not")
    })
}

/// Why a path is wrong; `problem` is a predicate of it.
struct WrongPath {
    path: String,
    problem: &'static str,
    hint: Option<String>,
    /// A hint that repeats the path, or a part of it.
    hint_with_path: Option<String>,
}

impl WrongPath {
    fn new(path: &str, problem: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            problem,
            hint: None,
            hint_with_path: None,
        }
    }

    fn of(path: &Path, problem: &'static str) -> Self {
        Self::new(&path.display().to_string(), problem)
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn hint_with_path(mut self, hint: String) -> Self {
        self.hint_with_path = Some(hint);
        self
    }

    fn because(self, error: &io::Error) -> Self {
        self.hint(format!("the system says: {}", error.kind()))
    }

    /// Adds a hint if `name` has characters that have a meaning in other programs' patterns.
    fn no_file(self, name: &str) -> Self {
        if name.contains(['?', '[', '{']) {
            self.hint("of the characters of patterns, only `*` has a meaning here")
        } else {
            self
        }
    }
}

/// Returns the numbers that identify a file on this machine.
fn device_and_inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The files that have been found so far.
struct FoundFiles<'p> {
    /// Folder that patterns are relative to.
    beside: &'p Path,
    /// Device and inode of the file that includes the others, if it exists.
    main: Option<(u64, u64)>,
    known: HashSet<(u64, u64)>,
    /// Paths of the files, each with the place of the pattern that named it first.
    paths: BTreeMap<PathBuf, Range<usize>>,
}

impl FoundFiles<'_> {
    /// Returns the paths that a pattern names: at least one.
    fn named_by(&self, value: &str) -> Result<BTreeSet<PathBuf>, WrongPath> {
        let (folder, name) = match value.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((folder, name)) => (folder, name),
            None => ("", value),
        };
        if matches!(name, "" | "." | "..") {
            let wrong = WrongPath::new(value, "names no file");
            return Err(wrong.hint("to include all files of a directory, write `conf.d/*.toml`"));
        }
        if folder.contains('*') {
            let wrong = WrongPath::new(value, "has a `*` before its last `/`");
            return Err(wrong.hint("write a pattern for each directory"));
        }
        if !name.contains('*') {
            return Ok(BTreeSet::from([self.beside.join(value)]));
        }
        let unread = |error: io::Error| {
            let wrong = WrongPath::new(value, "is in a directory that cannot be read");
            wrong.because(&error)
        };
        let mut paths = matching(&self.beside.join(value)).map_err(unread)?;
        paths.retain(|path| !self.is_main(path));
        if paths.is_empty() {
            return Err(WrongPath::new(value, "matches no file").no_file(name));
        }
        Ok(paths)
    }

    fn is_main(&self, path: &Path) -> bool {
        self.main.is_some() && fs::metadata(path).ok().as_ref().map(device_and_inode) == self.main
    }

    /// Whether the limit of included files is reached.
    fn is_full(&self) -> bool {
        self.paths.len() == INCLUDED_FILES_MAX
    }

    fn add(&mut self, path: PathBuf, span: &Range<usize>) -> Result<(), WrongPath> {
        let wrong = |problem| WrongPath::of(&path, problem);
        let metadata = fs::metadata(&path).map_err(|error| {
            let name = path.file_name().map(OsStr::to_string_lossy);
            let wrong = wrong("cannot be read").because(&error);
            wrong.no_file(&name.unwrap_or_default())
        })?;
        if metadata.is_dir() {
            let path = path.strip_prefix(self.beside).unwrap_or(&path);
            let path = path.to_string_lossy();
            let files = format!("to include its files, write `{}/*.toml`", redacted(&path));
            return Err(wrong("is a directory").hint_with_path(files));
        }
        // Opening a pipe would wait for a writer.
        if !metadata.is_file() {
            return Err(wrong("is not a regular file"));
        }
        let identity = device_and_inode(&metadata);
        if self.main == Some(identity) {
            return Err(wrong("is the file that includes it"));
        }
        if self.known.contains(&identity) {
            return Ok(());
        }
        if self.is_full() {
            let most = format!("`include` takes at most {INCLUDED_FILES_MAX} files");
            return Err(wrong("is one file too many").hint(most));
        }
        self.known.insert(identity);
        self.paths.insert(path, span.clone());
        Ok(())
    }
}

/// Returns the paths that match a pattern whose last part may have `*`: at most two more than can be included, one to
/// show that there are too many, and one that may be the file that includes the others.
///
/// # Errors
/// If the directory cannot be read.
pub fn matching(pattern: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let folder = pattern.parent().unwrap_or(Path::new(""));
    let name = pattern.file_name().and_then(OsStr::to_str);
    // The working directory cannot be listed by an empty name.
    let listed = match folder.as_os_str() {
        name if name.is_empty() => Path::new("."),
        _ => folder,
    };
    let mut paths = BTreeSet::new();
    for entry in fs::read_dir(listed)? {
        let found = entry?.file_name();
        let is_meant = name.zip(found.to_str());
        if is_meant.is_some_and(|(name, found)| matches(name, found)) {
            paths.insert(folder.join(&found));
        }
        if paths.len() > INCLUDED_FILES_MAX + 1 {
            break;
        }
    }
    Ok(paths)
}

/// Whether a file's name matches `pattern`, in which `*` stands for any number of characters.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // The leftmost match leaves the most text for the parts that follow.
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

const EXPECTED: &str = "a path, or a pattern such as `conf.d/*.toml`";
/// Most files that a configuration may include.
const INCLUDED_FILES_MAX: usize = 1000;
/// Most bytes of all included files together.
const INCLUDED_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_number_of_characters() {
        for (pattern, name, is_one) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", false),
            ("*.toml", "a.toml~", false),
            ("*", "a", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("a*b", "ab", true),
            ("a*ba", "aba", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a**c", "abc", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches(pattern, name), is_one, "{pattern} {name}");
        }
    }
}
