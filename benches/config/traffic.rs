//! The same load on two gateways whose files differ in size, and a large file reloaded under load.
//!
//! Each gateway is a process with one worker that answers 204 itself, so that only the gateways are
//! measured. The load is HTTP/1.1, pipelined by a thread of this program. Requests go to many
//! routes in turn, as they do where a file has many, or stay with one.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use std::{fs, iter};

use tempfile::TempDir;

use super::files::{self, Kind};
use super::support::median;
use super::support::servers::{Process, alone, await_port};

pub fn all() {
    println!("\nCPU time per request in µs, {ROUNDS} rounds, median");
    println!("{:>34} {:>9} {:>9}", "", "10", "10000");
    let few = Gateway::start(10, Kind::Mixed, 19_110);
    let many = Gateway::start(10_000, Kind::Mixed, 19_112);
    let rows = [
        ("one route", requests(1), requests(1)),
        ("round the file's routes", requests(10), requests(10_000)),
        ("404", miss(), miss()),
    ];
    for (name, to_few, to_many) in rows {
        let mut costs: [Vec<f64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            costs[0].push(few.cost_us(&to_few));
            costs[1].push(many.cost_us(&to_many));
        }
        let [few, many] = costs.map(median);
        println!("{name:>34} {few:>9.2} {many:>9.2}");
    }
    println!("\n99.9th percentile and longest that a client waits for an answer, in ms");
    println!(
        "{:>34} {:>9} {:>9} {:>9}",
        "", "routes", "99.9 %", "longest"
    );
    // Without reloads: what the machine alone does to a client.
    many.under_load("no reload", 10_000, 0);
    few.under_load("reloads", 10, RELOADS);
    many.under_load("reloads", 10_000, RELOADS);
}

/// A gateway in a process of its own.
pub struct Gateway {
    process: Process,
    public: SocketAddr,
    admin: SocketAddr,
    text: String,
    folder: TempDir,
}

impl Gateway {
    fn start(routes: usize, kind: Kind, port: u16) -> Self {
        Self::of(&files::good(routes, kind), port)
    }

    /// Starts a gateway with this file, in which the addresses of `files` are replaced.
    pub fn of(text: &str, port: u16) -> Self {
        let [public, admin] = [port, port + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let text = text
            .replace(files::PUBLIC, &public.to_string())
            .replace(files::ADMIN, &admin.to_string());
        let text = format!("workers = 1\n{text}");
        let folder = tempfile::tempdir().expect("a folder for the file");
        let file = folder.path().join("gateway.toml");
        fs::write(&file, &text).expect("a writable folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["run", "--config"]).arg(&file);
        let process = alone(command.stdout(Stdio::null()).stderr(Stdio::null()));
        await_port(port);
        Self {
            process,
            public,
            admin,
            text,
            folder,
        }
    }

    /// Sends the requests again and again, and returns the CPU time of each in µs.
    pub fn cost_us(&self, requests: &[String]) -> f64 {
        let mut stream = TcpStream::connect(self.public).expect("it accepts");
        let batches: Vec<String> = requests.chunks(BATCH).map(<[String]>::concat).collect();
        let mut asked = 0;
        let mut round = |batch: usize| {
            let count = requests.chunks(BATCH).nth(batch).map_or(0, <[String]>::len);
            (stream.write_all(batches[batch].as_bytes())).expect("it reads");
            read_answers(&mut stream, count);
            count
        };
        for batch in 0..batches.len() {
            round(batch);
        }
        let before = self.process.cpu();
        for batch in (0..batches.len()).cycle() {
            asked += round(batch);
            if asked >= ASKED {
                break;
            }
        }
        (self.process.cpu().saturating_sub(before)).as_secs_f64() * 1e6 / asked as f64
    }

    /// Reloads this many times while one client asks for answers, another for the admin port's
    /// health, and a third over a new connection each time.
    fn under_load(&self, name: &str, routes: usize, reloads: u32) {
        let is_over = AtomicBool::new(false);
        let (request, health) = (
            &requests(1)[0],
            "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n",
        );
        thread::scope(|scope| {
            let over = || is_over.load(Ordering::SeqCst);
            let kept = scope.spawn(move || {
                let mut stream = TcpStream::connect(self.public).expect("it accepts");
                longest(over, || exchange(&mut stream, request))
            });
            let anew = |to: SocketAddr, request: &'_ str| {
                let mut stream = TcpStream::connect(to).expect("it accepts");
                exchange(&mut stream, request);
            };
            let new = scope.spawn(move || longest(over, || anew(self.public, request)));
            let admin = scope.spawn(move || longest(over, || anew(self.admin, health)));
            for reload in 0..RELOADS {
                sleep(Duration::from_millis(500));
                if reload >= reloads {
                    continue;
                }
                let quota = format!("{} per minute", 2_000_000 + reload);
                let text = self.text.replacen("1000000 per minute", &quota, 1);
                fs::write(self.folder.path().join("gateway.toml"), text).expect("writable");
                self.process.signal("HUP");
            }
            sleep(Duration::from_millis(500));
            is_over.store(true, Ordering::SeqCst);
            for (of, client) in [
                ("kept connection", kept),
                ("new connections", new),
                ("admin port", admin),
            ] {
                let (usual, longest) = client.join().expect("every request is answered");
                let name = format!("{name}, {of}");
                println!("{name:>34} {routes:>9} {usual:>9.1} {longest:>9.1}");
            }
        });
    }
}

/// Repeats `work`, and returns the 99.9th percentile and the maximum of the time that it takes, in
/// ms.
fn longest(is_over: impl Fn() -> bool, mut work: impl FnMut()) -> (f64, f64) {
    let mut times = Vec::new();
    while !is_over() {
        let began = Instant::now();
        work();
        times.push(began.elapsed().as_secs_f64() * 1e3);
        // The clients must not take the core that the gateway needs.
        sleep(Duration::from_micros(500));
    }
    times.sort_by(f64::total_cmp);
    let usual = times[times.len() * 999 / 1000];
    (usual, times[times.len() - 1])
}

fn exchange(stream: &mut TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).expect("it reads");
    read_answers(stream, 1);
}

/// Reads this many heads of answers without bodies, and recognises them by the beginning of their status lines.
fn read_answers(stream: &mut TcpStream, count: usize) {
    let mut buffer = vec![0; 64 * 1024];
    let (mut seen, mut held) = (0, Vec::new());
    while seen < count {
        let read = stream.read(&mut buffer).expect("it answers");
        assert_ne!(read, 0, "the gateway closed a connection");
        held.extend_from_slice(&buffer[..read]);
        let starts = held.windows(HTTP.len()).filter(|window| *window == HTTP);
        seen += starts.count();
        // The beginning of a status line that may be cut is kept.
        let keep = held.len().min(HTTP.len() - 1);
        held.drain(..held.len() - keep);
    }
}

/// Returns requests for a mixed file of this many routes, one for each route.
fn requests(routes: usize) -> Vec<String> {
    let all = (0..routes).map(|at| {
        let (method, host, target) = files::request(at);
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\n");
        let _ = write!(text, "x-version: 2\r\naccept: */*\r\n\r\n");
        text
    });
    all.collect()
}

fn miss() -> Vec<String> {
    let text = "GET /nowhere/at/all HTTP/1.1\r\nhost: api-0.example.com\r\naccept: */*\r\n\r\n";
    iter::repeat_n(text.to_owned(), BATCH).collect()
}

const HTTP: &[u8] = b"HTTP/1.1 ";
/// Requests that are sent at a time.
const BATCH: usize = 32;
const ASKED: usize = 100_000;
const ROUNDS: usize = 7;
const RELOADS: u32 = 10;
