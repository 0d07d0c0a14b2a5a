//! Which endpoint gets a request, as the origins count them: by turns, by fewest requests, or by a hash.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::support::{Client, Config, Fleet, Manner, Replica, balanced, eventually, secs, start};

/// Sends requests over several connections in turn, and returns the name of the replica that answered each.
fn answered(address: SocketAddr, connections: usize, requests: usize) -> Vec<String> {
    let clients = (0..connections).map(|_| Client::connect(address));
    let mut clients: Vec<_> = clients.collect();
    let answers = (0..requests).map(|index| clients[index % connections].get("/", ""));
    answers.map(|answer| answer.text()).collect()
}

/// Counts how many times each name occurs.
fn counts<'n>(names: impl IntoIterator<Item = &'n String>) -> BTreeMap<&'n str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

fn names(replicas: &[Replica]) -> impl Iterator<Item = &str> {
    replicas.iter().map(|replica| replica.name.as_str())
}

/// Fails unless each replica's share of the requests is within `within` percent of the share by its weight.
#[track_caller]
fn assert_shares(answered: &[String], replicas: &[Replica], weights: &[u32], within: usize) {
    let counts = counts(answered);
    let sum: u32 = weights.iter().sum();
    for (name, weight) in names(replicas).zip(weights) {
        let expected = answered.len() * *weight as usize / sum as usize;
        let found = counts.get(name).copied().unwrap_or_default();
        let is_close = found.abs_diff(expected) * 100 <= expected * within;
        assert!(
            is_close,
            "{name}: {found} instead of {expected} of {weights:?}"
        );
    }
}

const ROUND_ROBIN: [&[u32]; 5] = [&[1], &[1, 5], &[1, 1, 1], &[3, 2, 1], &[5, 1, 1]];

#[test]
fn endpoints_take_turns_by_weight_over_all_workers() {
    for weights in ROUND_ROBIN {
        let replicas = Replica::several(weights.len());
        let running = start(&balanced(&replicas, weights, ""));
        let answered = answered(running.public, 16, 2_000);
        assert_shares(&answered, &replicas, weights, 5);
    }
}

#[test]
fn turns_are_smooth_so_that_no_endpoint_gets_all_of_its_requests_in_a_row() {
    for (weights, run_max) in ROUND_ROBIN.into_iter().zip([100, 5, 1, 2, 4]) {
        let replicas = Replica::several(weights.len());
        let running = start(&balanced(&replicas, weights, "").one_worker());
        let answered = answered(running.public, 2, 100);
        // In any window as long as a round, each endpoint has its share of requests, give or take one.
        let sum: u32 = weights.iter().sum();
        for round in answered.windows(sum as usize) {
            for (name, weight) in names(&replicas).zip(weights) {
                let found = counts(round).get(name).copied().unwrap_or_default();
                let distance = found.abs_diff(*weight as usize);
                assert!(distance <= 1, "{weights:?}: {round:?}");
            }
        }
        let runs = answered.chunk_by(|a, b| a == b);
        let longest = runs.map(<[_]>::len).max();
        assert!(longest <= Some(run_max), "{weights:?}: {answered:?}");
    }
}

/// Sends a request on a connection of its own, and waits until it is answered or held.
fn send(address: SocketAddr, replicas: &[Replica]) -> Client {
    let holding = || replicas.iter().map(Replica::holding).sum::<usize>();
    let before = holding();
    let mut client = Client::asking(address, "/", "");
    eventually("a request arrives", || {
        (holding() > before || !client.is_silent()).then_some(())
    });
    client
}

#[test]
fn endpoint_that_is_slow_gets_fewer_requests() {
    let replicas = Replica::several(3);
    replicas[0].behave(Manner::Holds);
    let running = start(&balanced(&replicas, &[1], "balance = 'least-requests'"));
    let clients: Vec<_> = (0..60).map(|_| send(running.public, &replicas)).collect();
    assert!(replicas[0].requests() <= 10, "{}", replicas[0].requests());
    replicas[0].behave(Manner::Answers);
    for mut client in clients {
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn endpoints_that_are_equally_busy_get_equally_many_requests() {
    for weights in [&[1, 1][..], &[1, 1, 1]] {
        let replicas = Replica::several(weights.len());
        let running = start(&balanced(&replicas, weights, "balance = 'least-requests'"));
        let answered = answered(running.public, 8, 1_200);
        assert_shares(&answered, &replicas, weights, 25);
    }
}

#[test]
fn endpoints_have_as_many_requests_at_once_as_their_weights_say() {
    let replicas = Replica::several(2);
    for replica in &replicas {
        replica.behave(Manner::Holds);
    }
    let running = start(&balanced(&replicas, &[3, 1], "balance = 'least-requests'"));
    let clients: Vec<_> = (0..40).map(|_| send(running.public, &replicas)).collect();
    let holding: Vec<_> = replicas.iter().map(Replica::holding).collect();
    assert!(holding[0].abs_diff(30) <= 2, "{holding:?}");
    for replica in &replicas {
        replica.behave(Manner::Answers);
    }
    for mut client in clients {
        assert_eq!(client.answer().status, 200);
    }
}

const BY_KEY: &str = "balance = 'hash'\nhash_by = ['header:x-api-key']";
const KEYS: usize = 60;

/// Returns the name of the replica that answers each key; each request has a connection of its own.
#[track_caller]
fn by_key(address: SocketAddr, keys: usize) -> Vec<String> {
    let answered = (0..keys).map(|key| {
        let field = format!("X-Api-Key: client-{key}\r\n");
        let answer = Client::connect(address).get("/", &field);
        assert_eq!(answer.status, 200);
        answer.text()
    });
    answered.collect()
}

#[test]
fn key_goes_to_the_same_endpoint_on_every_worker_of_every_gateway() {
    let replicas = Replica::several(3);
    let fleet = Fleet::of(2, &balanced(&replicas, &[1], BY_KEY));
    let first = by_key(fleet.gateways[0].public, KEYS);
    for address in fleet.addresses().repeat(2) {
        assert_eq!(by_key(address, KEYS), first);
    }
    assert_eq!(counts(&first).len(), 3, "{first:?}");
}

#[test]
fn keys_of_an_endpoint_that_dies_move_and_no_others_and_come_back_with_it() {
    let mut replicas = Replica::several(3);
    let running = start(&balanced(&replicas, &[1], BY_KEY));
    let before = by_key(running.public, KEYS);
    replicas[1].kill();
    let meanwhile = by_key(running.public, KEYS);
    let stayed = before.iter().zip(&meanwhile).filter(|(old, _)| *old != "b");
    assert_eq!(stayed.clone().filter(|(old, new)| old != new).count(), 0);
    let moved = before.iter().zip(&meanwhile).filter(|(old, _)| *old == "b");
    let heirs = counts(moved.map(|(_, new)| new));
    assert_eq!(heirs.into_keys().collect::<Vec<_>>(), ["a", "c"]);
    replicas[1].revive();
    running.clock.advance(secs(11));
    eventually("its keys are back", || {
        (by_key(running.public, KEYS) == before).then_some(())
    });
}

#[test]
fn keys_move_to_an_endpoint_that_a_reload_adds_and_nowhere_else() {
    let replicas = Replica::several(4);
    let mut running = start(&balanced(&replicas[..3], &[1], BY_KEY));
    let before = by_key(running.public, 200);
    reload(&mut running, &balanced(&replicas, &[1], BY_KEY));
    let after = by_key(running.public, 200);
    let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
    let places = counts(moved.map(|(_, new)| new));
    assert_eq!(places.keys().collect::<Vec<_>>(), [&"d"], "{places:?}");
    // A quarter of 200 keys on average, with a standard deviation of 6.
    assert!(places["d"] <= 50 + 40, "{places:?}");
}

#[test]
fn requests_without_the_key_are_spread_and_weights_hold_for_keys() {
    let replicas = Replica::several(3);
    let running = start(&balanced(&replicas, &[1], BY_KEY));
    let keyless = answered(running.public, 8, KEYS);
    let counts = counts(&keyless);
    assert!(
        names(&replicas).all(|name| counts.get(name) >= Some(&5)),
        "{counts:?}"
    );

    let running = start(&balanced(&replicas[..2], &[3, 1], BY_KEY));
    assert_shares(&by_key(running.public, 400), &replicas[..2], &[3, 1], 50);
}

#[track_caller]
fn reload(running: &mut crate::support::Running, config: &Config) {
    let text = config.text();
    if let Err(report) = running.gateway.reload(&text) {
        panic!("{}", report.render("test", &text, false));
    }
}

#[test]
fn reload_changes_weights_and_an_endpoint_that_left_finishes_what_it_has() {
    let replicas = Replica::several(3);
    let mut running = start(&balanced(&replicas[..2], &[1], ""));
    for replica in &replicas[..2] {
        replica.behave(Manner::Holds);
    }
    let held: Vec<_> = (0..4).map(|_| send(running.public, &replicas)).collect();
    assert_eq!(replicas[0].holding(), 2);
    reload(&mut running, &balanced(&replicas[1..], &[1, 3], ""));
    for replica in &replicas[..2] {
        replica.behave(Manner::Answers);
    }
    let finished: Vec<_> = held
        .into_iter()
        .map(|mut client| client.answer().text())
        .collect();
    assert_eq!(counts(&finished), [("a", 2), ("b", 2)].into());
    let answered = answered(running.public, 8, 400);
    assert_shares(&answered, &replicas[1..], &[1, 3], 5);
    assert_eq!(replicas[0].requests(), 2);
}
