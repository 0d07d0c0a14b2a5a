//! Answers to clients: RateLimit fields, refusals, and a problem document for each mistake.

use serde_json::{Value, json};
use tollgate::clock::Micros;

use crate::support::gateway::start_at;
use crate::support::ratelimit::{Item, item, policy, state};
use crate::support::{Answer, Client, Config, Origin, Running, START, get, secs, start};

/// Returns the problem document of a refusal by these policies, without its title.
fn quota_exceeded(violated: &[&str]) -> Value {
    json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "status": 429,
        "violated-policies": violated,
    })
}

fn seconds(answer: &Answer, name: &str) -> Option<i64> {
    let value = answer.field(name)?;
    Some(value.parse().expect("whole seconds"))
}

/// Sends `count` requests one after the other and returns the last answer.
fn last_of(running: &Running, count: usize) -> Answer {
    let mut client = Client::connect(running.public);
    let answers = (0..count).map(|_| client.get("/", ""));
    answers.last().expect("at least one")
}

#[test]
fn an_admitted_answer_names_its_policy_and_what_is_left() {
    let config = Config::to("builtin:echo")
        .policy(
            "per-client",
            "quota = '100 per minute'\nalgorithm = 'sliding-log'",
        )
        .route("/*", "policies = ['per-client']");
    let running = start(&config);
    let answer = get(running.public, "/", "");
    assert_eq!(
        policy(&answer),
        [item("per-client", &[("q", 100), ("w", 60)])]
    );
    assert_eq!(
        state(&answer),
        [item("per-client", &[("r", 99), ("t", 60)])]
    );
    assert_eq!(answer.head.fields("x-ratelimit-limit"), [""; 0]);
    assert_eq!(answer.head.fields("retry-after"), [""; 0]);
}

#[test]
fn a_refusal_is_exactly_what_the_contract_says() {
    let config = Config::to("builtin:echo")
        .policy(
            "per-client",
            "quota = '1 per minute'\nalgorithm = 'fixed-window'",
        )
        .route("/*", "policies = ['per-client']");
    let running = start_at(&config, START + secs(18));
    let answer = last_of(&running, 2);
    assert_eq!(answer.status, 429);
    assert_eq!(answer.problem(), quota_exceeded(&["per-client"]));
    assert_eq!(
        answer.text(),
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["per-client"]}
"#
    );
    assert_eq!(answer.field("retry-after"), Some("42"));
    assert_eq!(
        policy(&answer),
        [item("per-client", &[("q", 1), ("w", 60)])]
    );
    assert_eq!(state(&answer), [item("per-client", &[("r", 0), ("t", 42)])]);
}

#[test]
fn seconds_follow_each_algorithm_and_are_rounded_up() {
    struct Case {
        policy: &'static str,
        asked: usize,
        status: u16,
        left: Item,
        retry_after: Option<i64>,
    }
    let case = |policy, asked, status, left: &[(&str, i64)], retry_after| Case {
        policy,
        asked,
        status,
        left: item("p", left),
        retry_after,
    };
    // The clock starts half a second into the minute.
    for case in [
        case(
            "quota = '2 per minute'\nalgorithm = 'fixed-window'",
            1,
            200,
            &[("r", 1), ("t", 60)],
            None,
        ),
        case(
            "quota = '2 per minute'\nalgorithm = 'fixed-window'",
            3,
            429,
            &[("r", 0), ("t", 60)],
            Some(60),
        ),
        case(
            "quota = '2 per minute'\nalgorithm = 'sliding-log'",
            3,
            429,
            &[("r", 0), ("t", 60)],
            Some(60),
        ),
        // Their bucket weighs less than two only from its second microsecond of leaving the window, a minute later.
        case(
            "quota = '2 per minute'",
            3,
            429,
            &[("r", 0), ("t", 60)],
            Some(60),
        ),
        case(
            "quota = '2 per minute'\noldest_bucket = 'whole'",
            3,
            429,
            &[("r", 0), ("t", 66)],
            Some(66),
        ),
        case(
            "quota = '2 per minute'\nalgorithm = 'gcra'",
            1,
            200,
            &[("r", 1), ("t", 30)],
            None,
        ),
        case(
            "quota = '2 per minute'\nalgorithm = 'gcra'",
            3,
            429,
            &[("r", 0), ("t", 30)],
            Some(30),
        ),
        case(
            "quota = '2 per 100ms'\nalgorithm = 'gcra'",
            3,
            429,
            &[("r", 0), ("t", 1)],
            Some(1),
        ),
    ] {
        let running = start_at(
            &Config::limited("builtin:echo", case.policy),
            START + Micros(500_000),
        );
        let answer = last_of(&running, case.asked);
        assert_eq!(
            (
                answer.status,
                state(&answer),
                seconds(&answer, "retry-after")
            ),
            (case.status, vec![case.left], case.retry_after),
            "{}",
            case.policy
        );
    }
}

#[test]
fn windows_are_told_in_whole_seconds_rounded_up() {
    for (quota, q, w) in [
        ("5 per 500ms", 5, 1),
        ("5 per 1500ms", 5, 2),
        ("7 per 2s", 7, 2),
        ("9 per hour", 9, 3600),
        ("9 per 2 hours", 9, 7200),
        ("11 per d", 11, 86_400),
        ("11 per week", 11, 604_800),
    ] {
        let running = start(&Config::limited(
            "builtin:echo",
            &format!("quota = '{quota}'"),
        ));
        let answer = get(running.public, "/", "");
        assert_eq!(
            policy(&answer),
            [item("p", &[("q", q), ("w", w)])],
            "{quota}"
        );
    }
}

#[test]
fn a_whole_quota_says_nothing_of_time() {
    let policy = "quota = '5 per minute'\ncost = 0";
    let running = start(&Config::limited("builtin:echo", policy));
    assert_eq!(
        state(&get(running.public, "/", "")),
        [item("p", &[("r", 5)])]
    );
}

#[test]
fn a_policy_of_several_quotas_names_each_by_its_window() {
    let config = Config::limited(
        "builtin:echo",
        "quota = ['2 per 2s', '50 per 10s']\nalgorithm = 'fixed-window'",
    );
    let running = start(&config);
    let answer = last_of(&running, 3);
    assert_eq!(
        policy(&answer),
        [
            item("p:2s", &[("q", 2), ("w", 2)]),
            item("p:10s", &[("q", 50), ("w", 10)])
        ]
    );
    assert_eq!(
        state(&answer),
        [
            item("p:2s", &[("r", 0), ("t", 2)]),
            item("p:10s", &[("r", 48), ("t", 10)])
        ]
    );
    assert_eq!(answer.problem(), quota_exceeded(&["p:2s"]));
}

#[test]
fn of_several_refusing_policies_the_longest_wait_is_told() {
    let config = Config::to("builtin:echo")
        .policy("roomy", "quota = '9 per 30s'\nalgorithm = 'fixed-window'")
        .policy("short", "quota = '1 per 10s'\nalgorithm = 'fixed-window'")
        .policy("long", "quota = '1 per 60s'\nalgorithm = 'fixed-window'")
        .route("/*", "policies = ['roomy', 'short', 'long']");
    let running = start(&config);
    let answer = last_of(&running, 2);
    assert_eq!(answer.status, 429);
    assert_eq!(answer.problem(), quota_exceeded(&["short", "long"]));
    assert_eq!(answer.field("retry-after"), Some("60"));
    assert_eq!(
        state(&answer),
        [
            item("roomy", &[("r", 8), ("t", 30)]),
            item("short", &[("r", 0), ("t", 10)]),
            item("long", &[("r", 0), ("t", 60)]),
        ]
    );
}

#[test]
fn a_cost_that_can_never_fit_is_told_no_time_to_retry() {
    let config = Config::to("builtin:echo")
        .policy("p", "quota = '10 per minute'")
        .route("/*", "policies = ['p']\ncost = 11");
    let running = start(&config);
    let answer = get(running.public, "/", "");
    assert_eq!(answer.status, 429);
    assert_eq!(answer.head.fields("retry-after"), [""; 0]);
    assert_eq!(state(&answer), [item("p", &[("r", 10)])]);
    assert_eq!(answer.problem(), quota_exceeded(&["p"]));
}

#[test]
fn a_repeated_refusal_counts_down() {
    let policy = "quota = '1 per minute'\nalgorithm = 'fixed-window'";
    let running = start(&Config::limited("builtin:echo", policy));
    let mut client = Client::connect(running.public);
    assert_eq!(client.get("/", "").status, 200);
    let mut told = Vec::new();
    for wait_us in [0, 600_000, 600_000, 28_800_000, 29_000_000, 999_999] {
        running.clock.advance(Micros(wait_us));
        let answer = client.get("/", "");
        let t = state(&answer).remove(0).1.into_iter().find(|x| x.0 == "t");
        told.push((
            answer.status,
            seconds(&answer, "retry-after"),
            t.map(|x| x.1),
        ));
    }
    let refused = |seconds| (429, Some(seconds), Some(seconds));
    assert_eq!(
        told,
        [60, 60, 59, 30, 1, 1].map(refused),
        "at 0, 0.6, 1.2, 30, 59 and 59.999999 s"
    );
    running.clock.advance(Micros(1));
    assert_eq!(client.get("/", "").status, 200);
}

#[test]
fn the_style_of_the_fields_is_the_files_choice() {
    for (style, is_ietf, is_x) in [
        ("ietf", true, false),
        ("x", false, true),
        ("both", true, true),
        ("off", false, false),
    ] {
        let config = Config::to("builtin:echo")
            .top(&format!("ratelimit_headers = '{style}'"))
            .policy("wide", "quota = '100 per hour'\nalgorithm = 'fixed-window'")
            .policy("tight", "quota = '4 per minute'\nalgorithm = 'gcra'")
            .route("/*", "policies = ['wide', 'tight']");
        let running = start(&config);
        let mut client = Client::connect(running.public);
        for (asked, status) in [(1, 200), (2, 200), (3, 200), (4, 200), (5, 429)] {
            let answer = client.get("/", "");
            let left = 4 - asked.min(4);
            assert_eq!(answer.status, status);
            assert_eq!(state(&answer).len(), if is_ietf { 2 } else { 0 }, "{style}");
            assert_eq!(
                policy(&answer).len(),
                if is_ietf { 2 } else { 0 },
                "{style}"
            );
            // The quota with the smallest share left; `reset` is the time until all of it is back.
            let expected = is_x.then_some([4, left, 15 * asked.min(4)]);
            let names = ["limit", "remaining", "reset"].map(|x| format!("x-ratelimit-{x}"));
            let seen = names.map(|name| seconds(&answer, &name));
            assert_eq!(seen, expected.map_or([None; 3], |x| x.map(Some)), "{style}");
        }
    }
}

#[test]
fn an_upstreams_own_items_are_kept() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nRateLimit-Policy: \"theirs\";q=10;w=5\r\nRateLimit: \"theirs\";r=3;t=4\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let policy_lines = "quota = '7 per minute'\nalgorithm = 'fixed-window'";
    let running = start(&Config::limited(origin.url(), policy_lines));
    let answer = get(running.public, "/", "");
    let sorted = |mut items: Vec<Item>| {
        items.sort();
        items
    };
    assert_eq!(
        sorted(policy(&answer)),
        [
            item("p", &[("q", 7), ("w", 60)]),
            item("theirs", &[("q", 10), ("w", 5)])
        ]
    );
    assert_eq!(
        sorted(state(&answer)),
        [
            item("p", &[("r", 6), ("t", 60)]),
            item("theirs", &[("r", 3), ("t", 4)])
        ]
    );
}

#[test]
fn answers_without_a_body_carry_the_fields_too() {
    for response in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\n\r\n",
    ] {
        let origin = Origin::answering(response);
        let policy = "quota = '7 per minute'\nalgorithm = 'fixed-window'";
        let running = start(&Config::limited(origin.url(), policy));
        let answer = get(running.public, "/", "");
        assert_eq!(
            state(&answer),
            [item("p", &[("r", 6), ("t", 60)])],
            "{response}"
        );
    }
}
