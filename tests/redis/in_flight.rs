//! Units in flight that gateways share, as seen by their clients and operators.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use serde_json::{Value, json};

use crate::exactness::{CROWD, Tally, crowd, tally};
use crate::support::fleet::{CLIENT, Fleet};
use crate::support::origin::{After, Gate, Origin};
use crate::support::redis::{Cluster, Server, listed};
use crate::support::{Client, Config, Generations, Process, TOKEN, eventually, get, order};

const ALICE: &str = "X-Api-Key: alice\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn config(url: &str, upstream: impl AsRef<str>, quota: &str) -> Config {
    let policy =
        format!("quota = '{quota}'\npartition = ['header:{CLIENT}']\non_store_failure = 'closed'");
    Config::limited(upstream, &policy).with(&format!(
        "[log]\naccess = 'off'\nformat = 'json'\n[store]\nurl = '{url}'\ntimeout = '10s'"
    ))
}

/// Returns what a gateway reports about Alice's quota.
fn quota(gateway: &Process) -> Value {
    let content = json!({ "policy": "p", "value": "alice" });
    let answer = order(gateway.admin, "get", &content);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["quotas"][0].clone()
}

#[track_caller]
fn wait_for_free(gateway: &Process, units: u64) {
    eventually("the units are free", || {
        (quota(gateway)["remaining"] == units).then_some(())
    });
}

/// Returns the id by which others know a gateway.
fn id(gateway: &Process) -> String {
    let mut client = Client::connect(gateway.admin);
    let store = client
        .ask("GET /api/store HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .json();
    store["gateway"]
        .as_str()
        .expect("it is on Redis")
        .to_owned()
}

/// An origin that records the most requests that it had at once, and answers them when the gate is open.
fn counting(gate: &Gate) -> (Origin, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gate, counted) = (gate.clone(), Arc::clone(&most));
    let origin = Origin::scripted(move |exchange| {
        counted.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        exchange.read_body()?;
        gate.wait();
        thread::yield_now();
        // Before the answer, because the gateway may admit another request as soon as it has the answer.
        now.fetch_sub(1, SeqCst);
        exchange.write(OK)?;
        Ok(After::Keep)
    });
    (origin, most)
}

fn three_gateways_hold_exactly_what_there_is(url: &str) {
    const UNITS: usize = 20;
    let gate = Gate::default();
    let (origin, most) = counting(&gate);
    let config = config(url, origin.url(), &format!("{UNITS} in flight")).admin_token(TOKEN);
    let fleet = Fleet::of(3, &config);
    let [one, ..] = &*fleet.gateways else {
        panic!("there are three");
    };
    let mut askers = crowd(&fleet, &format!("GET / HTTP/1.1\r\nHost: a\r\n{ALICE}\r\n"));
    let tallied = |admitted, held| Tally {
        admitted,
        held,
        refused: CROWD - UNITS,
        ..Tally::default()
    };
    eventually("all but those who hold a unit are refused", || {
        (tally(&mut askers) == tallied(0, UNITS)).then_some(())
    });
    let said = quota(one);
    let holders = said["held_by"].as_array().expect("a list");
    let units: Option<u64> = holders.iter().map(|one| one["units"].as_u64()).sum();
    assert_eq!((units, &said["remaining"]), (Some(20), &json!(0)), "{said}");
    let known: HashSet<String> = fleet.gateways.iter().map(id).collect();
    assert_eq!(known.len(), 3);
    for holder in holders {
        let id = holder["gateway"].as_str().expect("a number");
        assert!(known.contains(id), "{said}");
        assert_eq!(holder["this"], *id == self::id(one), "{said}");
    }
    gate.open();
    eventually("who held a unit is answered", || {
        (tally(&mut askers) == tallied(UNITS, 0)).then_some(())
    });
    wait_for_free(one, 20);
    assert_eq!(quota(one)["held_by"], json!([]));

    // The same while units come back and are taken again.
    let gateways = fleet.addresses();
    let admitted: usize = thread::scope(|scope| {
        let ask = |number: usize| {
            let mut client = Client::connect(gateways[number % gateways.len()]);
            let answers = (0..20).map(|_| client.get("/", ALICE).status);
            answers.filter(|status| *status == 200).count()
        };
        let clients: Vec<_> = (0..60)
            .map(|number| scope.spawn(move || ask(number)))
            .collect();
        let admitted = clients
            .into_iter()
            .map(|client| client.join().expect("answers"));
        admitted.sum()
    });
    let most = most.load(SeqCst);
    assert!(most <= UNITS, "{most} at once");
    assert!(admitted >= UNITS, "{admitted} admitted");
    wait_for_free(one, 20);
}

#[test]
fn three_gateways_hold_exactly_what_there_is_on_one_redis() {
    let server = Server::start();
    three_gateways_hold_exactly_what_there_is(&format!("redis://{}", server.address()));
}

#[test]
fn three_gateways_hold_exactly_what_there_is_on_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let url = format!("redis+cluster://{}", listed(&cluster.addresses()));
    three_gateways_hold_exactly_what_there_is(&url);
}

/// The new process counts as another gateway; the units of the old one's requests count until these end.
#[test]
fn a_hand_over_counts_what_both_processes_hold() {
    let (server, gate) = (Server::start(), Gate::default());
    let (origin, _) = counting(&gate);
    let url = format!("redis://{}", server.address());
    let generations = Generations::start(&config(&url, origin.url(), "2 in flight"));
    let gateway = &generations.first;
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{ALICE}\r\n");
    let mut before = Client::connect(gateway.public);
    before.send(&request);
    origin.wait_for_requests(1);
    generations.upgraded();
    let mut after = Client::connect(gateway.public);
    after.send(&request);
    origin.wait_for_requests(2);
    assert_eq!(get(gateway.public, "/", ALICE).status, 429);
    let held_by = quota(gateway)["held_by"].clone();
    let mut this: Vec<bool> = (held_by.as_array().expect("a list").iter())
        .map(|one| one["this"] == true)
        .collect();
    this.sort_unstable();
    assert_eq!(this, [false, true], "{held_by}");
    gate.open();
    for client in [&mut before, &mut after] {
        assert_eq!(client.answer().status, 200);
    }
    wait_for_free(gateway, 2);
}

/// A gateway that ends announces that it holds nothing more.
#[test]
fn a_gateway_that_ends_leaves_nothing_held() {
    let (server, gate) = (Server::start(), Gate::default());
    let (origin, _) = counting(&gate);
    let url = format!("redis://{}", server.address());
    let mut fleet = Fleet::of(
        2,
        &config(&url, origin.url(), "2 in flight").admin_token(TOKEN),
    );
    let mut ended = fleet.gateways.remove(0);
    let mut client = Client::connect(ended.public);
    let fields = format!("{ALICE}Connection: close\r\n");
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    origin.wait_for_requests(1);
    wait_for_free(&fleet.gateways[0], 1);
    ended.signal("TERM");
    gate.open();
    assert_eq!(client.answer().status, 200);
    assert!(ended.wait().success());
    assert_eq!(quota(&fleet.gateways[0])["remaining"], 2);
}
