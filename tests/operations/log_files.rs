//! The files of the log: one for events and one for the access log, reopened, and full.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{io, thread};

use crate::support::process::run_to_end;
use crate::support::{Client, Config, Metered, Process, eventually, get};

/// A file that sends every path under `/api` to the echo, and logs to these files.
fn logged_to(events: &Path, access: Option<&Path>) -> Config {
    let key = |access: &Path| format!("access_file = '{}'", access.display());
    let access = access.map(key).unwrap_or_default();
    let log = format!("[log]\nfile = '{}'\n{access}", events.display());
    Config::to("builtin:echo").route("/api/*", "").with(&log)
}

/// Waits until the file holds that text.
#[track_caller]
fn wait_until_held(file: &Path, text: &str) {
    eventually(&format!("{text} in {}", file.display()), || {
        holds(file, text).then_some(())
    });
}

/// Returns whether the file holds that text now.
fn holds(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|held| held.contains(text))
}

/// Returns a new folder, and paths in it.
fn folder<const N: usize>(names: [&str; N]) -> (tempfile::TempDir, [std::path::PathBuf; N]) {
    let folder = tempfile::tempdir().expect("a directory for the logs");
    let files = names.map(|name| folder.path().join(name));
    (folder, files)
}

#[test]
fn a_reload_opens_the_log_anew_whether_it_is_rejected_or_not() {
    for (is_readable, applied, rejected) in [(true, 1, 0), (false, 0, 1)] {
        let (_folder, [log, rotated, away]) = folder(["access.log", "access.log.1", "away.toml"]);
        let process = Process::start(&logged_to(&log, None).one_worker());
        get(process.public, "/api/before", "");
        wait_until_held(&log, "/api/before");
        fs::rename(&log, &rotated).expect("the directory is writable");
        if !is_readable {
            fs::rename(process.file(), away).expect("one file system");
        }
        process.signal("HUP");
        eventually("the log is there again", || log.exists().then_some(()));
        get(process.public, "/api/after", "");
        wait_until_held(&log, "/api/after");
        assert!(!holds(&rotated, "/api/after"));
        let reloads = |result: &str| {
            process.series(&format!("tollgate_reloads_total{{result=\"{result}\"}}"))
        };
        eventually("the reload is counted", || {
            let counted = ["applied", "rejected"].map(reloads);
            (counted == [Some(applied), Some(rejected)]).then_some(())
        });
    }
}

#[test]
fn sigusr1_reopens_both_files_and_reads_no_configuration() {
    let (_folder, [events, access, rotated]) = folder(["events", "access", "access.1"]);
    let process = Process::start(&logged_to(&events, Some(&access)));
    get(process.public, "/api/before", "");
    wait_until_held(&access, "/api/before");
    fs::rename(&access, &rotated).expect("the directory is writable");
    fs::remove_file(&events).expect("the directory is writable");
    process.rewrite_text("this is no configuration");
    process.signal("USR1");
    eventually("the logs are there again", || {
        (access.exists() && events.exists()).then_some(())
    });
    get(process.public, "/api/after", "");
    wait_until_held(&access, "/api/after");
    assert!(!holds(&rotated, "/api/after"));
    for result in ["applied", "rejected"] {
        let reloads = format!("tollgate_reloads_total{{result=\"{result}\"}}");
        assert_eq!(process.series(&reloads), Some(0), "{result}");
    }
    assert_eq!(fs::read_to_string(&events).expect("a log"), "");
}

#[test]
fn lines_go_to_another_file_from_the_reload_that_names_it() {
    let (_folder, [events, access, new]) = folder(["events", "access", "new"]);
    let process = Process::start(&logged_to(&events, None));
    get(process.public, "/api/first", "");
    wait_until_held(&events, "/api/first");
    process.rewrite(&logged_to(&events, Some(&access)));
    process.signal("HUP");
    wait_until_held(&events, "access_file");
    wait_until_held(&events, "the new configuration is in effect");
    get(process.public, "/api/second", "");
    wait_until_held(&access, "/api/second");
    assert!(!holds(&events, "/api/second") && !holds(&access, "the new configuration"));
    process.rewrite(&logged_to(&events, None));
    process.signal("HUP");
    wait_until_held(&events, "→ where events go");
    get(process.public, "/api/third", "");
    wait_until_held(&events, "/api/third");
    assert!(!holds(&access, "/api/third"));
    process.rewrite(&logged_to(&new, None));
    process.signal("HUP");
    wait_until_held(&new, "the new configuration is in effect");
    get(process.public, "/api/fourth", "");
    wait_until_held(&new, "/api/fourth");
    assert!(!holds(&events, "/api/fourth") && !holds(&new, "/api/third"));
}

#[test]
fn a_log_that_cannot_be_written_says_so_once_and_how_many_lines_are_lost_when_it_can() {
    let (_folder, [events, access]) = folder(["events", "access"]);
    symlink("/dev/full", &access).expect("the directory is writable");
    let mut process = Process::start(&logged_to(&events, Some(&access)));
    for sent in 1..=3 {
        get(process.public, "/api/lost", "");
        eventually("the line is lost", || {
            let lost: u64 = process.series("tollgate_log_lines_dropped_total")?;
            (lost == sent).then_some(())
        });
    }
    let file = access.display().to_string();
    process.wait_for_line(&["cannot be written", &file, "No space left on device"]);
    fs::remove_file(&access).expect("the directory is writable");
    process.signal("USR1");
    eventually("the log is there", || access.exists().then_some(()));
    get(process.public, "/api/kept", "");
    process.wait_for_line(&["can be written", &file, "again: 3 lines are lost"]);
    process.signal("TERM");
    process.wait();
    let said = |text| {
        process
            .lines()
            .iter()
            .filter(|line| line.contains(text))
            .count()
    };
    assert_eq!(said("cannot be written"), 1);
    assert_eq!(said("can be written"), 1);
    assert!(holds(&access, "/api/kept") && !holds(&access, "/api/lost"));
}

#[test]
fn a_log_that_did_not_keep_up_says_how_many_lines_are_lost_when_it_has_caught_up() {
    let (_folder, [events, access]) = folder(["events", "access"]);
    let made = Command::new("mkfifo").arg(&access).status();
    assert!(made.expect("mkfifo is installed").success());
    // Opened for reading and writing, so that neither side waits for the other.
    let both = File::options().read(true).write(true).open(&access);
    let mut pipe = both.expect("a pipe");
    let process = Process::start(&logged_to(&events, Some(&access)).one_worker());
    let mut client = Client::connect(process.public);
    let target = format!("/api/{}", "a".repeat(1000));
    let lost = || process.series::<u64>("tollgate_log_lines_dropped_total");
    while lost() == Some(0) {
        for _ in 0..100 {
            client.get(&target, "");
        }
    }
    thread::spawn(move || io::copy(&mut pipe, &mut io::sink()));
    let said = process.wait_for_line(&["the log did not keep up: "]);
    let lost = lost().expect("a number");
    assert!(
        said.ends_with(&format!(": {lost} lines are lost")),
        "{said}"
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_named_with_its_key() {
    for key in ["file", "access_file"] {
        let config = Config::to("builtin:echo").route("/*", "");
        let config = config.with(&format!("[log]\n{key} = '/no/such/folder/log'"));
        let output = run_to_end(&config.text());
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!("cannot open the log /no/such/folder/log (log.{key}): No such file");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}
