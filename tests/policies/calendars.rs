//! Quotas of a calendar's days, weeks and months, and windows that begin with a client's first request.

use std::fs;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::stores::{on_each_store, redis};
use crate::support::ratelimit::{item, policy, remaining, state};
use crate::support::{
    After, Answer, Client, Config, Issuer, Origin, Process, eventually, get, jwks, secs,
    start_skewed,
};

/// Seconds from the start of manual clocks, 2023-11-15 at midnight UTC, to the end of November.
const TO_DECEMBER: u64 = 16 * DAY;
const DAY: u64 = 86_400;

fn retry_after(answer: &Answer) -> u64 {
    let secs = answer.field("retry-after").expect("a wait");
    secs.parse().expect("seconds")
}

#[test]
fn a_month_is_over_at_its_end_and_answers_say_when_that_is() {
    on_each_store(|start| {
        let running = start(Config::limited(
            "builtin:status/200",
            "quota = ['3 per calendar month', '2 per minute']\npartition = []",
        ));
        let ask = || get(running.public, "/", "");
        let first = ask();
        assert_eq!(first.status, 200);
        let names = ["p:month", "p:1m"];
        assert_eq!(
            policy(&first),
            [
                item(names[0], &[("q", 3)]),
                item(names[1], &[("q", 2), ("w", 60)])
            ]
        );
        let to_december = i64::try_from(TO_DECEMBER).expect("a number");
        assert_eq!(
            state(&first)[0],
            item(names[0], &[("r", 2), ("t", to_december)])
        );
        assert_eq!(ask().status, 200);
        // The minute refuses, and the month is not charged.
        let by_minute = ask();
        assert_eq!(
            (by_minute.status, retry_after(&by_minute) <= 66),
            (429, true)
        );
        running.clock.advance(secs(3600));
        assert_eq!((ask().status, ask().status), (200, 429));
        // Up to five minutes are added by chance, because otherwise all clients would come back at once.
        let by_month = retry_after(&ask());
        let left = TO_DECEMBER - 3600;
        assert!((left..=left + 300).contains(&by_month), "{by_month}");
        running.clock.advance(secs(left - 1));
        assert_eq!(ask().status, 429);
        running.clock.advance(secs(1));
        assert_eq!(remaining(&ask(), "p:month"), 2);
    });
}

#[test]
fn each_customer_has_a_day_of_its_own_by_a_claim_or_by_the_file() {
    let issuer = Issuer::ec();
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    fs::write(&keys, jwks(&[(&issuer, json!({}))])).expect("it is writable");
    let rows = folder.path().join("overrides.csv");
    fs::write(&rows, "pattern,quota,anchor_day\na,5 per calendar month,20\nb,6 per calendar month,none\nc,7 per calendar month\n")
        .expect("it is writable");
    let jwt = format!("[jwt]\nkeys = '{}'", keys.display());
    let token = |claims: Value| {
        let token = issuer.token(&claims);
        format!("Authorization: Bearer {token}\r\n")
    };
    let by_claim = "anchor_by = 'jwt:billing.day'\npartition = ['jwt:sub']";
    let by_file = format!(
        "overrides_file = '{}'\npartition = ['jwt:sub']",
        rows.display()
    );
    let of = |sub: &str, day: Value| token(json!({ "sub": sub, "billing": { "day": day } }));
    // Each client's token, what is left, and how many days after 15 November the quota is whole again.
    for (policy, clients) in [
        (
            by_claim,
            vec![
                (of("a", json!(20)), 4, 5),
                (of("b", json!("31")), 4, 15),
                (of("c", json!(15)), 4, 30),
                (of("d", json!(1)), 4, 16),
                // A claim that is not a day means the policy's day.
                (of("e", json!(0)), 4, 10),
                (of("f", json!("sunday")), 4, 10),
                (token(json!({ "sub": "g" })), 4, 10),
                // With another day, the same client begins a whole quota, and the earlier one stays as it is.
                (of("a", json!(21)), 4, 6),
                (of("a", json!(20)), 3, 5),
            ],
        ),
        (
            &by_file,
            vec![
                (token(json!({ "sub": "a" })), 4, 5),
                (token(json!({ "sub": "b" })), 5, 10),
                (token(json!({ "sub": "c" })), 6, 10),
                (token(json!({ "sub": "d" })), 4, 10),
            ],
        ),
    ] {
        on_each_store(|start| {
            let policy = format!("quota = '5 per calendar month'\nanchor_day = 25\n{policy}");
            let config = Config::limited("builtin:status/200", &policy).with(&jwt);
            let running = start(config);
            for (fields, left, days) in &clients {
                let answer = get(running.public, "/", fields);
                assert_eq!(remaining(&answer, "p"), *left, "{policy} {fields}");
                let wait = i64::try_from(days * DAY).expect("a number");
                assert_eq!(state(&answer)[0], item("p", &[("r", *left), ("t", wait)]));
            }
        });
    }
}

#[test]
fn a_window_begins_with_a_clients_first_request() {
    on_each_store(|start| {
        let policy = "quota = '2 per 10s'\nalgorithm = 'fixed-window'\nalign = 'first'\n\
                      partition = ['header:x-api-key']\nrefund_on = [503]";
        let running = start(Config::limited("builtin:status/200", policy));
        let mut client = Client::connect(running.public);
        let mut ask = |key: &str| client.get("/", &format!("X-Api-Key: {key}\r\n"));
        running.clock.advance(secs(7));
        assert_eq!(ask("a").status, 200);
        running.clock.advance(secs(6));
        assert_eq!([ask("a").status, ask("b").status], [200, 200]);
        let refused = ask("a");
        assert_eq!((refused.status, retry_after(&refused)), (429, 4));
        running.clock.advance(secs(4));
        assert_eq!(
            [ask("a").status, ask("b").status, ask("b").status],
            [200, 200, 429]
        );
    });
}

#[test]
fn quotas_of_one_policy_are_counted_each_as_it_says() {
    on_each_store(|start| {
        let policy = "partition = []\nquota = [{ quota = '12 per hour', buckets = 360, oldest_bucket = 'whole' }, \
                      { quota = '3 per second', algorithm = 'sliding-log' }, { quota = '2 per 100ms', algorithm = 'gcra', \
                      burst = 4 }, '10 per calendar day']";
        let running = start(Config::limited("builtin:status/200", policy));
        let ask = || get(running.public, "/", "");
        let violated = |answer: &Answer| answer.problem()["violated-policies"].clone();
        assert_eq!([ask().status, ask().status, ask().status], [200; 3]);
        assert_eq!(violated(&ask()), json!(["p:1s"]));
        for _ in 0..7 {
            running.clock.advance(secs(10));
            assert_eq!(ask().status, 200);
        }
        assert_eq!(violated(&ask()), json!(["p:day"]));
        running.clock.advance(secs(DAY));
        for _ in 0..10 {
            running.clock.advance(secs(1));
            assert_eq!(ask().status, 200);
        }
        running.clock.advance(secs(1));
        assert_eq!(violated(&ask()), json!(["p:day"]));
    });
}

/// A gateway sends the windows around its own time, but the windows of Redis' time are what counts.
#[test]
fn gateways_whose_clocks_are_weeks_off_count_one_month_by_the_clock_of_redis() {
    // Half a month from an edge, so that no window ends during the test. Each start sends one request.
    let now = Timestamp::try_from(SystemTime::now()).expect("a time");
    let now = TimeZone::UTC.to_datetime(now);
    let day = 1 + (i64::from(now.day()) + 14) % 28;
    let policy = format!(
        "quota = '13 per calendar month'\nanchor_day = {day}\npartition = []\nrefund_on = [404]"
    );
    let origin = Origin::scripted(|exchange| {
        let status = if exchange.target() == "/lost" {
            "404 x"
        } else {
            "200 x"
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        exchange.wire.write(answer.as_bytes())?;
        Ok(After::Keep)
    });
    let config = Config::limited(origin.url(), &policy).with(&redis());
    let gateways: Vec<Process> = [0, 40, -40, 75]
        .map(|days: i64| start_skewed(&config, days * 86_400))
        .into();
    for left in (1..=8).rev() {
        let gateway = &gateways[left % gateways.len()];
        let answer = get(gateway.public, "/", "");
        assert_eq!(remaining(&answer, "p"), i64::try_from(left).expect("few"));
    }
    // A unit that comes back does so in the window in which it was charged.
    for gateway in &gateways {
        eventually("a unit is there, and comes back", || {
            (get(gateway.public, "/lost", "").status == 404).then_some(())
        });
    }
    eventually("the last unit is there", || {
        (get(gateways[1].public, "/", "").status == 200).then_some(())
    });
    for gateway in &gateways {
        assert_eq!(get(gateway.public, "/", "").status, 429);
    }
}
