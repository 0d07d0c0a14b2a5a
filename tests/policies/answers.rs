//! What follows a decision: marked requests, refusals in the operator's own words, fields of a route, and what browsers
//! may read.

use super::stores::on_each_store;
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Origin, get};

const TWO: &str = "quota = '2 per hour'\nalgorithm = 'fixed-window'\npartition = []";

#[test]
fn a_marking_policy_admits_and_tells_the_upstream_and_the_client() {
    on_each_store(|start| {
        let origin = Origin::plain();
        let running = start(Config::limited(
            origin.url(),
            &format!("{TWO}\nmode = 'mark'"),
        ));
        let mut client = Client::connect(running.public);
        let asked = (0..4).map(|_| {
            let answer = client.get("/", "Tollgate-Over: forged\r\nTollgate_Over: forged\r\n");
            (answer.status, remaining(&answer, "p"))
        });
        let asked: Vec<_> = asked.collect();
        assert_eq!(asked, [(200, 1), (200, 0), (200, 0), (200, 0)]);
        let over = origin.requests().into_iter().map(|request| {
            let fields = request.head.fields("tollgate-over");
            fields.iter().map(ToString::to_string).collect::<Vec<_>>()
        });
        let over: Vec<Vec<String>> = over.collect();
        assert_eq!(
            over,
            [vec![], vec![], vec!["p".to_owned()], vec!["p".to_owned()]]
        );
    });
}

#[test]
fn a_policy_refuses_in_its_own_words() {
    on_each_store(|start| {
        let with = |lines: &str| Config::limited("builtin:status/200", &format!("{TWO}\n{lines}"));
        let problem = "application/problem+json";
        for (lines, status, content_type, body) in [
            (
                "refusal = { status = 503 }",
                503,
                problem,
                r#""status":503,"violated-policies":["p"]"#,
            ),
            (
                "refusal = { body = 'Slow down.' }",
                429,
                "text/plain; charset=utf-8",
                "Slow down.",
            ),
            (
                "[policies.p.refusal]\nstatus = 402\nbody = '<h1>Pay</h1>'\ncontent_type = 'text/html'",
                402,
                "text/html",
                "<h1>Pay</h1>",
            ),
            (
                "refusal = { body = '{policy}: {reason}, {retry_after} s; {other} {{}' }",
                429,
                "text/plain; charset=utf-8",
                "p: p: 2 per 1h is used up, 3600 s; {other} {{}",
            ),
            (
                "refusal = { body = '{\"wait\":{retry_after},\"why\":\"{reason}\"}', content_type = 'application/json' }",
                429,
                "application/json",
                r#"{"wait":3600,"why":"p: 2 per 1h is used up"}"#,
            ),
        ] {
            let running = start(with(lines));
            let mut client = Client::connect(running.public);
            let mut answer = client.get("/", "");
            for _ in 0..2 {
                answer = client.get("/", "");
            }
            assert_eq!(answer.status, status, "{lines}");
            assert_eq!(answer.field("content-type"), Some(content_type), "{lines}");
            let text = String::from_utf8(answer.body.clone()).expect("text");
            assert!(text.contains(body), "{lines}: {text}");
            assert_eq!(answer.field("retry-after"), Some("3600"), "{lines}");
            // gRPC is refused in its own form: status 200, `grpc-status` 8, and no body.
            let grpc = client.get("/", "Content-Type: application/grpc\r\n");
            assert_eq!((grpc.status, grpc.field("grpc-status")), (200, Some("8")));
            assert!(grpc.body.is_empty());
        }
    });
}

#[test]
fn retry_after_is_never_earlier_and_at_most_the_jitter_later() {
    on_each_store(|start| {
        for (jitter, most) in [("0s", 3600), ("10%", 3960), ("30m", 5400)] {
            let policy = format!("{TWO}\nrefusal = {{ retry_jitter = '{jitter}' }}");
            let running = start(Config::limited("builtin:status/200", &policy));
            let mut client = Client::connect(running.public);
            let answers: Vec<_> = (0..102).map(|_| client.get("/", "")).collect();
            let seconds = answers[2..].iter().map(|answer| {
                let retry = answer.field("retry-after").expect("a refusal");
                retry.parse::<u64>().expect("seconds")
            });
            let (least, greatest) = (seconds.clone().min(), seconds.max());
            assert!(
                least >= Some(3600) && greatest <= Some(most),
                "{jitter}: {least:?} {greatest:?}"
            );
            assert_eq!(least == greatest, jitter == "0s", "a hundred draws differ");
        }
    });
}

#[test]
fn the_first_policy_that_refuses_says_how_and_the_longest_says_when() {
    on_each_store(|start| {
        let config = Config::to("builtin:status/200")
            .policy(
                "short",
                "quota = '1 per minute'\npartition = []\nrefusal = { body = 'short' }",
            )
            .policy(
                "long",
                "quota = '1 per hour'\npartition = []\nrefusal = { body = 'long' }",
            )
            .route("/*", "policies = ['short', 'long']");
        let running = start(config);
        let mut client = Client::connect(running.public);
        assert_eq!(client.get("/", "").status, 200);
        let refused = client.get("/", "");
        assert_eq!(refused.body, b"short");
        let retry: u64 = refused
            .field("retry-after")
            .expect("a refusal")
            .parse()
            .expect("seconds");
        assert!(retry > 3000, "{retry}");
    });
}

#[test]
fn fields_of_a_route_are_changed_in_every_answer_of_it() {
    on_each_store(|start| {
        let origin = Origin::answering(
            "HTTP/1.1 200 OK\r\nServer: x\r\nVary: a\r\nContent-Length: 2\r\n\r\nok",
        );
        let config = Config::limited(origin.url(), TWO).with(
        "[routes.response_headers]\nset = { vary = 'b', x-gateway = 'Tollgate' }\nremove = ['Server']",
    );
        let running = start(config);
        let mut client = Client::connect(running.public);
        for status in [200, 200, 429] {
            let answer = client.get("/", "");
            assert_eq!(answer.status, status);
            assert_eq!(answer.field("x-gateway"), Some("Tollgate"));
            assert_eq!(answer.head.fields("vary"), ["b"]);
            assert_eq!(answer.field("server"), None);
        }
    });
}

#[test]
fn browsers_may_read_the_limit_fields_where_they_may_read_the_answer() {
    on_each_store(|start| {
        let exposed = |fields: &str, set: &str, asked: usize| {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
            let origin = Origin::answering(answer);
            let config = Config::limited(origin.url(), TWO)
                .with(&format!("[routes.response_headers]\nset = {{ {set} }}"));
            let running = start(config);
            let answers: Vec<_> = (0..asked).map(|_| get(running.public, "/", "")).collect();
            answers[asked - 1]
                .head
                .fields("access-control-expose-headers")
                .join(", ")
        };
        let ours = "ratelimit-policy, ratelimit";
        let origin = "Access-Control-Allow-Origin: https://a.test\r\n";
        let some = format!("{origin}Access-Control-Expose-Headers: X-Id, RateLimit\r\n");
        let all = format!("{origin}Access-Control-Expose-Headers: *\r\n");
        let credentials = format!("{all}Access-Control-Allow-Credentials: true\r\n");
        let by_route = "access-control-allow-origin = 'https://a.test'";
        for (fields, set, asked, expected) in [
            ("", "", 1, String::new()),
            (origin, "", 1, ours.to_owned()),
            (&some, "", 1, "X-Id, RateLimit, ratelimit-policy".to_owned()),
            (&all, "", 1, "*".to_owned()),
            (&credentials, "", 1, format!("*, {ours}")),
            // A refusal has the fields that the operator gives the route.
            ("", "", 3, String::new()),
            ("", by_route, 3, format!("{ours}, retry-after")),
        ] {
            assert_eq!(
                exposed(fields, set, asked),
                expected,
                "{fields:?} {set:?} {asked}"
            );
        }
    });
}

#[test]
fn a_policy_in_shadow_refuses_nobody_whatever_is_wrong() {
    on_each_store(|start| {
        let origin = Origin::plain();
        for mode in ["shadow", "mark"] {
            let policy = format!(
                "quota = '1 per hour'\npartition = ['header:x-api-key']\non_missing = 'refuse'\nmode = '{mode}'\n\
             cost = 'request-header:x-cost'\noverrides = {{ bad = 'blocked' }}"
            );
            let running = start(Config::limited(origin.url(), &policy));
            let mut client = Client::connect(running.public);
            for fields in [
                "",
                "X-Api-Key: a\r\nX-Cost: none\r\n",
                "X-Api-Key: a\r\n",
                "X-Api-Key: bad\r\n",
            ] {
                assert_eq!(client.get("/", fields).status, 200, "{mode} {fields:?}");
            }
        }
    });
}
