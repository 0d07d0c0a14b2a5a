//! The closed load: wrk sends requests as fast as they are answered, while CPU time is counted.

use std::process::Command;
use std::time::Instant;

use super::sections::Section;
use super::servers::{Gateway, Redis};

pub const CONNECTIONS: &str = "64";

const ROUTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/proxy/routes.lua");

/// What an answer costs, in µs of CPU time except for `calls` and `busy`.
#[derive(Clone, Copy)]
pub struct Cost {
    /// CPU time of the gateway in user mode.
    pub user: f64,
    /// CPU time of the gateway in the kernel.
    pub kernel: f64,
    /// CPU time of the gateway's Redis.
    pub redis: f64,
    /// Number of calls of a script.
    pub calls: f64,
    /// The share of a core that the gateway used.
    pub busy: f64,
}

impl Cost {
    pub fn gateway(&self) -> f64 {
        self.user + self.kernel
    }
}

/// Loads a gateway, and returns the cost of an answer.
pub fn measure(gateway: &Gateway, section: &Section, seconds: u64) -> Cost {
    let of_redis = |figure: fn(&Redis) -> f64| gateway.redis.as_ref().map_or(0.0, figure);
    let redis_spent = || of_redis(|redis| redis.cpu().as_secs_f64() * 1e6);
    let calls = || of_redis(|redis| redis.calls() as f64);
    let (calls_before, redis_before) = (calls(), redis_spent());
    let (ticks_before, before) = (gateway.process.ticks(), gateway.process.cpu());
    let began = Instant::now();
    let answers = answers(gateway, section, seconds) as f64;
    let spent = gateway.process.cpu().saturating_sub(before).as_secs_f64();
    let wall = began.elapsed().as_secs_f64();
    let ticks = gateway.process.ticks();
    let user = (ticks.0 - ticks_before.0) as f64;
    let kernel = (ticks.1 - ticks_before.1) as f64;
    let each = spent * 1e6 / answers;
    gateway.empty_log();
    Cost {
        user: each * user / (user + kernel),
        kernel: each * kernel / (user + kernel),
        redis: (redis_spent() - redis_before) / answers,
        calls: (calls() - calls_before) / answers,
        busy: spent / wall,
    }
}

/// Lets wrk send requests as fast as they are answered; returns the number of answers.
fn answers(gateway: &Gateway, section: &Section, seconds: u64) -> u64 {
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", CONNECTIONS, "-d", &format!("{seconds}s")]);
    let url = format!("http://127.0.0.1:{}{}", gateway.port, section.path);
    match gateway.kind.routes() {
        Some((asked, routes)) => {
            command.args(["-s", ROUTES, &url, "--"]);
            command.args([asked, routes].map(|count| count.to_string()))
        }
        None => command.arg(&url),
    };
    let output = command.output().expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |part: &str| text.lines().find(|line| line.contains(part));
    let answers: u64 = line("requests in")
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("wrk counts requests");
    let refused: u64 = line("Non-2xx").map_or(0, |line| {
        let count = line.rsplit(' ').next().and_then(|word| word.parse().ok());
        count.expect("wrk counts refusals")
    });
    // At most one answer in a thousand may be of the other kind: the first ones of a quota.
    let strays = if section.is_admitted {
        refused
    } else {
        answers - refused
    };
    assert!(
        strays * 1000 <= answers,
        "{}: {strays} of {answers} are not {}",
        gateway.name,
        section.title
    );
    answers
}
