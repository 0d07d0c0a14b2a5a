//! The servers of the benchmark: how each is configured, started, watched and stopped.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::support::servers::{self, alone, nginx, pinned, program};
pub use super::support::servers::{Process, await_port};

const ORIGIN: u16 = 19_100;
pub const NGINX: u16 = 19_101;
pub const TOLLGATE: u16 = 19_102;
pub const NGINX_LUA: u16 = 19_103;
pub const NGINX_REDIS: u16 = 19_113;
pub const TOLLGATE_ONE: u16 = 19_104;
pub const TOLLGATE_ONE_REDIS: u16 = 19_114;
pub const TOLLGATE_TEN: u16 = 19_105;
pub const TOLLGATE_TEN_REDIS: u16 = 19_115;
/// Added to a Tollgate's port, this gives the port of its metrics.
const ADMIN: u16 = 20;

/// A Redis for one gateway, reached by TCP, that writes nothing to disk.
pub struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    pub fn start(port: u16) -> Self {
        let mut command = pinned(1, "redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        let process = alone(command.stdout(Stdio::null()));
        await_port(port);
        Self { process, port }
    }

    /// CPU time so far, user and system, of all its threads.
    pub fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    /// Scripts run so far.
    pub fn calls(&self) -> u64 {
        answer(self.port, "INFO commandstats\r\nQUIT\r\n")
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
            .filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok())
            .sum()
    }
}

/// Ends the process if something that the benchmark runs is not installed, and says what.
pub fn check_packages() {
    let lua = "/usr/share/lua/5.1/nginx/redis.lua";
    let needs = [
        (program("taskset").is_some(), "util-linux"),
        (program("wrk").is_some(), "wrk"),
        (program("nginx").is_some(), "nginx-light"),
        (lua_module().is_some(), "libnginx-mod-http-lua"),
        (Path::new(lua).exists(), "lua-nginx-redis"),
        (program("redis-server").is_some(), "redis-server"),
    ];
    servers::check_packages(&needs);
}

/// Where nginx keeps its modules, if the one for Lua is among them.
fn lua_module() -> Option<PathBuf> {
    let output = Command::new(program("nginx")?).arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let folder = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("--modules-path="))?;
    let folder = PathBuf::from(folder);
    folder
        .join("ngx_http_lua_module.so")
        .exists()
        .then_some(folder)
}

/// Sends something to a server and returns what it answers until it closes.
fn answer(port: u16, question: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    socket.write_all(question.as_bytes()).expect("it reads");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("it answers");
    text
}

/// Makes Tollgate keep its counters in a Redis; even a busy machine stays within the timeout.
pub fn in_redis(port: u16) -> String {
    format!("url = 'redis://127.0.0.1:{port}'\n timeout = '1s'")
}

/// Counts the decisions that a Tollgate made without its store so far.
pub fn unanswered(port: u16) -> u64 {
    let question = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let text = answer(port + ADMIN, question);
    let counts: Vec<u64> = text
        .lines()
        .filter(|line| line.starts_with("tollgate_decisions_total"))
        .filter(|line| line.contains("outcome=\"unanswered\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(!counts.is_empty(), "the metrics count decisions");
    counts.into_iter().sum()
}

/// Starts Tollgate with these additions to `[store]` and to its two policies.
///
/// Its policies are closed: if its store does not answer, that is an error, and counted.
pub fn tollgate(folder: &Path, name: &str, port: u16, store: &str, policy: &str) -> Process {
    let conf = tollgate_conf(port, store, policy);
    let process = servers::tollgate(env!("CARGO_BIN_EXE_tollgate"), folder, name, &conf);
    await_port(port);
    process
}

pub fn origin(folder: &Path) -> Process {
    let process = nginx(folder, "origin", 1, &origin_conf());
    await_port(ORIGIN);
    process
}

pub fn nginx_alone(folder: &Path) -> Process {
    nginx(folder, "nginx", 0, &nginx_conf())
}

pub fn nginx_lua(folder: &Path) -> Process {
    let here = folder.display().to_string();
    let limiter = include_str!("limiter.lua")
        .replace("FOLDER", &here)
        .replace("REDIS", &NGINX_REDIS.to_string());
    fs::write(folder.join("limiter.lua"), limiter).expect("the limiter");
    fs::write(folder.join("window.lua"), include_str!("window.lua")).expect("its script");
    nginx(folder, "nginx-lua", 0, &nginx_lua_conf())
}

fn origin_conf() -> String {
    let body = "x".repeat(100);
    nginx_frame(
        "",
        &format!(
            "server {{ listen 127.0.0.1:{ORIGIN} backlog=4096; location / {{ return 200 '{body}'; }} }}"
        ),
    )
}

fn nginx_conf() -> String {
    nginx_frame(
        "",
        &format!(
            "limit_req_zone $binary_remote_addr zone=open:10m rate=1000000r/s;
             limit_req_zone $binary_remote_addr zone=shut:10m rate=1r/m;
             limit_req_status 429;
             {}",
            nginx_proxy(
                NGINX,
                "limit_req zone=open burst=1000000 nodelay;",
                "limit_req zone=shut;"
            )
        ),
    )
}

fn nginx_lua_conf() -> String {
    let modules = lua_module().expect("what is needed was looked for");
    let modules = modules.display();
    nginx_frame(
        &format!(
            "load_module {modules}/ndk_http_module.so; load_module {modules}/ngx_http_lua_module.so;"
        ),
        &format!(
            "lua_package_path 'FOLDER/?.lua;/usr/share/lua/5.1/?.lua;;';
             init_by_lua_block {{ limiter = require 'limiter' }}
             {}",
            nginx_proxy(
                NGINX_LUA,
                "access_by_lua_block { limiter.check('open', 1000000000, 60) }",
                "access_by_lua_block { limiter.check('shut', 1, 3600) }"
            )
        ),
    )
}

/// A server with a quota that is never used up and one that always is.
fn nginx_proxy(port: u16, open: &str, shut: &str) -> String {
    format!(
        "upstream origin {{ server 127.0.0.1:{ORIGIN}; keepalive 256; keepalive_requests 1000000000; }}
         server {{
             listen 127.0.0.1:{port} backlog=4096;
             proxy_http_version 1.1;
             proxy_set_header Connection '';
             proxy_set_header Host $host;
             proxy_set_header X-Forwarded-For $remote_addr;
             proxy_set_header X-Forwarded-Proto $scheme;
             location /open {{ {open} proxy_pass http://origin; }}
             location /shut {{ {shut} proxy_pass http://origin; }}
         }}"
    )
}

fn nginx_frame(modules: &str, http: &str) -> String {
    servers::nginx_frame(modules, 4096, http)
}

fn tollgate_conf(port: u16, store: &str, policy: &str) -> String {
    let admin = port + ADMIN;
    format!(
        "workers = 1
         [listeners.public]
         address = '127.0.0.1:{port}'
         [admin]
         address = '127.0.0.1:{admin}'
         [log]
         access = 'off'
         [store]
         {store}
         [upstreams.origin]
         endpoints = ['http://127.0.0.1:{ORIGIN}']
         [policies.open]
         quota = '1000000000 per minute'
         on_store_failure = 'closed'
         {policy}
         [policies.shut]
         quota = '1 per hour'
         on_store_failure = 'closed'
         {policy}
         [[routes]]
         path = '/open'
         upstream = 'origin'
         policies = ['open']
         [[routes]]
         path = '/shut'
         upstream = 'origin'
         policies = ['shut']
         "
    )
}
