//! Units that one gateway may admit by itself: its share, once per window, however often Redis fails.

use crate::gate::{CLIENT, Gate};
use crate::support::redis::Server;
use crate::support::{Config, eventually};

const QUOTA: u64 = 5;
/// How many times Redis fails and comes back.
const OUTAGES: usize = 4;

/// A gateway on that server, with a breaker that opens soon and soon tries Redis again.
#[track_caller]
fn gate(server: &Server, store: &str) -> Gate {
    let quota = format!("quota = '{QUOTA} per hour'\npartition = ['header:{CLIENT}']");
    let config = Config::to("builtin:echo").policy("p", &quota);
    let store = format!(
        "url = 'redis://{}'\nrefusal_cache = '0s'\ntimeout = '100ms'\n\
         breaker = {{ failures = 2, cooldown = '100ms' }}\n{store}",
        server.address()
    );
    Gate::start(config.route("/*", "policies = ['p']"), &store)
}

/// Sends requests of that client until it is refused, with Redis or without it; returns how many were admitted.
#[track_caller]
fn spend(gate: &Gate, client: &str, without_redis: bool) -> u64 {
    let mut admitted = 0;
    eventually("the client is refused", || {
        let reply = gate.ask_as(client);
        admitted += reply.admitted();
        (reply.answer.status == 429 && reply.is_degraded == without_redis).then_some(())
    });
    admitted
}

#[test]
fn share_is_granted_once_however_often_redis_stops() {
    let redis = Server::start();
    let gate = gate(&redis, "");
    let mut admitted = spend(&gate, "alice", false);
    for _ in 0..OUTAGES {
        redis.stop();
        admitted += spend(&gate, "alice", true);
        redis.resume();
        admitted += spend(&gate, "alice", false);
    }
    assert!(admitted > QUOTA, "a share is granted");
    assert!(admitted <= 2 * QUOTA, "{admitted} admitted of {QUOTA}");
}

/// Strangers meet a full server, which would open a breaker if it counted as a failure.
#[test]
fn share_is_granted_once_however_often_strangers_fill_redis() {
    let redis = Server::start();
    let gate = gate(&redis, "");
    gate.wait_until_redis_decides();
    let mut admitted = 0;
    for outage in 0..OUTAGES {
        redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
        for stranger in 0..5 {
            gate.ask_as(&format!("stranger {outage} {stranger}"));
        }
        admitted += (0..=QUOTA)
            .map(|_| gate.ask_as("alice").admitted())
            .sum::<u64>();
        redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
        gate.wait_until_redis_decides();
        admitted += spend(&gate, "alice", false);
    }
    assert_eq!(admitted, 2 * QUOTA, "the share once, and the quota once");
}

#[test]
fn gateway_that_starts_during_an_outage_admits_what_the_smallest_fleet_leaves_it() {
    let redis = Server::start();
    redis.kill();
    let gate = gate(&redis, "min_nodes = 5");
    let statuses = [0; 3].map(|_| gate.ask_as("alice").answer.status);
    assert_eq!(statuses, [200, 429, 429]);
}
