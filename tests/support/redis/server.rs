//! One Redis server, which a test can kill, stop, continue, restart and query.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use tempfile::TempDir;

use super::certificates::Certificate;
use super::connection::{Connection, Value};
use super::host::{Port, dependent, run, spawn};
use super::{PATIENCE, documented_rights, wait_for};

/// Name and password of the tests' own user, which keeps its access whatever tests do to the default user.
pub const HARNESS: (&str, &str) = ("harness", "a-password-of-the-tests");
/// Environment variable that names another program to run as the server, for example `valkey-server`.
const PROGRAM: &str = "TOLLGATE_TEST_REDIS";
/// Configuration of a server that a sentinel does not understand.
const SERVER_LINES: &str =
    "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nenable-debug-command yes\n";
/// How many times a server is started, each time on other ports, while the ports turn out to be taken.
const STARTS_MAX: usize = 5;
/// Errors by which a connection fails that its server has closed.
const CLOSED: [ErrorKind; 3] = [
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionReset,
    ErrorKind::UnexpectedEof,
];

/// A running server; it is killed when dropped.
///
/// It listens on a port and on a Unix socket, and keeps nothing on disk. The tests connect by the Unix socket, as a
/// user of their own, so that no change of passwords or TLS locks them out. All other clients, including gateways
/// without a user name, have exactly the rights that the documentation gives the gateway's user.
#[derive(Debug)]
pub struct Server {
    port: Port,
    /// Port on which the node of a Cluster talks to the other nodes.
    pub(super) bus: Option<Port>,
    directory: TempDir,
    sentinel: bool,
    child: Mutex<Option<Child>>,
    control: Mutex<Option<Connection>>,
}

/// Protocol on the port of a server.
#[derive(Clone, Copy, Debug)]
pub enum Encryption<'a> {
    /// Plain RESP.
    None,
    /// TLS, with this certificate.
    Tls(&'a Certificate),
}

impl Server {
    /// Starts a server.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these lines of configuration in addition to its usual ones.
    #[track_caller]
    pub fn start_with(lines: &[&str]) -> Self {
        Self::start_encrypted(Encryption::None, lines)
    }

    /// Starts a server whose port uses `encryption`, with these lines of configuration in addition to its usual ones.
    #[track_caller]
    pub fn start_encrypted(encryption: Encryption<'_>, lines: &[&str]) -> Self {
        for _ in 1..STARTS_MAX {
            let server = Self::on(Port::reserve(), false, encryption, lines);
            match server.launch() {
                Ok(()) => return server,
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("the server ends at once:\n{log}"),
            }
        }
        panic!("{STARTS_MAX} times the ports were taken");
    }

    /// Starts a sentinel with these lines of configuration.
    #[track_caller]
    pub(super) fn start_sentinel(lines: &[&str]) -> Self {
        let server = Self::on(Port::reserve(), true, Encryption::None, lines);
        let started = server.launch();
        started.unwrap_or_else(|log| panic!("the sentinel ends at once:\n{log}"));
        server
    }

    fn on(port: Port, sentinel: bool, encryption: Encryption<'_>, lines: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for a server");
        let server = Self {
            port,
            bus: None,
            directory,
            sentinel,
            child: Mutex::default(),
            control: Mutex::default(),
        };
        let mut text = server.configuration(encryption);
        for line in lines {
            writeln!(text, "{line}").expect("a string takes text");
        }
        fs::write(server.file(), text).expect("the directory is writable");
        server
    }

    fn configuration(&self, encryption: Encryption<'_>) -> String {
        let (folder, port) = (self.directory.path().display(), self.port());
        let (user, password) = HARNESS;
        let listening = match encryption {
            Encryption::None => format!("port {port}"),
            Encryption::Tls(certificate) => tls_lines(port, certificate),
        };
        let of_servers = if self.sentinel {
            String::new()
        } else {
            // Replicas log in to their primary as the tests' user.
            format!("{SERVER_LINES}masteruser {user}\nmasterauth {password}\n")
        };
        format!(
            "bind 127.0.0.1\nunixsocket {}\ndir {folder}\nlogfile {folder}/log\n{listening}\n\
             user {user} on >{password} ~* &* +@all\n{of_servers}",
            self.socket().display()
        )
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("redis.conf")
    }

    /// Starts the process and waits until it answers; returns its log as the error if it ends at once.
    fn launch(&self) -> Result<(), String> {
        let program = program();
        let mut command = dependent(&program);
        command.arg(self.file()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        if self.sentinel {
            command.arg("--sentinel");
        }
        // The program's Debian package has the same name.
        let mut child = spawn(command, &program, &program);
        let began = wait_for("the server answers PING", || {
            if child
                .try_wait()
                .expect("a child can be waited for")
                .is_some()
            {
                return Some(Err(self.log()));
            }
            let pong = self.ask(&["PING"]).ok()?;
            (pong == Value::Status("PONG".to_owned())).then_some(Ok(()))
        });
        *self.child() = Some(child);
        if began.is_ok() && !self.sentinel {
            let mut rule = vec!["ACL", "SETUSER", "default"];
            rule.extend(documented_rights());
            self.command(&rule);
        }
        began
    }

    /// Returns the address of the server's port.
    pub fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Returns the server's port.
    pub fn port(&self) -> u16 {
        self.port.address.port()
    }

    /// Returns the path of the server's Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Returns the server's working directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Returns the id of the server's process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the server runs").id()
    }

    /// Whether the process is there, that is, has not been killed by [`Server::kill`].
    pub fn is_running(&self) -> bool {
        self.child().is_some()
    }

    /// Kills the server (SIGKILL): its data is lost, and its connections are reset.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
        *self.control() = None;
    }

    /// Stops the server (SIGSTOP): it keeps its connections, and the kernel accepts new ones, but it answers none.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// Continues a stopped server (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Kills the server if it runs, and starts it again, empty, on the same port.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        let started = self.launch();
        started.unwrap_or_else(|log| panic!("the server does not come back:\n{log}"));
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        run(Command::new("kill").args(["-s", name, &pid]), "procps");
    }

    /// Sends a command and returns its answer; an error of the server fails the test.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Value {
        let value = self.ask(words).expect("the server answers");
        assert_eq!(value.error(), None, "answer to {words:?}");
        value
    }

    /// Sends a command and returns its answer, which may be an error of the server.
    pub fn ask(&self, words: &[&str]) -> io::Result<Value> {
        let mut control = self.control();
        // A server closes its connections when its role changes.
        let kept = control.take().and_then(|mut connection| {
            let answer = connection.ask(words);
            let is_closed = answer
                .as_ref()
                .is_err_and(|error| CLOSED.contains(&error.kind()));
            (!is_closed).then_some((connection, answer))
        });
        let (connection, answer) = if let Some(kept) = kept {
            kept
        } else {
            let mut connection = self.connect()?;
            let answer = connection.ask(words);
            (connection, answer)
        };
        let answer = answer?;
        *control = Some(connection);
        Ok(answer)
    }

    /// Waits until `count` replicas have everything that was written so far.
    #[track_caller]
    pub fn wait_for_replicas(&self, count: i64) {
        // WAIT covers only what was written on its own connection, so this one writes something first.
        self.command(&["EVAL", "redis.call('PUBLISH', 'none', '')", "0"]);
        let milliseconds = PATIENCE.as_millis().to_string();
        let replicas = self.command(&["WAIT", &count.to_string(), &milliseconds]);
        assert!(replicas.integer() >= count, "replicas that keep up");
    }

    /// Opens another connection, logged in as the tests' own user.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::unix(&self.socket(), PATIENCE)?;
        let admitted = connection.ask(&["AUTH", HARNESS.0, HARNESS.1])?;
        match admitted.error() {
            Some(error) => Err(io::Error::other(error.to_owned())),
            None => Ok(connection),
        }
    }

    /// Returns a section of INFO.
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let text = self.command(&["INFO", section]).text();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs
            .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
            .collect()
    }

    /// Returns the value of a numeric field in a section of INFO.
    #[track_caller]
    pub fn figure(&self, section: &str, name: &str) -> i64 {
        let info = self.info(section);
        let value = info.get(name).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no number {name} in {info:?}"))
    }

    /// Returns how many times the server has executed a command.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.info("commandstats");
        stats.get(&format!("cmdstat_{command}")).map_or(0, |line| {
            let calls = line.split([',', '=']).nth(1).map(str::parse);
            calls.expect("calls").expect("a number")
        })
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().expect("no test panics while it holds it")
    }

    fn control(&self) -> MutexGuard<'_, Option<Connection>> {
        let control = self.control.lock();
        control.expect("no test panics while it holds it")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().ok().and_then(Option::take);
        if let Some(mut child) = child {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the program to run as the server.
fn program() -> String {
    std::env::var(PROGRAM).unwrap_or_else(|_| "redis-server".to_owned())
}

fn tls_lines(port: u16, certificate: &Certificate) -> String {
    format!(
        "port 0\ntls-port {port}\ntls-auth-clients no\ntls-cert-file {}\n\
         tls-key-file {}\ntls-ca-cert-file {}",
        certificate.file.display(),
        certificate.key.display(),
        certificate.authority.display()
    )
}
