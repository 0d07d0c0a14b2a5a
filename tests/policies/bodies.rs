//! Costs that bodies report: reserved for the request, settled by its answer, never silently free.

mod answers;
mod attacks;
mod conversations;
mod holding;
mod prices;
mod recorded;

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::json as value;

use super::stores::on_each_store;
use crate::support::ratelimit::remaining;
use crate::support::{After, Client, Config, Metered, Origin, Process};

/// What an origin sends in reply to a request, and what it does with the connection then.
#[derive(Clone)]
struct Reply {
    bytes: Vec<u8>,
    after: After,
}

const REPORTED: &str = r#"{"id":"a","usage":{"total_tokens":25}}"#;

/// The policy of most tests: a request reserves 10 of 1000000 units, in a window that no test sees end.
const POLICY: &str = "quota = '1000000 per 366 days'\nalgorithm = 'fixed-window'\npartition = []\n\
                      cost = 'response-json:/usage/total_tokens'\nreserve = 10\nmax_cost = 100000";

/// An origin that gives each target its reply; `/zero` reports a usage of 0.
fn origin(replies: &[(String, Reply)]) -> Origin {
    let mut replies: HashMap<_, _> = replies.iter().cloned().collect();
    let zero = json(r#"{"usage":{"total_tokens":0}}"#);
    replies.insert("/zero".to_owned(), zero);
    Origin::scripted(move |exchange| {
        exchange.read_body()?;
        let reply = replies[exchange.target()].clone();
        exchange.wire.write(&reply.bytes)?;
        Ok(reply.after)
    })
}

fn raw(head: &str, body: &str) -> Reply {
    Reply {
        bytes: format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes(),
        after: After::Keep,
    }
}

fn cut(mut reply: Reply) -> Reply {
    reply.after = After::Close;
    reply
}

fn of_type(content_type: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!("200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}");
    raw(&head, body)
}

fn json(body: &str) -> Reply {
    of_type("application/json", body)
}

fn chunked(content_type: &str, chunks: &[&str]) -> Reply {
    let mut body = String::new();
    for chunk in chunks.iter().chain(&[""]) {
        write!(body, "{:x}\r\n{chunk}\r\n", chunk.len()).expect("memory takes every byte");
    }
    let head = format!("200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked");
    raw(&head, &body)
}

/// Returns how much of `POLICY` is left while no other request is in progress.
fn left(client: &mut Client) -> i64 {
    let answer = client.get("/zero", "");
    assert_eq!(answer.status, 200);
    remaining(&answer, "p") + 10
}

/// A policy under which a request reserves what its body says.
const RESERVING: &str = "quota = '1000000 per 366 days'\nalgorithm = 'fixed-window'\npartition = []\n\
     cost = 'response-json:/usage/total_tokens'\nunit = 'tokens'\nmax_cost = 5000000\n\
     reserve = [{ from = 'request-json:/max_tokens | /max_completion_tokens', or = 100 }, \
     { from = 'request-bytes', times = 0.5 }]\nreserve_default = 5000\nmax_reserve_body = '4KiB'";

#[test]
fn a_request_reserves_what_it_says_and_otherwise_the_default() {
    let json = "Content-Type: application/json\r\n";
    let gzip = "Content-Encoding: gzip\r\n";
    let padding = " ".repeat(5000);
    let late = format!("{{{padding}\"max_tokens\":9}}");
    let first = format!("{{\"max_tokens\":7000,{padding}\"a\":1}}");
    let digits = format!("{{\"max_tokens\":{}}}", "9".repeat(1000));
    let nested = "[".repeat(3000);
    let table = [
        ("what it says", json, r#"{"max_tokens":1000}"#, 1010),
        (
            "the other name",
            json,
            r#"{"max_completion_tokens":1000}"#,
            1015,
        ),
        (
            "the larger of both",
            json,
            r#"{"max_tokens":1,"max_completion_tokens":2000}"#,
            2023,
        ),
        (
            "the larger of two",
            json,
            r#"{"max_tokens":2000,"max_tokens":1}"#,
            2017,
        ),
        (
            "whatever its type",
            "Content-Type: text/plain\r\n",
            r#"{"max_tokens":1000}"#,
            1010,
        ),
        ("a decimal", json, r#"{"max_tokens":1e3}"#, 1009),
        ("rounded up once", json, r#"{"max_tokens":10.25}"#, 21),
        ("nothing", json, "{}", 101),
        ("not within", json, r#"{"a":{"max_tokens":9000}}"#, 113),
        ("less than nothing", json, r#"{"max_tokens":-5}"#, 109),
        ("no number", json, r#"{"max_tokens":"9"}"#, 109),
        ("too many digits", json, &*digits, 5000),
        ("not JSON", json, "max_tokens=1", 5000),
        ("broken off", json, r#"{"max_tokens":6000,"#, 6010),
        ("nested without end", json, &*nested, 5000),
        ("empty", json, "", 5000),
        ("compressed", gzip, r#"{"max_tokens":6000}"#, 5000),
        ("reported behind the end", json, &*late, 5000),
        ("reported before the end", json, &*first, 9513),
    ];
    on_each_store(|start| {
        let origin = origin(&[]);
        let running = start(Config::limited(origin.url(), RESERVING).one_worker());
        let mut client = Client::connect(running.public);
        for (what, fields, body, reserved) in table {
            let answer = client.post("/zero", fields, body);
            assert_eq!(answer.status, 200, "{what}");
            assert_eq!(1_000_000 - remaining(&answer, "p"), reserved, "{what}");
            let seen = origin.requests().pop().expect("a request");
            assert_eq!(String::from_utf8_lossy(&seen.body), body, "{what}");
            assert_eq!(seen.head.fields("accept-encoding"), ["identity"], "{what}");
        }
        let chunks = "5\r\n{\"max\r\n10\r\n_tokens\":1000,\"a\r\n4\r\n\":1}\r\n0\r\n\r\n";
        let head = "POST /zero HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nRange: bytes=0-1\r\n";
        let interim = client.ask(format!("{head}Expect: 100-continue\r\n\r\n"));
        assert_eq!(interim.status, 100, "the body is needed to decide");
        let answer = client.ask(chunks);
        assert_eq!(1_000_000 - remaining(&answer, "p"), 1013);
        assert!(
            origin
                .requests()
                .pop()
                .expect("a request")
                .head
                .fields("range")
                .is_empty()
        );
    });
}

#[test]
fn a_reserve_that_no_quota_can_hold_is_refused_with_the_reason() {
    on_each_store(|start| {
        let origin = origin(&[]);
        let policy = RESERVING.replace("1000000 per 366 days", "10000 per 366 days");
        let detail = "p: reserves 31999 tokens, quota 10000";
        for (content_type, own) in [
            ("text/plain", format!("{detail}: never")),
            ("application/json", format!("{detail}: null")),
        ] {
            let body = format!(
                "refusal = {{ body = '{{reason}}: {{retry_after}}', content_type = '{content_type}' }}"
            );
            let running = start(Config::limited(origin.url(), &format!("{policy}\n{body}")));
            let answer =
                Client::connect(running.public).post("/zero", "", r#"{"max_tokens":31989}"#);
            assert_eq!((answer.status, answer.text()), (429, own));
        }
        let running = start(Config::limited(origin.url(), &policy));
        let mut client = Client::connect(running.public);
        let answer = client.post("/zero", "", r#"{"max_tokens":31989}"#);
        assert_eq!(answer.status, 429);
        assert_eq!(answer.field("retry-after"), None);
        assert_eq!(answer.problem()["detail"], detail);
        assert!(origin.requests().is_empty());
        let policy = answer.field("ratelimit-policy").expect("a policy");
        assert_eq!(policy, "\"p\";q=10000;qu=\"tokens\";w=31622400");
    });
}

/// `RESERVING` with room for five requests of `SMALL`.
fn five_small(more: &str) -> String {
    let policy = RESERVING.replace("1000000 per 366 days", "1000 per 366 days");
    let policy = policy.replace("reserve_default = 5000", "reserve_default = 900");
    format!("{policy}\nmin_cost = 200\n{more}")
}

const SMALL: &str = r#"{"max_tokens":10}"#;

/// The head of a request whose body the client sends only after a 100 (Continue).
const WITHHELD: &str =
    "POST /zero HTTP/1.1\r\nHost: a.test\r\nContent-Length: 17\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn a_request_that_is_refused_whatever_it_says_is_refused_unread() {
    for algorithm in ["fixed-window", "sliding-log"] {
        on_each_store(|start| {
            let origin = origin(&[]);
            let policy = five_small("").replace("fixed-window", algorithm);
            let running = start(Config::limited(origin.url(), &policy).one_worker());
            let mut client = Client::connect(running.public);
            for _ in 0..5 {
                assert_eq!(client.post("/zero", "", SMALL).status, 200);
            }
            assert_eq!(client.post("/zero", "", SMALL).status, 429);
            // Not even the smallest reserve fits, so the gateway does not ask for the body.
            assert_eq!(client.ask(WITHHELD).status, 429);
            assert_eq!(origin.requests().len(), 5);
        });
    }
}

#[test]
fn a_refusal_that_is_counted_by_what_the_request_says_reads_it() {
    for more in ["candidate = '2000 per hour'", "count = 'all'"] {
        on_each_store(|start| {
            let origin = origin(&[]);
            let running = start(Config::limited(origin.url(), &five_small(more)).one_worker());
            let mut client = Client::connect(running.public);
            for _ in 0..5 {
                assert_eq!(client.post("/zero", "", SMALL).status, 200);
            }
            for _ in 0..2 {
                assert_eq!(client.ask(WITHHELD).status, 100, "{more}");
                assert_eq!(client.ask(SMALL).status, 429, "{more}");
            }
        });
    }
}

#[test]
fn what_became_of_a_reserve_is_in_the_access_log_and_the_metrics() {
    let replies = [
        ("/reported".to_owned(), json(REPORTED)),
        ("/unreported".to_owned(), json("{}")),
        (
            "/much".to_owned(),
            json(r#"{"usage":{"total_tokens":1e9}}"#),
        ),
    ];
    let origin = origin(&replies);
    let process = Process::start(&Config::limited(origin.url(), POLICY).one_worker());
    let mut client = Client::connect(process.public);
    for (target, _) in &replies {
        client.get(target, "");
    }
    let records = process.wait_for_records(3);
    let of = |key| records.iter().map(move |record| record[key].clone());
    let of = |key| of(key).collect::<Vec<_>>();
    assert_eq!(of("costs"), [value!([10]), value!([10]), value!([10])]);
    let charged = [value!([25]), value!([10]), value!([100_000])];
    assert_eq!(of("charged"), charged);
    assert_eq!(
        of("cost_missing"),
        [value!(null), value!("no_number"), value!(null)]
    );
    assert_eq!(
        of("cost_capped"),
        [value!(null), value!(null), value!(true)]
    );
    let metrics = process.metrics();
    for line in [
        r#"tollgate_reserved_units_total{policy="p"} 30"#,
        r#"tollgate_charged_units_total{policy="p"} 100035"#,
        r#"tollgate_capped_costs_total{policy="p"} 1"#,
        r#"tollgate_cost_missing_total{policy="p",reason="no_number"} 1"#,
        r#"tollgate_cost_missing_total{policy="p",reason="cut"} 0"#,
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
}
