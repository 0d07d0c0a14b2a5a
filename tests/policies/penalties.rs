//! Penalties: a client that was refused stays refused for a time.

use serde_json::{Value, json};

use super::stores::on_each_store;
use crate::support::ratelimit::{item, state};
use crate::support::{Answer, Client, Config, Running, TOKEN, get, orders, secs};

const ABNORMAL: &str = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

fn punishing(lines: &str) -> Config {
    let lines =
        format!("quota = '2 per second'\nalgorithm = 'fixed-window'\npenalty = '5m'\n{lines}");
    let config = Config::limited("builtin:status/200", &lines);
    (config.admin("127.0.0.1:0")).admin_token(TOKEN)
}

fn said(running: &Running, command: &str) -> Value {
    let (status, said) = orders::said(running, command, "127.0.0.1", &json!({}));
    assert_eq!(status, 200, "{said}");
    said
}

#[track_caller]
fn refused(answer: &Answer, retry_after: &str) {
    assert_eq!(answer.status, 429);
    assert_eq!(answer.field("retry-after"), Some(retry_after));
    let problem: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(problem["type"], ABNORMAL);
    assert_eq!(problem["violated-policies"], json!(["p"]));
}

#[test]
fn who_was_refused_is_refused_until_the_penalty_ends() {
    on_each_store(|start| {
        let running = start(punishing(""));
        let mut client = Client::connect(running.public);
        let mut ask = || client.get("/", "");
        assert_eq!([ask().status, ask().status], [200, 200]);
        refused(&ask(), "300");
        running.clock.advance(secs(60));
        // The quota is whole again, but the client is told when the penalty ends.
        let later = ask();
        refused(&later, "240");
        assert_eq!(state(&later), [item("p", &[("r", 0), ("t", 240)])]);
        let report = said(&running, "get");
        assert_eq!(report["penalty_seconds"], 240, "{report}");
        running.clock.advance(secs(240));
        assert_eq!(ask().status, 200);
        assert_eq!(said(&running, "get")["penalty_seconds"], Value::Null);
    });
}

#[test]
fn a_reset_ends_a_penalty_and_its_growth() {
    on_each_store(|start| {
        let running = start(punishing("penalty_growth = 10"));
        let mut client = Client::connect(running.public);
        let mut until_refused = |expected: &str| {
            let answer = loop {
                let answer = client.get("/", "");
                if answer.status != 200 {
                    break answer;
                }
            };
            refused(&answer, expected);
        };
        until_refused("300");
        running.clock.advance(secs(300));
        until_refused("3000");
        let before = said(&running, "reset")["before"].clone();
        assert_eq!(before["penalty_seconds"], 3000, "{before}");
        until_refused("300");
    });
}

#[test]
fn in_shadow_a_penalty_shows_whom_it_would_refuse() {
    on_each_store(|start| {
        let running = start(punishing("mode = 'mark'"));
        let over = |answer: &Answer| answer.field("retry-after").is_some();
        let mut client = Client::connect(running.public);
        for _ in 0..5 {
            let answer = client.get("/", "");
            assert_eq!((answer.status, over(&answer)), (200, false));
        }
        running.clock.advance(secs(10));
        let answer = client.get("/", "");
        assert_eq!(state(&answer), [item("p", &[("r", 0), ("t", 290)])]);
    });
}

#[test]
fn what_another_policy_refuses_begins_no_penalty() {
    on_each_store(|start| {
        let config = Config::to("builtin:status/200")
            .policy(
                "strict",
                "quota = '1 per second'\nalgorithm = 'fixed-window'",
            )
            .policy(
                "p",
                "quota = '3 per second'\nalgorithm = 'fixed-window'\npenalty = '1h'",
            )
            .route("/*", "policies = ['strict', 'p']")
            .route("/p", "policies = ['p']");
        let running = start(config);
        let status = |path: &str| get(running.public, path, "").status;
        assert_eq!([status("/"), status("/"), status("/")], [200, 429, 429]);
        assert_eq!([status("/p"), status("/p"), status("/p")], [200, 200, 429]);
        running.clock.advance(secs(2));
        let refusal = get(running.public, "/", "");
        refused(&refusal, "3598");
        // The penalty has ended, and `strict` has its unit back.
        running.clock.advance(secs(3598));
        assert_eq!(status("/"), 200);
    });
}
