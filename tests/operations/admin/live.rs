//! What the dashboard shows first, as it happens.

use serde_json::Value;

use super::api::{OfFile, RIGHT, TOKEN, ask, assert_described, config, follow};
use crate::support::Client;

fn sum(list: &Value) -> u64 {
    let counts = list.as_array().expect("a list").iter();
    counts.map(|count| count.as_u64().expect("a count")).sum()
}

#[test]
fn a_stream_begins_with_the_last_minutes_and_says_what_each_step_brings() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN).replace(
        "quota = '10 per minute'",
        "quota = '10 per minute'\npartition = ['header:x-key']",
    ));
    let (admin, mut client) = (gateway.admin(), Client::connect(gateway.public()));
    let mut ask_times = |key: &str, times: usize| {
        for _ in 0..times {
            client.get("/", &format!("X-Key: {key}\r\n"));
        }
    };
    ask_times("one", 14);
    let mut stream = follow(admin, "/api/live");
    let before = stream.event("history");
    ask_times("<b>two</b>", 12);
    let mut counted = [
        sum(&before["totals"]["requests"]),
        sum(&before["totals"]["refused"]),
    ];
    let step = loop {
        let step = stream.event("step");
        for (count, name) in counted.iter_mut().zip(["requests", "refused"]) {
            *count += step["totals"][name].as_u64().unwrap_or(0);
        }
        if counted[0] >= 26 {
            break step;
        }
    };
    assert_eq!(counted, [26, 6]);
    let refused: Vec<_> = (step["top"]["refused"].as_array().expect("a list").iter())
        .map(|one| (one["policy"].clone(), one["at_least"].clone()))
        .collect();
    assert_eq!(refused, [("p".into(), 4.into()), ("p".into(), 2.into())]);
    assert_eq!(
        (&step["store"]["state"], &step["reload"]),
        (&"ok".into(), &Value::Null)
    );
    // A stream that begins later starts with what has been counted, by policy and route.
    let history = follow(admin, "/api/live").event("history");
    let of = |list: &str, name: &str| -> Value {
        let mut found = history[list].as_array().expect("a list").iter();
        let found = found.find(|one| one["name"] == name);
        found.cloned().expect("it has counted")
    };
    assert_eq!(
        [
            sum(&of("policies", "p")["admitted"]),
            sum(&of("policies", "p")["refused"])
        ],
        [20, 6]
    );
    assert_eq!(
        [
            sum(&of("routes", "/*")["requests"]),
            sum(&of("routes", "/*")["refused"])
        ],
        [26, 6]
    );
    let now = ask(admin, "GET", "/api/live", RIGHT, "");
    assert_described("GET", "/api/live", &now);
    assert_eq!(sum(&now.json()["history"]["totals"]["refused"]), 6);
}

#[test]
fn a_new_token_ends_what_was_watched_with_the_old_one() {
    let text = config("10 per minute", TOKEN);
    let gateway = OfFile::start(&text);
    let mut stream = follow(gateway.admin(), "/api/live");
    stream.event("history");
    gateway.rewrite(&text.replace("0123456789abcdef", "fedcba9876543210"));
    let reloaded = ask(gateway.admin(), "POST", "/api/reload", RIGHT, "");
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    stream.rest();
}
