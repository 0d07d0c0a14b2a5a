//! The mini garden: real origins, each of which answers with the path that it read in a request.
//!
//! nginx, Node and Python each read a target in their own way, and a policy holds only if none of
//! them finds a resource there that the gateway did not see. HAProxy reads messages, too. A missing
//! binary fails the test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::process::free_address;
use super::{Client, eventually};

/// The running origins; they are stopped when this is dropped.
#[derive(Debug)]
pub struct Garden {
    /// Each origin's name and address.
    pub origins: Vec<(&'static str, SocketAddr)>,
    /// Origins that answer with the whole request as they read it: method, target, host and body;
    /// also as hex in `X-Read`, for answers without a body. nginx and HAProxy get there as proxies
    /// in front of Node.
    pub echoes: [(&'static str, SocketAddr); 4],
    /// Paths for which nginx has a location of its own.
    literals: Vec<String>,
    _running: Vec<Running>,
    _directory: TempDir,
}

/// HAProxy, which passes to the gateway what its clients write in Connection; stopped when dropped.
#[derive(Debug)]
pub struct Haproxy {
    pub address: SocketAddr,
    _running: Running,
    _directory: TempDir,
}

impl Haproxy {
    /// Starts HAProxy in front of a gateway; `lines` are added to its configuration.
    #[track_caller]
    pub fn before(gateway: SocketAddr, lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory for HAProxy");
        let (running, address) = haproxy(directory.path(), gateway, lines);
        Self {
            address,
            _running: running,
            _directory: directory,
        }
    }
}

/// nginx, as one process in the foreground; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    _running: Running,
}

impl Nginx {
    /// Starts nginx with its files in `folder`; the lines of `http` go to that section and make it listen on `address`.
    #[track_caller]
    pub fn start(folder: &Path, http: &str, address: SocketAddr) -> Self {
        Self {
            _running: nginx(folder, http, address),
        }
    }
}

/// How an origin, or one of its libraries, reads a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Name of the reader, and how it decodes the path.
    pub by: String,
    /// The path as it was read; empty if it could not be.
    pub path: Vec<u8>,
}

/// A process that is stopped when this is dropped.
#[derive(Debug)]
struct Running(Child);

impl Garden {
    /// Starts all origins; nginx has a `location =` for each of `literals`.
    #[track_caller]
    pub fn start(literals: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the origins");
        let folder = directory.path();
        let (node, [node_address, node_echo]) = script("node", &folder.join("origin.js"), NODE);
        let (python, [python_address, wsgi_address, python_echo]) =
            script("python3", &folder.join("origin.py"), PYTHON);
        let [nginx_address, nginx_echo] = [free_address(), free_address()];
        let http = locations([nginx_address, nginx_echo], literals, node_echo);
        let nginx = nginx(folder, &http, nginx_echo);
        let (haproxy, haproxy_echo) = haproxy(folder, node_echo, "");
        Self {
            origins: vec![
                ("nginx", nginx_address),
                ("node", node_address),
                ("python", python_address),
                ("wsgi", wsgi_address),
            ],
            echoes: [
                ("nginx", nginx_echo),
                ("node", node_echo),
                ("python", python_echo),
                ("haproxy", haproxy_echo),
            ],
            literals: literals.iter().map(|&path| path.to_owned()).collect(),
            _running: vec![nginx, haproxy, node, python],
            _directory: directory,
        }
    }

    /// Returns tables for gateway.toml: each origin as an upstream with the origin's name.
    pub fn upstreams(&self) -> String {
        let table = |(name, address): &(&str, SocketAddr)| {
            format!("[upstreams.{name}]\nendpoints = ['http://{address}']\n")
        };
        let tables: Vec<_> = self.origins.iter().map(table).collect();
        tables.concat()
    }

    /// Parses the body of an answer from the origin `name`.
    #[track_caller]
    pub fn readings(&self, name: &str, body: &[u8]) -> Vec<Reading> {
        if name == "nginx" {
            return vec![self.nginx_reading(body)];
        }
        let lines = str::from_utf8(body)
            .expect("origins answer in ASCII")
            .lines();
        lines.map(Reading::parse).collect()
    }

    #[track_caller]
    fn nginx_reading(&self, body: &[u8]) -> Reading {
        let (&place, path) = body.split_first().expect("nginx answers with its location");
        let is_literal = self
            .literals
            .iter()
            .any(|literal| literal.as_bytes() == path);
        assert_eq!(place == b'=', is_literal, "the location that nginx took");
        Reading {
            by: "nginx".to_owned(),
            path: path.to_vec(),
        }
    }
}

impl Reading {
    #[track_caller]
    fn parse(line: &str) -> Self {
        let (by, hex) = line.split_once(' ').expect("a reader and a path");
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
        Self {
            by: by.to_owned(),
            path: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    }

    /// Whether the reader decoded the escapes of the path.
    pub fn is_decoded(&self) -> bool {
        let decoders = ["nginx", "decoded", "unquoted", "path-info"];
        decoders.iter().any(|end| self.by.ends_with(end))
    }

    /// Returns the path as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; a test has then already failed because of that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts nginx; the lines of `http` go to that section and make it listen on `address`.
#[track_caller]
fn nginx(folder: &Path, http: &str, address: SocketAddr) -> Running {
    let file = folder.join("nginx.conf");
    let shown = folder.display();
    let text = format!(
        "daemon off;
master_process off;
pid {shown}/nginx.pid;
error_log /dev/null;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {shown}/body;
    proxy_temp_path {shown}/proxy;
    fastcgi_temp_path {shown}/fastcgi;
    uwsgi_temp_path {shown}/uwsgi;
    scgi_temp_path {shown}/scgi;
    {http}
}}
"
    );
    fs::write(&file, text).expect("the directory is writable");
    let mut command = server("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(&file);
    let child = command.args(["-e", "stderr"]).spawn();
    let running = Running(child.expect("nginx is installed"));
    eventually("nginx listens", || Client::try_connect(address).ok());
    running
}

/// Starts HAProxy in the foreground, as a proxy to `behind`; `lines` are added to its `listen` section.
#[track_caller]
fn haproxy(folder: &Path, behind: SocketAddr, lines: &str) -> (Running, SocketAddr) {
    let address = free_address();
    let file = folder.join("haproxy.cfg");
    let text = format!(
        "global
    maxconn 100
defaults
    mode http
    timeout client 1m
    timeout connect 10s
    timeout server 1m
listen echo
    bind {address}
    server behind {behind}
    {lines}
"
    );
    fs::write(&file, text).expect("the directory is writable");
    let child = server("haproxy")
        .args(["-q", "-db", "-f"])
        .arg(&file)
        .spawn();
    let running = Running(child.expect("haproxy is installed"));
    eventually("haproxy listens", || Client::try_connect(address).ok());
    (running, address)
}

/// Returns a command that Debian may install in `/usr/sbin`, which is not in every user's path.
fn server(name: &str) -> Command {
    let installed = Path::new("/usr/sbin").join(name);
    Command::new(if installed.exists() {
        installed
    } else {
        name.into()
    })
}

/// Returns lines for nginx: each location answers `=` (a literal) or `/`, then the path that nginx matched.
/// The host `garden.test` answers `garden`. The second address is that of a proxy to `behind`.
fn locations([address, proxy]: [SocketAddr; 2], literals: &[&str], behind: SocketAddr) -> String {
    let location = |path: &&str| format!("location = \"{path}\" {{ return 200 \"=$uri\"; }}");
    let literals: Vec<_> = literals.iter().map(location).collect();
    let literals = literals.join("\n        ");
    format!(
        "large_client_header_buffers 4 128k;
    keepalive_requests 1000000;
    server {{
        listen {address};
        {literals}
        location / {{ return 200 \"/$uri\"; }}
    }}
    server {{
        listen {address};
        server_name garden.test;
        return 200 garden;
    }}
    server {{
        listen {proxy};
        proxy_http_version 1.1;
        proxy_set_header Host $host;
        location / {{ proxy_pass http://{behind}; }}
    }}"
    )
}

/// Starts a script that prints each port it listens on, and that ends when its standard input closes.
#[track_caller]
fn script<const PORTS: usize>(
    interpreter: &str,
    file: &Path,
    text: &str,
) -> (Running, [SocketAddr; PORTS]) {
    fs::write(file, text).expect("the directory is writable");
    let mut command = Command::new(interpreter);
    let child = command
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{interpreter} does not run: {error}"));
    let printed = child.stdout.take().expect("a piped stream");
    let mut lines = BufReader::new(printed).lines();
    let ports = std::array::from_fn(|_| {
        let line = lines.next().and_then(Result::ok);
        let port: u16 = line.and_then(|line| line.parse().ok()).expect("a port");
        SocketAddr::from(([127, 0, 0, 1], port))
    });
    (Running(child), ports)
}

const NODE: &str = include_str!("garden/origin.js");
const PYTHON: &str = include_str!("garden/origin.py");
