//! What it costs to read answers that report what they cost, beside the same answers on a route that does not read
//! them: CPU time per document and per event, how much later an event arrives, and memory of open streams.
//!
//! The gateway runs one worker on core 0; on core 1, this process is the origin and all clients. Both routes belong to
//! one gateway and take turns, so that a slow minute of the machine affects both.
//!
//! Needs two cores: `cargo bench --bench body_costs`, with a number of rounds (9) and of open streams (9,800) after
//! `--`; 0 skips that part. Each stream takes two descriptors of either process. `TOLLGATE_BIN` names another build of
//! Tollgate.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

#[path = "support/mod.rs"]
mod support;

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use support::servers::{self, Process, await_port, pin_this_process};
use support::{connect, median, numbers, runtime, serve};

const ORIGIN: u16 = 19_180;
const GATEWAY: u16 = 19_181;
/// Routes to the same origin, one without and one with a policy that reads answers.
const ROUTES: [&str; 2] = ["/plain", "/reported"];
/// The same, one without and one with a policy that adds up the numbers of a list.
const ADDING_ROUTES: [&str; 2] = ["/plain", "/added"];
/// Events of a stream.
const EVENTS: usize = 10_000;
/// Bytes of a document, and number of documents in a round.
const DOCUMENT_BYTES: usize = 100 << 10;
const DOCUMENTS: usize = 1_000;
/// How long a gateway takes until it has all memory that its open streams need.
const SETTLING: Duration = Duration::from_secs(3);

const USAGE: &str = r#""usage":{"prompt_tokens":120,"completion_tokens":300,"total_tokens":420}"#;
const PROSE: &str = "It was a bright cold day in spring, and nobody had counted the tokens. ";

fn main() {
    let [rounds, streams] = numbers([9, 9_800]);
    let files = rlimit::increase_nofile_limit(2 * streams as u64 + 400);
    files.expect("a limit of open files");
    pin_this_process(1);
    let folder = tempfile::tempdir().expect("a folder for configurations");
    runtime().block_on(async {
        let origin = Origin::start().await;
        if rounds > 0 {
            time(&origin, folder.path(), rounds).await;
        }
        if streams > 0 {
            memory(folder.path(), streams).await;
        }
    });
}

/// Measures and prints CPU time and latency.
async fn time(origin: &Rc<Origin>, folder: &Path, rounds: usize) {
    let gateway = gateway(folder);
    println!("CPU time in µs, medians of {rounds} rounds\n");
    println!("{:<44}{:>10}{:>10}{:>8}", "", "not read", "read", "ratio");
    let kinds = DOCUMENT_KINDS.map(|kind| (kind, ROUTES));
    for ((name, path), routes) in kinds.into_iter().chain([(ADDED, ADDING_ROUTES)]) {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (route, costs) in routes.iter().zip(&mut costs) {
                costs.push(documents(&gateway, &format!("{route}/{path}")).await);
            }
        }
        print(&format!("100 KiB of JSON, {name}"), costs.map(median));
    }
    let mut costs = [Vec::new(), Vec::new()];
    let mut latencies = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (index, route) in ROUTES.iter().enumerate() {
            let cpu = gateway.cpu();
            let mut taken = origin.take_events(&format!("{route}/events")).await;
            costs[index]
                .push((gateway.cpu().as_secs_f64() - cpu.as_secs_f64()) * 1e6 / EVENTS as f64);
            taken.sort_unstable();
            latencies[index].push(taken[EVENTS / 2]);
            latencies[index].push(taken[EVENTS / 100 * 99]);
        }
    }
    print("an event of a stream of 10,000", costs.map(median));
    for (name, at) in [("p50", 0), ("p99", 1)] {
        let of = |latencies: &Vec<Duration>| {
            let each = latencies.iter().skip(at).step_by(2);
            median(each.map(|each| each.as_secs_f64() * 1e6).collect())
        };
        let [plain, reported] = [of(&latencies[0]), of(&latencies[1])];
        println!(
            "from origin to client, {name:<21}{plain:>10.1}{reported:>10.1}{:>+8.1}",
            reported - plain
        );
    }
}

fn print(name: &str, [plain, reported]: [f64; 2]) {
    println!(
        "{name:<44}{plain:>10.1}{reported:>10.1}{:>8.2}",
        reported / plain
    );
}

/// Asks for a document again and again, and returns the CPU time per document in µs.
async fn documents(gateway: &Process, path: &str) -> f64 {
    let mut client = Client::connect().await;
    let cpu = gateway.cpu();
    for _ in 0..DOCUMENTS {
        client.ask(path).await;
        client.take_until(b"\"total_tokens\":420}}]").await;
    }
    (gateway.cpu().as_secs_f64() - cpu.as_secs_f64()) * 1e6 / DOCUMENTS as f64
}

/// Measures and prints how much of a gateway's memory open streams take.
async fn memory(folder: &Path, streams: usize) {
    println!("\nMiB of memory with {streams} open streams, KiB for each of them\n");
    println!("{:<44}{:>10}{:>10}{:>8}", "", "before", "during", "each");
    for route in ROUTES {
        let gateway = gateway(folder);
        Client::connect()
            .await
            .begin(&format!("{route}/open"))
            .await;
        sleep(SETTLING).await;
        let (before, _) = gateway.resident();
        let mut clients = Vec::with_capacity(streams);
        for _ in 0..streams {
            let mut client = Client::connect().await;
            client.begin(&format!("{route}/open")).await;
            clients.push(client);
        }
        sleep(SETTLING).await;
        let (during, _) = gateway.resident();
        assert!(gateway.open_files() >= 2 * streams, "none has left");
        println!(
            "{route:<44}{:>10.1}{:>10.1}{:>8.2}",
            before as f64 / 1024.0 / 1024.0,
            during as f64 / 1024.0 / 1024.0,
            (during - before) as f64 / 1024.0 / streams as f64
        );
    }
}

/// The kinds of documents, and the paths that ask for them.
const DOCUMENT_KINDS: [(&str, &str); 5] = [
    ("prose", "prose"),
    ("escapes", "escapes"),
    ("numbers", "numbers"),
    ("numbers at the pointer", "pointed"),
    ("short members", "members"),
];

/// The document whose list `/added` adds up.
const ADDED: (&str, &str) = ("short members, `*`", "members");

/// Returns a document of about 100 KiB, which ends with what it costs.
fn document(kind: &str) -> String {
    let repeated = |piece: &str| piece.repeat(DOCUMENT_BYTES / piece.len());
    match kind {
        "prose" => format!(r#"[{{"text":"{}",{USAGE}}}]"#, repeated(PROSE)),
        "escapes" => format!(r#"[{{"text":"{}",{USAGE}}}]"#, repeated(r#"\"\n\u00e9\\"#)),
        "numbers" => format!(r#"[{{"data":[{}0],{USAGE}}}]"#, repeated("-0.012345,")),
        "members" => format!(
            r#"[{{"data":[{}0],{USAGE}}}]"#,
            repeated(r#"{"a":1,"b":[]},"#)
        ),
        "pointed" => {
            let mut elements = String::new();
            while elements.len() < DOCUMENT_BYTES {
                let number = 100_000 + elements.len();
                write!(elements, r#"{{"usage":{{"total_tokens":{number}}}}},"#)
                    .expect("memory takes every byte");
            }
            format!("[{elements}{{{USAGE}}}]")
        }
        kind => unreachable!("{kind}"),
    }
}

/// Starts a gateway with all routes, on core 0.
fn gateway(folder: &Path) -> Process {
    let build = servers::builds().remove(0);
    let [plain, reported] = ROUTES;
    let policy = |name: &str, cost: &str| {
        format!(
            "[policies.{name}]\nquota = '2000000000 per hour'\nalgorithm = 'fixed-window'\n\
             partition = []\n{cost}\n"
        )
    };
    let route = |path: &str, policy: &str| {
        format!(
            "[[routes]]\npath = '{path}/*'\nstrip_prefix = '{path}'\nupstream = 'origin'\n\
             policies = ['{policy}']\n"
        )
    };
    let [_, added] = ADDING_ROUTES;
    let added_cost = "cost = 'response-json:/data/*/a'\nreserve = 10";
    let reported_cost = "cost = 'response-json:/usage/total_tokens'\nreserve = 10";
    let tables = [
        policy("plain", ""),
        policy("reported", reported_cost),
        policy("added", added_cost),
        route(plain, "plain"),
        route(reported, "reported"),
        route(added, "added"),
    ];
    let origin = format!("127.0.0.1:{ORIGIN}");
    let listener = "max_connections = 30000";
    let conf = servers::tollgate_conf(GATEWAY, listener, &origin, &tables.concat());
    let process = servers::tollgate(&build.path, folder, "reported", &conf);
    await_port(GATEWAY);
    process
}

/// An origin of documents and streams, within this process.
struct Origin {
    /// When the latest event was written.
    written: Cell<Instant>,
    /// Notified when the next event may be written.
    next: Notify,
}

impl Origin {
    async fn start() -> Rc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", ORIGIN)).await;
        let listener = listener.expect("a port");
        let origin = Rc::new(Self {
            written: Cell::new(Instant::now()),
            next: Notify::new(),
        });
        let serving = Rc::clone(&origin);
        serve(listener, move |stream| {
            let origin = Rc::clone(&serving);
            async move {
                // How a connection ends is not measured.
                let _ = origin.serve(stream).await;
            }
        });
        origin
    }

    /// Answers one request after the other until the gateway leaves.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut answers = Vec::new();
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream
                    .read_buf(&mut head)
                    .await
                    .ok()
                    .filter(|read| *read > 0)?;
            }
            let head = String::from_utf8(head).expect("text");
            let kind = head.split([' ', '/']).nth(2).unwrap_or_default().to_owned();
            match &*kind {
                "events" => self.send_events(&mut stream).await?,
                "open" => {
                    let begun = format!("{STREAM}{}", event("\"usage\":null"));
                    stream.write_all(begun.as_bytes()).await.ok()?;
                }
                kind => {
                    let known = answers.iter().position(|(known, _)| known == kind);
                    let at = known.unwrap_or_else(|| {
                        answers.push((kind.to_owned(), answer(&document(kind))));
                        answers.len() - 1
                    });
                    stream.write_all(answers[at].1.as_bytes()).await.ok()?;
                }
            }
        }
    }

    /// Sends events, each once the one before has arrived.
    async fn send_events(&self, stream: &mut TcpStream) -> Option<()> {
        stream.write_all(STREAM.as_bytes()).await.ok()?;
        let (silent, last) = (event("\"usage\":null"), event(USAGE));
        for number in 1..=EVENTS {
            self.next.notified().await;
            let event = if number < EVENTS { &silent } else { &last };
            self.written.set(Instant::now());
            stream.write_all(event.as_bytes()).await.ok()?;
        }
        stream.write_all(b"0\r\n\r\n").await.ok()
    }

    /// Takes a stream one event after the other, and returns how long each of them took from the origin.
    async fn take_events(&self, path: &str) -> Vec<Duration> {
        let mut client = Client::connect().await;
        client.ask(path).await;
        let mut taken = Vec::with_capacity(EVENTS);
        for _ in 1..EVENTS {
            self.next.notify_one();
            client.take_until(b"}\n\n\r\n").await;
            taken.push(self.written.get().elapsed());
        }
        self.next.notify_one();
        client.take_until(b"0\r\n\r\n").await;
        taken
    }
}

/// The head of an answer that is a stream of events.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Returns a chunk with one event, whose last member is `usage`.
fn event(usage: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1795478400,\
         \"model\":\"gpt-5\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}},\
         \"logprobs\":null,\"finish_reason\":null}}],{usage}}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Returns a whole answer with this document.
fn answer(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A client's connection.
struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    async fn connect() -> Self {
        Self {
            stream: connect(GATEWAY).await,
            read: Vec::new(),
        }
    }

    async fn ask(&mut self, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        self.stream
            .write_all(head.as_bytes())
            .await
            .expect("it reads");
    }

    /// Asks for a stream and takes its first event.
    async fn begin(&mut self, path: &str) {
        self.ask(path).await;
        self.take_until(b"}\n\n\r\n").await;
        self.read = Vec::new();
    }

    /// Reads on until what has come ends with `end`.
    async fn take_until(&mut self, end: &[u8]) {
        self.read.clear();
        while !self.read.ends_with(end) {
            let read = self.stream.read_buf(&mut self.read).await;
            assert!(read.expect("it goes on") > 0, "the stream has ended");
        }
    }
}
