//! CPU time of TLS and HTTP/2 beside nginx and HAProxy, under the same load in the same run.
//!
//! Each gateway runs one worker, pinned to core 0, with the same certificate (ECDSA P-256), the
//! same cipher (TLS_AES_128_GCM_SHA256) and a quota that is never used up. On core 1 are the origin
//! (nginx, a 100-byte answer) and the load: h2load for requests, a client of this program for
//! handshakes. It compares the CPU time of the gateway's process, read from `/proc` and divided by
//! the answers or handshakes. Rounds alternate, so that a slow minute of the machine affects all.
//!
//! Needs two cores and some Debian packages, which it names if they are missing: `cargo bench
//! --bench tls`, with a number of rounds (5) and seconds per round (4) after `--`. `TOLLGATE_BIN`
//! names builds of Tollgate, as `before=/a/tollgate after=/b/tollgate`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod handshakes;
mod servers;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use handshakes::Kind;
use servers::{Gateway, Material};
use support::{median, numbers};

/// A kind of load, and its name in the table.
struct Row {
    name: &'static str,
    load: Load,
}

enum Load {
    /// Requests; these are h2load's arguments besides the duration.
    Requests(&'static [&'static str]),
    Handshakes(Kind),
}

const ROWS: [Row; 4] = [
    Row {
        name: "HTTP/1.1, 64 connections",
        load: Load::Requests(&["--h1", "-c", "64"]),
    },
    Row {
        name: "HTTP/2, 16 connections of 8 streams",
        load: Load::Requests(&["-c", "16", "-m", "8"]),
    },
    Row {
        name: "handshake, full",
        load: Load::Handshakes(Kind::Full),
    },
    Row {
        name: "handshake, resumed",
        load: Load::Handshakes(Kind::Resumed),
    },
];

fn main() {
    let [rounds, seconds] = numbers([5, 4]);
    servers::check_packages();
    support::servers::pin_this_process(1);
    let folder = tempfile::tempdir().expect("a folder for configurations");
    let material = Material::make(folder.path());
    let _origin = support::servers::origin(folder.path(), servers::ORIGIN);
    let gateways = servers::gateways(folder.path(), &material);
    println!("CPU time over TLS in µs, {rounds} rounds of {seconds} s; in brackets beside nginx");
    print!("{:<38}", "");
    for gateway in &gateways {
        print!("{:>18}", gateway.name);
    }
    println!();
    for row in &ROWS {
        let mut costs = vec![Vec::new(); gateways.len()];
        for _ in 0..rounds {
            for (gateway, costs) in gateways.iter().zip(&mut costs) {
                costs.push(measure(gateway, &row.load, &material, seconds));
            }
        }
        let costs: Vec<f64> = costs.into_iter().map(median).collect();
        print!("{:<38}", row.name);
        for cost in &costs {
            print!("{cost:>11.2} ({:.2})", cost / costs[0]);
        }
        println!();
    }
}

/// Loads a gateway, and returns its CPU time in µs for one answer or handshake.
fn measure(gateway: &Gateway, load: &Load, material: &Material, seconds: u64) -> f64 {
    let before = gateway.process.cpu();
    let done = match load {
        Load::Requests(how) => requests(gateway, how, seconds),
        Load::Handshakes(kind) => handshakes::make(gateway.port, *kind, material, seconds),
    };
    let spent = gateway.process.cpu().saturating_sub(before);
    spent.as_secs_f64() * 1e6 / done as f64
}

/// Lets h2load send requests as fast as they are answered; returns the number of answers.
fn requests(gateway: &Gateway, how: &[&str], seconds: u64) -> u64 {
    let output = Command::new("h2load")
        .args(how)
        .args(["-t", "1", "-D", &seconds.to_string()])
        .args(["--tls13-ciphers", "TLS_AES_128_GCM_SHA256"])
        .arg(format!("https://localhost:{}/", gateway.port))
        .output()
        .expect("h2load runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str, behind: &str| -> u64 {
        let line = text.lines().find(|text| text.starts_with(line));
        let words = line.and_then(|line| line.split_once(behind)).map(|x| x.0);
        words
            .and_then(|words| words.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("h2load counts {behind}: {text}"))
    };
    let answers = number("requests:", " done,");
    let good = number("status codes:", " 2xx,");
    // Requests in progress at the end are answered, but h2load does not count them as done.
    assert!(good >= answers, "{}: {text}", gateway.name);
    assert!(text.contains("Cipher: TLS_AES_128_GCM_SHA256"), "{text}");
    good
}
