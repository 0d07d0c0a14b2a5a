//! A Redis that is full and evicts nothing still counts the clients that have keys; new clients get
//! this gateway's share.

use crate::gate::{CLIENT, Gate};
use crate::support::ratelimit::remaining;
use crate::support::redis::{Server, Value};
use crate::support::{Client, Config};

const QUOTA: i64 = 10;
/// Units that a client spends before the server is full.
const EARLIER: i64 = 3;

#[track_caller]
fn gate(server: &Server, policies: &[(&str, &str)]) -> Gate {
    let mut config = Config::to("builtin:echo");
    for (name, partition) in policies {
        let lines = format!("quota = '{QUOTA} per hour'\npartition = ['{partition}']");
        config = config.policy(name, &lines);
    }
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    let url = format!("url = 'redis://{}'\ntimeout = '5s'", server.address());
    Gate::start(config.route("/*", &format!("policies = {names:?}")), &url)
}

/// Sets the server's memory limit below what it uses already.
fn fill(server: &Server) {
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn keys(server: &Server) -> Vec<String> {
    let keys = server.command(&["KEYS", "*"]);
    let mut keys: Vec<String> = keys.list().iter().map(Value::text).collect();
    // Gateways come and go, so their keys are ignored.
    keys.retain(|key| !key.contains("{nodes}"));
    keys.sort_unstable();
    keys
}

#[test]
fn client_with_a_key_goes_on_and_newcomers_have_the_local_share() {
    let redis = Server::start();
    let gate = gate(&redis, &[("p", &format!("header:{CLIENT}"))]);
    gate.wait_until_redis_decides();
    for _ in 0..EARLIER {
        gate.ask_as("alice");
    }
    let before = keys(&redis);
    let full = || gate.metric(&["tollgate_store_out_of_memory_total"]);
    let full_before = full();
    fill(&redis);
    // Strangers in between, so that some calls of a worker have both.
    for left in (0..QUOTA - EARLIER).rev() {
        assert!(gate.ask_as(&format!("stranger-{left}")).is_degraded);
        let reply = gate.ask_as("alice");
        assert!(!reply.is_degraded, "{left} left");
        assert_eq!(
            (reply.answer.status, remaining(&reply.answer, "p")),
            (200, left)
        );
    }
    let reply = gate.ask_as("alice");
    assert_eq!((reply.answer.status, reply.is_degraded), (429, false));
    let bob = || {
        let reply = gate.ask_as("bob");
        assert!(reply.is_degraded);
        reply.admitted()
    };
    let admitted: u64 = (0..2 * QUOTA).map(|_| bob()).sum();
    assert_eq!(admitted, QUOTA.unsigned_abs(), "his share");
    assert_eq!(keys(&redis), before, "no new keys");
    gate.assert_no_breaker_opened();
    let warnings: Vec<String> = ["OOM", "out of memory", "maxmemory"]
        .iter()
        .flat_map(|word| gate.lines_with(word))
        .collect();
    let mut warnings: Vec<&String> = warnings
        .iter()
        .filter(|line| line.contains("WARN"))
        .collect();
    warnings.dedup();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(full() > full_before, "the metric tells");
}

/// A quota with a key is counted in Redis even if another quota of the plan has none.
#[test]
fn client_with_a_key_gains_nothing_by_a_quota_without_one() {
    let redis = Server::start();
    let gate = gate(
        &redis,
        &[("address", "ip"), ("name", &format!("header:{CLIENT}"))],
    );
    gate.wait_until_redis_decides();
    let earlier = QUOTA - remaining(&gate.ask_as("somebody").answer, "address");
    let before = keys(&redis);
    fill(&redis);
    let ask = |number| gate.ask_as(&format!("name-{number}")).admitted();
    let admitted: u64 = (0..2 * QUOTA).map(ask).sum();
    assert_eq!(admitted, (QUOTA - earlier).unsigned_abs());
    assert_eq!(keys(&redis), before, "no new keys");
}

/// A full server ends what strangers may take, and a known client needs nothing of that.
#[test]
fn flood_of_strangers_takes_nothing_from_a_client_with_a_key() {
    let redis = Server::start();
    let gate = gate(&redis, &[("p", &format!("header:{CLIENT}"))]);
    gate.wait_until_redis_decides();
    gate.ask_as("alice");
    let room = redis.figure("memory", "used_memory") + 300_000;
    redis.command(&["CONFIG", "SET", "maxmemory", &room.to_string()]);
    let mut left = QUOTA - 1;
    let mut strangers = Client::connect(gate.process.public);
    for number in 0..3_000 {
        let field = format!("{CLIENT}: stranger-{number}\r\n");
        assert_eq!(strangers.get("/", &field).status, 200);
        if number % 500 == 0 {
            left -= 1;
            let reply = gate.ask_as("alice");
            let seen = (
                reply.answer.status,
                remaining(&reply.answer, "p"),
                reply.is_degraded,
            );
            assert_eq!(seen, (200, left, false), "after {number} strangers");
        }
    }
    assert!(keys(&redis).len() < 3_000, "the server became full");
    gate.assert_no_breaker_opened();
}
