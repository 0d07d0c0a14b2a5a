//! What single metrics say.

use crate::support::gateway::start_text;
use crate::support::redis::Server;
use crate::support::{Client, Config, Metered as _, get, start};

/// A file with an admin port, and this policy for each API key.
fn keyed(policy: &str) -> Config {
    let policy = format!("partition = ['header:x-api-key']\n{policy}");
    Config::to("builtin:status/200")
        .admin("127.0.0.1:0")
        .policy("keyed", &policy)
        .route("/*", "policies = ['keyed']")
}

#[test]
fn requests_are_near_the_limit_when_80_percent_of_a_quota_are_used() {
    for (policy, requests, near) in [
        // The eighth, ninth and tenth request are near the limit.
        ("quota = '10 per minute'", 12, 3),
        ("quota = '4 per minute'", 5, 1),
        // A request counts once, however many of its quotas are nearly used up.
        ("quota = ['10 per minute', '10 per hour']", 10, 3),
        ("quota = ['10 per minute', '20 per hour']", 10, 3),
        (
            "quota = '10 per minute'\nburst = 5\nalgorithm = 'gcra'",
            6,
            2,
        ),
        ("quota = '10 per minute'\nmode = 'shadow'", 12, 3),
        ("quota = '100 per minute'", 12, 0),
    ] {
        let running = start(&keyed(policy));
        for _ in 0..requests {
            get(running.public, "/", "X-Api-Key: a\r\n");
        }
        let name = "tollgate_near_limit_total{policy=\"keyed\"}";
        assert_eq!(running.series(name), Some(near), "{policy}");
    }
}

#[test]
fn a_request_that_another_policy_refuses_is_not_near_the_limit() {
    let config = Config::to("builtin:status/200")
        .admin("127.0.0.1:0")
        .policy("small", "quota = '1 per minute'")
        .policy("large", "quota = '2 per minute'")
        .route("/*", "policies = ['small', 'large']");
    let running = start(&config);
    for _ in 0..3 {
        get(running.public, "/", "");
    }
    assert_eq!(
        running.metric("tollgate_near_limit_total{policy=\"small\"}"),
        1
    );
    assert_eq!(
        running.metric("tollgate_near_limit_total{policy=\"large\"}"),
        0
    );
}

#[test]
fn own_answers_are_counted_by_their_exact_status() {
    let config = Config::to("builtin:status/404")
        .admin("127.0.0.1:0")
        .listener("max_header_bytes = '8KiB'")
        .policy("usual", "quota = '1 per minute'\npartition = []")
        .policy(
            "own",
            "quota = '1 per minute'\npartition = []\nrefusal.status = 503",
        )
        .route("/usual", "policies = ['usual']")
        .route("/own", "policies = ['own']");
    let running = start(&config);
    for target in [
        "/usual", "/usual", "/usual", "/own", "/own", "/none", "/%zz",
    ] {
        get(running.public, target, "");
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(20_000));
    assert_eq!(get(running.public, "/usual", &long).status, 431);
    let mut client = Client::connect(running.public);
    client.send("G(T / HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    let refusals = |status: u16, reason: &str| {
        let labels = format!("status=\"{status}\",reason=\"{reason}\"");
        running.series::<u64>(&format!("tollgate_refusals_total{{{labels}}}"))
    };
    for (status, reason, count) in [
        (429, "quota_exceeded", Some(2)),
        (503, "quota_exceeded", Some(1)),
        (404, "no_route", Some(1)),
        (400, "bad_path", Some(1)),
        (431, "too_large", Some(1)),
        (400, "syntax", Some(1)),
        (400, "no_route", None),
    ] {
        assert_eq!(refusals(status, reason), count, "{status} {reason}");
    }
    // Answers of upstreams are not counted as refusals.
    assert_eq!(running.metric("tollgate_refusals_total"), 7);
}

#[test]
fn configured_quotas_and_hash_are_those_of_the_file_in_force() {
    let file = |quotas: &str| keyed(&format!("quota = {quotas}")).text();
    let hash = |page: &str| {
        let (_, rest) = page
            .split_once("tollgate_config_info{hash=\"")
            .expect("a hash");
        rest.split_once('"').expect("its end").0.to_owned()
    };
    let mut running = start_text(&file("'10 per minute'"));
    let time = "tollgate_config_last_reload_success_timestamp_seconds";
    let is_good = "tollgate_config_last_reload_successful";
    let begun: u64 = running.series(time).expect("a time");
    let first = hash(&running.metrics());
    let units = "tollgate_policy_quota_units{policy=\"keyed\",quota=";
    assert_eq!(running.series(&format!("{units}\"keyed\"}}")), Some(10));
    running.clock.advance(crate::support::secs(60));
    running.gateway.reload("broken").expect_err("it is broken");
    assert_eq!(
        (running.series(time), running.series(is_good)),
        (Some(begun), Some(0))
    );
    assert_eq!(hash(&running.metrics()), first);
    let second = file("['20 per minute', '30 per 90s']");
    running.gateway.reload(&second).expect("a good file");
    assert_eq!(
        (running.series(time), running.series(is_good)),
        (Some(begun + 60), Some(1))
    );
    assert_ne!(hash(&running.metrics()), first);
    assert_eq!(running.series(&format!("{units}\"keyed\"}}")), None::<u64>);
    assert_eq!(running.series(&format!("{units}\"keyed:90s\"}}")), Some(30));
    let window = "tollgate_policy_quota_window_seconds{policy=\"keyed\",quota=\"keyed:90s\"}";
    assert_eq!(running.series(window), Some(90.0));
    // The hash identifies the file, whenever it was loaded.
    running
        .gateway
        .reload(&file("'10 per minute'"))
        .expect("a good file");
    assert_eq!(hash(&running.metrics()), first);
}

#[test]
fn durations_are_those_of_the_access_log_by_route() {
    let config = Config::to("builtin:echo")
        .admin("127.0.0.1:0")
        .route("/a", "name = 'other'")
        .route("/b", "name = 'none'");
    let running = start(&config);
    for target in ["/a", "/a", "/b", "/c"] {
        get(running.public, target, "");
    }
    for (route, count) in [("other #2", 2), ("none #2", 1), ("none", 1), ("other", 0)] {
        for name in ["requests_total", "request_duration_seconds_count"] {
            if (route, name) == ("other", "requests_total") {
                continue;
            }
            let series = format!("tollgate_{name}{{route=\"{route}\"");
            assert_eq!(running.metric(&series), count, "{series}");
        }
    }
}

#[test]
fn while_redis_is_away_a_metric_says_among_how_many_gateways_quotas_are_divided() {
    let redis = Server::start();
    let store = format!(
        "[store]\nurl = 'redis://{}'\nmin_nodes = 3",
        redis.address()
    );
    let running = start(&keyed("quota = '30 per minute'").with(&store));
    let divisor = format!(
        "tollgate_store_share_divisor{{server=\"{}\"}} ",
        redis.address()
    );
    running.wait_for_metric(&format!("{divisor}1\n"));
    redis.kill();
    crate::support::eventually("the breaker opens", || {
        get(running.public, "/", "X-Api-Key: a\r\n");
        running
            .metrics()
            .contains(&format!("{divisor}3\n"))
            .then_some(())
    });
}

#[test]
fn clients_leave_metrics_at_their_size() {
    let running = start(&keyed("quota = '1 per minute'").with("[log]\nfile = '/dev/null'"));
    let mut client = Client::connect(running.public);
    let mut series = |clients: std::ops::Range<usize>| {
        for n in clients {
            for target in [format!("/{n}"), "/".to_owned()] {
                client.get(
                    &target,
                    &format!("X-Api-Key: key-{n}\r\nUser-Agent: agent-{n}\r\n"),
                );
            }
        }
        let page = running.metrics();
        let names = page
            .lines()
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()));
        names.collect::<Vec<_>>()
    };
    let first = series(0..2);
    assert_eq!(series(2..1_000), first);
}
