//! What the benchmarks share: servers, clients and runtimes in this process, readings of /proc, medians.

#![allow(dead_code, reason = "every benchmark uses its own part of this")]

pub mod machine;
pub mod servers;

use std::hint::black_box;
use std::process::Command;
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use jiff::tz::TimeZone;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::spawn_local;
use tollgate::limit::partition_id::PartitionHasher;
use tollgate::limit::{Calendar, CalendarShape, CalendarUnit, PartitionId};

/// Returns a month in a time zone with daylight saving time.
pub fn month() -> &'static Calendar {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3");
    let shape = CalendarShape {
        unit: CalendarUnit::Month,
        time_zone: "Europe/Berlin".into(),
        anchor_day: 1,
        anchor_minute: 0,
        is_own: false,
    };
    Calendar::of(shape, zone.expect("a zone"))
}

/// Returns the numbers of the command line, in their order; missing ones have their usual values.
pub fn numbers<T: FromStr, const COUNT: usize>(usual: [T; COUNT]) -> [T; COUNT] {
    let mut given = env::args().filter_map(|argument| argument.parse().ok());
    usual.map(|usual| given.next().unwrap_or(usual))
}

/// Runs this program once more, with these arguments.
pub fn run_again(arguments: &[&str]) {
    let this = env::current_exe().expect("this program has a path");
    let status = Command::new(this).args(arguments).status();
    assert!(status.expect("this program runs").success());
}

/// Makes a runtime of this thread alone, as workers have.
pub fn runtime() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .expect("a runtime")
}

/// Connects to a port of this machine.
pub async fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).await;
    let stream = stream.expect("the gateway accepts");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// Serves every client that connects, in tasks of this thread.
pub fn serve<Served: Future<Output = ()> + 'static>(
    listener: TcpListener,
    each: impl Fn(TcpStream) -> Served + 'static,
) {
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            spawn_local(each(stream));
        }
    });
}

/// Returns a key as stores know it.
pub fn partition_id(key: u64) -> PartitionId {
    let mut tagger = PartitionHasher::new(&[7; 32]);
    tagger.part("key", &key.to_le_bytes());
    tagger.finish()
}

/// Measures a thread's CPU time, or wall time if there is no /proc.
pub struct Stopwatch {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self {
            cpu_ns: cpu_ns(),
            wall: Instant::now(),
        }
    }

    pub fn elapsed_ns(&self) -> f64 {
        match (self.cpu_ns, cpu_ns()) {
            (Some(start), Some(end)) => (end - start) as f64,
            _ => self.wall.elapsed().as_secs_f64() * 1e9,
        }
    }
}

/// Returns the CPU time so far, user and system, of all threads of a process.
pub fn cpu_of(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let nanos = tasks.map(|task| {
        let schedstat = task.expect("a task").path().join("schedstat");
        let text = fs::read_to_string(schedstat).unwrap_or_default();
        first_number(&text).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// Returns the CPU time of this thread so far in ns, or `None` if there is no /proc.
pub fn cpu_ns() -> Option<u64> {
    first_number(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns `VmRSS` of this process; 0 if there is no /proc.
pub fn resident_bytes() -> u64 {
    resident_of(std::process::id()).0
}

/// Returns `VmRSS` and `VmHWM` of a process; 0 if there is no /proc.
pub fn resident_of(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bytes = |name| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Makes the allocator give freed pages back, which it does after a while, when it is asked for
/// memory.
pub fn settle() {
    sleep(Duration::from_secs(2));
    for size in (10..24).map(|bits| 1 << bits) {
        black_box(Vec::<u8>::with_capacity(size));
    }
}

/// Asks again until there is an answer, for at most ten seconds.
pub fn until<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        sleep(Duration::from_millis(20));
    }
    None
}

/// Returns the value in the middle; of an even number, the upper of the two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The values below which a quarter, half and three quarters of all values lie.
#[derive(Clone, Copy)]
pub struct Quartiles {
    pub lower: f64,
    pub middle: f64,
    pub upper: f64,
}

/// Returns the quartiles, interpolated between the values around each.
pub fn quartiles(mut values: Vec<f64>) -> Quartiles {
    values.sort_by(f64::total_cmp);
    let quartile = |quarters: usize| {
        let steps = (values.len() - 1) * quarters;
        let (below, part) = (values[steps / 4], (steps % 4) as f64 / 4.0);
        below + part * (values[steps.div_ceil(4)] - below)
    };
    Quartiles {
        lower: quartile(1),
        middle: quartile(2),
        upper: quartile(3),
    }
}
