//! An endpoint that hides its shards refuses calls over several slots, so each partition then has a call of its own.

use std::thread;

use crate::gate::{CLIENT, Gate};
use crate::support::redis::Cluster;
use crate::support::{Client, Config, eventually};

const QUOTA: usize = 40;
/// Number of clients that send requests at the same time, so that their plans would share calls.
const CLIENTS: usize = 8;
/// Number of requests that each client sends on each route.
const TURNS: usize = 20;

/// The endpoint is a node that has all slots and is used as if it were no Cluster.
#[test]
fn plans_are_exact_where_one_endpoint_hides_shards() {
    let cluster = Cluster::start(1, 0);
    let large = format!("quota = '100000 per hour'\npartition = ['header:{CLIENT}']");
    let open = "on_store_failure = 'open'";
    let config = Config::to("builtin:echo")
        .one_worker()
        .policy(
            "all",
            &format!("quota = '{QUOTA} per hour'\npartition = []\n{open}"),
        )
        .policy("each", &format!("{large}\n{open}"))
        .route("/one", "policies = ['each']")
        .route("/both", "policies = ['all', 'each']");
    let url = format!(
        "url = 'redis://{}'\ntimeout = '5s'",
        cluster.nodes[0].address()
    );
    let gate = Gate::start(config, &url);
    let ask = |client: &mut Client, route: &str, name: usize| {
        let answer = client.get(route, &format!("{CLIENT}: name-{name}\r\n"));
        // While Redis is away, an open policy reports no quota.
        (answer.status == 200, answer.field("ratelimit").is_some())
    };
    let mut first = Client::connect(gate.process.public);
    eventually("Redis decides", || {
        ask(&mut first, "/both", CLIENTS).1.then_some(())
    });
    // A single client's plans could not share a call, but these can.
    let admitted: usize = thread::scope(|scope| {
        let start = |name| {
            let mut client = Client::connect(gate.process.public);
            scope.spawn(move || {
                let mut admitted = 0;
                for _ in 0..TURNS {
                    assert_eq!(ask(&mut client, "/one", name), (true, true));
                    let (is_admitted, is_decided) = ask(&mut client, "/both", name);
                    assert!(is_decided, "a plan of two partitions");
                    admitted += usize::from(is_admitted);
                }
                admitted
            })
        };
        let running: Vec<_> = (0..CLIENTS).map(start).collect();
        let ends = running
            .into_iter()
            .map(|end| end.join().expect("no client panics"));
        ends.sum()
    });
    assert_eq!(admitted, QUOTA - 1, "beside the first");
    gate.assert_no_breaker_opened();
    let lines: Vec<String> = ["slot", "SLOT"]
        .iter()
        .flat_map(|x| gate.lines_with(x))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
}
