//! CPU time per request of the gateway and of nginx with `limit_req`, and of both with Redis, under
//! the same load in the same run.
//!
//! Each gateway runs one worker, pinned to core 0. On core 1 are the origin (nginx, a 100-byte
//! answer), the load (wrk, 64 keep-alive connections) and a Redis for each gateway that shares its
//! counters. It compares the CPU time of the process under test and of its Redis, read from `/proc`
//! and divided by the answers that wrk counted: that hardly depends on how busy the cores are
//! otherwise. Rounds alternate, so that a slow minute of the machine hits all.
//!
//! With Redis, the peer is nginx with a few lines of Lua (`limiter.lua`, `window.lua`): two
//! counters per client, one `EVALSHA` per request, connections kept. With `buckets = 1` Tollgate
//! keeps the same two counters. Tollgate's metrics show that nothing was decided without Redis.
//!
//! Needs two cores and some Debian packages, which it names if they are missing: `cargo bench
//! --bench proxy`, with a number of rounds (5) and seconds per round (4) after `--`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod servers;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use servers::{Process, Redis, await_port};
use support::median;

const CONNECTIONS: &str = "64";

/// A gateway under test.
struct Gateway {
    name: &'static str,
    port: u16,
    process: Process,
    /// Its own Redis, if its counters are there.
    redis: Option<Redis>,
    /// The gateway that it is compared with.
    peer: Option<usize>,
}

/// Positions in the list of gateways of those that have bars.
const MEMORY: usize = 1;
const PEER: usize = 2;
const ONE: usize = 3;

/// What requests are sent, and how nearly all of them are answered.
struct Load {
    name: &'static str,
    path: &'static str,
    admitted: bool,
}

const LOADS: [Load; 2] = [
    Load {
        name: "proxied",
        path: "/open",
        admitted: true,
    },
    Load {
        name: "refused with 429",
        path: "/shut",
        admitted: false,
    },
];

/// Per request: µs of the gateway, µs of its Redis, and calls of a script.
#[derive(Clone, Copy, Default)]
struct Cost {
    gateway: f64,
    redis: f64,
    calls: f64,
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let rounds = numbers.first().copied().unwrap_or(5);
    let seconds = numbers.get(1).copied().unwrap_or(4);
    servers::check_packages();
    let folder = tempfile::tempdir().expect("a folder for configurations");
    let _origin = servers::origin(folder.path());
    let gateways = gateways(folder.path());
    println!(
        "CPU time per request in µs, {rounds} rounds of {seconds} s, {CONNECTIONS} keep-alive connections"
    );
    let mut middles = Vec::new();
    for load in &LOADS {
        let mut costs = vec![Vec::new(); gateways.len()];
        for _ in 0..rounds {
            for (gateway, costs) in gateways.iter().zip(&mut costs) {
                costs.push(measure(gateway, load, seconds));
            }
        }
        let costs: Vec<Cost> = costs.iter().map(|costs| middle(costs)).collect();
        print(load, &gateways, &costs);
        middles.push(costs);
    }
    for gateway in &gateways[ONE..] {
        let unanswered = servers::unanswered(gateway.port);
        assert_eq!(unanswered, 0, "{}: decided without Redis", gateway.name);
    }
    let [proxied, refused] = &middles[..] else {
        unreachable!("there are two loads");
    };
    println!("\nwith buckets = 1");
    let bar = |what, bar: f64, own: f64, theirs: f64| {
        println!("{what:<56}{:>9.2}  (bar: {bar:.2})", own / theirs);
    };
    let (one, peer) = (proxied[ONE], proxied[PEER]);
    bar(
        "proxied, beside nginx, Lua, Redis",
        0.6,
        one.gateway,
        peer.gateway,
    );
    bar(
        "proxied, its Redis beside theirs",
        0.5,
        one.redis,
        peer.redis,
    );
    let (one, memory) = (refused[ONE], refused[MEMORY]);
    bar(
        "refused, beside Tollgate, memory",
        1.1,
        one.gateway,
        memory.gateway,
    );
}

/// Starts every gateway; each is compared with an earlier one.
fn gateways(folder: &Path) -> Vec<Gateway> {
    let mut gateways = vec![
        Gateway {
            name: "nginx, limit_req",
            port: servers::NGINX,
            process: servers::nginx_alone(folder),
            redis: None,
            peer: None,
        },
        Gateway {
            name: "Tollgate, memory",
            port: servers::TOLLGATE,
            process: servers::tollgate(folder, "memory", servers::TOLLGATE, "", ""),
            redis: None,
            peer: Some(0),
        },
    ];
    let redis = Redis::start(servers::NGINX_REDIS);
    gateways.push(Gateway {
        name: "nginx, Lua, Redis",
        port: servers::NGINX_LUA,
        process: servers::nginx_lua(folder),
        redis: Some(redis),
        peer: None,
    });
    let (one, ten) = (servers::TOLLGATE_ONE, servers::TOLLGATE_TEN);
    let (one_redis, ten_redis) = (servers::TOLLGATE_ONE_REDIS, servers::TOLLGATE_TEN_REDIS);
    for (name, port, redis_port, policy) in [
        (
            "Tollgate, Redis, buckets = 1",
            one,
            one_redis,
            "buckets = 1",
        ),
        ("Tollgate, Redis, 10 buckets", ten, ten_redis, ""),
    ] {
        let redis = Redis::start(redis_port);
        let store = servers::in_redis(redis_port);
        gateways.push(Gateway {
            name,
            port,
            process: servers::tollgate(folder, &port.to_string(), port, &store, policy),
            redis: Some(redis),
            peer: Some(PEER),
        });
    }
    for gateway in &gateways {
        await_port(gateway.port);
    }
    gateways
}

/// Prints a row per gateway, with its cost relative to its peer.
fn print(load: &Load, gateways: &[Gateway], costs: &[Cost]) {
    println!(
        "\n{:<32}{:>9}{:>8}{:>9}{:>8}{:>8}",
        load.name, "gateway", "ratio", "Redis", "ratio", "calls"
    );
    for (gateway, cost) in gateways.iter().zip(costs) {
        let peer = gateway.peer.map(|peer| costs[peer]);
        let ratio = |own: f64, of: fn(Cost) -> f64| {
            let theirs = peer.map(of).filter(|&theirs| theirs > 0.0);
            theirs.map_or(String::new(), |theirs| format!("{:.2}", own / theirs))
        };
        print!(
            "{:<32}{:>9.2}{:>8}",
            gateway.name,
            cost.gateway,
            ratio(cost.gateway, |cost| cost.gateway)
        );
        match gateway.redis {
            Some(_) => println!(
                "{:>9.2}{:>8}{:>8.3}",
                cost.redis,
                ratio(cost.redis, |cost| cost.redis),
                cost.calls
            ),
            None => println!(),
        }
    }
}

/// The median of each figure.
fn middle(costs: &[Cost]) -> Cost {
    let of = |figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
    Cost {
        gateway: of(|cost| cost.gateway),
        redis: of(|cost| cost.redis),
        calls: of(|cost| cost.calls),
    }
}

/// Loads a gateway and returns the cost of an answer.
fn measure(gateway: &Gateway, load: &Load, seconds: u64) -> Cost {
    let spent = || gateway.process.cpu().as_secs_f64() * 1e6;
    let of_redis = |figure: fn(&Redis) -> f64| gateway.redis.as_ref().map_or(0.0, figure);
    let redis_spent = || of_redis(|redis| redis.cpu().as_secs_f64() * 1e6);
    let calls = || of_redis(|redis| redis.calls() as f64);
    let before = (calls(), redis_spent(), spent());
    let answers = answers(gateway, load, seconds) as f64;
    let after = (spent(), redis_spent(), calls());
    Cost {
        gateway: (after.0 - before.2) / answers,
        redis: (after.1 - before.1) / answers,
        calls: (after.2 - before.0) / answers,
    }
}

/// Lets wrk ask as fast as it is answered; returns the number of answers.
fn answers(gateway: &Gateway, load: &Load, seconds: u64) -> u64 {
    let (port, path) = (gateway.port, load.path);
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
    let strays = if load.admitted {
        refused
    } else {
        answers - refused
    };
    assert!(
        strays * 1000 <= answers,
        "{}: {strays} of {answers} are not {}",
        gateway.name,
        load.name
    );
    answers
}
