//! Files that the configuration includes, as the process finds and reads them.

use std::fs;

use crate::support::{Config, Process, get, process};

/// A gateway whose configuration includes `conf.d/*.toml` beside it.
fn including(files: &[(&str, &str)]) -> Process {
    let config = Config::to("builtin:echo").top("include = ['conf.d/*.toml']");
    Process::start_as(&config, |file| {
        let folder = file.parent().expect("a folder").join("conf.d");
        fs::create_dir(&folder).expect("a writable folder");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a writable folder");
        }
        process::command(file)
    })
}

fn route(path: &str) -> String {
    format!("[[routes]]\npath = '{path}'\nupstream = 'api'\n")
}

#[test]
fn a_reload_reads_included_files_again_and_finds_new_ones() {
    let process = including(&[("a.toml", &route("/a"))]);
    let status = |path: &str| get(process.public, path, "").status;
    assert_eq!((status("/a"), status("/b")), (200, 404));
    let folder = process.file().parent().expect("a folder").join("conf.d");
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("a writable folder");
    };
    write("b.toml", &route("/b"));
    write("a.toml", &format!("shutdown_grace = '5s'\n{}", route("/c")));
    process.signal("HUP");
    process.wait_for_line(&["\"reloaded\"", "shutdown_grace 30s → 5s"]);
    process.wait_for_line(&["\"reloaded\"", "route /b added"]);
    process.wait_for_line(&["\"changes\":4"]);
    assert_eq!((status("/a"), status("/b"), status("/c")), (404, 200, 200));
    // What is wrong with one of them is said of that file, and the old configuration stays.
    write("b.toml", &format!("{}policies = ['none']\n", route("/d")));
    process.signal("HUP");
    process.wait_for_line(&[
        "cannot reload",
        "conf.d/b.toml:4:13: there is no policy `none`",
    ]);
    write("b.toml", "workers = 3\nshutdown_grace = '6s'\n");
    process.signal("HUP");
    let line = process.wait_for_line(&[
        "cannot reload",
        "conf.d/b.toml:2:1: `shutdown_grace` is in two",
    ]);
    assert!(
        line.contains("the first one is at ") && line.contains("conf.d/a.toml:1:1"),
        "{line}"
    );
    assert_eq!((status("/b"), status("/d")), (200, 404));
}

#[test]
fn included_files_are_beside_the_file_and_it_is_not_read_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let text = include_str!("../config/good/smallest.toml");
    fs::create_dir(at("etc")).expect("a writable folder");
    fs::write(
        at("etc/gateway.toml"),
        format!("include = ['*.toml']\n{text}"),
    )
    .expect("a file");
    fs::write(at("etc/b.toml"), "workers = 2\n").expect("a file");
    fs::write(at("c.toml"), "no TOML").expect("a file");
    std::os::unix::fs::symlink("b.toml", at("etc/c.toml")).expect("a link");
    let check = |folder: &str, file: &str| process::tollgate(&["check", file], &at(folder)).said();
    let said = check("", "etc/gateway.toml");
    assert!(
        said.contains("no mistakes\n\nincluded files\n  etc/b.toml\n\n"),
        "{said}"
    );
    let said = check("etc", "gateway.toml");
    assert!(
        said.contains("no mistakes\n\nincluded files\n  b.toml\n\n"),
        "{said}"
    );
}
