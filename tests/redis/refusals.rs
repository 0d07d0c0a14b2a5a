//! Refusals need no Redis: a client that is refused for one quota costs Redis about one call a
//! second, whatever else its requests contain.

use std::time::{Duration, Instant};

use tollgate::limit::{Algorithm, Check, Count, OldestBucket, Quota, Retry};
use tollgate::store::SeriesRole;

use crate::gate::{CLIENT, Gate, calls};
use crate::settling::{comes_about, leave};
use crate::store_redis::{Bench, ONE, TEN, check, decide, quota, run};
use crate::support::redis::{Cluster, Server, listed};
use crate::support::{Client, Config};

/// Number of requests from a client that is over its quota.
const FLOOD: usize = 500;

/// Starts a gateway that limits each address to one request, and each name to many.
#[track_caller]
fn gate(url: &str) -> Gate {
    let config = Config::to("builtin:echo")
        .policy("address", "quota = '1 per hour'\npartition = ['ip']")
        .policy(
            "name",
            &format!("quota = '100 per hour'\npartition = ['header:{CLIENT}']"),
        )
        .route("/*", "policies = ['address', 'name']");
    Gate::start(config, &format!("url = '{url}'\ntimeout = '5s'"))
}

/// Returns the most calls in that time if each decision takes `calls_each`: one decision a second, the first one, one
/// that was under way, and announcements every 5 s.
fn calls_max(took: Duration, calls_each: u64) -> u64 {
    let seconds = took.as_secs();
    (2 + seconds) * calls_each + 1 + seconds / 5
}

#[track_caller]
fn flood(gate: &Gate, servers: &[Server], calls_each: u64) {
    gate.wait_until_redis_decides();
    let all = || servers.iter().map(calls).sum::<u64>();
    let (before, began) = (all(), Instant::now());
    let mut client = Client::connect(gate.process.public);
    for number in 0..FLOOD {
        let answer = client.get("/", &format!("{CLIENT}: name-{number}\r\n"));
        assert_eq!(answer.status, 429);
    }
    let (asked, most) = (all() - before, calls_max(began.elapsed(), calls_each));
    assert!(asked <= most, "{asked} calls of {FLOOD}, at most {most}");
    let places = gate.metric(&["tollgate_store_refusals"]);
    assert_eq!(places, 1, "places that one client's refusals take");
}

#[test]
fn refused_address_that_varies_its_name_costs_redis_a_call_a_second() {
    let server = Server::start();
    let gate = gate(&format!("redis://{}", server.address()));
    flood(&gate, &[server], 1);
}

#[test]
fn refused_address_that_varies_its_name_costs_a_cluster_a_call_a_second() {
    let cluster = Cluster::start(3, 0);
    let nodes = listed(&cluster.addresses());
    let gate = gate(&format!("redis+cluster://{nodes}"));
    // A decision peeks at both partitions.
    flood(&gate, &cluster.nodes, 2);
}

#[test]
fn costs_that_fall_from_request_to_request_cost_redis_one_call() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let sliding = |buckets| Algorithm::SlidingWindow {
            buckets,
            oldest: OldestBucket::Weighted,
        };
        for algorithm in [
            Algorithm::FixedWindow,
            sliding(10),
            sliding(100),
            Algorithm::Gcra { burst: 500 },
            Algorithm::SlidingLog,
        ] {
            let quota = Quota {
                algorithm,
                ..quota(500, Count::Admitted)
            };
            let series_id = bench.series(SeriesRole::Real, &quota);
            let asks = |cost| Check {
                cost,
                ..check(&quota, series_id, 1)
            };
            assert!(decide(&session, &[asks(500)]).await.0.admit);
            let before = calls(&server);
            for cost in (1..=500).rev() {
                let (verdict, _, is_degraded) = decide(&session, &[asks(cost)]).await;
                assert!(!verdict.admit && !is_degraded);
            }
            assert_eq!(calls(&server) - before, 1, "{algorithm:?}");
        }
    });
}

#[test]
fn client_that_leaves_before_its_refusal_does_not_keep_it_from_being_remembered() {
    let (server, bench) = Bench::start();
    run(async {
        let session = bench.store.session();
        let plan = [check(&ONE, 0, 1), check(&TEN, 1, 1)];
        assert!(decide(&session, &plan).await.0.admit);
        server.stop();
        leave(Box::pin(session.decide(&plan))).await;
        server.resume();
        let is_remembered = || bench.redis().refusals_remembered > 0;
        comes_about("never remembered", is_remembered).await;
        let (verdict, _, is_degraded) = decide(&session, &plan).await;
        assert!(!verdict.admit && !is_degraded);
        assert_eq!(verdict.retry, Retry::After(ONE.window));
        let remaining = (verdict.answers.iter()).map(|iter| Some(iter.decision?.remaining));
        assert_eq!(remaining.collect::<Vec<_>>(), [Some(0), None]);
        assert_eq!(bench.redis().remembered, 1);
    });
}
