//! A primary, two replicas, and three sentinels that watch them.

use std::net::SocketAddr;

use super::server::{HARNESS, Server};
use super::wait_for;

/// How long a server must be silent until a sentinel calls it dead.
const DOWN_AFTER_MS: u32 = 1_000;

/// Debug settings: how often a sentinel polls servers and publishes what it knows. By default it does so every 10 and 2
/// s, and waits four times the latter before it makes an old primary a replica.
const PERIODS_MS: [&str; 4] = ["info-period", "500", "publish-period", "200"];

/// Three servers under three sentinels; all are killed when it is dropped.
#[derive(Debug)]
pub struct Sentinels {
    /// The Redis servers; the first began as the primary.
    pub servers: Vec<Server>,
    /// The sentinels that watch the servers.
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// Name of the primary in the sentinels' configuration.
    pub const NAME: &str = "main";

    /// Starts the servers and sentinels, and waits until every sentinel knows all the others.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// Starts them with these lines of configuration in every server, and these in every sentinel.
    #[track_caller]
    pub fn start_with(lines: &[&str], sentinel_lines: &[&str]) -> Self {
        let primary = Server::start_with(lines);
        let port = primary.port();
        let replica_of = format!("replicaof 127.0.0.1 {port}");
        let mut replica_lines = vec![replica_of.as_str()];
        replica_lines.extend(lines);
        let replica = || Server::start_with(&replica_lines);
        let servers = vec![primary, replica(), replica()];
        for replica in &servers[1..] {
            wait_for("the replica is in step", || {
                replica.is_in_step().then_some(())
            });
        }
        let name = Self::NAME;
        let watched = [
            format!("sentinel monitor {name} 127.0.0.1 {port} 2"),
            format!("sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}"),
            format!("sentinel failover-timeout {name} 5000"),
            format!("sentinel auth-user {name} {}", HARNESS.0),
            format!("sentinel auth-pass {name} {}", HARNESS.1),
        ];
        let mut lines: Vec<&str> = watched.iter().map(String::as_str).collect();
        lines.extend(sentinel_lines);
        let sentinels: Vec<_> = (0..3).map(|_| Server::start_sentinel(&lines)).collect();
        for sentinel in &sentinels {
            sentinel.command(&[&["SENTINEL", "DEBUG"], &PERIODS_MS[..]].concat());
        }
        let group = Self { servers, sentinels };
        group.wait_until_whole();
        group
    }

    /// Waits until every sentinel knows both replicas and both other sentinels.
    #[track_caller]
    fn wait_until_whole(&self) {
        wait_for("the sentinels know everybody", || {
            let knows = |sentinel: &Server| {
                let facts = sentinel.command(&["SENTINEL", "MASTER", Self::NAME]);
                ["num-slaves", "num-other-sentinels"].map(|name| facts.named(name).text())
                    == ["2", "2"]
            };
            self.sentinels.iter().all(knows).then_some(())
        });
    }

    /// Returns the addresses of the sentinels.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// Returns the primary that the sentinels agree on; `None` while they disagree.
    pub fn primary(&self) -> Option<&Server> {
        let named = |sentinel: &Server| {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME];
            let address = sentinel.ask(&words).ok()?;
            Some(address.list()[1].integer())
        };
        let running = self.sentinels.iter().filter(|node| node.is_running());
        let mut ports: Vec<_> = running.map(named).collect();
        ports.dedup();
        let [Some(port)] = ports[..] else { return None };
        let mut servers = self.servers.iter();
        servers.find(|server| i64::from(server.port()) == port)
    }

    /// Has the sentinels promote another server, and waits until all of them name it, it is a
    /// primary, and the old one, if it runs, is a replica. Returns the new primary.
    #[track_caller]
    pub fn fail_over(&self) -> &Server {
        let old = wait_for("the sentinels agree", || self.primary());
        wait_for("a sentinel begins", || {
            // The answer is "NOGOODSLAVE" until the sentinel has heard of the replicas' state.
            let answer = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", Self::NAME]);
            answer.ok()?.error().is_none().then_some(())
        });
        let new = self.wait_for_another_than(old);
        if old.is_running() {
            wait_for("the old primary gives way", || {
                (old.role() == "slave").then_some(())
            });
        }
        new
    }

    /// Waits until the sentinels agree on a primary other than `old` that serves as one, and returns it.
    #[track_caller]
    pub fn wait_for_another_than(&self, old: &Server) -> &Server {
        wait_for("the sentinels report another primary", || {
            let new = self.primary()?;
            (new.port() != old.port() && new.role() == "master").then_some(new)
        })
    }

    /// Keeps the current primary: a sentinel calls it dead only after an hour, so never because the machine is busy.
    #[track_caller]
    pub fn keep_primary(&self) {
        for sentinel in &self.sentinels {
            let set = ["SENTINEL", "SET", Self::NAME];
            let answer =
                sentinel.command(&[&set[..], &["down-after-milliseconds", "3600000"]].concat());
            assert_eq!(answer.text(), "OK");
        }
    }
}

impl Server {
    /// Returns the current role: `master`, `slave` or `sentinel`.
    #[track_caller]
    pub fn role(&self) -> String {
        self.command(&["ROLE"]).list()[0].text()
    }

    /// Whether this is a replica that has all of its primary's data and is linked to it.
    #[track_caller]
    pub fn is_in_step(&self) -> bool {
        let role = self.command(&["ROLE"]);
        let role = role.list();
        role[0].text() == "slave" && role[3].text() == "connected"
    }
}
