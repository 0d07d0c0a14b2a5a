//! The real binary as a child process: its output, its signals, its exit status.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use tempfile::TempDir;

use super::gateway::Config;
use super::{Client, PATIENCE, eventually};

/// A running gateway; it is killed when dropped.
#[derive(Debug)]
pub struct Process {
    pub public: SocketAddr,
    pub admin: SocketAddr,
    child: Child,
    file: PathBuf,
    lines: Arc<Lines>,
    readers: Vec<JoinHandle<()>>,
    _directory: TempDir,
}

/// Lines that the process has printed so far, on both streams.
#[derive(Debug, Default)]
struct Lines {
    printed: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Process {
    /// Starts `run --config FILE` on two free ports and waits until it accepts connections.
    #[track_caller]
    pub fn start(config: &Config) -> Self {
        Self::start_as(config, command)
    }

    /// Starts the command that `command` returns for a file, on two free ports, and waits until it accepts connections.
    #[track_caller]
    pub fn start_as(config: &Config, command: impl Fn(&Path) -> Command) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the file");
        let file = directory.path().join("gateway.toml");
        let (public, admin) = (free_address(), free_address());
        let text = placed(config, public, admin);
        fs::write(&file, text).expect("the directory is writable");
        let mut child = command(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = Arc::new(Lines::default());
        let readers = vec![
            lines.follow(child.stdout.take().expect("a piped stream")),
            lines.follow(child.stderr.take().expect("a piped stream")),
        ];
        let process = Self {
            public,
            admin,
            child,
            file,
            lines,
            readers,
            _directory: directory,
        };
        for address in [public, admin] {
            eventually(&format!("a listener on {address}"), || {
                Client::try_connect(address).ok()
            });
        }
        process
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the peak of resident memory, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.memory_of("VmHWM:")
    }

    /// Returns the current resident memory, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory_of("VmRSS:")
    }

    fn memory_of(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process lives");
        let kib = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = kib.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.expect("a number of KiB") * 1024
    }

    /// Returns the path of the configuration file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Replaces the configuration file, but keeps the addresses.
    pub fn rewrite(&self, config: &Config) {
        self.rewrite_text(&placed(config, self.public, self.admin));
    }

    /// Replaces the configuration file by `text`.
    pub fn rewrite_text(&self, text: &str) {
        fs::write(&self.file, text).expect("the directory is writable");
    }

    /// Sends a signal, by its name without SIG.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.expect("kill is installed").success(), "kill {name}");
    }

    /// Waits until the process has ended by itself and its last line has been read.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status = eventually("the process ends", || {
            child.try_wait().expect("a child can be waited for")
        });
        for reader in self.readers.drain(..) {
            reader.join().expect("reading lines does not panic");
        }
        status
    }

    /// Returns all lines printed so far.
    pub fn lines(&self) -> Vec<String> {
        let printed = self.lines.printed.lock();
        printed.expect("reading lines does not panic").clone()
    }

    /// Waits for a line that contains all of `parts`, and returns it.
    #[track_caller]
    pub fn wait_for_line(&self, parts: &[&str]) -> String {
        let fits = |line: &&String| parts.iter().all(|part| line.contains(part));
        let printed = self.lines.printed.lock();
        let printed = printed.expect("reading lines does not panic");
        let (printed, _) = self
            .lines
            .changed
            .wait_timeout_while(printed, PATIENCE, |lines| !lines.iter().any(|x| fits(&x)))
            .expect("reading lines does not panic");
        match printed.iter().find(fits) {
            Some(line) => line.clone(),
            None => panic!("no line with {parts:?} in:\n{}", printed.join("\n")),
        }
    }

    /// Waits for `count` access-log lines about GETs to `a.test`, and returns all that there are, parsed.
    #[track_caller]
    pub fn wait_for_records(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} lines of the access log"), || {
            let lines = self.lines();
            let records = lines
                .iter()
                .filter(|line| line.contains("\"a.test\"") && line.contains("\"GET\""));
            let records: Vec<Value> = records
                .map(|line| serde_json::from_str(line).expect("a log line is JSON"))
                .collect();
            (records.len() >= count).then_some(records)
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, as some tests expect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lines {
    fn follow(self: &Arc<Self>, stream: impl Read + Send + 'static) -> JoinHandle<()> {
        let lines = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let printed = lines.printed.lock();
                printed.expect("reading lines does not panic").push(line);
                lines.changed.notify_all();
            }
        })
    }
}

fn placed(config: &Config, public: SocketAddr, admin: SocketAddr) -> String {
    let config = config.clone().address(&public.to_string());
    config.admin(&admin.to_string()).text()
}

/// Returns the command `tollgate run --config FILE`, not yet started.
///
/// The environment variable `TOLLGATE` names another binary, for example one without the change that a test is about.
pub fn command(file: &Path) -> Command {
    let binary = std::env::var_os("TOLLGATE");
    let binary = binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_tollgate").into());
    let mut command = Command::new(binary);
    command.arg("run").arg("--config").arg(file);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Returns [`command`] with that many descriptors, as soft and hard limit.
pub fn command_with_descriptors(file: &Path, descriptors: usize) -> Command {
    with_descriptors(&command(file), descriptors)
}

/// Returns `gateway` with that many descriptors, as soft and hard limit.
pub fn with_descriptors(gateway: &Command, descriptors: usize) -> Command {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
    shell.arg("-c").arg(limited).arg(gateway.get_program());
    shell.args(gateway.get_args()).env("NO_COLOR", "1");
    shell.stdin(Stdio::null());
    shell
}

/// Runs the binary with that file until it ends by itself, and returns its output.
pub fn run_to_end(text: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let file = directory.path().join("gateway.toml");
    fs::write(&file, text).expect("the directory is writable");
    command(&file).output().expect("the binary runs")
}

/// What a command printed on either stream, and its exit status.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Returns everything that the command printed: stdout, then stderr.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs the binary with these arguments in a folder until it ends by itself.
pub fn tollgate(arguments: &[&str], folder: &Path) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        status: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Returns an address that nothing listens on.
///
/// Its port is below those that the kernel gives to clients, so that no connection of another test
/// takes it in the meantime.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() * 16 % 12_000).expect("below 12,000");
    loop {
        let step = NEXT.fetch_add(1, Ordering::SeqCst);
        let port = 20_000 + (first + step) % 12_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
