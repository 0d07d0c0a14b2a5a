//! What bodies cost a gateway, beside nginx in the same run: CPU time per GiB that passes through
//! it, CPU time per event of a stream, and memory while clients are slow to take their answers.
//!
//! Each gateway runs one worker, pinned to core 0. On core 1, this process is the origin and all
//! clients. It compares the CPU time of the gateways, read from `/proc` and divided by what
//! arrived, which hardly depends on how busy the cores are otherwise. Rounds alternate, so that a
//! slow minute of the machine affects all, and each starts new processes. `busy` is the share of a
//! core that the gateway used: below 1, it was waiting for this process, and so read and wrote less
//! at a time than it could have.
//!
//! nginx passes bodies on as they come too (`proxy_buffering off`), once with its own buffers of 4
//! KiB (16 for uploads), and once with buffers of 64 KiB. The ratios are relative to these two.
//!
//! Needs two cores and `nginx-light`: `cargo bench --bench bodies`, with a number of rounds (5) and
//! of slow clients (2,000) after `--`; 0 skips that part. `TOLLGATE_BIN` names other builds of
//! Tollgate: `TOLLGATE_BIN='before=/a/tollgate after=/b/tollgate'`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod gateways;
mod slow;
#[path = "../support/mod.rs"]
mod support;
mod traffic;

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::time::timeout;

use gateways::Gateway;
use support::servers::{Process, check_packages, pin_this_process, program};
use support::{connect, median, numbers, runtime};
use traffic::{Content, Direction, Origin};

/// The origin's port; those of the gateways follow.
const ORIGIN: u16 = 19_140;
/// Clients at the same time, each with one body.
const CLIENTS: usize = 8;
/// Events of the stream, which one client reads.
const EVENTS: usize = 20_000;
/// How long what clients ask for at once may take to pass.
const PASSING_MAX: Duration = Duration::from_mins(2);
const GIB: f64 = (1_u64 << 30) as f64;

/// The bodies of a measurement.
struct Shape {
    name: &'static str,
    direction: Direction,
    content: Content,
}

const fn shape(
    name: &'static str,
    direction: Direction,
    chunk_bytes: usize,
    blocks: usize,
) -> Shape {
    let content = Content {
        chunk_bytes,
        blocks,
    };
    Shape {
        name,
        direction,
        content,
    }
}

/// For all clients together, 1 GiB each, or 128 MiB in small chunks.
const SHAPES: [Shape; 6] = [
    shape("download by length", Direction::Download, 0, 512),
    shape(
        "download, 16 KiB chunks",
        Direction::Download,
        16 << 10,
        512,
    ),
    shape("download, 100 B chunks", Direction::Download, 100, 64),
    shape("upload by length", Direction::Upload, 0, 512),
    shape("upload, 16 KiB chunks", Direction::Upload, 16 << 10, 512),
    shape("upload, 100 B chunks", Direction::Upload, 100, 64),
];

/// A running gateway.
struct Running {
    port: u16,
    process: Process,
}

/// What one round cost.
#[derive(Clone, Copy)]
struct Cost {
    /// CPU time per unit.
    each: f64,
    /// The share of a core that the gateway used.
    busy: f64,
}

/// Measures one round of a gateway.
struct UpstreamMeter<'g> {
    gateway: &'g Running,
    cpu: Duration,
    began: Instant,
}

impl<'g> UpstreamMeter<'g> {
    fn start(gateway: &'g Running) -> Self {
        Self {
            gateway,
            cpu: gateway.process.cpu(),
            began: Instant::now(),
        }
    }

    /// Returns what a round of this many units cost: seconds of CPU time per unit.
    fn cost(self, units: f64) -> Cost {
        let cpu = self.gateway.process.cpu().as_secs_f64() - self.cpu.as_secs_f64();
        Cost {
            each: cpu / units,
            busy: cpu / self.began.elapsed().as_secs_f64(),
        }
    }
}

fn main() {
    let [rounds, slow_clients] = numbers([5, 2_000]);
    check_packages(&[
        (program("taskset").is_some(), "util-linux"),
        (program("nginx").is_some(), "nginx-light"),
    ]);
    pin_this_process(1);
    let folder = tempfile::tempdir().expect("a folder for configurations");
    let gateways = gateways::gateways();
    runtime().block_on(async {
        if rounds > 0 {
            throughput(&gateways, folder.path(), rounds).await;
        }
        if slow_clients > 0 {
            slow::measure(&gateways, folder.path(), slow_clients).await;
        }
    });
}

/// Measures and prints what it costs to pass bodies on.
async fn throughput(gateways: &[Gateway], folder: &Path, rounds: usize) {
    let listener = TcpListener::bind(("127.0.0.1", ORIGIN)).await;
    let origin = Origin::start(listener.expect("a port"));
    let endpoint = format!("127.0.0.1:{ORIGIN}");
    println!("CPU time, medians of {rounds} rounds, {CLIENTS} clients");
    let mut bodies = SHAPES.map(|_| vec![Vec::new(); gateways.len()]);
    let mut events = vec![Vec::new(); gateways.len()];
    for _ in 0..rounds {
        // New processes, because where buffers lie in memory affects what bodies cost for a process' whole life.
        let running: Vec<Running> = (ORIGIN + 1..)
            .zip(gateways)
            .map(|(port, gateway)| Running {
                port,
                process: gateway.start(folder, port, &endpoint),
            })
            .collect();
        for (shape, costs) in SHAPES.iter().zip(&mut bodies) {
            for (gateway, costs) in running.iter().zip(costs) {
                costs.push(transfer(&origin, gateway, shape).await);
            }
        }
        for (gateway, costs) in running.iter().zip(&mut events) {
            costs.push(stream(&origin, gateway).await);
        }
    }
    for (shape, costs) in SHAPES.iter().zip(&bodies) {
        print(shape.name, "ms/GiB", gateways, costs);
    }
    print("events, one at a time", "us/event", gateways, &events);
}

/// Has the bodies of all clients passed on; returns the cost of a GiB in ms.
async fn transfer(origin: &Rc<Origin>, gateway: &Running, shape: &'static Shape) -> Cost {
    let meter = UpstreamMeter::start(gateway);
    let port = gateway.port;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let origin = Rc::clone(origin);
            tokio::task::spawn_local(async move {
                let mut stream = connect(port).await;
                origin
                    .transfer(&mut stream, shape.direction, shape.content)
                    .await
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        let passed = timeout(PASSING_MAX, client).await;
        bytes += passed.expect("it does not stall").expect("a body passes");
    }
    meter.cost(bytes as f64 / GIB / 1e3)
}

/// Has a stream of events passed on; returns the cost of an event in µs.
async fn stream(origin: &Origin, gateway: &Running) -> Cost {
    let meter = UpstreamMeter::start(gateway);
    let mut stream = connect(gateway.port).await;
    let passed = timeout(PASSING_MAX, origin.take_events(&mut stream, EVENTS));
    passed.await.expect("it does not stall");
    meter.cost(EVENTS as f64 / 1e6)
}

/// Prints a row for each gateway, with its cost relative to both kinds of nginx.
fn print(name: &str, unit: &str, gateways: &[Gateway], costs: &[Vec<Cost>]) {
    println!(
        "\n{name:<28}{unit:>10}{:>8}{:>8}{:>8}",
        "busy", "ratio", "/ 64k"
    );
    let middle =
        |costs: &[Cost], figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
    let each: Vec<f64> = costs
        .iter()
        .map(|costs| middle(costs, |cost| cost.each))
        .collect();
    for ((gateway, costs), own) in gateways.iter().zip(costs).zip(&each) {
        println!(
            "{:<28}{own:>10.1}{:>8.2}{:>8.2}{:>8.2}",
            gateway.name,
            middle(costs, |cost| cost.busy),
            own / each[0],
            own / each[1],
        );
    }
}
