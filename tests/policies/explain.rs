//! `POST /api/explain`: it says what would become of a request now, and the same then becomes of it.

use serde_json::{Value, json};

use super::stores::on_each_store;
use crate::support::{Answer, Client, Config, Running, secs, start};

/// Posts `content` to `/api/explain` on the admin port.
fn ask(running: &Running, content: &str) -> Answer {
    let admin = running.gateway.admin_address().expect("an admin port");
    let length = content.len();
    let mut client = Client::connect(admin);
    client.ask(format!(
        "POST /api/explain HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{content}"
    ))
}

fn explain(running: &Running, request: &Value) -> Value {
    let answer = ask(running, &request.to_string());
    assert_eq!(answer.status, 200, "{answer:#?}");
    answer.json()
}

fn config() -> Config {
    let per_key = "partition = ['header:x-api-key']\non_missing = 'refuse'\nalgorithm = 'fixed-window'\n\
                   quota = ['5 per minute', '100 per hour']\ncandidate = '1 per minute'\n\
                   overrides = { bad = 'blocked', 'slow_*' = '1 per hour' }";
    let costly = "quota = '10 per minute'\nalgorithm = 'fixed-window'\ncost = 'request-header:x-cost'\nmax_cost = 20";
    Config::to("builtin:status/200")
        .admin("127.0.0.1:0")
        .listener("trusted_proxies = ['127.0.0.1']\nmax_body_bytes = 10")
        .policy("per-key", per_key)
        .policy("costly", costly)
        .route(
            "/items/{id}",
            "methods = ['GET', 'POST']\npolicies = ['per-key']",
        )
        .route("/costly", "policies = ['costly']")
        .route("/kept/{id}", "encoded_slash = 'keep'")
}

#[test]
fn explain_says_what_is_left_and_spends_nothing() {
    on_each_store(|start| {
        let running = start(config());
        let mut client = Client::connect(running.public);
        for _ in 0..2 {
            assert_eq!(client.get("/items/1", "X-Api-Key: a\r\n").status, 200);
        }
        let asked = json!({ "url": "/items/7", "headers": [["x-api-key", "a"]] });
        for _ in 0..3 {
            let said = explain(&running, &asked);
            let left = |index: usize| said["policies"][0]["quotas"][index]["left"].clone();
            let expected = json!({
                "remaining": 3, "debt": 0, "next_seconds": 60.0, "reset_seconds": 60.0, "fits": true, "fits_in_seconds": 0.0,
                "degraded": false,
            });
            assert_eq!(left(0), expected);
            assert_eq!(left(1)["remaining"], 98);
            assert_eq!(said["policies"][0]["quotas"][2]["candidate"], true);
            assert_eq!(left(2)["fits"], false);
            let live = json!({ "admitted": true, "delay_seconds": 0.0, "degraded": false });
            assert_eq!(said["live"], live);
            let id = said["policies"][0]["id"].as_str().expect("an id");
            assert!(id.starts_with("id:") && id.len() == 35, "{id}");
        }
        for _ in 0..3 {
            assert_eq!(client.get("/items/1", "X-Api-Key: a\r\n").status, 200);
        }
        running.clock.advance(secs(18));
        let said = explain(&running, &asked);
        let refused = client.get("/items/1", "X-Api-Key: a\r\n");
        assert_eq!(
            (refused.status, refused.field("retry-after")),
            (429, Some("42"))
        );
        assert_eq!(said["refused"]["status"], 429);
        assert_eq!(said["refused"]["reason"], "quota_exceeded");
        assert_eq!(said["refused"]["retry_after_seconds"], 42);
        assert_eq!(said["policies"][0]["outcome"], "refused");
        let text = said["text"].as_str().expect("text");
        assert!(text.contains("5 per minute, fixed-window: 0 left, more in 42s, all in 42s; the request fits in 42s"), "{text}");
        let result = "refused with 429 (quota_exceeded) by `per-key`: no room in per-key:1m; Retry-After: 42\n";
        assert!(text.contains(result), "{text}");
    });
}

/// Method, target and fields of a request, and the status that both the gateway and the explanation give it.
type Case<'t> = (&'t str, &'t str, &'t [(&'t str, &'t str)], u16);

#[test]
fn what_is_explained_is_what_happens() {
    on_each_store(|start| {
        let running = start(config());
        let cases: &[Case<'_>] = &[
            ("GET", "/items/1", &[("x-api-key", "a")], 200),
            ("GET", "/items//./1?x=%zz", &[("x-api-key", "a")], 200),
            ("GET", "/items/1", &[], 401),
            ("GET", "/items/1", &[("x-api-key", "bad")], 403),
            ("GET", "/items/1", &[("x-api-key", "slow_1")], 200),
            ("GET", "/items/1", &[("x-api-key", "slow_1")], 429),
            ("PUT", "/items/1", &[("x-api-key", "a")], 404),
            ("get", "/items/1", &[("x-api-key", "a")], 400),
            (
                "GET",
                "/items/1",
                &[("x-api-key", "a"), ("connection", "x-api-key")],
                400,
            ),
            ("GET", "/items/a%2fb", &[("x-api-key", "a")], 400),
            ("GET", "/kept/a%2fb", &[], 200),
            ("GET", "/items/..%2f1", &[("x-api-key", "a")], 400),
            ("GET", "/nothing", &[], 404),
            ("GET", "/costly", &[("x-cost", "7")], 200),
            ("GET", "/costly", &[("x-cost", "7")], 429),
            ("GET", "/costly", &[("x-cost", "3")], 200),
            ("GET", "/costly", &[("x-cost", "many")], 400),
            (
                "GET",
                "/costly",
                &[("x-cost", "20"), ("x-forwarded-for", "203.0.113.9")],
                429,
            ),
            ("GET", "/costly", &[("x-forwarded-for", "203.0.113.9")], 200),
            (
                "POST",
                "/items/1",
                &[("x-api-key", "a"), ("content-length", "11")],
                413,
            ),
            (
                "POST",
                "/items/1",
                &[("x-api-key", "bad"), ("content-length", "11")],
                403,
            ),
            ("TRACE", "/items/1", &[], 501),
            ("GET", "/kept/1", &[("expect", "wonders")], 417),
            ("GET", "/kept/1", &[("host", "a b")], 400),
        ];
        for case in cases {
            let (method, target, fields, status) = *case;
            let said = explain(
                &running,
                &json!({ "method": method, "url": target, "headers": fields }),
            );
            let mut request = format!("{method} {target} HTTP/1.1\r\n");
            if fields.iter().all(|(name, _)| *name != "host") {
                request += "Host: localhost\r\n";
            }
            for (name, value) in fields {
                request.extend([name, ": ", value, "\r\n"]);
            }
            let answer = Client::connect(running.public).ask(format!("{request}\r\n"));
            assert_eq!(answer.status, status, "{case:?}: {answer:#?}");
            let foreseen = said["refused"]["status"].as_u64().unwrap_or(200);
            assert_eq!(foreseen, u64::from(status), "{case:?}: {said:#}");
            let after = said["refused"]["retry_after_seconds"].as_u64();
            let retry_after = answer.field("retry-after").map(str::to_owned);
            assert_eq!(retry_after, after.map(|secs| secs.to_string()), "{case:?}");
        }
    });
}

#[test]
fn explain_says_that_the_store_does_not_answer_and_what_happens_then() {
    let store = "[store]\nurl = 'redis://127.0.0.1:9'\ntimeout = '50ms'";
    for (on_failure, status) in [("local", 200), ("open", 200), ("closed", 503)] {
        let policy = format!("quota = '5 per minute'\non_store_failure = '{on_failure}'");
        let config = Config::to("builtin:status/200")
            .admin("127.0.0.1:0")
            .policy("p", &policy);
        let running = start(&config.route("/*", "policies = ['p']").with(store));
        let said = explain(&running, &json!({ "url": "/" }));
        let foreseen = said["refused"]["status"].as_u64().unwrap_or(200);
        assert_eq!(foreseen, status, "{on_failure}: {said:#}");
        assert_eq!(said["live"]["degraded"], true, "{on_failure}");
        assert_eq!(said["live"]["admitted"], status == 200, "{on_failure}");
    }
}

#[test]
fn a_question_that_cannot_be_read_is_refused() {
    let running = start(&config());
    for (content, expected) in [
        ("", "expected `url`"),
        ("[]", "must be a JSON object"),
        ("{}", "expected `url`"),
        (r#"{"url": 7}"#, "expected `url`"),
        (r#"{"url": "a b"}"#, "this is not a URL"),
        (r#"{"url": "/", "headers": {"a": "b"}}"#, "a list of pairs"),
        (r#"{"url": "/", "headers": [["a"]]}"#, "a list of pairs"),
        (
            r#"{"url": "/", "headers": [["a", "b\r\nc: d"]]}"#,
            "this is not a header",
        ),
        (
            r#"{"url": "/", "method": "\u0000"}"#,
            "this is not a method",
        ),
        (
            r#"{"url": "/", "from": "nowhere"}"#,
            "where a request comes from",
        ),
        (
            r#"{"url": "/", "listener": "edge"}"#,
            "there is no listener `edge`",
        ),
        (r#"{"url": "/", "spend": true}"#, "unknown"),
    ] {
        let answer = ask(&running, content);
        assert_eq!(answer.status, 400, "{content}: {answer:#?}");
        let detail = answer.problem()["detail"].to_string();
        assert!(detail.contains(expected), "{content}: {detail}");
    }
}
