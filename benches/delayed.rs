//! How punctual delayed requests are: when each arrives at its origin, compared with when it was due.
//!
//! The gateway, with one worker, is pinned to core 0 and kept busy for about half of its time by requests that it
//! answers itself. Meanwhile clients send bursts of [`BURST`] requests each, all but the first of which are delayed. If
//! a burst began at `s`, its j-th request to arrive at the origin (from 0) was due at `s + j*T`. The time that a
//! request takes to reach the gateway and then the origin counts as lateness, so the figures are upper bounds. `s` is
//! taken before the first byte is sent, so what counts as early is early.
//!
//! Needs `taskset` and two cores with nothing else to do: `scripts/drill/delayed`. It fails if any
//! request was early, or if the 99th percentile is above [`LATE_MAX`].

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod support;

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use support::servers::{self, Process, await_port, pin_this_process};
use support::{connect, numbers, runtime};

/// Clients, each with a quota of its own.
const CLIENTS: usize = 100;
/// Requests that a client sends at once: one that passes, and those that are queued.
const BURST: u32 = 10;
/// Time between two departures of a client's requests.
const INTERVAL: Duration = Duration::from_millis(10);
/// Connections of the load that keeps the worker busy.
const LOADERS: u32 = 4;
/// How often each loader sends a batch.
const LOAD_PERIOD: Duration = Duration::from_millis(2);
const LATE_MAX: Duration = Duration::from_millis(3);
const GATEWAY: u16 = 19_110;

/// A request's arrival at the origin, and the burst that it belongs to.
struct Arrival {
    burst: u64,
    at: Instant,
}

/// What the clients share while they run.
#[derive(Default)]
struct Pace {
    /// Requests per batch of each loader.
    batch: Cell<usize>,
    is_recording: Cell<bool>,
    bursts: Cell<u64>,
}

fn main() -> ExitCode {
    let [seconds, share] = numbers([10.0, 0.5]);
    // Threads that are started later are pinned too.
    pin_this_process(1);
    let (arrived, arrivals) = channel();
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = origin.local_addr().expect("a bound port").to_string();
    thread::spawn(move || serve(&origin, &arrived));
    let folder = tempfile::tempdir().expect("a folder for the file");
    let gateway = gateway(folder.path(), &endpoint);
    let (began, busy) = runtime().block_on(drive(&gateway, seconds, share));
    judge(&began, &arrivals, busy)
}

/// Loads the gateway, finds the pace that keeps it busy for `share` of the time, then records; returns when each burst
/// began, and how busy the gateway was.
async fn drive(gateway: &Process, seconds: f64, share: f64) -> (HashMap<u64, Instant>, f64) {
    let pace = Rc::new(Pace::default());
    pace.batch.set(20);
    for place in 0..LOADERS {
        tokio::task::spawn_local(load(Rc::clone(&pace), LOAD_PERIOD * place / LOADERS));
    }
    let (began, mut starts) = tokio::sync::mpsc::unbounded_channel();
    for client in 0..CLIENTS {
        tokio::task::spawn_local(burst_on(client, Rc::clone(&pace), began.clone()));
    }
    for _ in 0..6 {
        let busy = busy(gateway, Duration::from_secs(1)).await;
        let batch = pace.batch.get() as f64 * share / busy;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        pace.batch.set(batch.clamp(1.0, 500.0) as usize);
    }
    pace.is_recording.set(true);
    let busy = busy(gateway, Duration::from_secs_f64(seconds)).await;
    pace.is_recording.set(false);
    // The last bursts end meanwhile.
    tokio::time::sleep(INTERVAL * BURST * 4).await;
    let mut bursts = HashMap::new();
    while let Ok((burst, at)) = starts.try_recv() {
        bursts.insert(burst, at);
    }
    (bursts, busy)
}

/// Sends bursts, with pauses in which the whole quota becomes free again.
async fn burst_on(
    client: usize,
    pace: Rc<Pace>,
    began: tokio::sync::mpsc::UnboundedSender<(u64, Instant)>,
) {
    let mut connections = Vec::new();
    for _ in 0..BURST {
        connections.push(connect(GATEWAY).await);
    }
    // Clients begin at moments spread over an interval, and stay spread because their pauses differ.
    let clients = u32::try_from(CLIENTS).expect("few clients");
    let mut offset = u32::try_from(client).expect("few clients");
    loop {
        tokio::time::sleep(INTERVAL * (BURST + 3) + INTERVAL * offset / clients).await;
        offset = (offset + 37) % clients;
        let burst = if pace.is_recording.get() {
            pace.bursts.set(pace.bursts.get() + 1);
            pace.bursts.get()
        } else {
            0
        };
        let request =
            format!("GET /delayed/{burst} HTTP/1.1\r\nHost: a\r\nX-Key: {client}\r\n\r\n");
        let at = Instant::now();
        for connection in &mut connections {
            let sent = connection.write_all(request.as_bytes()).await;
            sent.expect("the gateway reads");
        }
        if burst > 0 {
            began.send((burst, at)).expect("the driver listens");
        }
        for connection in &mut connections {
            let mut answer = [0; 1024];
            let bytes = connection.read(&mut answer).await.expect("an answer");
            let answer = String::from_utf8_lossy(&answer[..bytes]);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

/// Keeps the worker busy: a batch of requests that it answers itself, every few milliseconds.
async fn load(pace: Rc<Pace>, offset: Duration) {
    let mut connection = connect(GATEWAY).await;
    tokio::time::sleep(offset).await;
    let mut period = tokio::time::interval(LOAD_PERIOD);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut answers = vec![0; 64 * 1024];
    loop {
        period.tick().await;
        let batch = pace.batch.get();
        let requests = "GET /busy HTTP/1.1\r\nHost: a\r\n\r\n".repeat(batch);
        let sent = connection.write_all(requests.as_bytes()).await;
        sent.expect("the gateway reads");
        let (mut ends, mut matched) = (0, 0);
        while ends < batch {
            let bytes = connection.read(&mut answers).await.expect("answers");
            assert!(bytes > 0, "the gateway closed");
            for &byte in &answers[..bytes] {
                matched = match (matched, byte) {
                    (0 | 2, b'\r') | (1 | 3, b'\n') => matched + 1,
                    (_, b'\r') => 1,
                    _ => 0,
                };
                if matched == 4 {
                    (ends, matched) = (ends + 1, 0);
                }
            }
        }
    }
}

/// The origin: notes when each request arrives.
fn serve(listener: &TcpListener, arrived: &Sender<Arrival>) {
    for stream in listener.incoming() {
        let arrived = arrived.clone();
        let stream = stream.expect("a connection");
        thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || answer(stream, &arrived))
            .expect("a thread");
    }
}

fn answer(mut stream: TcpStream, arrived: &Sender<Arrival>) {
    let mut head = [0; 2048];
    while let Ok(bytes @ 1..) = stream.read(&mut head) {
        let at = Instant::now();
        let head = String::from_utf8_lossy(&head[..bytes]);
        let target = head.split(' ').nth(1).expect("a target");
        let burst = target
            .rsplit('/')
            .next()
            .and_then(|target| target.parse().ok());
        let burst = burst.expect("the number of a burst");
        // The benchmark may be over.
        drop(arrived.send(Arrival { burst, at }));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Compares arrivals with due times, and prints the result.
fn judge(began: &HashMap<u64, Instant>, arrivals: &Receiver<Arrival>, busy: f64) -> ExitCode {
    let mut bursts: HashMap<u64, Vec<Instant>> = HashMap::new();
    for arrival in arrivals.try_iter().filter(|arrival| arrival.burst > 0) {
        bursts.entry(arrival.burst).or_default().push(arrival.at);
    }
    let mut late = Vec::new();
    let mut early = 0;
    for (burst, mut at) in bursts {
        at.sort_unstable();
        let Some(began) = began.get(&burst) else {
            continue;
        };
        // The first request of a burst is not delayed.
        for (place, at) in (0..).zip(at).skip(1) {
            match at.checked_duration_since(*began + INTERVAL * place) {
                Some(lateness) => late.push(lateness),
                None => early += 1,
            }
        }
    }
    late.sort_unstable();
    let count = late.len() + early;
    assert!(count > 1000, "too few requests were delayed: {count}");
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let index = (late.len() as f64 * share) as usize;
        late[index.min(late.len() - 1)]
    };
    println!(
        "{count} delayed requests, the worker busy for {:.0} % of the time",
        busy * 100.0
    );
    println!(
        "late by: p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms; early: {early}",
        at(0.5).as_secs_f64() * 1e3,
        at(0.99).as_secs_f64() * 1e3,
        at(0.999).as_secs_f64() * 1e3,
        at(1.0).as_secs_f64() * 1e3
    );
    let is_met = early == 0 && at(0.99) <= LATE_MAX;
    println!(
        "promised: none early, p99 at most {} ms: {}",
        LATE_MAX.as_millis(),
        if is_met { "met" } else { "missed" }
    );
    ExitCode::from(u8::from(!is_met))
}

/// Starts the gateway under test.
fn gateway(folder: &Path, endpoint: &str) -> Process {
    let others = format!(
        "[upstreams.itself]
         endpoints = ['builtin:status/204']
         [policies.shaped]
         quota = '1 per {}ms'
         algorithm = 'leaky-bucket'
         queue = {}
         partition = ['header:x-key']
         [[routes]]
         path = '/delayed/*'
         upstream = 'origin'
         policies = ['shaped']
         [[routes]]
         path = '/busy'
         upstream = 'itself'",
        INTERVAL.as_millis(),
        BURST - 1
    );
    let conf = servers::tollgate_conf(GATEWAY, "max_delayed = 100000", endpoint, &others);
    let process = servers::tollgate(env!("CARGO_BIN_EXE_tollgate"), folder, "delayed", &conf);
    await_port(GATEWAY);
    process
}

/// Waits, and returns the share of that time in which the process was busy.
async fn busy(gateway: &Process, time: Duration) -> f64 {
    let (before, began) = (gateway.cpu(), Instant::now());
    tokio::time::sleep(time).await;
    gateway.cpu().saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64()
}
