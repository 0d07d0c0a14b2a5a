//! Says when a file has changed that a reload reads, by looking at all of them once a second (`watch = true`).
//!
//! A look notes where each path leads in the end, and which file that is, how large, and when it was written. So
//! it sees a file that is replaced, and a link that is set to another directory, as Kubernetes does with `..data`.
//! A change counts once two looks in a row agree: no file is read while it is being written. What leaves a file's
//! place, size and time as they were is not seen.
//!
//! A look costs some system calls per file. It never takes more than a hundredth of the time: after one that was
//! slow, the next one waits a hundred times as long.

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
    /// What the configuration in force is made of.
    in_force: ReadPaths,
    /// That, and what a file is made of that was rejected since.
    paths: ReadPaths,
    /// What was there when the files were last read.
    read: Sight,
    /// What the last look saw.
    last: Sight,
    /// How long the next look waits.
    pause: Duration,
}

/// What is found under each path; under a pattern, any number of files.
type Sight = BTreeMap<PathBuf, Vec<(PathBuf, Option<SeenFile>)>>;

/// What tells a file from another one, and from what it was; none: it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenFile {
    /// Where it is once every link on the way is followed.
    place: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    written: (i64, i64),
}

impl FileWatch {
    /// Begins to watch what was just read.
    pub fn of(paths: ReadPaths) -> Self {
        let seen = sight(&paths);
        Self {
            in_force: paths.clone(),
            paths,
            read: seen.clone(),
            last: seen,
            pause: PERIOD,
        }
    }

    /// Returns how long to wait before the next look.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Looks, and returns a path under which something has changed since the files were read, if that has come
    /// to rest.
    pub fn changed(&mut self, clock: &Clock) -> Option<&Path> {
        let began = clock.now();
        let now = sight(&self.paths);
        let took = Duration::from_micros(clock.now().since(began).0);
        self.pause = PERIOD.max(took * PAUSE_PER_LOOK);
        let has_settled = now == self.last;
        self.last = now;
        let mut paths = self.last.iter().filter(|_| has_settled);
        let (path, _) = paths.find(|(path, found)| self.read.get(*path) != Some(found))?;
        Some(path)
    }

    /// Notes what is there before the files are read: what changes while they are counts as a change.
    pub fn before_read(&mut self) {
        self.read = sight(&self.paths);
        self.last.clone_from(&self.read);
    }

    /// Notes what was read, and is in force now.
    pub fn applied(&mut self, paths: ReadPaths) {
        self.in_force = paths.clone();
        self.follow(paths);
    }

    /// Notes what was read of a configuration that was rejected: it, or what is in force, may become right.
    pub fn rejected(&mut self, mut paths: ReadPaths) {
        paths.extend(self.in_force.clone());
        self.follow(paths);
    }

    /// Goes on with other paths; those that were not watched before count as read as they are.
    fn follow(&mut self, paths: ReadPaths) {
        self.paths = paths;
        self.last = sight(&self.paths);
        let before = std::mem::take(&mut self.read);
        self.read.clone_from(&self.last);
        for (path, found) in before {
            self.read.entry(path).and_modify(|known| *known = found);
        }
    }
}

fn sight(paths: &ReadPaths) -> Sight {
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

/// How often the files are looked at.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// How many times as long as a look took the next one waits at least.
const PAUSE_PER_LOOK: u32 = 100;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    /// A folder with a file, whose time and content are what the test says.
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

    /// Looks as often as that, and says at which look something has changed, if at any.
    fn looks(watch: &mut FileWatch, count: usize) -> Option<usize> {
        let clock = Clock::system();
        (1..=count).find(|_| watch.changed(&clock).is_some())
    }

    #[test]
    fn every_way_to_change_a_file_is_seen_once_two_looks_agree() {
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
            assert_eq!(looks(&mut watch, 3), None, "{name}");
            change(&folder);
            assert_eq!(looks(&mut watch, 3), Some(2), "{name}");
            watch.before_read();
            assert_eq!(looks(&mut watch, 3), None, "{name}");
        }
    }

    #[test]
    fn a_directory_that_is_swapped_by_a_link_is_seen_whatever_is_in_it() {
        let folder = Folder::new();
        for name in ["..1", "..2"] {
            fs::create_dir(folder.path(name)).expect("a directory");
        }
        // The very same file in both, so that nothing but the way to it differs.
        fs::hard_link(folder.path("a"), folder.path("..1/a.toml")).expect("a file");
        fs::hard_link(folder.path("a"), folder.path("..2/a.toml")).expect("a file");
        symlink("..1", folder.path("..data")).expect("a link");
        symlink("..data/a.toml", folder.path("a.toml")).expect("a link");
        let mut by_name = folder.watch(&["a.toml"], &[]);
        let mut by_pattern = folder.watch(&[], &["*.toml"]);
        symlink("..2", folder.path("..new")).expect("a link");
        fs::rename(folder.path("..new"), folder.path("..data")).expect("a link");
        assert_eq!(looks(&mut by_name, 3), Some(2));
        assert_eq!(looks(&mut by_pattern, 3), Some(2));
    }

    #[test]
    fn a_file_that_is_still_being_written_is_left_alone() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        for second in 2..5 {
            folder.write("a", "one", second);
            assert_eq!(looks(&mut watch, 1), None);
        }
        assert_eq!(looks(&mut watch, 1), Some(1));
    }

    #[test]
    fn what_is_undone_before_it_is_read_is_no_change() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        folder.write("a", "one", 2);
        assert_eq!(looks(&mut watch, 1), None);
        folder.write("a", "one", 1);
        assert_eq!(looks(&mut watch, 3), None);
    }

    #[test]
    fn what_changes_while_files_are_read_is_a_change() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &["*.toml"]);
        watch.before_read();
        folder.write("a", "two", 2);
        folder.write("b.toml", "", 1);
        watch.applied(folder.paths(&["a", "b.toml"], &["*.toml"]));
        assert_eq!(looks(&mut watch, 3), Some(1));
    }

    #[test]
    fn after_a_rejected_file_both_it_and_what_is_in_force_are_watched() {
        let folder = Folder::new();
        let mut watch = folder.watch(&["a"], &[]);
        watch.before_read();
        watch.rejected(folder.paths(&["new"], &[]));
        assert_eq!(looks(&mut watch, 3), None);
        folder.write("new", "", 1);
        assert_eq!(looks(&mut watch, 3), Some(2));
        watch.before_read();
        watch.rejected(folder.paths(&["other"], &[]));
        folder.write("a", "two", 2);
        assert_eq!(looks(&mut watch, 3), Some(2));
        watch.before_read();
        // The one that was rejected first is no longer of interest.
        folder.write("new", "new", 2);
        assert_eq!(looks(&mut watch, 3), None);
    }
}
