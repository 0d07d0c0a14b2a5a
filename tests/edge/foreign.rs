//! Programs that the tests run as clients.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs one of the scripts in `clients` and returns what it printed; fails the test unless it succeeds.
#[track_caller]
pub fn client(script: &str, arguments: &[&str]) -> String {
    finish(command(script, arguments), "")
}

/// Sends requests over one HTTP/2 connection, and returns what came of each.
#[track_caller]
pub fn http2(port: u16, requests: &Value) -> Value {
    let port = port.to_string();
    let printed = finish(command("http2.py", &[&port]), &requests.to_string());
    serde_json::from_str(&printed).expect("it prints JSON")
}

/// Debian's Python, which has the packages that Debian installs, whatever other one comes first.
fn command(script: &str, arguments: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edge/clients");
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-B").arg(folder.join(script)).args(arguments);
    command
}

#[track_caller]
fn finish(mut command: Command, input: &str) -> String {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("Debian's python3 is installed");
    let mut stdin = child.stdin.take().expect("a piped stream");
    stdin
        .write_all(input.as_bytes())
        .expect("it reads what it needs");
    drop(stdin);
    let output = child.wait_with_output().expect("a child can be waited for");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}:\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}
