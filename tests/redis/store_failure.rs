//! A gateway with Redis and without it: limits are shared, and while Redis is away, each policy
//! does what it is configured to do, and answers show that, until Redis is back.

use std::net::SocketAddr;

use tollgate::clock::Micros;

use crate::support::ratelimit::remaining;
use crate::support::redis::Server;
use crate::support::{
    Answer, Client, Config, Metered, Process, Running, eventually, get, secs, start,
};

/// Ten a minute, in a window whose end no test reaches by waiting.
const TEN: &str = "quota = '10 per minute'\nalgorithm = 'fixed-window'";

/// A file with one route under a policy, on that server, which has much time to answer because a test machine may be
/// slow.
pub fn over(address: SocketAddr, policy: &str, store: &str) -> Config {
    Config::limited("builtin:echo", policy)
        .one_worker()
        .admin("127.0.0.1:0")
        .with(&format!(
            "[store]\nurl = 'redis://{address}'\ntimeout = '5s'\nrefusal_cache = '0s'\n{store}\n\
             [log]\nformat = 'json'"
        ))
}

/// A breaker that opens at the first failure.
const TOUCHY: &str = "breaker = { failures = 1, cooldown = '2s' }";

fn ask(running: &Running) -> Answer {
    get(running.public, "/", "")
}

/// Returns the value of a series; fails the test if there is none.
fn metric(running: &Running, series: &str) -> u64 {
    let value = running.series(series);
    value.unwrap_or_else(|| panic!("no {series}"))
}

fn decisions(running: &Running, result: &str) -> u64 {
    metric(
        running,
        &format!("tollgate_store_decisions_total{{result=\"{result}\"}}"),
    )
}

/// Waits until the gateway has its connections to Redis: the worker's and the admin port's.
pub fn connected(running: &Running) {
    eventually("a connection to Redis", || {
        (metric(running, "tollgate_store_connections") == 2).then_some(())
    });
}

/// Sends requests until Redis decides one again, and moves the clock past cooldowns.
fn healed(running: &Running) -> Answer {
    eventually("Redis decides again", || {
        running.clock.advance(Micros(100_000));
        let before = decisions(running, "answered");
        let answer = ask(running);
        (decisions(running, "answered") > before).then_some(answer)
    })
}

/// Returns the series that shows whether the breaker of a server is in this state.
fn breaker(redis: &Server, state: &str) -> String {
    let server = redis.address();
    format!("tollgate_store_breaker{{server=\"{server}\",state=\"{state}\"}}")
}

#[test]
fn local_policy_limits_alone_while_redis_is_away() {
    let redis = Server::start();
    let running = start(&over(redis.address(), TEN, TOUCHY));
    connected(&running);
    assert_eq!(remaining(&ask(&running), "p"), 9);
    redis.kill();
    eventually("the breaker is open", || {
        (metric(&running, &breaker(&redis, "open")) == 1).then_some(())
    });
    let statuses: Vec<u16> = (0..12).map(|_| ask(&running).status).collect();
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    let counts = ["answered", "failed", "unasked"].map(|result| decisions(&running, result));
    assert_eq!(counts, [1, 0, 12]);
}

#[test]
fn reserve_above_the_share_of_a_gateway_waits_for_redis() {
    let redis = Server::start();
    let policy = "quota = '40 per minute'\nalgorithm = 'fixed-window'\nreserve = 15\n\
                  cost = 'response-json:/units'";
    let running = start(&over(
        redis.address(),
        policy,
        &format!("{TOUCHY}\nmin_nodes = 4"),
    ));
    connected(&running);
    assert_eq!(ask(&running).status, 200);
    redis.kill();
    let answer = ask(&running);
    assert_eq!(
        (answer.status, answer.field("retry-after")),
        (429, Some("2"))
    );
}

#[test]
fn open_policy_admits_and_says_nothing_while_redis_is_away() {
    let redis = Server::start();
    let policy = format!("{TEN}\non_store_failure = 'open'");
    let running = start(&over(redis.address(), &policy, TOUCHY));
    connected(&running);
    redis.kill();
    for _ in 0..20 {
        let answer = ask(&running);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("ratelimit"), None);
    }
}

#[test]
fn closed_policy_refuses_for_the_cooldown_while_redis_is_away() {
    let redis = Server::start();
    let policy = format!("{TEN}\non_store_failure = 'closed'");
    let running = start(&over(redis.address(), &policy, TOUCHY));
    connected(&running);
    redis.kill();
    let answer = ask(&running);
    assert_eq!(answer.status, 503);
    assert_eq!(answer.field("retry-after"), Some("2"));
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(answer.problem()["type"], kind);
    let grpc = get(running.public, "/", "Content-Type: application/grpc\r\n");
    let told = ["grpc-status", "grpc-message", "retry-after"].map(|name| grpc.field(name));
    let message = "Request cannot be satisfied due to temporary server capacity constraints";
    assert_eq!(told, [Some("14"), Some(message), Some("2")]);
}

#[test]
fn redis_that_is_back_decides_again_and_local_counts_are_kept() {
    let redis = Server::start();
    let policy = "quota = '10 per hour'\nalgorithm = 'fixed-window'";
    let running = start(&over(redis.address(), policy, TOUCHY));
    connected(&running);
    redis.kill();
    for _ in 0..10 {
        assert_eq!(ask(&running).status, 200);
    }
    assert_eq!(ask(&running).status, 429);
    assert_eq!(metric(&running, "tollgate_store_partitions"), 1);
    redis.restart();
    let answer = healed(&running);
    assert_eq!(answer.status, 200, "Redis lost its counts");
    assert_eq!(metric(&running, &breaker(&redis, "closed")), 1);
    redis.kill();
    eventually("what was admitted here is not admitted here again", || {
        (ask(&running).status == 429).then_some(())
    });
}

#[test]
fn redis_heals_without_a_request_that_probes_it() {
    let redis = Server::start();
    let running = start(&over(redis.address(), TEN, TOUCHY));
    connected(&running);
    redis.kill();
    assert_eq!(ask(&running).status, 200);
    redis.restart();
    let closed = breaker(&redis, "closed");
    assert_eq!(metric(&running, &closed), 0);
    eventually("the breaker is closed", || {
        running.clock.advance(Micros(100_000));
        (metric(&running, &closed) == 1).then_some(())
    });
}

#[test]
fn gateway_starts_without_redis_and_takes_it_when_it_comes() {
    let redis = Server::start();
    redis.kill();
    let running = start(&over(redis.address(), TEN, TOUCHY));
    assert_eq!(get(running.admin(), "/readyz", "").status, 200);
    assert_eq!(ask(&running).status, 200, "decided without it");
    assert_eq!(decisions(&running, "answered"), 0);
    redis.restart();
    healed(&running);
}

#[test]
fn mute_redis_costs_one_deadline_and_then_nobody_waits() {
    let redis = Server::start();
    let config = over(redis.address(), TEN, TOUCHY).text();
    // Long enough that the first request is under way before a background call can open the breaker.
    let running = crate::support::gateway::start_text(&config.replace("'5s'", "'1s'"));
    connected(&running);
    healed(&running);
    // Decisions in vain: late ones, or failed ones if the connection had been given up by then.
    let counts = || {
        let vain = decisions(&running, "late") + decisions(&running, "failed");
        [vain, decisions(&running, "unasked")]
    };
    let before = counts();
    redis.stop();
    let statuses: Vec<u16> = (0..8).map(|_| ask(&running).status).collect();
    let after = counts();
    redis.resume();
    assert_eq!(statuses, [200; 8]);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 7]);
}

#[test]
fn refused_client_costs_redis_one_call_until_its_refusal_may_end() {
    let redis = Server::start();
    let policy = "quota = '1 per 10s'\nalgorithm = 'fixed-window'";
    let text = over(redis.address(), policy, "").text();
    let text = text.replace("refusal_cache = '0s'", "refusal_cache = '1s'");
    let running = crate::support::gateway::start_text(&text);
    connected(&running);
    assert_eq!(ask(&running).status, 200);
    let mut client = Client::connect(running.public);
    let first = client.get("/", "");
    assert_eq!(
        (first.status, first.field("retry-after")),
        (429, Some("10"))
    );
    let asked = decisions(&running, "answered");
    for _ in 0..20 {
        let again = client.get("/", "");
        assert_eq!(again.status, 429);
        assert_eq!(again.field("ratelimit"), first.field("ratelimit"));
    }
    assert_eq!(decisions(&running, "answered"), asked);
    assert_eq!(decisions(&running, "remembered"), 20);
    running.clock.advance(secs(1));
    assert_eq!(client.get("/", "").field("retry-after"), Some("9"));
    assert_eq!(decisions(&running, "answered"), asked + 1, "the cap");
    running.clock.advance(secs(9));
    assert_eq!(client.get("/", "").status, 200);
}

#[test]
fn degraded_answers_are_marked_in_the_log_and_a_change_takes_one_line() {
    let redis = Server::start();
    let config = over(redis.address(), TEN, TOUCHY);
    let process = Process::start(&config);
    redis.kill();
    for _ in 0..5 {
        get(process.public, "/", "");
    }
    let records = process.wait_for_records(5);
    let marked = records.iter().filter(|record| record["degraded"] == true);
    assert_eq!(marked.count(), 5, "{records:#?}");
    let warning = "Redis is failing: no calls are sent to it until the cooldown ends";
    process.wait_for_line(&[warning]);
    let lines = process.lines();
    let warnings = lines.iter().filter(|line| line.contains(warning));
    assert_eq!(warnings.count(), 1, "{lines:#?}");
}

/// A request that is still held when the grace ends never reaches its origin, so its policies get back what they can
/// before the process ends. If Redis cannot be reached, the last line of the log says so.
#[test]
fn what_is_cut_at_the_end_of_the_grace_is_settled_before_the_process_ends() {
    const PACED: &str =
        "quota = '1 per hour'\nalgorithm = 'leaky-bucket'\nqueue = 5\npartition = []";
    for is_away in [false, true] {
        let redis = Server::start();
        let config = |policies: &str| {
            Config::to("builtin:echo")
                .one_worker()
                .top("shutdown_grace = '200ms'")
                .policy("daily", "quota = '10 per day'\npartition = []")
                .policy("paced", PACED)
                .route("/*", policies)
                .with(&format!(
                    "[store]\nurl = 'redis://{}'\ntimeout = '5s'",
                    redis.address()
                ))
        };
        let mut process = Process::start(&config("policies = ['daily', 'paced']"));
        assert_eq!(get(process.public, "/", "").status, 200);
        let _held = Client::asking(process.public, "/", "");
        eventually("a request is held", || {
            (process.series("tollgate_requests_delayed") == Some(1)).then_some(())
        });
        if is_away {
            redis.stop();
        }
        process.signal("TERM");
        assert!(process.wait().success());
        let last = process.lines().pop().expect("it says that it stops");
        let unsettled =
            "some charges were not corrected, because Redis could not be reached in time";
        assert_eq!(last.contains(unsettled), is_away, "{last}");
        assert!(last.contains("stopped"), "{last}");
        if !is_away {
            let other = Process::start(&config("policies = ['daily']"));
            // The request that was answered, and this one, were charged.
            assert_eq!(remaining(&get(other.public, "/", ""), "daily"), 8);
        }
    }
}
