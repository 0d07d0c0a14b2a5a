//! Which clients are refused, spend and come near to a quota, as the API shows them.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate::clock::Micros;

use super::api::{OfFile, RIGHT, TOKEN, ask, assert_described, config};
use crate::support::Client;

/// Returns what the API shows of clients.
fn shown(admin: SocketAddr, query: &str) -> Value {
    let path = format!("/api/usage{query}");
    let answer = ask(admin, "GET", &path, RIGHT, "");
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    assert_described("GET", "/api/usage", &answer);
    answer.json()
}

#[test]
fn top_clients_are_found_and_can_be_blocked_by_what_is_shown_of_them() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN).replace(
        "quota = '10 per minute'",
        "quota = '10 per minute'\npartition = ['header:x-key']",
    ));
    let mut client = Client::connect(gateway.public());
    let mut statuses = |key: &str, times: usize| -> Vec<u16> {
        let asked = (0..times).map(|_| client.get("/", &format!("X-Key: {key}\r\n")).status);
        asked.collect()
    };
    statuses("key-of-one", 14);
    statuses("key-of-another", 11);
    statuses("<script>alert(1)</script>", 6);
    statuses("asks-once", 1);
    let admin = gateway.admin();
    let policy = &shown(admin, "")["policies"][0];
    let of = |order: &str, member: &str| -> Vec<Value> {
        let clients = policy[order].as_array().expect("a list");
        clients.iter().map(|one| one[member].clone()).collect()
    };
    assert_eq!(of("refused", "at_least"), [4, 1]);
    assert_eq!(of("spent", "at_least"), [10, 10, 6, 1]);
    assert_eq!(of("nearest", "used_percent"), [100.0, 100.0, 60.0]);
    let names = of("refused", "client");
    let name = names[0].as_str().expect("text");
    assert!(name.starts_with("key-~") && name.len() == 13, "{name}");
    let page = shown(admin, "?policy=p&order=spent&offset=1&limit=2");
    assert_eq!(
        (
            &page["count"],
            &page["next_offset"],
            page["clients"].as_array().map(Vec::len)
        ),
        (&json!(4), &json!(3), Some(2))
    );
    let last = shown(admin, "?policy=p&order=spent&offset=3");
    assert_eq!(last["next_offset"], Value::Null);
    for (query, status) in [
        ("?policy=q", 404),
        ("?order=spent", 400),
        ("?policy=p&order=name", 400),
        ("?policy=p&limit=0", 400),
        ("?policy=p&limit=1001", 400),
        ("?policy=p&offset=-1", 400),
        ("?policy=p&policy=p", 400),
        ("?policies=p", 400),
    ] {
        let answer = ask(admin, "GET", &format!("/api/usage{query}"), RIGHT, "");
        assert_eq!(answer.status, status, "{query}");
        assert_described("GET", "/api/usage", &answer);
    }
    // A reload keeps the counts.
    let reloaded = ask(admin, "POST", "/api/reload", RIGHT, "");
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(shown(admin, "")["policies"][0], *policy);
    let id = of("spent", "id")[2].clone();
    let order = json!({ "policy": "p", "value": id, "for": "1h" }).to_string();
    let fields = format!("{RIGHT}Content-Type: application/json\r\n");
    let blocked = ask(admin, "POST", "/api/keys/block", &fields, &order);
    assert_eq!(blocked.status, 200, "{}", blocked.text());
    assert_eq!(statuses("<script>alert(1)</script>", 2), [403, 403]);
    let refused = shown(admin, "?policy=p");
    let last = &refused["clients"][1];
    assert_eq!((&last["id"], &last["at_least"]), (&id, &json!(2)));
}

#[test]
fn a_client_that_reaches_a_threshold_is_told_of_once_until_its_quota_was_whole() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN).replace(
        "quota = '10 per minute'",
        "quota = ['10 per minute', '100 per hour']\nalgorithm = 'fixed-window'\n\
         partition = ['header:x-key']\nnotify = ['50%', '100%']",
    ));
    let mut client = Client::connect(gateway.public());
    let mut ask_times = |key: &str, times: usize| {
        for _ in 0..times {
            client.get("/", &format!("X-Key: {key}\r\n"));
        }
    };
    let admin = gateway.admin();
    let counted = |percent: u8| {
        let text = ask(admin, "GET", "/metrics", RIGHT, "").text();
        let series =
            format!("tollgate_notifications_total{{policy=\"p\",threshold=\"{percent}%\"}} ");
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.strip_prefix(&series));
        found.map(str::to_owned).expect("there from the start")
    };
    assert_eq!((counted(50), counted(100)), ("0".into(), "0".into()));
    ask_times("one", 4);
    assert_eq!((counted(50), counted(100)), ("0".into(), "0".into()));
    ask_times("one", 10);
    ask_times("another", 5);
    assert_eq!((counted(50), counted(100)), ("2".into(), "1".into()));
    let told = shown(admin, "")["notifications"].clone();
    let told: Vec<(&Value, &Value, &Value)> = (told.as_array().expect("a list").iter())
        .map(|one| (&one["quota"], &one["threshold_percent"], &one["remaining"]))
        .collect();
    let quota = json!("p: 10 per 1m");
    assert_eq!(
        told,
        [
            (&quota, &json!(50), &json!(5)),
            (&quota, &json!(100), &json!(0)),
            (&quota, &json!(50), &json!(5)),
        ]
    );
    gateway.clock.advance(Micros::from_secs(60));
    ask_times("one", 6);
    assert_eq!((counted(50), counted(100)), ("3".into(), "1".into()));
}

#[test]
fn what_comes_back_is_not_spent_a_client_in_flight_is_told_of_once_and_one_that_is_blocked_counts_once()
 {
    let policies = "quota = '10 per minute'\ncount_status = [404]\noverrides = { 'bad' = 'blocked' }\nmode = 'shadow'\n\
                    partition = ['header:x-key']\n[policies.q]\nquota = '1 in flight'\nnotify = ['100%']";
    let config = config("10 per minute", TOKEN)
        .replace("quota = '10 per minute'", policies)
        .replace("policies = ['p']", "policies = ['p', 'q']");
    let gateway = OfFile::start(&config);
    let mut client = Client::connect(gateway.public());
    for key in ["one", "one", "bad"] {
        assert_eq!(client.get("/", &format!("X-Key: {key}\r\n")).status, 200);
    }
    let said = shown(gateway.admin(), "");
    assert_eq!(said["policies"][0]["spent"], json!([]));
    assert_eq!(said["policies"][0]["refused"][0]["at_least"], 1);
    let told = said["notifications"].as_array().expect("a list");
    assert_eq!(told.len(), 1, "{told:?}");
}
