//! A fleet of processes that have their own clocks and numbers, with a faulty network between each of them and one
//! Redis, and an origin that answers as each request tells it.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::Duration;

use super::Watch;
use super::asking::Request;
use super::ledger::{Ledger, Manner, Verdict, counted};
use super::numbers::{FIRST, GATEWAYS, config, draw_policies, routes};
use super::scripted::{Answering, Script};
use crate::support::redis::{Proxy, Server, Value};
use crate::support::{Draws, Metered, PATIENCE, Process, eventually, start_skewed};

/// Number of clients of a fleet.
pub const CLIENTS: usize = 2;
/// How far the gateways' clocks are ahead, in seconds: not at all, a little, and by more than any window in both
/// directions.
const SKEWS: [i64; GATEWAYS] = [0, 13, 8 * 24 * 3_600, -8 * 24 * 3_600];
/// Number of workers of a gateway, each of which has a connection to Redis.
const WORKERS: u64 = 2;

/// Connections of a gateway to Redis: one of each worker, and the admin port's.
pub const CONNECTIONS: u64 = WORKERS + 1;

/// The fleet, its server and its origin, and the ledger of its requests.
pub struct Rig {
    server: Server,
    /// Network between each gateway and Redis.
    pub proxies: Vec<Proxy>,
    gateways: Vec<Option<Process>>,
    /// Public address of each gateway.
    pub addresses: Vec<SocketAddr>,
    pub script: Script,
    pub watch: Watch,
    /// Hash tag of each client's keys.
    tags: Vec<String>,
    ledger: Mutex<Ledger>,
    /// Index of the gateway that has other numbers.
    other: usize,
    skews: [i64; GATEWAYS],
}

impl Rig {
    /// Starts everything; the gateways' clocks and numbers are drawn.
    #[track_caller]
    pub fn start(draws: &mut Draws) -> Self {
        let (policies, other) = draw_policies(draws);
        let mut skews = SKEWS;
        skews.rotate_left(draws.below(GATEWAYS));
        let (server, script) = (Server::start(), Script::start());
        let proxies: Vec<_> = (0..GATEWAYS).map(|_| Proxy::to(server.address())).collect();
        let gateways: Vec<_> = (0..GATEWAYS)
            .map(|gateway| {
                let config = config(&policies, gateway, &proxies[gateway], &script);
                start_skewed(&config, skews[gateway])
            })
            .collect();
        let ledger = Ledger {
            routes: routes(&policies),
            policies,
            asked: Vec::new(),
        };
        let mut rig = Self {
            addresses: gateways.iter().map(|gateway| gateway.public).collect(),
            gateways: gateways.into_iter().map(Some).collect(),
            server,
            proxies,
            script,
            watch: Watch::start(),
            tags: Vec::new(),
            ledger: Mutex::new(ledger),
            other,
            skews,
        };
        (0..GATEWAYS).for_each(|gateway| rig.wait_for_connections(gateway, CONNECTIONS));
        rig.charge_first();
        rig
    }

    /// Charges every key once, so that Redis knows every script, and the test knows every key.
    #[track_caller]
    fn charge_first(&mut self) {
        let gateway = (self.other + 1) % GATEWAYS;
        for client in 0..CLIENTS {
            for route in 0..self.paced_route() {
                let verdict = self.ask(Request {
                    gateway,
                    route,
                    client,
                    answering: Answering::reporting(FIRST),
                });
                assert_eq!(verdict, Verdict::Admitted, "nothing is spent yet");
                if route == 0 {
                    self.note_tag();
                }
            }
        }
    }

    /// Records the hash tag of the client that the first policy has charged last.
    #[track_caller]
    fn note_tag(&mut self) {
        let pattern = format!("tollgate:{{*}}:r*:{}", self.ledger().policies[0].name);
        let keys = self.server.command(&["KEYS", &pattern]);
        let tags = keys.list().iter().map(|key| tag(&key.text()).to_owned());
        let mut new = tags.filter(|tag| !self.tags.contains(tag));
        let tag = new.next().expect("a key of another client");
        self.tags.push(tag);
    }

    /// Returns the indexes of the gateways that run.
    pub fn gateways(&self) -> Vec<usize> {
        let all = self.gateways.iter().enumerate();
        all.filter_map(|(gateway, process)| process.as_ref().map(|_| gateway))
            .collect()
    }

    /// Returns the index of the gateway whose clock is furthest ahead.
    pub fn furthest_ahead(&self) -> usize {
        let all = 0..GATEWAYS;
        all.max_by_key(|gateway| self.skews[*gateway])
            .expect("a gateway")
    }

    /// Describes the gateways' clocks, and which of them has other numbers.
    pub fn cast(&self) -> String {
        let (skews, other) = (self.skews, self.other);
        format!("clocks {skews:?} s ahead, gateway {other} with other numbers")
    }

    /// Takes a gateway out of the fleet, and returns it.
    pub fn take(&mut self, gateway: usize) -> Process {
        self.gateways[gateway].take().expect("it runs")
    }

    /// Ends a gateway by SIGTERM, and checks that it stopped properly.
    #[track_caller]
    pub fn end(mut process: Process) {
        process.signal("TERM");
        assert!(process.wait().success());
        let lines = process.lines();
        let last = lines.last().expect("it says that it stops");
        assert!(last.contains("\"stopped\""), "{last}");
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .expect("no client panics while it writes")
    }

    /// Returns the route whose requests a gateway holds until it is their turn.
    pub fn paced_route(&self) -> usize {
        self.ledger().routes.len() - 1
    }

    /// Draws one of the other routes; with `is_local`, one on which a gateway does not refuse without Redis.
    pub fn draw_route(&self, draws: &mut Draws, is_local: bool) -> usize {
        let ledger = self.ledger();
        let fits = |route: &usize| {
            let mut policies = ledger.routes[*route].iter();
            let is_closed = |policy: &usize| ledger.policies[*policy].manner == Manner::Closed;
            !(is_local && policies.any(is_closed))
        };
        let routes: Vec<_> = (0..ledger.routes.len() - 1).filter(fits).collect();
        routes[draws.below(routes.len())]
    }

    /// Waits until Redis has counted what it must, and records that it has. Returns what differs if it never does.
    pub fn settle(&self) -> Vec<String> {
        let since = self.watch.now();
        let patience = i64::try_from(PATIENCE.as_micros()).expect("seconds");
        loop {
            let differences = self.differences();
            if differences.is_empty() {
                self.ledger().note_settled(self.watch.now());
                return differences;
            }
            if self.watch.now() - since > patience {
                return differences;
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// Compares what Redis has counted for each key with what was admitted.
    #[track_caller]
    pub fn differences(&self) -> Vec<String> {
        let keys = self.server.command(&["KEYS", "tollgate:{*}:r*"]);
        let keys: Vec<String> = keys.list().iter().map(Value::text).collect();
        let ledger = self.ledger();
        let mut differences = Vec::new();
        for (index, policy) in ledger.policies.iter().enumerate() {
            let clients = if policy.is_common { 1 } else { CLIENTS };
            for client in 0..clients {
                let key = keys.iter().find(|key| {
                    let is_of_client = policy.is_common || tag(key) == self.tags[client];
                    is_of_client && key.ends_with(&format!(":{}", policy.name))
                });
                let algorithm = policy.quotas[0].algorithm;
                let found = key.map_or(0, |key| counted(&self.server, key, algorithm));
                let expected = ledger.expected(index, client);
                if found != expected {
                    differences.push(format!(
                        "{} of client {client}: {expected} were admitted, {found} are counted",
                        policy.name
                    ));
                }
            }
        }
        differences
    }

    /// Waits until a gateway has `count` connections to Redis.
    #[track_caller]
    pub fn wait_for_connections(&self, gateway: usize, count: u64) {
        eventually("so many connections to Redis", || {
            let connected = self.number(gateway, "tollgate_store_connections");
            (connected == count).then_some(())
        });
    }

    /// Waits until each worker of a gateway has read all earlier replies of Redis.
    #[track_caller]
    pub fn wait_until_decided(&self, gateway: usize) {
        let late = "tollgate_store_decisions_total{result=\"late\"}";
        let route = self.draw_route(&mut Draws(0), true);
        // The workers mostly get connections in turn.
        for _ in 0..4 * WORKERS {
            eventually("it decides in Redis", || {
                let before = self.number(gateway, late);
                self.ask(Request {
                    gateway,
                    route,
                    client: 0,
                    answering: Answering::reporting(1),
                });
                (self.number(gateway, late) == before).then_some(())
            });
        }
    }

    /// Counts the decisions for which a gateway could not ask Redis.
    pub fn unasked(&self, gateway: usize) -> u64 {
        ["failed", "unsent", "unasked"]
            .map(|result| {
                let name = format!("tollgate_store_decisions_total{{result=\"{result}\"}}");
                self.number(gateway, &name)
            })
            .iter()
            .sum()
    }

    /// Whether a running gateway has given up a connection on which replies were awaited.
    pub fn has_given_up(&self) -> bool {
        let mut running = self.gateways.iter().flatten();
        running.any(|gateway| {
            let lines = gateway.lines();
            lines.iter().any(|line| line.contains("\"no answer\""))
        })
    }

    /// Returns a metric of a gateway.
    #[track_caller]
    pub fn number(&self, gateway: usize, name: &str) -> u64 {
        let process = self.gateways[gateway].as_ref().expect("it runs");
        process.series(name).unwrap_or(0)
    }
}

/// Returns the hash tag of a key.
fn tag(key: &str) -> &str {
    let inside = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    inside.expect("a key with a hash tag").0
}
