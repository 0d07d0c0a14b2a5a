//! Redis fails in every possible way, and no client sees an error: the short form of `scripts/drill/redis`.

use std::time::Duration;

use crate::gate::{Gate, GateReply};
use crate::support::ratelimit::remaining;
use crate::support::redis::{Fault, Proxy, Server};
use crate::support::{Config, eventually};

/// A server behind a network that can fail, and a gateway that uses it.
struct Drill {
    server: Server,
    proxy: Proxy,
    gate: Gate,
}

impl Drill {
    #[track_caller]
    fn start() -> Self {
        let server = Server::start();
        let proxy = Proxy::to(server.address());
        let gate = gate(&proxy);
        let drill = Self {
            server,
            proxy,
            gate,
        };
        drill.wait_until_healthy();
        drill
    }

    /// Sends a request to the gateway.
    #[track_caller]
    fn ask(&self) -> GateReply {
        self.gate.ask("", "")
    }

    /// Sends requests until the gateway decides without the store; no client may see an error.
    #[track_caller]
    fn wait_until_degraded(&self) {
        self.ask_until("the gateway decides by itself", true);
    }

    /// Sends requests until the store decides; no client may see an error.
    #[track_caller]
    fn wait_until_healthy(&self) {
        self.ask_until("the store decides", false);
    }

    #[track_caller]
    fn ask_until(&self, what: &str, wanted: bool) {
        eventually(what, || {
            let reply = self.ask();
            assert_eq!(reply.answer.status, 200, "{reply:?}");
            (reply.is_degraded == wanted).then_some(())
        });
    }

    /// Whether the server's breaker is in that state.
    fn breaker_is(&self, state: &str) -> bool {
        let state = format!("state=\"{state}\"");
        let samples = self.gate.samples(&["tollgate_store_breaker", &state]);
        samples.iter().any(|(_, value)| *value == 1)
    }

    /// Sends a command to the server.
    #[track_caller]
    fn command(&self, command: &[&str]) {
        self.server.command(command);
    }

    /// Breaks something, heals it again, and checks on the way that no client sees an error.
    #[track_caller]
    fn go(&self, break_it: impl FnOnce(&Self), heal_it: impl FnOnce(&Self)) {
        break_it(self);
        self.wait_until_degraded();
        // The breaker goes from closed over open to half-open; the store is then tried, and fails.
        eventually("the breaker is half-open", || {
            // The store fails only if there is a request for it.
            let reply = self.ask();
            assert_eq!(reply.answer.status, 200, "{reply:?}");
            self.breaker_is("half_open").then_some(())
        });
        for _ in 0..FAILURES {
            let reply = self.ask();
            assert_eq!(reply.answer.status, 200, "{reply:?}");
        }
        heal_it(self);
        self.wait_until_healthy();
    }
}

/// Failures in a row that open the breaker.
const FAILURES: u32 = 2;

/// A gateway with a large quota for one client, time for a busy machine to decide, and a breaker that soon tries again.
#[track_caller]
fn gate(proxy: &Proxy) -> Gate {
    let config = Config::to("builtin:echo")
        .policy("p", "quota = '1000 per hour'\non_store_failure = 'local'")
        .route("/*", "policies = ['p']");
    let store = format!(
        "url = 'redis://{}'\ntimeout = '1s'\n\
         breaker = {{ failures = {FAILURES}, cooldown = '100ms' }}",
        proxy.address()
    );
    Gate::start(config, &store)
}

#[test]
fn killed_server_is_missed_by_no_client() {
    let drill = Drill::start();
    drill.go(|drill| drill.server.kill(), |drill| drill.server.restart());
}

#[test]
fn stopped_server_is_missed_by_no_client() {
    let drill = Drill::start();
    drill.go(|drill| drill.server.stop(), |drill| drill.server.resume());
}

#[test]
fn network_that_swallows_everything_is_missed_by_no_client() {
    let drill = Drill::start();
    drill.go(
        |drill| drill.proxy.set(Fault::BlackHole),
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn network_that_refuses_and_resets_is_missed_by_no_client() {
    let drill = Drill::start();
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
    let drill = Drill::start();
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
    let drill = Drill::start();
    drill.go(
        |drill| drill.proxy.set(Fault::Cut { after: 3 }),
        |drill| drill.proxy.set(Fault::None),
    );
}

#[test]
fn server_busy_with_a_script_is_missed_by_no_client() {
    let drill = Drill::start();
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

/// A server that is loading answers `LOADING` to all commands until it has read its data.
#[test]
fn server_that_loads_its_data_is_missed_by_no_client() {
    let drill = Drill::start();
    let mut reloading = drill.server.connect().expect("the server answers");
    drill.command(&["DEBUG", "POPULATE", "20000"]);
    for (name, value) in [
        // Delay for each key in microseconds, which makes 20 s until it is set to 0.
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

/// A server that cannot save its data refuses writes (`MISCONF`).
#[test]
fn server_that_cannot_save_its_data_is_missed_by_no_client() {
    let drill = Drill::start();
    // Not even root can replace a directory by a file.
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
    let drill = Drill::start();
    drill.go(
        |drill| drill.command(&["REPLICAOF", "127.0.0.1", "1"]),
        |drill| drill.command(&["REPLICAOF", "NO", "ONE"]),
    );
}

#[test]
fn server_with_another_password_is_missed_by_no_client() {
    let drill = Drill::start();
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
    let drill = Drill::start();
    drill.go(
        |drill| {
            // The connection of the tests is the one that stays.
            drill.command(&["CONFIG", "SET", "maxclients", "1"]);
            drill.proxy.reset_all();
        },
        |drill| drill.command(&["CONFIG", "SET", "maxclients", "100"]),
    );
}

#[test]
fn replies_in_slices_are_read_as_whole_ones() {
    let drill = Drill::start();
    drill.proxy.set(Fault::Slices);
    let left = remaining(&drill.ask().answer, "p");
    for turn in 1..=20 {
        let reply = drill.ask();
        let seen = (
            reply.answer.status,
            remaining(&reply.answer, "p"),
            reply.is_degraded,
        );
        assert_eq!(seen, (200, left - turn, false));
    }
}
