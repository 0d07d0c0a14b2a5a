//! Unix sockets and their files: what a start replaces, what it never removes, and what is left at the end.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::json;

use crate::support::process::run_to_end;
use crate::support::{Client, Config, Process, eventually};

/// A file with a listener `local` on the socket at `path`, and a quota for each address.
fn on(path: &Path, lines: &str) -> Config {
    let path = path.display();
    Config::limited("builtin:echo", "quota = '2 per hour'").with(&format!(
        "[listeners.local]\naddress = 'unix:{path}'\n{lines}"
    ))
}

#[track_caller]
fn connect(path: &Path) -> Client {
    eventually("the socket is listened on", || {
        Client::try_connect_unix(path).ok()
    })
}

#[test]
fn a_socket_is_for_its_owner_and_group_and_goes_with_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    let mut process = Process::start(&on(&path, ""));
    let shown = path.display().to_string();
    process.wait_for_line(&["listening on", &shown, "listeners.local"]);
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert_eq!(connect(&path).get("/", "").status, 200);
    process.signal("TERM");
    assert!(process.wait().success());
    assert!(!path.exists());
}

#[test]
fn a_socket_that_a_killed_process_left_behind_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    let mut killed = Process::start(&on(&path, ""));
    killed.signal("KILL");
    killed.wait();
    assert!(path.exists());
    let _process = Process::start(&on(&path, ""));
    assert_eq!(connect(&path).get("/", "").status, 200);
}

#[test]
fn what_is_anothers_is_not_replaced_and_the_start_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("other.sock");
    let _other = UnixListener::bind(&socket).expect("a socket");
    let text = folder.path().join("text");
    File::create(&text).expect("a file");
    let nowhere = folder.path().join("missing/tollgate.sock");
    for (path, told) in [
        (
            &socket,
            "the address is in use: a process listens on this socket",
        ),
        (&text, "there is a file at this path that is not a socket"),
        (&nowhere, "No such file or directory"),
    ] {
        // The first listener's socket is not left over either.
        let first = folder.path().join("first.sock");
        let config = on(path, "").address(&format!("unix:{}", first.display()));
        let output = run_to_end(&config.text());
        let lines = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{lines}");
        let expected = format!(
            "tollgate: cannot listen on unix:{} (listeners.local.address): {told}",
            path.display()
        );
        assert!(lines.contains(&expected), "{expected:?} in {lines}");
        assert!(!first.exists());
    }
    let kind = fs::symlink_metadata(&socket).expect("a file").file_type();
    assert!(kind.is_socket() && text.exists());
}

#[test]
fn a_reload_keeps_the_socket_and_names_a_changed_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, other] = ["tollgate.sock", "other.sock"].map(|name| folder.path().join(name));
    let process = Process::start(&on(&path, ""));
    let mut client = connect(&path);
    assert_eq!(client.get("/", "").status, 200);
    process.rewrite(&on(&other, "client_address = 'forwarded'"));
    process.signal("HUP");
    let changed = format!(
        "listener local: address unix:{} → unix:{}",
        path.display(),
        other.display()
    );
    process.wait_for_line(&["needs a restart", &changed]);
    process.wait_for_line(&["the new configuration is in effect"]);
    assert!(!other.exists());
    // The rest of the file applies, also to connections from before the reload.
    for mut client in [client, connect(&path)] {
        let answer = client.get("/", "Forwarded: for=203.0.113.9\r\n");
        assert!(answer.text().contains("203.0.113.9"), "{}", answer.text());
    }
}

#[test]
fn a_client_without_an_address_is_logged_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    let process = Process::start(&on(&path, ""));
    let mut client = connect(&path);
    for fields in ["", "X-Forwarded-For: 203.0.113.9\r\n"] {
        assert_eq!(client.get("/", fields).status, 200);
    }
    let records = process.wait_for_records(2);
    let found = records.iter().map(|record| {
        let record = record.as_object().expect("an object");
        json!([
            record["listener"],
            record["client"],
            record.get("partitions")
        ])
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            json!(["local", "unix:", ["no ip"]]),
            json!(["local", "203.0.113.9", null]),
        ]
    );
    client.send("GET /\r\n\r\n");
    process.wait_for_line(&["\"client\":\"unix:\"", "\"syntax\""]);
}
