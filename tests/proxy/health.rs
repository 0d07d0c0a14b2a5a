//! Endpoints whose checks fail several times in a row get no requests until enough checks in a row succeed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tollgate::clock::Micros;

use crate::support::ratelimit::remaining;
use crate::support::{
    Client, Config, Flow, Manner, Metered, Replica, Running, balanced, eventually, get, secs, start,
};
use crate::upstream::tls::origin::{Server, serve};
use crate::upstream_faults::TLS_FILES;

/// A file with ten checks a second, by a gateway's clock that runs about as fast as the machine's (see `flowing`).
fn checked(replicas: &[Replica], health: &str) -> Config {
    let lines = format!(
        "retries = 0\nhealth = {{ path = '/health?deep=1', interval = '100ms', timeout = '10s'{health} }}"
    );
    balanced(replicas, &[1], &lines)
}

fn flowing(config: &Config) -> (Running, Flow) {
    let running = start(config);
    let flow = Flow::of(&running.clock, Micros(20_000));
    (running, flow)
}

/// Returns whether each replica gets requests.
fn used(running: &Running, replicas: &[Replica]) -> Vec<bool> {
    let before: Vec<_> = replicas.iter().map(Replica::requests).collect();
    let mut client = Client::connect(running.public);
    for _ in 0..4 * replicas.len() {
        assert_eq!(client.get("/", "").status, 200);
    }
    let after = replicas.iter().map(Replica::requests);
    after
        .zip(before)
        .map(|(after, before)| after > before)
        .collect()
}

#[track_caller]
fn wait_until_used(running: &Running, replicas: &[Replica], expected: &[bool]) {
    eventually(&format!("used {expected:?}"), || {
        (used(running, replicas) == expected).then_some(())
    });
}

#[test]
fn endpoint_whose_checks_fail_gets_no_requests_until_they_succeed_again() {
    let replicas = Replica::several(3);
    let limits = ", healthy_after = 4, unhealthy_after = 6";
    let (running, _flow) = flowing(&checked(&replicas, limits));
    assert_eq!(
        used(&running, &replicas),
        [true; 3],
        "at once, before any check"
    );
    let unhealthy_since = replicas[1].checks().len();
    replicas[1].healthy_as(Some(500));
    wait_until_used(&running, &replicas, &[true, false, true]);
    let healthy_since = replicas[1].checks().len();
    assert!(
        healthy_since - unhealthy_since >= 6,
        "{unhealthy_since} {healthy_since}"
    );
    replicas[1].healthy_as(Some(204));
    wait_until_used(&running, &replicas, &[true; 3]);
    let checks = replicas[1].checks().len() - healthy_since;
    assert!(checks >= 4, "{checks}");
}

#[test]
fn check_fails_if_the_endpoint_refuses_hangs_up_or_answers_with_another_status() {
    let mut replicas = Replica::several(2);
    let (running, _flow) = flowing(&checked(&replicas, ", status = ['2xx', 418]"));
    for bad in [302, 404, 500] {
        replicas[0].healthy_as(Some(bad));
        wait_until_used(&running, &replicas, &[false, true]);
        replicas[0].healthy_as(Some(418));
        wait_until_used(&running, &replicas, &[true; 2]);
    }
    replicas[0].kill();
    eventually("it is used no more", || {
        let statuses = [(); 8].map(|()| get(running.public, "/", "").status);
        (statuses == [200; 8]).then_some(())
    });
    replicas[0].revive();
    wait_until_used(&running, &replicas, &[true; 2]);
}

#[test]
fn check_fails_if_it_is_not_answered_in_time() {
    let replicas = Replica::several(2);
    let lines = "health = { path = '/health', interval = '100ms', timeout = '100ms' }";
    let (running, _flow) = flowing(&balanced(&replicas, &[1], lines));
    replicas[0].healthy_as(None);
    wait_until_used(&running, &replicas, &[false, true]);
}

#[test]
fn no_healthy_endpoint_is_a_503_at_once() {
    let replicas = Replica::several(2);
    let config = checked(&replicas, "").admin("127.0.0.1:0");
    let (running, _flow) = flowing(&config);
    for replica in &replicas {
        replica.healthy_as(Some(503));
        // A request that reached it would wait.
        replica.behave(Manner::Holds);
    }
    let answer = eventually("a 503", || {
        let mut client = Client::asking(running.public, "/", "");
        let is_held = || replicas.iter().any(|replica| replica.holding() > 0);
        eventually("an answer, or a wait", || {
            (is_held() || !client.is_silent()).then_some(())
        });
        (!client.is_silent()).then(|| client.answer())
    });
    assert_eq!(answer.problem()["status"], 503);
    // The next check comes in less than a second.
    assert_eq!(answer.field("retry-after"), Some("1"));
    running.wait_for_metric("reason=\"no_endpoint\"");
    let grpc = get(running.public, "/", "Content-Type: application/grpc\r\n");
    let told = ["grpc-status", "grpc-message", "retry-after"].map(|name| grpc.field(name));
    assert_eq!(told, [Some("14"), Some("Service Unavailable"), Some("1")]);
    for replica in &replicas {
        replica.behave(Manner::Answers);
        replica.healthy_as(Some(200));
    }
    eventually("a 200", || {
        (get(running.public, "/", "").status == 200).then_some(())
    });
}

#[test]
fn checks_are_plain_gets_of_the_host_that_is_configured_and_nobodys_requests() {
    let replicas = Replica::several(1);
    for (host, expected) in [
        ("", replicas[0].address.to_string()),
        (", host = 'health.internal'", "health.internal".to_owned()),
    ] {
        let config = checked(&replicas, host)
            .top("default_policies = ['all']")
            .policy("all", "quota = '100 per day'\npartition = []");
        let (running, _flow) = flowing(&config);
        let before = replicas[0].checks().len();
        eventually("ten checks", || {
            (replicas[0].checks().len() >= before + 10).then_some(())
        });
        assert_eq!(remaining(&get(running.public, "/", ""), "all"), 99);
        let checks = replicas[0].checks();
        let check = checks.last().expect("a check");
        assert_eq!(check.start, "GET /health?deep=1 HTTP/1.1");
        assert_eq!(check.field("host"), Some(expected.as_str()));
    }
}

#[test]
fn check_speaks_as_requests_do() {
    let inner = start(&Config::to("builtin:status/200").route("/*", ""));
    let (secure, clear) = (serve(Server::default()), inner.public);
    let tls = |ca: &str| format!("tls = {{ ca = '{TLS_FILES}/{ca}.pem' }}");
    for (endpoint, tls, status) in [
        (format!("https://{secure}"), tls("redis-ca"), 200),
        (format!("https://{secure}"), tls("other-ca"), 503),
        (format!("http://{secure}"), String::new(), 503),
        (format!("h2c://{clear}"), String::new(), 200),
        (format!("https://{clear}"), tls("redis-ca"), 503),
    ] {
        let config = Config::to(&endpoint)
            .admin("127.0.0.1:0")
            .upstream("health = { path = '/', interval = '100ms', timeout = '10s' }")
            .upstream(&tls)
            .route("/*", "");
        let (running, _flow) = flowing(&config);
        let result = if status == 200 { "ok" } else { "failed" };
        let authority = endpoint.split("://").last().expect("an authority");
        let checks = format!(
            "tollgate_endpoint_checks_total{{upstream=\"api\",endpoint=\"{authority}\",result=\"{result}\"}}"
        );
        eventually(&format!("three checks of {endpoint}"), || {
            (running.metric(&checks) >= 3).then_some(())
        });
        assert_eq!(get(running.public, "/", "").status, status, "{endpoint}");
    }
}

#[test]
fn endpoint_stays_unhealthy_over_a_reload_and_checks_end_with_their_endpoint() {
    let replicas = Replica::several(3);
    let (mut running, _flow) = flowing(&checked(&replicas, ""));
    replicas[0].healthy_as(Some(500));
    wait_until_used(&running, &replicas, &[false, true, true]);
    let unchecked = checked(&replicas[..2], "").text();
    running.gateway.reload(&unchecked).expect("a good file");
    assert_eq!(used(&running, &replicas), [false, true, false]);
    let gone = || replicas[2].checks().len();
    let stayed = || replicas[1].checks().len();
    // One check may be under way.
    let (gone_before, stayed_before) = (gone() + 1, stayed());
    eventually("ten checks of another", || {
        (stayed() >= stayed_before + 10).then_some(())
    });
    assert!(gone() <= gone_before);
    let without = balanced(&replicas[..2], &[1], "").text();
    running.gateway.reload(&without).expect("a good file");
    wait_until_used(&running, &replicas, &[true, true, false]);
}

#[test]
fn return_of_an_endpoint_is_used_within_two_intervals() {
    let replicas = Replica::several(2);
    let lines = "retries = 0\nhealth = { path = '/health', interval = '10s', unhealthy_after = 1 }";
    let running = start(&balanced(&replicas, &[1], lines));
    let check = || {
        let checks = || {
            replicas
                .iter()
                .map(|replica| replica.checks().len())
                .collect::<Vec<_>>()
        };
        let before = checks();
        running.clock.advance(secs(10));
        eventually("each is checked", || {
            checks()
                .iter()
                .zip(&before)
                .all(|(now, before)| now > before)
                .then_some(())
        });
    };
    replicas[1].healthy_as(Some(500));
    check();
    wait_until_used(&running, &replicas, &[true, false]);
    replicas[1].healthy_as(Some(200));
    check();
    assert_eq!(
        used(&running, &replicas),
        [true, false],
        "one success is too few"
    );
    check();
    wait_until_used(&running, &replicas, &[true, true]);
}

fn wait_for_requests(replica: &Replica) {
    let before = replica.requests();
    eventually("fifty requests", || {
        (replica.requests() >= before + 50).then_some(())
    });
}

/// Sends requests until told to stop, and returns how many answers had another status than 200.
fn ask(address: SocketAddr, method: &str, stop: &AtomicBool) -> usize {
    let mut failed = 0;
    while !stop.load(Ordering::SeqCst) {
        let mut client = Client::connect(address);
        for _ in 0..10 {
            let status = match method {
                "GET" => client.get("/", "").status,
                _ => client.post("/", "", "body").status,
            };
            failed += usize::from(status != 200);
        }
    }
    failed
}

#[test]
fn endpoint_that_dies_under_load_costs_at_most_the_requests_that_were_on_it() {
    const CLIENTS: usize = 4;
    for (method, failed_max) in [("GET", 0), ("POST", CLIENTS)] {
        let mut replicas = Replica::several(3);
        let lines = "health = { path = '/health', interval = '100ms', timeout = '10s' }";
        let (running, _flow) = flowing(&balanced(&replicas, &[1], lines));
        let stop = AtomicBool::new(false);
        let failed = thread::scope(|scope| {
            let ask = || ask(running.public, method, &stop);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
            wait_for_requests(&replicas[1]);
            replicas[1].kill();
            wait_for_requests(&replicas[0]);
            replicas[1].revive();
            wait_for_requests(&replicas[1]);
            stop.store(true, Ordering::SeqCst);
            let failed = clients
                .into_iter()
                .map(|client| client.join().expect("clients do not panic"));
            failed.sum::<usize>()
        });
        assert!(failed <= failed_max, "{method}: {failed}");
    }
}
