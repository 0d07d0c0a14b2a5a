//! `builtin:usage`: a client learns what is left of its own quotas, and spends none of them.

use serde_json::{Value, json};

use super::stores::on_each_store;
use crate::support::ratelimit::{item, remaining, state};
use crate::support::{Answer, Client, Config, get, secs, start};

/// A route with three policies, one without any, and an unlimited route for usage.
fn config() -> Config {
    let per_key = "partition = ['header:x-api-key']\non_missing = 'refuse'\nalgorithm = 'fixed-window'\n\
                   quota = ['5 per minute', '100 per hour']\nunit = 'calls'\n\
                   overrides = { free = 'unlimited', bad = 'blocked', big = '50 per minute' }";
    let per_user = "partition = ['query:user']\non_missing = 'skip'\nalgorithm = 'fixed-window'\nquota = '9 per second'";
    let watched = "quota = '1 per day'\nmode = 'shadow'";
    Config::to("builtin:status/200")
        .policy("per-key", per_key)
        .policy("per-user", per_user)
        .policy("watched", watched)
        .route(
            "/items/{id}",
            "methods = ['GET']\npolicies = ['per-key', 'per-user', 'watched']",
        )
        .route("/open", "")
        .beside("usage", "builtin:usage", "/usage", "")
}

fn usage(client: &mut Client, query: &str, key: &str) -> Answer {
    client.get(&format!("/usage?{query}"), &format!("X-Api-Key: {key}\r\n"))
}

fn policies(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:#?}");
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert_eq!(answer.field("cache-control"), Some("private, max-age=1"));
    answer.json()["policies"].take()
}

#[test]
fn usage_says_what_is_left_and_spends_nothing() {
    on_each_store(|start| {
        let running = start(config());
        let mut client = Client::connect(running.public);
        for _ in 0..2 {
            let answer = client.get("/items/1", "X-Api-Key: a\r\n");
            assert_eq!(answer.status, 200);
        }
        for _ in 0..3 {
            let answer = usage(&mut client, "path=/items/7%3Fuser=u", "a");
            let skipped_or_limited = json!([
                { "name": "per-key", "status": "limited", "unit": "calls", "quotas": [
                    { "limit": 5, "window": 60, "remaining": 3, "reset": 60 },
                    { "limit": 100, "window": 3600, "remaining": 98, "reset": 3600 },
                ] },
                { "name": "per-user", "status": "limited", "unit": "requests", "quotas": [
                    { "limit": 9, "window": 1, "remaining": 9, "reset": 0 },
                ] },
            ]);
            assert_eq!(policies(&answer), skipped_or_limited);
            let fields = [
                item("per-key:1m", &[("r", 3), ("t", 60)]),
                item("per-key:1h", &[("r", 98), ("t", 3600)]),
                item("per-user", &[("r", 9)]),
            ];
            assert_eq!(state(&answer), fields);
        }
        let left = [2, 1, 0].map(|left| {
            let answer = client.get("/items/1", "X-Api-Key: a\r\n");
            assert_eq!(remaining(&answer, "per-key:1m"), left);
            answer.status
        });
        assert_eq!(left, [200; 3]);
        assert_eq!(client.get("/items/1", "X-Api-Key: a\r\n").status, 429);
    });
}

#[test]
fn usage_says_who_is_not_limited_by_a_quota_and_why() {
    on_each_store(|start| {
        let running = start(config());
        let mut client = Client::connect(running.public);
        let per_user =
            json!({ "name": "per-user", "status": "skipped", "unit": "requests", "quotas": [] });
        let per_key = |status: &str| json!({ "name": "per-key", "status": status, "unit": "calls", "quotas": [] });
        for (key, expected) in [
            (
                "X-Api-Key: free\r\n",
                json!([per_key("unlimited"), per_user]),
            ),
            ("X-Api-Key: bad\r\n", json!([per_key("blocked")])),
            ("", json!([per_key("unidentified")])),
        ] {
            let answer = client.get("/usage?path=/items/1", key);
            assert_eq!(policies(&answer), expected, "{key}");
            assert_eq!(answer.field("ratelimit"), None);
        }
        running.clock.advance(secs(1));
        let answer = usage(&mut client, "path=/items/1", "big");
        let quotas = json!([{ "limit": 50, "window": 60, "remaining": 50, "reset": 0 }]);
        assert_eq!(policies(&answer)[0]["quotas"], quotas);
        assert_eq!(policies(&usage(&mut client, "path=/open", "a")), json!([]));
    });
}

#[test]
fn usage_is_looked_up_once_a_second_for_each_client() {
    on_each_store(|start| {
        let running = start(config());
        // Two connections, so that both workers are asked.
        let mut clients = [running.public; 2].map(Client::connect);
        let left = |answer: &Answer| policies(answer)[0]["quotas"][0]["remaining"].clone();
        assert_eq!(left(&usage(&mut clients[0], "path=/items/1", "a")), 5);
        assert_eq!(
            get(running.public, "/items/1", "X-Api-Key: a\r\n").status,
            200
        );
        for client in &mut clients {
            assert_eq!(left(&usage(client, "path=/items/2", "a")), 5, "as it was");
            let other = usage(client, "path=/items/1", "b");
            assert_eq!(other.status, 429);
            assert_eq!(other.field("retry-after"), Some("1"));
            assert_eq!(other.problem()["type"], "about:blank");
        }
        let mut foreign = Client::connect_from([127, 0, 0, 2], running.public);
        assert_eq!(left(&usage(&mut foreign, "path=/items/1", "a")), 4);
        running.clock.advance(secs(1));
        assert_eq!(left(&usage(&mut clients[1], "path=/items/1", "b")), 5);
        running.clock.advance(secs(1));
        assert_eq!(left(&usage(&mut clients[0], "path=/items/1", "a")), 4);
    });
}

#[test]
fn usage_is_of_the_request_that_the_query_names() {
    let tenants = "partition = ['host', 'path:id', 'method']\nquota = '3 per day'";
    let config = config()
        .policy("tenants", tenants)
        .route("/t/{id}", "host = '*.a.test'\npolicies = ['tenants']");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    let spend = "POST /t/7 HTTP/1.1\r\nHost: x.a.test\r\n\r\n";
    assert_eq!(client.ask(spend).status, 200);
    let mut client = Client::connect(running.public);
    for (query, status, left) in [
        ("path=/t/7&method=POST&host=x.a.test", 200, 2),
        ("host=X.A.test:81&method=POST&path=/t/./7", 200, 2),
        ("path=/t/7&method=POST&host=y.a.test", 200, 3),
        ("path=/t/8&method=POST&host=x.a.test", 200, 3),
        ("path=/t/7&host=x.a.test", 200, 3),
        ("path=/t/7&method=POST", 404, 0),
        ("path=/nothing", 404, 0),
        ("path=/items/1&method=PUT", 404, 0),
        ("path=/items/1&method=get", 400, 0),
        ("", 400, 0),
        ("path=items", 400, 0),
        ("path=/t/..%252f7", 400, 0),
        ("path=/a&path=/b", 400, 0),
        ("path=/a%00", 400, 0),
        ("path=/t/7&method=G%20T", 400, 0),
        ("path=/t/7&host=a%0d%0ab", 400, 0),
        ("path=/t/7&host=a/b", 400, 0),
    ] {
        running.clock.advance(secs(1));
        let answer = usage(&mut client, query, "a");
        assert_eq!(answer.status, status, "{query}");
        match status {
            200 => assert_eq!(
                policies(&answer)[0]["quotas"][0]["remaining"],
                left,
                "{query}"
            ),
            _ => assert!(!answer.says_close(), "{query}"),
        }
        assert!(answer.status != 400 || answer.problem()["status"] == 400);
    }
}

#[test]
fn usage_is_decided_by_its_own_routes_policies_and_tells_their_quotas_once() {
    on_each_store(|start| {
        let p = "quota = ['3 per hour', '9 per calendar month']\nalgorithm = 'fixed-window'";
        let config = Config::to("builtin:status/200")
            .policy("p", p)
            .route("/a", "policies = ['p']")
            .beside("usage", "builtin:usage", "/usage", "policies = ['p']");
        let running = start(config);
        let mut client = Client::connect(running.public);
        for left in [2, 1, 0] {
            running.clock.advance(secs(1));
            let answer = client.get("/usage?path=/a", "");
            let quotas = policies(&answer)[0]["quotas"].take();
            assert_eq!(quotas[0]["remaining"], left);
            // A month has no fixed number of seconds.
            let month = &quotas[1];
            assert_eq!(
                (&month["calendar"], &month["remaining"]),
                (&json!("month"), &json!(left + 6))
            );
            assert_eq!(month["window"], Value::Null);
            assert_eq!(state(&answer).len(), 2, "{answer:#?}");
            assert_eq!(remaining(&answer, "p:1h"), left);
        }
        assert_eq!(client.get("/usage?path=/a", "").status, 429);
    });
}
