//! Credits: balances that operators grant, and that time does not refill.

use serde_json::{Value, json};

use super::stores::{on_each_store, redis};
use crate::support::ratelimit::{item, policy, remaining, state};
use crate::support::{Client, Config, Origin, Running, TOKEN, eventually, get, said, secs, start};

/// Returns a file with a policy of credits for each API key, which has these further lines.
fn prepaid(endpoint: impl AsRef<str>, lines: &str) -> Config {
    let lines =
        format!("quota = 'credits'\nallow_loss = true\npartition = ['header:x-api-key']\n{lines}");
    (Config::limited(endpoint, &lines).admin("127.0.0.1:0")).admin_token(TOKEN)
}

/// Has an operator's command done; returns how many credits the client then has, and how many it owes.
#[track_caller]
fn ordered(running: &Running, command: &str, key: &str, more: &Value) -> (u64, u64) {
    let (status, report) = said(running, command, key, more);
    assert_eq!(status, 200, "{report}");
    let number = |name: &str| report["quotas"][0][name].as_u64().expect("a number");
    (number("remaining"), number("debt"))
}

fn ask(running: &Running, key: &str, fields: &str) -> crate::support::Answer {
    get(
        running.public,
        "/",
        &format!("X-Api-Key: {key}\r\n{fields}"),
    )
}

#[test]
fn what_is_granted_is_spent_and_no_time_gives_it_back() {
    on_each_store(|start| {
        let running = start(prepaid("builtin:status/200", "refusal = { status = 402 }"));
        let refused = ask(&running, "alice", "");
        assert_eq!((refused.status, refused.field("retry-after")), (402, None));
        assert_eq!(state(&refused), [item("p", &[("r", 0)])]);
        assert!(policy(&refused).is_empty());
        let problem: Value = serde_json::from_str(&refused.text()).expect("JSON");
        assert_eq!(problem["violated-policies"], json!(["p"]));
        assert_eq!(
            ordered(&running, "grant", "alice", &json!({ "credits": 3 })),
            (3, 0)
        );
        for left in [2, 1, 0] {
            let answer = ask(&running, "alice", "");
            assert_eq!((answer.status, remaining(&answer, "p")), (200, left));
        }
        assert_eq!(ask(&running, "bob", "").status, 402);
        running.clock.advance(secs(366 * 86_400));
        assert_eq!(ask(&running, "alice", "").status, 402);
        // What was refused a moment ago is admitted once there is more.
        assert_eq!(
            ordered(&running, "grant", "alice", &json!({ "credits": 2 })),
            (2, 0)
        );
        assert_eq!(ask(&running, "alice", "").status, 200);
        assert_eq!(
            ordered(&running, "adjust", "alice", &json!({ "units": -5 })),
            (0, 4)
        );
        assert_eq!(
            ordered(&running, "adjust", "alice", &json!({ "units": 1 })),
            (0, 3)
        );
        assert_eq!(ordered(&running, "get", "alice", &json!({})), (0, 3));
        let (status, why) = said(&running, "reset", "alice", &json!({}));
        assert_eq!(status, 400, "{why}");
        let (status, why) = said(&running, "grant", "alice", &json!({ "credits": 0 }));
        assert_eq!(status, 400, "{why}");
    });
}

#[test]
fn a_cost_that_is_told_later_may_take_a_balance_below_nothing() {
    on_each_store(|start| {
        let origin = Origin::scripted(|exchange| {
            exchange.read_body()?;
            let answer = "HTTP/1.1 200 OK\r\nX-Cost: 8\r\nContent-Length: 0\r\n\r\n";
            exchange.wire.write(answer.as_bytes())?;
            Ok(crate::support::After::Keep)
        });
        let running = start(prepaid(
            origin.url(),
            "cost = 'response-header:x-cost'\nreserve = 2",
        ));
        assert_eq!(
            ordered(&running, "grant", "alice", &json!({ "credits": 10 })),
            (10, 0)
        );
        assert_eq!(remaining(&ask(&running, "alice", ""), "p"), 2);
        eventually("it is settled", || {
            (ordered(&running, "get", "alice", &json!({})) == (2, 0)).then_some(())
        });
        assert_eq!(remaining(&ask(&running, "alice", ""), "p"), 0);
        eventually("it is settled", || {
            (ordered(&running, "get", "alice", &json!({})) == (0, 6)).then_some(())
        });
        assert_eq!(ask(&running, "alice", "").status, 429);
        assert_eq!(
            ordered(&running, "grant", "alice", &json!({ "credits": 8 })),
            (2, 0)
        );
        assert_eq!(ask(&running, "alice", "").status, 200);
    });
}

#[test]
fn tiers_begin_with_credits_of_their_own_and_windows_stand_beside_a_balance() {
    on_each_store(|start| {
        let lines = "overrides = { trial = { quota = ['credits', '2 per minute'], initial_credits = 3 } }\n                     [policies.p.refusal]\nstatus = 402";
        let running = start(prepaid("builtin:status/200", lines).top("ratelimit_headers = 'both'"));
        let mut client = Client::connect(running.public);
        let mut trial = || client.get("/", "X-Api-Key: trial\r\n");
        let first = trial();
        assert_eq!((first.status, remaining(&first, "p:credits")), (200, 2));
        // `X-RateLimit` describes the window alone.
        assert_eq!(first.field("x-ratelimit-limit"), Some("2"));
        assert_eq!(trial().status, 200);
        let by_minute = trial();
        assert_eq!(by_minute.status, 402);
        assert!(by_minute.field("retry-after").is_some());
        assert_eq!(remaining(&by_minute, "p:credits"), 1);
        running.clock.advance(secs(120));
        assert_eq!([trial().status, trial().status], [200, 402]);
        // A reset starts the minute afresh, and leaves the balance as it is: empty.
        let (status, before) = said(&running, "reset", "trial", &json!({}));
        assert_eq!(status, 200, "{before}");
        assert_eq!(trial().status, 402);
    });
}

#[test]
fn what_does_not_count_comes_back_to_the_balance() {
    on_each_store(|start| {
        let running = start(prepaid("builtin:status/503", "refund_on = [503]"));
        assert_eq!(
            ordered(&running, "grant", "alice", &json!({ "credits": 2 })),
            (2, 0)
        );
        for _ in 0..5 {
            assert_eq!(ask(&running, "alice", "").status, 503);
            eventually("it came back", || {
                (ordered(&running, "get", "alice", &json!({})) == (2, 0)).then_some(())
            });
        }
    });
}

/// A reload cannot change the store, so until a restart the balances would be kept in memory.
#[test]
fn a_reload_is_refused_while_the_store_in_force_forgets_balances() {
    let mut running = start(&Config::limited("builtin:echo", "quota = '100 per hour'"));
    let after = Config::limited("builtin:echo", "quota = 'credits'").with(&redis());
    let refused = running.gateway.reload(&after.text());
    let report = refused.expect_err("a restart is needed");
    let report = report.render("gateway.toml", &after.text(), false);
    let problem = "credits would be kept in this process";
    assert!(report.contains(problem), "{report}");
    assert_eq!(get(running.public, "/", "").status, 200);
    start(&after);
}
