//! Limits hold over real sockets: exactly as many units are admitted as the quota allows.

use std::net::SocketAddr;

use tollgate::clock::Micros;

use crate::support::client::statuses;
use crate::support::gateway::start_at;
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Origin, START, get, secs, start};

/// Sends `count` requests, each on a connection of its own and all before the first answer is
/// read, and returns how many were admitted; the others must be 429.
fn burst(address: SocketAddr, count: usize) -> usize {
    let mut clients: Vec<_> = (0..count).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    let statuses = clients.iter_mut().map(|client| client.answer().status);
    let statuses: Vec<_> = statuses.collect();
    assert!(
        statuses.iter().all(|x| matches!(x, 200 | 429)),
        "{statuses:?}"
    );
    statuses.iter().filter(|x| **x == 200).count()
}

/// Sends requests until one is refused and returns how many were admitted.
fn admitted(address: SocketAddr) -> usize {
    let mut client = Client::connect(address);
    let asked = (0..1000).take_while(|_| client.get("/", "").status == 200);
    asked.count()
}

#[test]
fn a_thousand_keys_at_once_do_not_share_a_quota() {
    let config = Config::limited(
        "builtin:echo",
        "quota = '2 per minute'\npartition = ['header:x-api-key']",
    );
    let running = start(&config);
    let address = running.public;
    std::thread::scope(|scope| {
        for client in 0..10 {
            scope.spawn(move || {
                let mut connection = Client::connect(address);
                for key in 0..100 {
                    let field = format!("X-Api-Key: key-{client}-{key}\r\n");
                    let statuses = [(); 3].map(|()| connection.get("/", &field).status);
                    assert_eq!(statuses, [200, 200, 429], "{field}");
                }
            });
        }
    });
}

#[test]
fn leaky_bucket_departures_are_spaced_and_never_early() {
    let origin = Origin::plain();
    let policy = "quota = '25 per s'\nalgorithm = 'leaky-bucket'\nqueue = 9";
    let running = start(&Config::limited(origin.url(), policy));
    let began = origin.now();
    assert_eq!(burst(running.public, 15), 10);
    let requests = origin.requests();
    assert_eq!(requests.len(), 10);
    for (place, request) in (0..).zip(&requests) {
        // One request leaves every 40 ms; the manual clock stands still, so the due times are exact.
        let due = began + Micros(place * 40_000);
        assert!(request.at >= due, "departure {place} was early");
    }
}

#[test]
fn quotas_return_when_their_algorithm_says() {
    // A quota of 10 per minute is spent at once, three seconds into a bucket of six seconds.
    for (policy, later) in [
        ("buckets = 10", &[(56, 0), (4, 5), (3, 5)][..]),
        ("buckets = 1", &[(57, 0), (6, 1), (57, 10)]),
        ("oldest_bucket = 'whole'", &[(60, 0), (2, 0), (1, 10)]),
        ("oldest_bucket = 'dropped'", &[(56, 0), (1, 10)]),
        ("algorithm = 'gcra'", &[(5, 0), (1, 1), (18, 3)]),
        ("algorithm = 'gcra'\nburst = 3", &[(5, 0), (1, 1), (60, 3)]),
        ("algorithm = 'fixed-window'", &[(56, 0), (1, 10)]),
        ("algorithm = 'sliding-log'", &[(59, 0), (1, 10)]),
        (
            "algorithm = 'sliding-log'\ncount = 'all'",
            &[(59, 0), (1, 9)],
        ),
    ] {
        let config = Config::limited(
            "builtin:echo",
            &format!("quota = '10 per minute'\n{policy}"),
        );
        let running = start_at(&config, START + secs(3));
        let first = if policy.contains("burst") { 3 } else { 10 };
        assert_eq!(admitted(running.public), first, "{policy}");
        for (step, &(wait, expected)) in later.iter().enumerate() {
            running.clock.advance(secs(wait));
            assert_eq!(admitted(running.public), expected, "{policy}, step {step}");
        }
    }
}

#[test]
fn a_shadow_leaky_bucket_holds_nobody() {
    let policy = "quota = '1 per minute'\nalgorithm = 'leaky-bucket'\nqueue = 5\nmode = 'shadow'";
    let running = start(&Config::limited("builtin:echo", policy));
    // If the second request were held, it would take a minute, and the test would fail.
    assert_eq!(statuses(running.public, "/", 3), [200, 200, 200]);
}

#[test]
fn a_full_house_of_held_requests_is_a_503_that_gives_its_charge_back() {
    let origin = Origin::plain();
    let config = Config::limited(
        origin.url(),
        "quota = '1 per 1s'\nalgorithm = 'leaky-bucket'\nqueue = 3\npartition = []",
    );
    // One worker, because two might decide the requests in one order and take the place of a held one in the other.
    let running = start(&config.listener("max_delayed = 1").one_worker());
    assert_eq!(get(running.public, "/", "").status, 200);
    // Two requests would be held, and there is a place for one: whichever comes second is refused.
    let mut clients = [(); 2].map(|()| Client::connect(running.public));
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    let answers = clients.each_mut().map(Client::answer);
    let mut seen: Vec<_> = answers.iter().map(|x| x.status).collect();
    seen.sort_unstable();
    assert_eq!(seen, [200, 503]);
    let refused = answers.iter().find(|x| x.status == 503);
    let refused = refused.expect("one of them");
    assert_eq!(refused.json()["status"], 503);
    assert_eq!(remaining(refused, "p"), 2);
    // The clock stands still: two of the four places are taken, and the third charge was refunded.
    let look = get(running.public, "/", "");
    assert_eq!((look.status, remaining(&look, "p")), (200, 1));
}

#[test]
fn held_and_refused_requests_of_other_clients_do_not_wait() {
    let config = Config::limited(
        "builtin:echo",
        "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 5\n\
         partition = ['header:x-api-key']",
    );
    let running = start(&config.one_worker());
    let mut held = Client::connect(running.public);
    assert_eq!(held.get("/", "X-Api-Key: slow\r\n").status, 200);
    held.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: slow\r\n\r\n");
    for other in 0..20 {
        let key = format!("X-Api-Key: other-{other}\r\n");
        assert_eq!(get(running.public, "/", &key).status, 200);
    }
    assert!(held.is_silent(), "it is held for an hour");
}
