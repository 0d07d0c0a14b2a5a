//! A gateway seen from outside: by its clients, its metrics, its log, and the servers that it uses.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::redis::Server;
use crate::support::{Answer, Config, Metered, Process, eventually, get};

/// Field that names the client to the policies here.
pub const CLIENT: &str = "x-client";

/// A running gateway whose log is JSON.
pub struct Gate {
    pub process: Process,
    asked: AtomicU64,
}

/// An answer, and whether it was decided without Redis.
#[derive(Debug)]
pub struct GateReply {
    pub answer: Answer,
    pub is_degraded: bool,
}

impl Gate {
    /// Starts a gateway with that file, a log, and a `[store]` with these lines.
    #[track_caller]
    pub fn start(config: Config, store: &str) -> Self {
        let config = config.with(&format!("[log]\nformat = 'json'\n[store]\n{store}"));
        Self {
            process: Process::start(&config),
            asked: AtomicU64::new(0),
        }
    }

    /// Sends a request to `ROUTE/<number>` on its own connection, and waits for its line in the log.
    #[track_caller]
    pub fn ask(&self, route: &str, fields: &str) -> GateReply {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let target = format!("{route}/{number}");
        let answer = get(self.process.public, &target, fields);
        let line = (self.process).wait_for_line(&[&format!("\"path\":\"{target}\"")]);
        GateReply {
            answer,
            is_degraded: line.contains("\"degraded\":true"),
        }
    }

    /// Sends a request as that client to the route `/*`.
    #[track_caller]
    pub fn ask_as(&self, client: &str) -> GateReply {
        self.ask("", &format!("{CLIENT}: {client}\r\n"))
    }

    /// Sends requests as another client until Redis decides them; fails the test if it never does.
    #[track_caller]
    pub fn wait_until_redis_decides(&self) {
        eventually("Redis decides", || {
            (!self.ask_as("somebody else").is_degraded).then_some(())
        });
    }

    /// Returns every sample whose name and labels contain all of `parts`.
    pub fn samples(&self, parts: &[&str]) -> Vec<(String, u64)> {
        let text = self.process.metrics();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' '));
        let fitting = samples.filter(|(name, _)| parts.iter().all(|part| name.contains(part)));
        let values =
            fitting.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        values.collect()
    }

    /// Returns the sum of a metric's samples; fails the test if there are none.
    #[track_caller]
    pub fn metric(&self, parts: &[&str]) -> u64 {
        let samples = self.samples(parts);
        assert!(!samples.is_empty(), "no metric {parts:?}");
        samples.iter().map(|(_, value)| value).sum()
    }

    /// Returns how many decisions had the given result.
    #[track_caller]
    pub fn decisions(&self, result: &str) -> u64 {
        self.metric(&["tollgate_store_decisions_total", &format!("\"{result}\"")])
    }

    /// Returns the number of open connections to Redis.
    #[track_caller]
    pub fn connections(&self) -> u64 {
        self.metric(&["tollgate_store_connections"])
    }

    #[track_caller]
    pub fn wait_for_connections(&self, count: u64) {
        eventually(&format!("{count} connections to Redis"), || {
            (self.connections() == count).then_some(())
        });
    }

    /// Fails if a breaker is not closed, or was not closed all the time.
    #[track_caller]
    pub fn assert_no_breaker_opened(&self) {
        for (name, value) in self.samples(&["tollgate_store_breaker", "\"closed\""]) {
            assert_eq!(value, 1, "{name}");
        }
        assert_eq!(
            self.decisions("unasked"),
            0,
            "decisions that were not asked"
        );
        let opened = "Redis is failing: no calls are sent to it until the cooldown ends";
        assert_eq!(self.lines_with(opened), Vec::<String>::new());
    }

    /// Returns the lines of the log that contain `text`, except those of requests.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let lines = self.process.lines().into_iter();
        let events = lines.filter(|line| !line.contains("\"target\":\"access\""));
        events.filter(|line| line.contains(text)).collect()
    }
}

impl GateReply {
    /// Returns 1 if the request was admitted, otherwise 0.
    pub fn admitted(&self) -> u64 {
        u64::from(self.answer.status == 200)
    }
}

/// Returns how many calls of scripts a server has executed, including those by which gateways announce themselves, but
/// not those by which they check for directives each second; each of the latter reads one field.
#[track_caller]
pub fn calls(server: &Server) -> u64 {
    let stats = server.info("commandstats");
    let figure = |name: &str, what: &str| {
        let line = stats.get(&format!("cmdstat_{name}"));
        let fields = line.map_or("", |line| line).split(',');
        let value = fields.filter_map(|field| field.split_once('='));
        let mut value = value.filter(|(name, _)| *name == what);
        (value.next()).map_or(0, |(_, value)| value.parse::<u64>().expect("a counter"))
    };
    // A server that does not know the script has not executed the call.
    let executed = |name: &str| figure(name, "calls") - figure(name, "failed_calls");
    let scripts = ["eval", "evalsha", "eval_ro", "evalsha_ro"].map(executed);
    scripts.iter().sum::<u64>() - figure("hget", "calls")
}
