//! Programs in other languages that the tests run as clients and servers.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Runs one of the scripts in `clients` and returns what it printed; fails the test unless it succeeds.
#[track_caller]
pub fn client(script: &str, arguments: &[&str]) -> String {
    finish(command(script, arguments), "")
}

/// A script that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Port on which the script listens; 0 if it does not print one.
    pub port: u16,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a script that prints its port.
    #[track_caller]
    pub fn start(script: &str, arguments: &[&str]) -> Self {
        let mut server = Self::talking(script, arguments);
        server.port = server.line().parse().expect("a port");
        server
    }

    /// Starts a script that prints lines, and now and then waits for one.
    #[track_caller]
    pub fn talking(script: &str, arguments: &[&str]) -> Self {
        let mut command = command(script, arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 and node are installed");
        let printed = child.stdout.take().expect("a piped stream");
        Self {
            child,
            port: 0,
            lines: BufReader::new(printed).lines(),
        }
    }

    /// Returns the next line that the script prints.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let line = self.lines.next().expect("it prints a line before it ends");
        line.expect("text")
    }

    /// Sends the script an empty line, for which it waits.
    pub fn go_on(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("a piped stream");
        stdin.write_all(b"\n").expect("it reads");
    }

    /// Waits until the script ends by itself, and successfully.
    #[track_caller]
    pub fn wait(mut self) {
        let status = self.child.wait().expect("a child can be waited for");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The script may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends requests over one HTTP/2 connection, and returns the outcome of each.
#[track_caller]
pub fn http2(port: u16, requests: &Value) -> Value {
    let port = port.to_string();
    let printed = finish(command("http2.py", &[&port]), &requests.to_string());
    serde_json::from_str(&printed).expect("it prints JSON")
}

/// Returns the command that runs a script by Node, or by Debian's Python, which has the packages that Debian installs,
/// even if another Python comes first in the path.
fn command(script: &str, arguments: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edge/clients");
    let is_node = Path::new(script)
        .extension()
        .is_some_and(|extension| extension == "mjs");
    let mut command = if is_node {
        Command::new("node")
    } else {
        let mut python = Command::new("/usr/bin/python3");
        python.arg("-B");
        python
    };
    command.arg(folder.join(script)).args(arguments);
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
