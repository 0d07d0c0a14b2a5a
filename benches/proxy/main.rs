//! CPU time per request beside nginx, HAProxy and Pingora, alone and with Redis, under the same load in the same run;
//! and the latency that each adds.
//!
//! Each gateway runs one worker, pinned to core 0. On core 1 are the origin (nginx, a 100-byte answer), the load (wrk,
//! 64 keep-alive connections) and a Redis for each gateway that shares its counters. It compares the CPU time of the
//! process under test and of its Redis, read from `/proc` and divided by the answers that wrk counted, which hardly
//! depends on how busy the cores are otherwise. Rounds alternate, and begin with another gateway each time, so that a
//! slow minute of the machine affects all. Ratios are taken within a round; printed are their median and quartiles, and
//! a bar is missed if the lower quartile is above it. `busy` is the share of core 0 that the gateway used: well below
//! 1, it was waiting for the load.
//!
//! With Redis, the peer is nginx with a few lines of Lua (`limiter.lua`, `window.lua`): two
//! counters per client, one `EVALSHA` per request, connections kept. With `buckets = 1` Tollgate
//! keeps the same two counters. Tollgate's metrics show that nothing was decided without Redis.
//!
//! Needs two cores and some Debian packages, which it names if they are missing: `cargo bench
//! --bench proxy`, with a number of rounds (7) and seconds per round (4) after `--`; words choose
//! sections (`-- refused redis`). `TOLLGATE_BIN` names other builds of Tollgate:
//! `TOLLGATE_BIN='plain=/a/tollgate pgo=/b/tollgate'`; the one called `pgo` has bars of its own.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod confs;
mod latency;
mod load;
mod report;
mod sections;
mod servers;
#[path = "../support/mod.rs"]
mod support;

use report::Verdicts;
use sections::{Kind, SECTIONS, Section};
use servers::Servers;
use support::machine::{Watch, describe};

const PROGRAMS: [(&str, &str); 4] = [
    ("nginx", "-v"),
    ("haproxy", "-v"),
    ("redis-server", "--version"),
    ("wrk", "-v"),
];

/// What the command line asks for.
struct Wish {
    rounds: usize,
    seconds: u64,
    /// Sections to run; all if there are none.
    words: Vec<String>,
}

impl Wish {
    fn read() -> Self {
        let arguments = std::env::args()
            .skip(1)
            .filter(|word| !word.starts_with('-'));
        let (numbers, words): (Vec<String>, Vec<String>) =
            arguments.partition(|word| word.parse::<u32>().is_ok());
        let number = |at: usize| numbers.get(at).and_then(|word| word.parse().ok());
        let known: Vec<&str> = SECTIONS
            .iter()
            .map(|section| section.word)
            .chain([latency::WORD])
            .collect();
        if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
            eprintln!("no section {word}; there are {}", known.join(", "));
            std::process::exit(1);
        }
        Self {
            rounds: number(0).unwrap_or(7).max(1),
            seconds: number(1).map_or(4, |seconds| seconds as u64),
            words,
        }
    }

    fn has(&self, word: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|wanted| wanted == word)
    }
}

fn main() {
    let wish = Wish::read();
    servers::check_packages();
    let pingora = servers::pingora_version();
    println!("{}, Pingora {pingora}", describe(&PROGRAMS));
    let sections: Vec<&Section> = SECTIONS
        .iter()
        .filter(|section| wish.has(section.word))
        .collect();
    if sections
        .iter()
        .any(|section| section.kinds.contains(&Kind::Pingora))
    {
        servers::build_pingora();
    }
    support::servers::pin_this_process(1);
    let servers = Servers::new();
    println!(
        "µs per request, {} rounds of {} s, {} keep-alive connections",
        wish.rounds,
        wish.seconds,
        load::CONNECTIONS
    );
    let mut verdicts = Verdicts::default();
    for section in sections {
        measure(section, &wish, &servers, &mut verdicts);
    }
    if wish.has(latency::WORD) {
        let watch = Watch::start();
        latency::measure(&servers, wish.rounds, wish.seconds, &mut verdicts);
        report::others(&watch.others());
    }
    verdicts.print();
}

/// Measures a section's gateways in turn, and prints what their requests cost.
fn measure(section: &Section, wish: &Wish, servers: &Servers, verdicts: &mut Verdicts) {
    let gateways = servers.start(section.kinds);
    // Warms up connections, caches and counters.
    for gateway in &gateways {
        load::measure(gateway, section, 1);
    }
    let watch = Watch::start();
    let mut costs = vec![Vec::new(); gateways.len()];
    for round in 0..wish.rounds {
        for turn in 0..gateways.len() {
            let at = (turn + round) % gateways.len();
            costs[at].push(load::measure(&gateways[at], section, wish.seconds));
        }
    }
    let others = watch.others();
    report::section(section, &gateways, &costs);
    for bar in section.bars {
        report::bar(bar, servers, &gateways, &costs, verdicts);
    }
    report::others(&others);
    for gateway in &gateways {
        gateway.assert_complete();
    }
}
