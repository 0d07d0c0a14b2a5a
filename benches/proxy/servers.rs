//! The servers of the benchmark: how each of them is started and checked.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::confs::{self, Tollgate};
use super::sections::Kind;
use super::support::servers::{self, Build, Process, alone, await_port, builds, pinned, program};

/// The first port; every server takes the next.
const PORT: u16 = 20_100;
/// Where the proxy made with Pingora is built.
const PINGORA: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/pingora");

/// A gateway under test.
pub struct Gateway {
    pub kind: Kind,
    pub name: String,
    /// The build of Tollgate, by its position among all builds; `None` for a peer.
    pub build: Option<usize>,
    pub port: u16,
    pub process: Process,
    /// The gateway's own Redis, if its counters are there.
    pub redis: Option<Redis>,
    /// The gateway's access log, if it writes one.
    log: Option<PathBuf>,
    admin: u16,
}

impl Gateway {
    /// Empties the access log, to which the gateway appends.
    pub fn empty_log(&self) {
        if let Some(log) = &self.log {
            File::create(log).expect("a writable folder");
        }
    }

    /// Asserts that a Tollgate decided everything with its store, and dropped no line of its log.
    pub fn assert_complete(&self) {
        if self.build.is_none() {
            return;
        }
        let question = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let metrics = answer(self.admin, question);
        let sum = |name: &str, label: &str| -> f64 {
            let lines = metrics.lines().filter(|line| line.starts_with(name));
            let counts: Vec<f64> = lines
                .filter(|line| line.contains(label))
                .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
                .collect();
            assert!(!counts.is_empty(), "the metrics have {name}");
            counts.into_iter().sum()
        };
        let dropped = sum("tollgate_log_lines_dropped_total", "");
        assert!(dropped == 0.0, "{}: {dropped} lines lost", self.name);
        if self.redis.is_some() {
            let unanswered = sum("tollgate_decisions_total", "outcome=\"unanswered\"");
            assert!(unanswered == 0.0, "{}: decided without Redis", self.name);
        }
    }
}

/// A Redis for one gateway, which is reached over TCP and writes nothing to disk.
pub struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    fn start(port: u16) -> Self {
        let mut command = pinned(1, "redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        let process = alone(command.stdout(Stdio::null()));
        await_port(port);
        Self { process, port }
    }

    /// Returns the CPU time so far, user and system, of all its threads.
    pub fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    /// Returns how many scripts were run so far.
    pub fn calls(&self) -> u64 {
        answer(self.port, "INFO commandstats\r\nQUIT\r\n")
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
            .filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok())
            .sum()
    }
}

/// Ends this process if something that the benchmark runs is not installed, and says what.
pub fn check_packages() {
    let lua = "/usr/share/lua/5.1/nginx/redis.lua";
    let needs = [
        (program("taskset").is_some(), "util-linux"),
        (program("wrk").is_some(), "wrk"),
        (program("nginx").is_some(), "nginx-light"),
        (program("haproxy").is_some(), "haproxy"),
        (lua_modules().is_some(), "libnginx-mod-http-lua"),
        (Path::new(lua).exists(), "lua-nginx-redis"),
        (program("redis-server").is_some(), "redis-server"),
        // A library of Pingora's needs it.
        (program("cmake").is_some(), "cmake"),
    ];
    servers::check_packages(&needs);
}

/// Builds the proxy made with Pingora, which is a crate of its own.
pub fn build_pingora() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/pingora/Cargo.toml");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet"])
        .args(["--manifest-path", manifest, "--target-dir", PINGORA])
        .status();
    assert!(status.expect("cargo runs").success(), "Pingora builds");
}

/// Returns the version of Pingora, from the crate's lock file.
pub fn pingora_version() -> &'static str {
    let lock = include_str!("../pingora/Cargo.lock");
    let package = lock.split("[[package]]\n");
    let package = package.map(str::lines).find_map(|mut lines| {
        let is_it = lines.next() == Some("name = \"pingora-proxy\"");
        is_it.then(|| lines.next()?.split('"').nth(1)).flatten()
    });
    package.expect("the lock has the version")
}

/// Returns where nginx keeps its modules, if the one for Lua is among them.
fn lua_modules() -> Option<PathBuf> {
    let output = Command::new(program("nginx")?).arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let folder = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("--modules-path="))?;
    let folder = PathBuf::from(folder);
    let lua = folder.join("ngx_http_lua_module.so");
    lua.exists().then_some(folder)
}

/// Sends a request to a server, and returns all that it answers until it closes.
fn answer(port: u16, question: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    socket.write_all(question.as_bytes()).expect("it reads");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("it answers");
    text
}

/// Starts gateways, in front of one origin for all.
pub struct Servers {
    folder: tempfile::TempDir,
    builds: Vec<Build>,
    next_port: Cell<u16>,
    pub origin: u16,
    _origin: Process,
}

impl Servers {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for configurations");
        let process = servers::origin(folder.path(), PORT);
        Self {
            folder,
            builds: builds(),
            next_port: Cell::new(PORT + 1),
            origin: PORT,
            _origin: process,
        }
    }

    pub fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// Starts gateways of each kind: one of a peer, or one of every build of Tollgate.
    pub fn start(&self, kinds: &[Kind]) -> Vec<Gateway> {
        let mut gateways = Vec::new();
        for &kind in kinds {
            if kind.is_tollgate() {
                let builds = (0..self.builds.len()).map(|build| self.tollgate(kind, build));
                gateways.extend(builds);
            } else {
                gateways.push(self.peer(kind));
            }
        }
        gateways
    }

    fn port(&self) -> u16 {
        self.next_port.replace(self.next_port.get() + 1)
    }

    fn peer(&self, kind: Kind) -> Gateway {
        let (folder, origin, port) = (self.folder.path(), self.origin, self.port());
        let name = port.to_string();
        let nginx = |conf: String| servers::nginx(folder, &name, 0, &conf);
        let mut redis = None;
        let process = match kind {
            Kind::NginxLogged => nginx(confs::nginx_logged(port, origin, "")),
            Kind::NginxLogBuffered => {
                nginx(confs::nginx_logged(port, origin, "buffer=64k flush=1s"))
            }
            Kind::NginxLua => {
                let started = redis.insert(Redis::start(self.port()));
                self.write_lua(started.port);
                let modules = lua_modules().expect("what is needed was looked for");
                let modules = modules.display().to_string();
                nginx(confs::nginx_lua(port, origin, &modules))
            }
            Kind::Haproxy => servers::haproxy(folder, &name, &confs::haproxy(port, origin)),
            Kind::Pingora => pingora(port, origin),
            Kind::Nginx => nginx(confs::nginx(port, origin)),
            _ => unreachable!("Tollgates have builds"),
        };
        await_port(port);
        let is_logged = matches!(kind, Kind::NginxLogged | Kind::NginxLogBuffered);
        Gateway {
            kind,
            name: kind.name().to_owned(),
            build: None,
            port,
            process,
            redis,
            log: is_logged.then(|| folder.join(format!("{name}.access"))),
            admin: 0,
        }
    }

    /// Writes the Lua files that nginx runs.
    fn write_lua(&self, redis: u16) {
        let folder = self.folder.path();
        let limiter = include_str!("limiter.lua")
            .replace("FOLDER", &folder.display().to_string())
            .replace("REDIS", &redis.to_string());
        fs::write(folder.join("limiter.lua"), limiter).expect("the limiter");
        fs::write(folder.join("window.lua"), include_str!("window.lua")).expect("its script");
    }

    fn tollgate(&self, kind: Kind, build: usize) -> Gateway {
        let (folder, port, admin) = (self.folder.path(), self.port(), self.port());
        let name = port.to_string();
        let log = folder.join(format!("{name}.access"));
        let is_logged = kind == Kind::ThreeQuotasLogged;
        let is_in_redis = matches!(kind, Kind::RedisOneBucket | Kind::Redis);
        let redis = is_in_redis.then(|| Redis::start(self.port()));
        let conf = Tollgate {
            port,
            admin,
            origin: self.origin,
            log: if is_logged {
                format!("file = '{}'", log.display())
            } else {
                "access = 'off'".to_owned()
            },
            // Even a busy machine stays within this timeout.
            store: redis.as_ref().map_or(String::new(), |redis| {
                format!("url = 'redis://127.0.0.1:{}'\n timeout = '1s'", redis.port)
            }),
            routes: match kind {
                Kind::Unlimited => confs::unlimited(),
                Kind::ThreeQuotasLogged => confs::three_quotas(),
                Kind::RedisOneBucket => confs::limited("buckets = 1"),
                Kind::FewRoutes => confs::routes(10, 2),
                Kind::FewOfManyRoutes | Kind::ManyRoutes => confs::routes(10_000, 1_000),
                _ => confs::limited(""),
            },
        };
        let build_name = &self.builds[build].name;
        let process = servers::tollgate(&self.builds[build].path, folder, &name, &conf.conf());
        await_port(port);
        Gateway {
            kind,
            name: format!("{build_name}, {}", kind.name()),
            build: Some(build),
            port,
            process,
            redis,
            log: is_logged.then_some(log),
            admin,
        }
    }
}

fn pingora(port: u16, origin: u16) -> Process {
    let program = Path::new(PINGORA).join("release/tollgate-bench-pingora");
    let mut command = pinned(0, &program.display().to_string());
    command.args([port, origin].map(|port| format!("127.0.0.1:{port}")));
    alone(command.stdout(Stdio::null()).stderr(Stdio::null()))
}
