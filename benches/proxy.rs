//! CPU time per request of the gateway beside nginx with `limit_req`, on the same load in the
//! same run.
//!
//! Both run one worker pinned to core 0; the origin (nginx, a 100-byte answer) and the load (wrk,
//! 64 keep-alive connections) share core 1. What is compared is the CPU time of the process under
//! test, read from `/proc`, divided by the answers that wrk counted: it does not depend on how
//! busy the other core is. Rounds alternate, so that a slow minute of the machine hits both.
//!
//! Needs `nginx` and `wrk` (Debian packages of these names) and two cores:
//! `cargo bench --bench proxy`, with a number of rounds (5) and seconds per round (4) behind `--`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod support;

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{cpu_of, median, until};

const ORIGIN: u16 = 19_100;
const NGINX: u16 = 19_101;
const TOLLGATE: u16 = 19_102;
const CONNECTIONS: &str = "64";

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let rounds = numbers.first().copied().unwrap_or(5);
    let seconds = numbers.get(1).copied().unwrap_or(4);
    let folder = tempfile::tempdir().expect("a folder for configurations");
    let _origin = nginx(folder.path(), "origin", 1, &origin_conf());
    let nginx = nginx(folder.path(), "nginx", 0, &nginx_conf());
    let tollgate = tollgate(folder.path());
    for port in [ORIGIN, NGINX, TOLLGATE] {
        await_port(port);
    }
    println!(
        "CPU time per request in µs, {rounds} rounds of {seconds} s, {CONNECTIONS} keep-alive connections"
    );
    println!("{:<28}{:>10}{:>10}{:>8}", "", "nginx", "tollgate", "ratio");
    for (name, path, status) in [
        ("proxied", "/open", "2xx"),
        ("refused with 429", "/shut", "429"),
    ] {
        let mut costs: [Vec<f64>; 2] = Default::default();
        for _ in 0..rounds {
            costs[0].push(measure(&nginx, NGINX, path, seconds, status));
            costs[1].push(measure(&tollgate, TOLLGATE, path, seconds, status));
        }
        let [nginx, tollgate] = costs.map(median);
        println!(
            "{name:<28}{nginx:>10.2}{tollgate:>10.2}{:>8.2}",
            tollgate / nginx
        );
    }
}

/// Loads a port and returns the microseconds of CPU time that the process spent per answer.
fn measure(process: &Process, port: u16, path: &str, seconds: u64, status: &str) -> f64 {
    let before = process.cpu();
    let output = Command::new("taskset")
        .args(["-c", "1", "wrk", "-t", "1", "-c", CONNECTIONS, "-d"])
        .arg(format!("{seconds}s"))
        .arg(format!("http://127.0.0.1:{port}{path}"))
        .output()
        .expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| -> u64 {
        line.split_whitespace()
            .find_map(|word| word.parse().ok())
            .expect("a number in wrk's line")
    };
    let answers = number(
        text.lines()
            .find(|line| line.contains("requests in"))
            .expect("wrk counts requests"),
    );
    let refused = text
        .lines()
        .find(|line| line.contains("Non-2xx"))
        .map_or(0, |line| {
            line.rsplit(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .expect("wrk counts refusals")
        });
    // One answer at most may be of the other kind per thousand: the first of a quota.
    let strays = if status == "2xx" {
        refused
    } else {
        answers - refused
    };
    assert!(
        strays * 1000 <= answers,
        "{port}{path}: {strays} of {answers} are not {status}"
    );
    process.cpu().saturating_sub(before).as_secs_f64() * 1e6 / answers as f64
}

/// A server under test and the process whose time counts.
struct Process {
    child: Child,
    pid: u32,
}

impl Process {
    fn cpu(&self) -> Duration {
        cpu_of(self.pid)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(
            Command::new("kill")
                .arg(self.child.id().to_string())
                .status(),
        );
        drop(self.child.wait());
    }
}

fn tollgate(folder: &Path) -> Process {
    let file = folder.join("gateway.toml");
    fs::write(&file, tollgate_conf()).expect("a configuration");
    let child = Command::new("taskset")
        .args(["-c", "0", env!("CARGO_BIN_EXE_tollgate"), "run", "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .expect("tollgate runs");
    // taskset replaces itself with what it starts.
    let pid = child.id();
    Process { child, pid }
}

fn nginx(folder: &Path, name: &str, core: u32, conf: &str) -> Process {
    let file = folder.join(format!("{name}.conf"));
    fs::write(
        &file,
        conf.replace("FOLDER", &folder.display().to_string())
            .replace("NAME", name),
    )
    .expect("a configuration");
    let child = Command::new("taskset")
        .args(["-c", &core.to_string(), "nginx", "-c"])
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

fn await_port(port: u16) {
    until(|| TcpStream::connect(("127.0.0.1", port)).ok()).expect("the port opens");
}

fn origin_conf() -> String {
    let body = "x".repeat(100);
    nginx_frame(&format!(
        "keepalive_requests 1000000000; server {{ listen 127.0.0.1:{ORIGIN} backlog=4096; location / {{ return 200 '{body}'; }} }}"
    ))
}

fn nginx_conf() -> String {
    nginx_frame(&format!(
        "keepalive_requests 1000000000;
         limit_req_zone $binary_remote_addr zone=open:10m rate=1000000r/s;
         limit_req_zone $binary_remote_addr zone=shut:10m rate=1r/m;
         limit_req_status 429;
         upstream origin {{ server 127.0.0.1:{ORIGIN}; keepalive 256; keepalive_requests 1000000000; }}
         server {{
             listen 127.0.0.1:{NGINX} backlog=4096;
             proxy_http_version 1.1;
             proxy_set_header Connection '';
             proxy_set_header Host $host;
             proxy_set_header X-Forwarded-For $remote_addr;
             proxy_set_header X-Forwarded-Proto $scheme;
             location /open {{ limit_req zone=open burst=1000000 nodelay; proxy_pass http://origin; }}
             location /shut {{ limit_req zone=shut; proxy_pass http://origin; }}
         }}"
    ))
}

fn nginx_frame(http: &str) -> String {
    format!(
        "worker_processes 1; daemon off; pid FOLDER/NAME.pid; error_log FOLDER/NAME.log crit;
         events {{ worker_connections 4096; }}
         http {{ access_log off; {http} }}"
    )
}

fn tollgate_conf() -> String {
    format!(
        "workers = 1
         [listeners.public]
         address = '127.0.0.1:{TOLLGATE}'
         [admin]
         address = 'off'
         [log]
         access = 'off'
         [upstreams.origin]
         endpoints = ['http://127.0.0.1:{ORIGIN}']
         [policies.open]
         quota = '1000000000 per minute'
         [policies.shut]
         quota = '1 per hour'
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
