//! What answers cost: those that report a cost, those that do not, and those that cannot be read.

use super::{POLICY, REPORTED, Reply, chunked, cut, json, left, of_type, origin, raw};
use crate::stores::on_each_store;
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, eventually};

/// Answers that report what they cost.
fn reported() -> Vec<(&'static str, Reply, i64)> {
    let stream = "text/event-stream";
    let event = "data: {\"usage\":{\"total_tokens\":40}}\n\n";
    let done = "data: [DONE]\n\n";
    let begun = "data: {\"choices\":[{\"delta\":\"a\"}],\"usage\":null}\n\n";
    vec![
        ("a document", json(REPORTED), 25),
        (
            "its type has parameters",
            of_type("application/JSON; charset=utf-8", REPORTED),
            25,
        ),
        (
            "a problem",
            of_type("application/problem+json", REPORTED),
            25,
        ),
        (
            "in chunks",
            chunked(
                "application/json",
                &[&REPORTED[..9], &REPORTED[9..30], &REPORTED[30..]],
            ),
            25,
        ),
        (
            "lines",
            of_type(
                "application/x-ndjson",
                "{\"usage\":{\"total_tokens\":1}}\n{}\n",
            ),
            1,
        ),
        ("a stream", chunked(stream, &[begun, event, done]), 40),
        (
            "above the maximum",
            json(r#"{"usage":{"total_tokens":1e30}}"#),
            100_000,
        ),
    ]
}

/// Whole answers that do not report a cost.
fn unreported() -> Vec<(&'static str, Reply, i64)> {
    let stream = "text/event-stream";
    let done = "data: [DONE]\n\n";
    let begun = "data: {\"choices\":[{\"delta\":\"a\"}],\"usage\":null}\n\n";
    let length = REPORTED.len();
    vec![
        ("nothing", json(r#"{"usage":{}}"#), 10),
        (
            "a decoy in another type",
            of_type("text/plain", REPORTED),
            10,
        ),
        (
            "no type",
            raw(&format!("200 OK\r\nContent-Length: {length}"), REPORTED),
            10,
        ),
        ("no JSON", json("<html>"), 10),
        ("no content", raw("204 No Content", ""), 10),
        (
            "a stream without usage",
            chunked(stream, &[begun, done]),
            10,
        ),
    ]
}

/// Answers that cannot be read, or not to their end, and a counterpart that can.
fn unreadable() -> Vec<(&'static str, Reply, i64)> {
    let with = |fields: &str, body: &str| {
        raw(
            &format!("200 OK\r\nContent-Type: application/json\r\n{fields}"),
            body,
        )
    };
    let length = REPORTED.len();
    vec![
        (
            "compressed",
            with(
                &format!("Content-Encoding: gzip\r\nContent-Length: {length}"),
                REPORTED,
            ),
            10,
        ),
        (
            "not compressed",
            with(
                &format!("Content-Encoding: identity\r\nContent-Length: {length}"),
                REPORTED,
            ),
            25,
        ),
        (
            "a part",
            raw(
                &format!(
                    "206 Partial Content\r\nContent-Type: application/json\r\nContent-Length: {length}"
                ),
                REPORTED,
            ),
            10,
        ),
        (
            "cut before it tells",
            cut(with("Content-Length: 100", "{\"usage\":")),
            10,
        ),
        (
            "cut when it has reported",
            cut(with("Transfer-Encoding: chunked", "26\r\n")),
            10,
        ),
        (
            "cut behind less than the reserve",
            cut(raw(
                "200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked",
                "22\r\ndata: {\"usage\":{\"total_tokens\":4}}\n\n\r\n",
            )),
            10,
        ),
        (
            "cut behind more",
            cut(raw(
                "200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked",
                "23\r\ndata: {\"usage\":{\"total_tokens\":40}}\n\n\r\n",
            )),
            40,
        ),
        (
            "ended by its connection, and complete",
            cut(raw(
                "200 OK\r\nContent-Type: application/json\r\nConnection: close",
                r#"{"usage":{"total_tokens":4}}"#,
            )),
            4,
        ),
        (
            "ended by its connection, and not complete",
            cut(raw(
                "200 OK\r\nContent-Type: application/json\r\nConnection: close",
                r#"{"usage":{"total_tokens":4}"#,
            )),
            10,
        ),
        (
            "an error",
            raw(
                "500 No\r\nContent-Type: application/json\r\nContent-Length: 2",
                "{}",
            ),
            10,
        ),
    ]
}

/// Requests each reply in turn, and checks what it costs under a policy that reserves 10.
pub(super) fn costs(policy: &str, table: &[(&str, Reply, i64)]) {
    let replies = (0..).zip(table);
    let replies: Vec<_> = replies
        .map(|(at, (_, reply, _))| (format!("/{at}"), reply.clone()))
        .collect();
    on_each_store(|start| {
        let origin = origin(&replies);
        let running = start(Config::limited(origin.url(), policy).one_worker());
        let mut client = Client::connect(running.public);
        let mut before = left(&mut client);
        for (at, (what, _, cost)) in table.iter().enumerate() {
            let mut asking = Client::asking(running.public, &format!("/{at}"), "");
            let mut answer = asking.head().expect(what);
            assert_eq!(
                remaining(&answer, "p"),
                before - 10,
                "{what}: the reserve is reported"
            );
            // Some answers are cut off.
            let _ = asking.finish(&mut answer);
            eventually(what, || (before - left(&mut client) == *cost).then_some(()));
            before -= cost;
        }
    });
}

#[test]
fn an_answer_costs_what_it_tells_and_otherwise_the_most_that_can_be_said() {
    costs(POLICY, &[reported(), unreported(), unreadable()].concat());
}
