//! `watch = true`: the process reads its files again when they change, without a signal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Config, Process, eventually, get, process};

fn route(path: &str) -> String {
    format!("[[routes]]\npath = '{path}'\nupstream = 'api'\n")
}

/// Counts the log lines that contain `part`.
fn count(process: &Process, part: &str) -> usize {
    let lines = process.lines();
    lines.iter().filter(|line| line.contains(part)).count()
}

/// A configuration with included files; `watch` is a line that may say to watch them.
fn config(watch: &str) -> Config {
    Config::to("builtin:echo").top(&format!("include = ['conf.d/*.toml']\n{watch}"))
}

/// A gateway that watches a directory of included files behind a link, as Kubernetes mounts them.
fn watching() -> Process {
    Process::start_as(&config("watch = true"), |file| {
        let folder = file.parent().expect("a folder").join("conf.d");
        fs::create_dir(&folder).expect("a writable folder");
        fs::create_dir(folder.join("..1")).expect("a writable folder");
        fs::write(folder.join("..1/a.toml"), route("/a")).expect("a writable folder");
        symlink("..1", folder.join("..data")).expect("a link");
        symlink("..data/a.toml", folder.join("a.toml")).expect("a link");
        process::command(file)
    })
}

fn folder(process: &Process) -> &Path {
    process.file().parent().expect("a folder")
}

#[test]
fn a_watched_file_is_read_again_when_it_changes_and_a_bad_one_is_said_once() {
    let process = watching();
    let status = |path: &str| get(process.public, path, "").status;
    let conf = folder(&process).join("conf.d");
    // As Kubernetes does it: a new directory, and a link that is switched to it in one step.
    fs::create_dir(conf.join("..2")).expect("a writable folder");
    fs::write(conf.join("..2/a.toml"), route("/b")).expect("a writable folder");
    symlink("..2", conf.join("..new")).expect("a link");
    fs::rename(conf.join("..new"), conf.join("..data")).expect("a link");
    process.wait_for_line(&["a watched file has changed", "conf.d"]);
    process.wait_for_line(&["\"reloaded\"", "route /b added"]);
    process.wait_for_line(&["the new configuration is in effect", "\"changes\":2"]);
    assert_eq!((status("/a"), status("/b")), (404, 200));
    // A new file with a mistake changes nothing; it is read again once it is mended, and not sooner.
    fs::write(conf.join("c.toml"), "shutdown_grace = 5\n").expect("a writable folder");
    process.wait_for_line(&["cannot reload", "conf.d/c.toml:1:18"]);
    assert_eq!((status("/a"), status("/b")), (404, 200));
    fs::write(conf.join("c.toml"), "shutdown_grace = '5s'\n").expect("a writable folder");
    process.wait_for_line(&["\"reloaded\"", "shutdown_grace 30s → 5s"]);
    assert_eq!(count(&process, "cannot reload"), 1);
    assert_eq!(count(&process, "a watched file has changed"), 3);
}

#[test]
fn watching_is_turned_off_and_on_again_by_a_reload() {
    let process = watching();
    let part = folder(&process).join("conf.d/c.toml");
    process.rewrite(&config("watch = false"));
    process.wait_for_line(&["\"reloaded\"", "watch true → false"]);
    fs::write(&part, "shutdown_grace = '6s'\n").expect("a writable folder");
    process.rewrite(&config("watch = true"));
    process.signal("HUP");
    process.wait_for_line(&["\"reloaded\"", "shutdown_grace 30s → 6s"]);
    process.wait_for_line(&["\"reloaded\"", "watch false → true"]);
    fs::write(&part, "shutdown_grace = '7s'\n").expect("a writable folder");
    process.wait_for_line(&["\"reloaded\"", "shutdown_grace 6s → 7s"]);
    // One reload for each change, including the one by a signal.
    eventually("the last line of the third reload", || {
        (count(&process, "the new configuration is in effect") == 3).then_some(())
    });
    assert_eq!(count(&process, "a watched file has changed"), 2);
}
