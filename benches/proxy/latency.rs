//! The open load: requests are sent at a constant rate, whether or not answers come.
//!
//! A latency counts from the time at which the request was due, so a gateway that falls behind
//! cannot hide it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};

use super::load;
use super::report::Verdicts;
use super::sections::{Kind, SECTIONS};
use super::servers::{Gateway, Servers};
use super::support::{connect, median};

/// The word that chooses this section on the command line.
pub const WORD: &str = "latency";
const CONNECTIONS: usize = 64;
const REQUEST: &[u8] = b"GET /open HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
/// Bytes of the origin's answer.
const BODY_BYTES: usize = 100;
const ANSWER_BYTES_MAX: usize = 4096;
/// How long to wait for the last answers after the last request was due.
const LAST_ANSWER_MAX: Duration = Duration::from_mins(1);
/// Bar for what a gateway adds to the median, as a multiple of what nginx adds.
const BAR: f64 = 1.0;

/// Latencies of one round, in µs.
#[derive(Clone, Copy)]
struct Latency {
    p50: f64,
    p99: f64,
}

/// Measures and prints what gateways add to the latency, at half the rate that nginx can sustain.
pub fn measure(servers: &Servers, rounds: usize, seconds: u64, verdicts: &mut Verdicts) {
    let gateways = servers.start(&[Kind::Nginx, Kind::Memory]);
    let nginx = load::measure(&gateways[0], &SECTIONS[0], seconds);
    let each = Duration::from_secs_f64(2.0 * nginx.gateway() / 1e6);
    // Directly to the origin, then through each gateway.
    let mut ports = vec![servers.origin];
    ports.extend(gateways.iter().map(|gateway| gateway.port));
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build_local(LocalOptions::default())
        .expect("a runtime");
    let mut latencies = vec![Vec::new(); ports.len()];
    for round in 0..rounds {
        for turn in 0..ports.len() {
            let at = (turn + round) % ports.len();
            let load = open_load(ports[at], each, Duration::from_secs(seconds));
            latencies[at].push(runtime.block_on(load));
        }
    }
    print(each, &gateways, &latencies);
    let p50_added = |at: usize| added(&latencies[at], &latencies[0], |of| of.p50);
    for (gateway, at) in gateways.iter().zip(1..).skip(1) {
        let rounds = p50_added(at).into_iter().zip(p50_added(1));
        let ratios = rounds.map(|(own, nginx)| own / nginx).collect();
        let what = format!("{} / {}", gateway.name, gateways[0].name);
        verdicts.judge(&what, "of p50", ratios, BAR);
    }
}

fn print(each: Duration, gateways: &[Gateway], latencies: &[Vec<Latency>]) {
    let rate = 1.0 / each.as_secs_f64();
    let title = format!("latency in µs at {rate:.0} requests a second");
    println!(
        "\n{title:<44}{:>9}{:>9}{:>11}{:>11}",
        "p50", "p99", "p50 added", "p99 added"
    );
    let names = gateways.iter().map(|gateway| gateway.name.as_str());
    for (name, own) in ["directly"].into_iter().chain(names).zip(latencies) {
        let middle = |figure: fn(&Latency) -> f64| median(own.iter().map(figure).collect());
        let added = |figure| median(added(own, &latencies[0], figure));
        println!(
            "{name:<44}{:>9.1}{:>9.1}{:>11.1}{:>11.1}",
            middle(|of| of.p50),
            middle(|of| of.p99),
            added(|of| of.p50),
            added(|of| of.p99)
        );
    }
}

/// Returns by how much each round is above the direct one of the same round.
fn added(own: &[Latency], direct: &[Latency], figure: fn(&Latency) -> f64) -> Vec<f64> {
    own.iter()
        .zip(direct)
        .map(|(own, direct)| figure(own) - figure(direct))
        .collect()
}

/// Sends a request every `each` for this long, over the connection that has been free for longest.
async fn open_load(port: u16, each: Duration, time: Duration) -> Latency {
    let load = Rc::new(OpenLoad::default());
    for _ in 0..CONNECTIONS {
        let stream = connect(port).await;
        load.free.borrow_mut().push_back(stream);
    }
    let start = Instant::now();
    let mut due = start;
    while due < start + time {
        while Instant::now() < due {
            give_way().await;
        }
        load.due.borrow_mut().push_back(due);
        let free = load.free.borrow_mut().pop_front();
        if let Some(stream) = free {
            tokio::task::spawn_local(Rc::clone(&load).ask(stream));
        }
        due += each;
    }
    let deadline = Instant::now() + LAST_ANSWER_MAX;
    while load.free.borrow().len() < CONNECTIONS {
        assert!(Instant::now() < deadline, "every request is answered");
        give_way().await;
    }
    let mut all = load.latencies.take();
    all.sort_unstable();
    let at = |share: usize| all[all.len() * share / 100].as_secs_f64() * 1e6;
    Latency {
        p50: at(50),
        p99: at(99),
    }
}

/// Lets the tasks run, and the origin, which shares the core.
///
/// Sleeping instead would mean waking up late: by the timer's step, or by the time it takes to wake a core.
async fn give_way() {
    tokio::task::yield_now().await;
    std::thread::yield_now();
}

#[derive(Default)]
struct OpenLoad {
    /// Times at which requests were due that have not been sent yet.
    due: RefCell<VecDeque<Instant>>,
    free: RefCell<VecDeque<TcpStream>>,
    latencies: RefCell<Vec<Duration>>,
}

impl OpenLoad {
    /// Sends the requests that are due over this connection, until none is left.
    async fn ask(self: Rc<Self>, mut stream: TcpStream) {
        loop {
            let due = self.due.borrow_mut().pop_front();
            let Some(due) = due else { break };
            stream.write_all(REQUEST).await.expect("it reads");
            read_answer(&mut stream).await;
            self.latencies.borrow_mut().push(due.elapsed());
        }
        self.free.borrow_mut().push_back(stream);
    }
}

async fn read_answer(stream: &mut TcpStream) {
    let mut answer = [0; ANSWER_BYTES_MAX];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut answer[filled..]).await;
        let read = read.expect("it answers");
        assert_ne!(read, 0, "the gateway closed a connection");
        filled += read;
        let head = memchr::memmem::find(&answer[..filled], b"\r\n\r\n");
        if head.is_some_and(|head| filled == head + 4 + BODY_BYTES) {
            assert!(answer.starts_with(b"HTTP/1.1 200"), "it is admitted");
            return;
        }
    }
}
