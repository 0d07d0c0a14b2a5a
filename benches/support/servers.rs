//! The servers that benchmarks start: each one is pinned to a core, measured and stopped.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::machine::Stat;
use super::{cpu_of, resident_of, until};

/// A server, and the process whose CPU time counts.
pub struct Process {
    child: Child,
    pid: u32,
}

impl Process {
    /// Sends the server a signal, given by its name without SIG.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        drop(Command::new("kill").args(["-s", name, &id]).status());
    }

    /// Returns the CPU time so far, user and system.
    pub fn cpu(&self) -> Duration {
        cpu_of(self.pid)
    }

    /// Returns the ticks of CPU time so far in user mode and in the kernel.
    pub fn ticks(&self) -> (u64, u64) {
        let stat = Stat::of(self.pid).expect("the process lives");
        (stat.user, stat.system)
    }

    /// Returns the resident memory now, and the most that it ever was.
    pub fn resident(&self) -> (u64, u64) {
        resident_of(self.pid)
    }

    /// Returns how many files and sockets the process has open.
    pub fn open_files(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid));
        files.expect("the process lives").count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal("TERM");
        drop(self.child.wait());
    }
}

/// Ends this process if a package is missing, and says which.
pub fn check_packages(needs: &[(bool, &str)]) {
    let missing: Vec<&str> = needs
        .iter()
        .filter(|(is_there, _)| !is_there)
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        eprintln!("missing; apt-get install {}", missing.join(" "));
        std::process::exit(1);
    }
}

/// Returns where a program is; Debian installs nginx where only root's PATH looks.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.exists())
}

pub fn await_port(port: u16) {
    until(|| TcpStream::connect(("127.0.0.1", port)).ok()).expect("the port opens");
}

pub fn pinned(core: u32, name: &str) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["-c", &core.to_string()])
        .arg(program(name).expect("what is needed was looked for"));
    command
}

/// Puts this process on a core, and all that it starts unless told otherwise.
pub fn pin_this_process(core: u32) {
    let mut command = Command::new("taskset");
    command.args(["-a", "-p", "-c", &core.to_string()]);
    command.arg(std::process::id().to_string());
    let status = command.stdout(Stdio::null()).status();
    assert!(
        status.expect("taskset runs").success(),
        "there is a core {core}"
    );
}

/// A build of Tollgate.
pub struct Build {
    pub name: String,
    pub path: String,
}

/// Returns the builds that `TOLLGATE_BIN` names, as `before=/a/tollgate after=/b/tollgate`; without
/// it, the one that cargo built.
pub fn builds() -> Vec<Build> {
    let own = env!("CARGO_BIN_EXE_tollgate").to_owned();
    let builds = env::var("TOLLGATE_BIN").unwrap_or(own);
    let builds = builds.split_whitespace().map(|build| {
        let (name, path) = build.split_once('=').unwrap_or(("Tollgate", build));
        let path = fs::canonicalize(path).expect("TOLLGATE_BIN names a file");
        Build {
            name: name.to_owned(),
            path: path.display().to_string(),
        }
    });
    builds.collect()
}

/// Starts a server that consists of one process.
pub fn alone(command: &mut Command) -> Process {
    let child = command.spawn().expect("the server runs");
    // taskset replaces itself with what it starts.
    let pid = child.id();
    Process { child, pid }
}

/// Starts a Tollgate on core 0 with this configuration; `binary` is a path.
pub fn tollgate(binary: &str, folder: &Path, name: &str, conf: &str) -> Process {
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, conf).expect("a configuration");
    let mut command = pinned(0, binary);
    command.args(["run", "--config"]);
    alone(
        command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
}

/// Starts an nginx with this configuration; its worker is the process that counts.
pub fn nginx(folder: &Path, name: &str, core: u32, conf: &str) -> Process {
    let file = folder.join(format!("{name}.conf"));
    fs::write(
        &file,
        conf.replace("FOLDER", &folder.display().to_string())
            .replace("NAME", name),
    )
    .expect("a configuration");
    let child = pinned(core, "nginx")
        .arg("-c")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx runs");
    let master = child.id();
    let worker = || -> Option<u32> {
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    };
    let pid = until(worker).expect("nginx has a worker");
    Process { child, pid }
}

/// Starts a HAProxy on core 0 with this configuration.
pub fn haproxy(folder: &Path, name: &str, conf: &str) -> Process {
    let file = folder.join(format!("{name}.cfg"));
    fs::write(&file, conf).expect("a configuration");
    let mut command = pinned(0, "haproxy");
    command.arg("-db").arg("-f").arg(&file);
    alone(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Starts the origin of all gateways on core 1: an nginx that answers with 100 bytes.
pub fn origin(folder: &Path, port: u16) -> Process {
    let body = "x".repeat(100);
    let http = format!(
        "server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 '{body}'; }} }}"
    );
    let process = nginx(
        folder,
        "origin",
        1,
        &nginx_frame("", CONNECTIONS_MAX, &http),
    );
    await_port(port);
    process
}

/// Most connections of clients that a peer takes.
pub const CONNECTIONS_MAX: u32 = 4096;

/// Returns the file of a Tollgate, with lines of its listener and whatever else it has; the upstream `origin` is at
/// that address.
pub fn tollgate_conf(port: u16, listener: &str, origin: &str, others: &str) -> String {
    format!(
        "workers = 1
         [listeners.public]
         address = '127.0.0.1:{port}'
         {listener}
         [admin]
         address = 'off'
         [log]
         access = 'off'
         [upstreams.origin]
         endpoints = ['http://{origin}']
         {others}"
    )
}

/// Returns the origin as an upstream of nginx.
pub fn nginx_upstream(origin: &str) -> String {
    format!("upstream origin {{ server {origin}; keepalive 256; keepalive_requests 1000000000; }}")
}

/// What an nginx sends to the origin.
pub const NGINX_FIELDS: &str = "proxy_http_version 1.1;
     proxy_set_header Connection '';
     proxy_set_header Host $host;
     proxy_set_header X-Forwarded-For $remote_addr;
     proxy_set_header X-Forwarded-Proto $scheme;";

/// Returns the configuration of a HAProxy with one thread, whose frontend sends to the backend `origin`.
pub fn haproxy_frame(global: &str, frontend: &str, backends: &str, origin: u16) -> String {
    format!(
        "global
             nbthread 1
             maxconn {CONNECTIONS_MAX}
             {global}
         defaults
             mode http
             timeout connect 5s
             timeout client 60s
             timeout server 60s
         frontend public
             {frontend}
             option forwardfor
             default_backend origin
         {backends}
         backend origin
             http-reuse always
             server origin 127.0.0.1:{origin}\n"
    )
}

/// Returns the configuration of an nginx with one worker.
pub fn nginx_frame(modules: &str, connections: u32, http: &str) -> String {
    format!(
        "{modules}
         worker_processes 1; daemon off; pid FOLDER/NAME.pid; error_log FOLDER/NAME.log crit;
         events {{ worker_connections {connections}; }}
         http {{ access_log off; keepalive_requests 1000000000; {http} }}"
    )
}
