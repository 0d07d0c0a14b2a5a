//! Detects changes of the files that a reload reads, by scanning all of them once a second (`watch = true`).
//!
//! A scan notes where each path leads once all links are followed, and that file's identity, size and modification
//! time. So it detects a replaced file, and a link that is set to another directory, as Kubernetes does with `..data`.
//! A change counts once two scans in a row agree, so that no file is read while it is being written. A change that
//! leaves path, identity, size and time as they were is not detected.
//!
//! A scan costs some system calls per file. Scans never take more than a hundredth of the time: after a slow one, the
//! next one waits a hundred times as long as that took.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Clock;
use crate::config::{ReadPaths, matching};

/// Watches the files that a reload reads.
#[derive(Debug)]
pub(super) struct FileWatch {
    /// Paths that the configuration in force was read from.
    in_force: ReadPaths,
    /// Paths to watch: those in force, and those of a configuration that was rejected since.
    paths: ReadPaths,
    /// Files as they were when the configuration was last read.
    read: FilesSeen,
    /// Files as the last scan found them.
    last: FilesSeen,
    /// How long to wait before the next scan.
    pause: Duration,
}

/// Files found for each watched path: one for a plain path, any number for a pattern.
type FilesSeen = BTreeMap<PathBuf, Vec<(PathBuf, Option<SeenFile>)>>;

/// State of a file, to tell it from another file and from its own earlier state; `None` if there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenFile {
    /// Path of the file, with all links resolved.
    place: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    written: (i64, i64),
}

impl FileWatch {
    /// Starts to watch the files that were just read.
    pub fn of(paths: ReadPaths) -> Self {
        let seen = scan(&paths);
        Self {
            in_force: paths.clone(),
            paths,
            read: seen.clone(),
            last: seen,
            pause: PERIOD,
        }
    }

    /// Returns how long to wait before the next scan.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Scans the files, and returns a path under which something has changed since they were read, if two scans in
    /// a row agree.
    pub fn changed(&mut self, clock: &Clock) -> Option<&Path> {
        let began = clock.now();
        let now = scan(&self.paths);
        let took = Duration::from_micros(clock.now().since(began).0);
        self.pause = PERIOD.max(took * PAUSE_PER_SCAN);
        let has_settled = now == self.last;
        self.last = now;
        let mut paths = self.last.iter().filter(|_| has_settled);
        let (path, _) = paths.find(|(path, found)| self.read.get(*path) != Some(found))?;
        Some(path)
    }

    /// Notes the state of the files before they are read, so that a change during the reading counts as a change.
    pub fn before_read(&mut self) {
        self.read = scan(&self.paths);
        self.last.clone_from(&self.read);
    }

    /// Watches `paths`, from which the configuration now in force was read.
    pub fn applied(&mut self, paths: ReadPaths) {
        self.in_force = paths.clone();
        self.follow(paths);
    }

    /// Watches the paths of a rejected configuration and those in force: a change of either may make a reload succeed.
    pub fn rejected(&mut self, mut paths: ReadPaths) {
        paths.extend(self.in_force.clone());
        self.follow(paths);
    }

    /// Switches to other paths; files that were not watched before count as read in their present state.
    fn follow(&mut self, paths: ReadPaths) {
        self.paths = paths;
        self.last = scan(&self.paths);
        let before = std::mem::take(&mut self.read);
        self.read.clone_from(&self.last);
        for (path, found) in before {
            self.read.entry(path).and_modify(|known| *known = found);
        }
    }
}

fn scan(paths: &ReadPaths) -> FilesSeen {
    let files = paths.files.iter();
    let files = files.map(|path| (path.clone(), vec![(path.clone(), seen(path))]));
    let patterns = paths.patterns.iter().map(|pattern| {
        let found = matching(pattern).unwrap_or_default().into_iter();
        let found = found.map(|path| {
            let seen = seen(&path);
            (path, seen)
        });
        (pattern.clone(), found.collect())
    });
    files.chain(patterns).collect()
}

fn seen(path: &Path) -> Option<SeenFile> {
    let place = fs::canonicalize(path).ok()?;
    let file = fs::metadata(&place).ok()?;
    Some(SeenFile {
        place,
        device: file.dev(),
        inode: file.ino(),
        bytes: file.size(),
        written: (file.mtime(), file.mtime_nsec()),
    })
}

/// How often the files are scanned.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// The pause after a scan is at least this many times as long as the scan took.
const PAUSE_PER_SCAN: u32 = 100;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    /// A folder with a file, whose time and content the test sets.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().expect("a directory"));
            folder.write("a", "one", 1);
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str, second: u64) {
            fs::write(self.path(name), text).expect("a file");
            let file = File::options().write(true).open(self.path(name));
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            file.and_then(|file| file.set_modified(time))
                .expect("a file");
        }

        fn watch(&self, files: &[&str], patterns: &[&str]) -> FileWatch {
            FileWatch::of(self.paths(files, patterns))
        }

        fn paths(&self, files: &[&str], patterns: &[&str]) -> ReadPaths {
            let paths = |names: &[&str]| names.iter().map(|name| self.path(name)).collect();
            ReadPaths {
                files: paths(files),
                patterns: paths(patterns),
            }
        }
    }

    type Change = fn(&Folder);

    /// Scans `count` times; returns the number of the first scan that reports a change.
    fn scans(watch: &mut FileWatch, count: usize) -> Option<usize> {
        let clock = Clock::system();
        (1..=count).find(|_| watch.changed(&clock).is_some())
    }

    #[test]
    fn every_way_to_change_a_file_is_seen_once_two_scans_agree() {
        let changes: [(&str, Change); 7] = [
            ("size", |folder| folder.write("a", "three", 1)),
            ("time", |folder| folder.write("a", "two", 2)),
            ("replaced by one of the same size and time", |folder| {
                folder.write("b", "two", 1);
                fs::rename(folder.path("b"), folder.path("a")).expect("a file");
            }),
            ("removed", |folder| {
                fs::remove_file(folder.path("a")).expect("a file");
            }),
            ("there at last", |folder| folder.write("none", "one", 1)),
            ("a new file of a pattern", |folder| {
                folder.write("c.toml", "", 1);
            }),
            ("a link instead", |folder| {
                fs::rename(folder.path("a"), folder.path("b")).expect("a file");
                symlink("b", folder.path("a")).expect("a link");
            }),
        ];
        for (name, change) in changes {
            let folder = Folder::new();
            let mut watch = folder.watch(&["a", "none"], &["*.toml"]);
            assert_eq!(scans(&mut watch, 3), None, "{name}");
            change(&folder);
            assert_eq!(scans(&mut watch, 3), Some(2), "{name}");
            watch.before_read();
            assert_eq!(scans(&mut watch, 3), None, "{name}");
        }
    }

    #[test]
    fn a_directory_that_is_swapped_by_a_link_is_seen_whatever_is_in_it() {
        let folder = Folder::new();
        for name in ["..1", "..2"] {
            fs::create_dir(folder.path(name)).expect("a directory");
        }
        // Both directories hold the same file, so only the path to it differs.
        fs::hard_link(folder.path("a"), folder.path("..1/a.toml")).expect("a file");
        fs::hard_link(folder.path("a"), folder.path("..2/a.toml")).expect("a file");
        symlink("..1", folder.path("..data")).expect("a link");
        symlink("..data/a.toml", folder.path("a.toml")).expect("a link");
        let mut by_name = folder.watch(&["a.toml"], &[]);
        let mut by_pattern = folder.watch(&[], &["*.toml"]);
        symlink("..2", folder.path("..new")).expect("a link");
        fs::rename(folder.path("..new"), folder.path("..data")).expect("a link");
        assert_eq!(scans(&mut by_name, 3), Some(2));
        assert_eq!(scans(&mut by_pattern, 3), Some(2));
    }

    #[test]
    fn a_file_that_is_still_being_written_is_left_alone() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        for second in 2..5 {
            folder.write("a", "one", second);
            assert_eq!(scans(&mut watch, 1), None);
        }
        assert_eq!(scans(&mut watch, 1), Some(1));
    }

    #[test]
    fn what_is_undone_before_it_is_read_is_no_change() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        folder.write("a", "one", 2);
        assert_eq!(scans(&mut watch, 1), None);
        folder.write("a", "one", 1);
        assert_eq!(scans(&mut watch, 3), None);
    }

    #[test]
    fn what_changes_while_files_are_read_is_a_change() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &["*.toml"]);
        watch.before_read();
        folder.write("a", "two", 2);
        folder.write("b.toml", "", 1);
        watch.applied(folder.paths(&["a", "b.toml"], &["*.toml"]));
        assert_eq!(scans(&mut watch, 3), Some(1));
    }

    #[test]
    fn after_a_rejected_file_both_it_and_what_is_in_force_are_watched() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        watch.before_read();
        watch.rejected(folder.paths(&["new"], &[]));
        assert_eq!(scans(&mut watch, 3), None);
        folder.write("new", "", 1);
        assert_eq!(scans(&mut watch, 3), Some(2));
        watch.before_read();
        watch.rejected(folder.paths(&["other"], &[]));
        folder.write("a", "two", 2);
        assert_eq!(scans(&mut watch, 3), Some(2));
        watch.before_read();
        // The configuration that was rejected first is no longer watched.
        folder.write("new", "new", 2);
        assert_eq!(scans(&mut watch, 3), None);
    }
}
