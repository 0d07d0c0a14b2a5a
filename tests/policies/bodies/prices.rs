//! Prices that a text in the request selects.

use super::{REPORTED, json, origin};
use crate::stores::on_each_store;
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Origin};

/// A policy of 1000000 units, under which a response of 25 tokens costs 50 times a price.
const PRICED: &str = "quota = '1000000 per hour'\nalgorithm = 'fixed-window'\npartition = []\n\
     cost = [{ from = 'response-json:/usage/total_tokens', times = 2, price = 'token' }]\n\
     reserve = [{ from = 'request-json:/max_tokens', price = 'token', or = 100 }]\n\
     reserve_default = 5000\nmax_reserve_body = '4KiB'\n\
     cost_unknown = [{ from = 'response-bytes', price = 'token' }]\ncost_by = 'request-json:/model'\n\
     prices = { 'a*' = { token = 1 }, ab = { token = 3 }, b = { token = 0.5 }OTHERS }";

/// A request: its fields, its body, whether its model is known, and what it reserves and costs if other models have the
/// dearest price.
type Priced<'a> = (&'a str, &'a str, bool, i64, i64);

fn upstream() -> Origin {
    origin(&[
        ("/".to_owned(), json(REPORTED)),
        ("/none".to_owned(), json(r#"{"a":1}"#)),
    ])
}

fn requests(padded: &str) -> [Priced<'_>; 12] {
    [
        ("", r#"{"model":"a","max_tokens":10}"#, true, 10, 50),
        ("", r#"{"model":"ab","max_tokens":10}"#, true, 30, 150),
        ("", r#"{"max_tokens":10,"model":"abc"}"#, true, 10, 50),
        ("", r#"{"model":"b","max_tokens":10}"#, true, 5, 25),
        ("", r#"{"model":"b"}"#, true, 50, 25),
        (
            "",
            r#"{"model":"a","model":"b","max_tokens":10}"#,
            false,
            30,
            150,
        ),
        ("", r#"{"model":"B","max_tokens":10}"#, false, 30, 150),
        ("", r#"{"max_tokens":10}"#, false, 30, 150),
        ("", padded, false, 5000, 150),
        ("", "model=a", false, 5000, 150),
        ("", "", false, 5000, 150),
        (
            "Content-Encoding: gzip\r\n",
            r#"{"model":"a"}"#,
            false,
            5000,
            150,
        ),
    ]
}

/// A body that is longer than `max_reserve_body`.
fn padded() -> String {
    format!(
        r#"{{"model":"a","max_tokens":10,"x":"{}"}}"#,
        "x".repeat(5000)
    )
}

#[test]
fn the_model_selects_the_prices_and_an_unknown_one_has_the_dearest() {
    let padded = padded();
    for (others, mode) in [
        (", '*' = 'dearest'", "enforce"),
        (", '*' = { token = 3 }", "enforce"),
        // A policy that only marks refuses nothing, not even a model without a price.
        ("", "mark"),
    ] {
        on_each_store(|start| {
            let upstream = upstream();
            let policy = format!("{}\nmode = '{mode}'", PRICED.replace("OTHERS", others));
            let running = start(Config::limited(upstream.url(), &policy).one_worker());
            let mut client = Client::connect(running.public);
            let mut left = 1_000_000;
            for (fields, body, _, reserved, cost) in requests(&padded) {
                let answer = client.post("/", fields, body);
                assert_eq!(answer.status, 200, "{body} {others}");
                assert_eq!(left - remaining(&answer, "p"), reserved, "{body} {others}");
                left -= cost;
            }
            // The 7 bytes of a response that reports nothing.
            let body = r#"{"model":"ab","max_tokens":1}"#;
            let answer = client.post("/none", "", body);
            assert_eq!(left - remaining(&answer, "p"), 3);
            let answer = client.post("/", "", body);
            assert_eq!(left - remaining(&answer, "p"), 21 + 3);
        });
    }
}

#[test]
fn without_prices_for_others_an_unknown_model_is_refused_and_nothing_is_charged() {
    let padded = padded();
    on_each_store(|start| {
        let upstream = upstream();
        let policy = PRICED.replace("OTHERS", "");
        let running = start(Config::limited(upstream.url(), &policy).one_worker());
        let mut client = Client::connect(running.public);
        let mut left = 1_000_000;
        for (fields, body, is_known, reserved, cost) in requests(&padded) {
            let answer = client.post("/", fields, body);
            if is_known {
                assert_eq!(answer.status, 200, "{body}");
                assert_eq!(left - remaining(&answer, "p"), reserved, "{body}");
                left -= cost;
                continue;
            }
            assert_eq!(answer.status, 400, "{body}");
            let problem = Some("application/problem+json");
            assert_eq!(answer.field("content-type"), problem, "{body}");
            assert_eq!(answer.json()["policy"], "p", "{body}");
            client = Client::connect(running.public);
        }
        let known = requests(&padded).iter().filter(|one| one.2).count();
        assert_eq!(upstream.requests().len(), known);
    });
}

#[test]
fn a_reserve_that_is_a_number_is_the_default_at_least_if_the_body_cannot_be_read() {
    on_each_store(|start| {
        let policy = "quota = '1000000 per hour'\nalgorithm = 'fixed-window'\npartition = []\n\
             cost = [{ from = 'response-json:/usage/total_tokens', price = 'token' }]\n\
             reserve = 10\nreserve_default = 5000\ncost_by = 'request-json:/model | /deployment'\n\
             prices = { a = { token = 1 }, b = { token = 4 }, '*' = 'dearest' }";
        let upstream = upstream();
        let running = start(Config::limited(upstream.url(), policy).one_worker());
        let mut client = Client::connect(running.public);
        let mut left = 1_000_000;
        for (body, reserved, cost) in [
            (r#"{"model":"a"}"#, 10, 25),
            (r#"{"deployment":"a"}"#, 10, 25),
            (r#"{"deployment":"a","model":"a"}"#, 10, 25),
            (r#"{"deployment":"a","model":"b"}"#, 10, 100),
            ("{}", 10, 100),
            ("{", 5000, 100),
        ] {
            let answer = client.post("/", "", body);
            assert_eq!(answer.status, 200, "{body}");
            assert_eq!(left - remaining(&answer, "p"), reserved, "{body}");
            left -= cost;
        }
    });
}
