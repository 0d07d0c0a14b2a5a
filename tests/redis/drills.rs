//! Redis fails in every way there is, and no client sees an error: the short form of `scripts/drill/redis`.

use std::thread;
use std::time::Duration;

use crate::support::ratelimit::remaining;
use crate::support::redis::{Fault, Proxy, Server};
use crate::support::{Answer, Client, Config, Metered, Process, eventually, get};

/// A server behind a network that can fail, and a gateway that decides on it.
struct Drill {
    server: Server,
    proxy: Proxy,
    gateway: Process,
    asked: u32,
}

impl Drill {
    #[track_caller]
    fn start() -> Self {
        let server = Server::start();
        let proxy = Proxy::to(server.address());
        let gateway = Process::start(&config(&proxy));
        let mut drill = Self {
            server,
            proxy,
            gateway,
            asked: 0,
        };
        drill.wait_until_healthy();
        drill
    }

    /// Sends a request; returns its answer and whether the gateway decided it without the store.
    #[track_caller]
    fn ask(&mut self) -> (Answer, bool) {
        self.asked += 1;
        let target = format!("/{}", self.asked);
        let answer = get(self.gateway.public, &target, "");
        let path = format!("\"path\":\"{target}\"");
        let line = self.gateway.wait_for_line(&[&path]);
        (answer, line.contains("\"degraded\":true"))
    }

    /// Asks until the gateway decides without the store; no client may see an error.
    #[track_caller]
    fn wait_until_degraded(&mut self) {
        self.ask_until("the gateway decides by itself", true);
    }

    /// Asks until the store decides; no client may see an error.
    #[track_caller]
    fn wait_until_healthy(&mut self) {
        self.ask_until("the store decides", false);
    }

    #[track_caller]
    fn ask_until(&mut self, what: &str, wanted: bool) {
        eventually(what, || {
            let (answer, is_degraded) = self.ask();
            assert_eq!(answer.status, 200, "{answer:?}");
            (is_degraded == wanted).then_some(())
        });
    }

    /// Whether the server's breaker is in that state.
    fn breaker_is(&self, state: &str) -> bool {
        let metrics = self.gateway.metrics();
        let mut lines = metrics.lines();
        lines.any(|line| {
            let is_breaker = line.starts_with("tollgate_store_breaker");
            is_breaker && line.ends_with(&format!("state=\"{state}\"}} 1"))
        })
    }

    /// Has the server do something.
    #[track_caller]
    fn command(&self, command: &[&str]) {
        self.server.command(command);
    }

    /// Sends some requests, doing this before each; all are counted once.
    #[track_caller]
    fn counts_each_once(&mut self, before_each: impl Fn(&Self)) {
        let (answer, _) = self.ask();
        let left = remaining(&answer, "p");
        for turn in 1..=20 {
            before_each(self);
            let (answer, is_degraded) = self.ask();
            assert_eq!(
                (answer.status, remaining(&answer, "p"), is_degraded),
                (200, left - turn, false)
            );
        }
    }

    /// Goes from health to failure and back.
    #[track_caller]
    fn go(&mut self, break_it: impl FnOnce(&Self), heal_it: impl FnOnce(&Self)) {
        break_it(self);
        self.wait_until_degraded();
        // Closed, open, half-open: then the store is tried, and fails.
        eventually("the breaker is half-open", || {
            // Unless somebody asks, nothing fails.
            let (answer, _) = self.ask();
            assert_eq!(answer.status, 200, "{answer:?}");
            self.breaker_is("half_open").then_some(())
        });
        for _ in 0..FAILURES {
            let (answer, _) = self.ask();
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        heal_it(self);
        self.wait_until_healthy();
    }
}

/// In a row, they open the breaker.
const FAILURES: u32 = 2;

/// One client's quota is large; a busy machine has time to decide, and the breaker tries again soon.
fn config(proxy: &Proxy) -> Config {
    Config::to("builtin:echo")
        .policy("p", "quota = '1000 per hour'\non_store_failure = 'local'")
        .route("/*", "policies = ['p']")
        .with(&format!(
            "[log]\nformat = 'json'\n[store]\nurl = 'redis://{}'\ntimeout = '1s'\n\
             breaker = {{ failures = {FAILURES}, cooldown = '100ms' }}",
            proxy.address()
        ))
}

#[test]
fn killed_server_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(|drill| drill.server.kill(), |drill| drill.server.restart());
}

#[test]
fn stopped_server_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(|drill| drill.server.stop(), |drill| drill.server.resume());
}

#[test]
fn network_that_swallows_everything_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| drill.proxy.set(Fault::BlackHole),
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn network_that_refuses_and_resets_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| {
            drill.proxy.set(Fault::Refuse);
            drill.proxy.reset_all();
        },
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn network_slower_than_the_deadline_is_missed_by_no_client() {
    let mut drill = Drill::start();
    let slow = Fault::Latency {
        by: Duration::from_secs(3),
        jitter: Duration::ZERO,
    };
    drill.go(
        |drill| drill.proxy.set(slow),
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn replies_cut_in_the_middle_are_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| drill.proxy.set(Fault::Cut { after: 3 }),
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn server_busy_with_a_script_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| {
            drill.command(&["CONFIG", "SET", "busy-reply-threshold", "100"]);
            let mut busy = drill.server.connect().expect("the server answers");
            let sent = busy.send(&["EVAL", "while true do end", "0"]);
            sent.expect("the server reads what it is sent");
        },
        |drill| drill.command(&["SCRIPT", "KILL"]),
    );
}

/// It answers `LOADING` to everybody until it has read its data.
#[test]
fn server_that_loads_its_data_is_missed_by_no_client() {
    let mut drill = Drill::start();
    let mut reloading = drill.server.connect().expect("the server answers");
    drill.command(&["DEBUG", "POPULATE", "20000"]);
    for (name, value) in [
        // Of each key, so that it takes 20 s unless it is told to hurry.
        ("key-load-delay", "1000"),
        ("loading-process-events-interval-bytes", "1024"),
    ] {
        drill.command(&["CONFIG", "SET", name, value]);
    }
    drill.go(
        |_| {
            let sent = reloading.send(&["DEBUG", "RELOAD"]);
            sent.expect("the server reads what it is sent");
        },
        |drill| drill.command(&["CONFIG", "SET", "key-load-delay", "0"]),
    );
    assert_eq!(reloading.read().expect("an answer").text(), "OK");
}

/// It refuses writes (`MISCONF`) because it cannot save its data.
#[test]
fn server_that_cannot_save_its_data_is_missed_by_no_client() {
    let mut drill = Drill::start();
    // Not even root can put a file in the place of a directory.
    let in_its_place = drill.server.directory().join("dump.rdb");
    std::fs::create_dir(in_its_place).expect("the directory is writable");
    drill.go(
        |drill| {
            drill.command(&["CONFIG", "SET", "save", "3600 1"]);
            drill.command(&["BGSAVE"]);
            eventually("it fails to save", || {
                let info = drill.server.info("persistence");
                (info["rdb_last_bgsave_status"] == "err").then_some(())
            });
        },
        |drill| drill.command(&["CONFIG", "SET", "save", ""]),
    );
}

#[test]
fn server_that_only_reads_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| drill.command(&["REPLICAOF", "127.0.0.1", "1"]),
        |drill| drill.command(&["REPLICAOF", "NO", "ONE"]),
    );
}

#[test]
fn server_with_another_password_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| {
            drill.command(&["CONFIG", "SET", "requirepass", "another"]);
            drill.proxy.reset_all();
        },
        |drill| drill.command(&["CONFIG", "SET", "requirepass", ""]),
    );
}

#[test]
fn server_with_too_many_clients_is_missed_by_no_client() {
    let mut drill = Drill::start();
    drill.go(
        |drill| {
            // The tests' own connection is the one that may stay.
            drill.command(&["CONFIG", "SET", "maxclients", "1"]);
            drill.proxy.reset_all();
        },
        |drill| drill.command(&["CONFIG", "SET", "maxclients", "100"]),
    );
}

#[test]
fn flushed_scripts_are_loaded_again_and_count_each_request_once() {
    Drill::start().counts_each_once(|drill| drill.command(&["SCRIPT", "FLUSH"]));
}

#[test]
fn replies_in_slices_are_read_as_whole_ones() {
    let mut drill = Drill::start();
    drill.proxy.set(Fault::Slices);
    drill.counts_each_once(|_| ());
}

/// At first every reply comes after its request has been given up, then about half of them do.
#[test]
fn late_reply_never_answers_another_request() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let store = format!(
        "[store]\nurl = 'redis://{}'\ntimeout = '30ms'\n\
         breaker = {{ failures = 1000, failure_ratio = 1.0 }}",
        proxy.address()
    );
    let config = Config::to("builtin:echo")
        .policy("small", "quota = '1000 per hour'")
        .policy("large", "quota = '9000 per hour'")
        .route("/small", "policies = ['small']")
        .route("/large", "policies = ['large']")
        .with(&store);
    let gateway = Process::start(&config);
    let ask = |turns: usize| {
        thread::scope(|scope| {
            for (name, left) in [("small", 0..1_000), ("large", 8_000..9_000)] {
                for _ in 0..4 {
                    let (left, mut client) = (left.clone(), Client::connect(gateway.public));
                    scope.spawn(move || {
                        for _ in 0..turns {
                            let answer = client.get(&format!("/{name}"), "");
                            assert_eq!(answer.status, 200, "{answer:?}");
                            let remaining = remaining(&answer, name);
                            assert!(left.contains(&remaining), "{remaining} is left of {name}");
                        }
                    });
                }
            }
        });
    };
    let decisions = |result: &str| -> u64 {
        let series = format!("tollgate_store_decisions_total{{result=\"{result}\"}}");
        gateway.series(&series).expect("the series")
    };
    let slow = |by_ms, jitter_ms| Fault::Latency {
        by: Duration::from_millis(by_ms),
        jitter: Duration::from_millis(jitter_ms),
    };
    eventually("the store decides", || {
        ask(1);
        (decisions("answered") > 0).then_some(())
    });
    proxy.set(slow(60, 0));
    ask(10);
    assert!(decisions("late") > 0, "replies are late");
    proxy.set(slow(5, 50));
    let answered = decisions("answered");
    eventually("some replies are late and others are not", || {
        let late = decisions("late");
        ask(50);
        (decisions("late") > late && decisions("answered") > answered).then_some(())
    });
}
