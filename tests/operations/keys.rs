//! What an operator asks and orders about single clients, at a gateway with its counters in memory.

use serde_json::{Value, json};

use crate::support::gateway::{Running, secs, start, start_text};
use crate::support::{self, Config, Issuer, TOKEN, eventually, get, jwks};

const POLICY: &str = "quota = '5 per hour'\npartition = ['header:x-api-key']";

/// Starts a gateway with these tables, an admin port and a token.
fn gateway(config: Config) -> Running {
    start(&config.admin("127.0.0.1:0").admin_token(TOKEN))
}

fn limited(policy: &str) -> Config {
    Config::to("builtin:status/204")
        .policy("p", policy)
        .route("/*", "policies = ['p']")
}

/// Posts to `/api/keys`, and returns the status and the content of the answer.
fn post(gateway: &Running, command: &str, content: &Value) -> (u16, Value) {
    let admin = gateway.gateway.admin_address().expect("an admin port");
    let answer = support::order(admin, command, content);
    let json = serde_json::from_slice(&answer.body).expect("JSON");
    (answer.status, json)
}

/// Posts an order, which must succeed; returns the report.
#[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
#[track_caller]
fn order(gateway: &Running, command: &str, content: Value) -> Value {
    let (status, done) = post(gateway, command, &content);
    assert_eq!(status, 200, "{command} {content}: {done}");
    done
}

fn of(value: &str, more: Value) -> Value {
    let mut content = json!({ "policy": "p", "value": value });
    if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
        content.extend(more);
    }
    content
}

fn status(gateway: &Running, key: &str) -> u16 {
    get(gateway.public, "/", &format!("X-Api-Key: {key}\r\n")).status
}

#[track_caller]
fn comes_to_answer(gateway: &Running, key: &str, expected: u16) {
    eventually(&format!("{key} is answered {expected}"), || {
        (status(gateway, key) == expected).then_some(())
    });
}

#[test]
fn an_order_is_in_force_at_once_and_ends_by_itself() {
    for (command, value, more, other) in [
        ("block", "alice", json!({}), "bob"),
        ("block", "al*", json!({}), "bob"),
        ("set", "alice", json!({ "quota": "blocked" }), "bob"),
    ] {
        let gateway = gateway(limited(POLICY));
        let mut more = more;
        more["for"] = json!("1h");
        order(&gateway, command, of(value, more));
        comes_to_answer(&gateway, "alice", 403);
        assert_eq!(status(&gateway, other), 204, "{command} {value}");
        gateway.clock.advance(secs(3_601));
        comes_to_answer(&gateway, "alice", 204);
    }
}

/// Only a token tells a client's own day, and the operator has none: what is spent is found whatever the day is.
#[test]
fn what_is_spent_from_a_clients_own_day_is_shown_adjusted_and_reset() {
    let issuer = Issuer::ec();
    let keys = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(keys.path(), jwks(&[(&issuer, json!({}))])).expect("it is writable");
    let policy = "quota = ['5 per calendar month', '9 per calendar week']\nanchor_by = 'jwt:day'\n\
                  partition = ['jwt:sub']";
    let jwt = format!("[jwt]\nkeys = '{}'", keys.path().display());
    let gateway = gateway(limited(policy).with(&jwt));
    let ask = |day: Value| {
        let token = issuer.token(&json!({ "sub": "alice", "day": day }));
        let fields = format!("Authorization: Bearer {token}\r\n");
        get(gateway.public, "/", &fields).status
    };
    let left = || -> Vec<(String, i64)> {
        let (status, report) = post(&gateway, "get", &of("alice", json!({})));
        assert_eq!(status, 200, "{report}");
        let quotas = report["quotas"].as_array().expect("a list").iter();
        let one = |quota: &Value| {
            let name = quota["quota"].as_str().expect("a name").to_owned();
            (name, quota["remaining"].as_i64().expect("a number"))
        };
        quotas.map(one).collect()
    };
    let (month, week) = ("p: 5 per calendar month", "p: 9 per calendar week");
    let named = |quotas: &[(&str, i64)]| -> Vec<(String, i64)> {
        let named = quotas
            .iter()
            .map(|(name, left)| ((*name).to_owned(), *left));
        named.collect()
    };
    assert_eq!(left(), named(&[(month, 5), (week, 9)]));
    assert_eq!([ask(json!(20)), ask(json!(20)), ask(json!(3))], [204; 3]);
    let from_20 = format!("{month}, from day 20");
    let from_3 = format!("{month}, from day 3");
    assert_eq!(left(), named(&[(&from_3, 4), (&from_20, 3), (week, 6)]));
    order(&gateway, "adjust", of("alice", json!({ "units": 1 })));
    assert_eq!(left(), named(&[(&from_20, 4), (week, 7)]));
    order(&gateway, "reset", of("alice", json!({})));
    assert_eq!(left(), named(&[(month, 5), (week, 9)]));
    assert_eq!((0..6).filter(|_| ask(json!(20)) == 204).count(), 5);
}

/// Whatever an operator grants for a time is counted where the client was counted before.
#[test]
fn what_an_operator_sets_keeps_the_day_that_the_file_has() {
    let rows = tempfile::NamedTempFile::new().expect("a file");
    let content = "pattern,quota,anchor_day\nvip,5 per calendar month,20\n";
    std::fs::write(rows.path(), content).expect("it is writable");
    let policy = format!(
        "quota = '3 per calendar month'\npartition = ['header:x-api-key']\noverrides_file = '{}'",
        rows.path().display()
    );
    let gateway = gateway(limited(&policy));
    let left = || {
        let (_, report) = post(&gateway, "get", &of("vip", json!({})));
        let quota = &report["quotas"][0];
        (quota["quota"].clone(), quota["remaining"].clone())
    };
    assert_eq!([status(&gateway, "vip"), status(&gateway, "vip")], [204; 2]);
    let set = json!({ "quota": "9 per calendar month", "for": "1h" });
    order(&gateway, "set", of("vip", set));
    let named = json!("p: 9 per calendar month, from day 20");
    eventually("it is set", || {
        (left() == (named.clone(), json!(7))).then_some(())
    });
    assert_eq!(status(&gateway, "vip"), 204);
    assert_eq!(left(), (named, json!(6)));
}

#[test]
fn a_client_has_what_was_set_until_that_is_ended() {
    let gateway = gateway(limited(&format!("{POLICY}\ncandidate = '2 per hour'")));
    for _ in 0..5 {
        assert_eq!(status(&gateway, "alice"), 204);
    }
    assert_eq!(status(&gateway, "alice"), 429);
    let left = order(&gateway, "get", of("alice", json!({})));
    let remaining = |left: &Value, at: usize| left["quotas"][at]["remaining"].clone();
    assert_eq!(
        (remaining(&left, 0), remaining(&left, 1)),
        (json!(0), json!(0))
    );
    assert_eq!(left["quotas"][1]["candidate"], true);
    order(
        &gateway,
        "set",
        of(
            "alice",
            json!({ "quota": ["50 per hour", "3 per minute"], "for": "1d" }),
        ),
    );
    for expected in [204, 204, 204, 429] {
        comes_to_answer(&gateway, "alice", expected);
    }
    let left = order(&gateway, "get", of("alice", json!({})));
    // The hour has gone on counting, and the minute is new.
    assert_eq!(
        (remaining(&left, 0), remaining(&left, 1)),
        (json!(42), json!(0))
    );
    assert_eq!(
        left["directives"][0]["grant"],
        json!(["50 per hour", "3 per minute"])
    );
    order(&gateway, "set", of("alice", json!({ "end": true })));
    comes_to_answer(&gateway, "alice", 429);
    let id = left["ids"][0].as_str().expect("an id");
    order(&gateway, "reset", of(&format!("id:{id}"), json!({})));
    for expected in [204, 204, 204, 204, 204, 429] {
        assert_eq!(status(&gateway, "alice"), expected);
    }
}

#[test]
fn units_come_back_and_are_spent_in_every_algorithm() {
    for (algorithm, expected) in [
        ("algorithm = 'fixed-window'", 3),
        ("algorithm = 'sliding-window'", 3),
        // Each request is an entry of its own, and the newest one has one unit.
        ("algorithm = 'sliding-log'", 1),
        ("algorithm = 'gcra'", 3),
        ("algorithm = 'leaky-bucket'\nqueue = 4", 3),
    ] {
        let policy = format!("quota = '5 per hour'\npartition = ['header:x-api-key']\n{algorithm}");
        let gateway = gateway(limited(&policy));
        let alice = |units: i64| of("alice", json!({ "units": units }));
        let adjusted =
            |units| order(&gateway, "adjust", alice(units))["quotas"][0]["remaining"].clone();
        let all = order(&gateway, "get", of("alice", json!({})))["quotas"][0]["remaining"].clone();
        for _ in 0..5 {
            order(&gateway, "adjust", alice(-1));
        }
        assert_eq!(adjusted(3), expected, "{algorithm}");
        assert_eq!(adjusted(-1), expected - 1, "{algorithm}");
        assert_eq!(adjusted(1), expected, "{algorithm}");
        order(&gateway, "reset", of("alice", json!({})));
        let left = order(&gateway, "get", of("alice", json!({})));
        assert_eq!(left["quotas"][0]["remaining"], all, "{algorithm}");
    }
}

#[test]
fn a_block_says_which_form_it_took_and_holds_where_a_part_is_known() {
    let by = |parts: &str| format!("quota = '9 per hour'\npartition = {parts}");
    let config = Config::to("builtin:status/204")
        .listener("ipv4_prefix = 24")
        .policy("p", &by("['ip']"))
        .policy("both", &by("['header:x-api-key', 'ip']"))
        .policy("key", &by("['header:x-api-key']"))
        .route("/p", "policies = ['p']")
        .route("/both", "policies = ['both']")
        .route("/key", "policies = ['key']");
    let gateway = gateway(config);
    let statuses = || {
        ["/p", "/both", "/key"].map(|path| get(gateway.public, path, "X-Api-Key: alice\r\n").status)
    };
    for (value, is_everywhere, form, expected) in [
        ("127.0.0.9", false, "one address (its /24)", [403, 204, 204]),
        ("127.0.0.9", true, "one address (its /24)", [403, 403, 204]),
        (
            "127.0.0.0/8",
            true,
            "addresses in 127.0.0.0/8",
            [403, 403, 204],
        ),
        (
            "126.0.0.0/8",
            true,
            "addresses in 126.0.0.0/8",
            [204, 204, 204],
        ),
    ] {
        let done = order(
            &gateway,
            "block",
            of(value, json!({ "everywhere": is_everywhere })),
        );
        assert_eq!(done["form"], form);
        eventually(&format!("{value} {is_everywhere}"), || {
            (statuses() == expected).then_some(())
        });
        order(&gateway, "unblock", of(value, json!({})));
        eventually("nothing is blocked", || {
            (statuses() == [204, 204, 204]).then_some(())
        });
    }
    let done = order(&gateway, "block", of("2001:db8::9", json!({})));
    assert_eq!(done["form"], "one address (its /64)");
    let listed = json!({ "policy": "both", "value": "header:x-api-key=alice, ip=127.0.0.1" });
    let done = order(&gateway, "block", listed);
    assert_eq!(
        done["form"],
        "one header:x-api-key and one address (its /24)"
    );
    eventually("one client of two parts is blocked", || {
        (statuses() == [204, 403, 204]).then_some(())
    });
}

#[test]
fn a_block_wins_and_the_most_specific_override_counts() {
    let config = limited(
        "quota = '5 per hour'\npartition = ['header:x-api-key']\noverrides = { alice = '1 per hour' }",
    );
    let gateway = gateway(config);
    let limit = |key: &str| {
        let left = order(&gateway, "get", of(key, json!({})));
        left["grant"]
            .as_str()
            .map_or(left["quotas"][0]["limit"].clone(), |word| json!(word))
    };
    let set = |value: &str, quota: &str| {
        order(
            &gateway,
            "set",
            of(value, json!({ "quota": quota, "for": "1h" })),
        );
    };
    assert_eq!((limit("alice"), limit("bob")), (json!(1), json!(5)));
    set("bob", "7 per hour");
    eventually("the value counts", || (limit("bob") == 7).then_some(()));
    set("*", "unlimited");
    for _ in 0..9 {
        comes_to_answer(&gateway, "carol", 204);
    }
    assert_eq!(limit("bob"), 7);
    let (status, refused) = post(&gateway, "adjust", &of("carol", json!({ "units": 1 })));
    let said = refused["detail"].as_str().unwrap_or_default();
    assert!(status == 400 && said.contains("it is unlimited"), "{said}");
    order(&gateway, "block", of("b*", json!({ "for": "1h" })));
    comes_to_answer(&gateway, "bob", 403);
    comes_to_answer(&gateway, "carol", 204);
}

#[test]
fn orders_survive_a_reload_and_those_of_other_policies_do_nothing() {
    let config = limited(POLICY).admin("127.0.0.1:0").admin_token(TOKEN);
    let mut gateway = start_text(&config.text());
    order(&gateway, "block", of("alice", json!({})));
    comes_to_answer(&gateway, "alice", 403);
    let renamed = config
        .text()
        .replace("policies.p]", "policies.q]")
        .replace("['p']", "['q']");
    gateway.gateway.reload(&*renamed).expect("a good file");
    assert_eq!(status(&gateway, "alice"), 204);
    gateway
        .gateway
        .reload(&*config.text())
        .expect("a good file");
    assert_eq!(status(&gateway, "alice"), 403);
}

#[test]
fn a_bad_order_is_refused_and_says_what_was_expected() {
    let gateway = gateway(limited(POLICY));
    for (command, content, status, detail) in [
        (
            "get",
            json!({ "policy": "q", "value": "a" }),
            404,
            "there is no policy `q`",
        ),
        ("get", json!({ "policy": "p" }), 400, "`value` is missing"),
        ("get", of("a*", json!({})), 400, "names several clients"),
        ("get", of("id:12", json!({})), 400, "32 hex digits"),
        ("get", of("", json!({})), 400, "the value"),
        (
            "set",
            of("a", json!({ "quota": "5 per fortnight", "for": "1h" })),
            400,
            "is not a quota",
        ),
        (
            "set",
            of("a", json!({ "quota": "5 per hour" })),
            400,
            "`for` is missing",
        ),
        (
            "set",
            of("a", json!({ "quota": "5 per hour", "for": "367d" })),
            400,
            "at most 366d",
        ),
        (
            "set",
            of(
                "a",
                json!({ "quota": ["5 per hour", "blocked"], "for": "1h" }),
            ),
            400,
            "combined",
        ),
        (
            "set",
            of("a", json!({ "quota": [], "for": "1h" })),
            400,
            "at least one",
        ),
        ("set", of("a", json!({ "end": true })), 404, "no override"),
        (
            "set",
            of(
                &("a".repeat(5_000) + "*"),
                json!({ "quota": "1 per hour", "for": "1h" }),
            ),
            400,
            "4096 bytes",
        ),
        (
            "adjust",
            of("a", json!({ "units": 0 })),
            400,
            "other than 0",
        ),
        (
            "adjust",
            of("a", json!({ "units": 1.5 })),
            400,
            "a whole number",
        ),
        ("unblock", of("a", json!({})), 404, "no block"),
        (
            "block",
            of(
                "id:0123456789abcdef0123456789abcdef",
                json!({ "everywhere": true }),
            ),
            400,
            "its value",
        ),
        (
            "block",
            of("a", json!({ "everywhere": "yes" })),
            400,
            "true or false",
        ),
        (
            "block",
            of("a", json!({ "forever": true })),
            400,
            "`everywhere`",
        ),
    ] {
        let (found, answer) = post(&gateway, command, &content);
        assert_eq!(found, status, "{command} {content}: {answer}");
        let said = answer["detail"].as_str().expect("a detail");
        assert!(said.contains(detail), "{command} {content}: {said}");
    }
    assert_eq!(status(&gateway, "a"), 204);
}

/// A plan has a maximum of quotas, and an order can exceed it where the file does not.
#[test]
fn no_order_makes_a_plan_or_the_series_of_a_policy_too_many() {
    let quotas = |from: u32, count: u32| -> Vec<String> {
        let seconds = from..from + count;
        seconds
            .map(|seconds| format!("1000 per {seconds}s"))
            .collect()
    };
    let many = format!("quota = {:?}\npartition = ['ip']", quotas(1, 250));
    let config = limited(POLICY)
        .policy("many", &many)
        .route("/many", "policies = ['many', 'p']");
    let gateway = gateway(config);
    let set = |value: &str, quotas: Vec<String>| {
        let content = of(value, json!({ "quota": quotas, "for": "1h" }));
        let (status, answer) = post(&gateway, "set", &content);
        let detail = answer["detail"].as_str().unwrap_or_default().to_owned();
        (status, detail)
    };
    let (status, said) = set("alice", quotas(1, 6));
    assert!(
        status == 400 && said.contains("expected at most 5"),
        "{said}"
    );
    assert_eq!(set("alice", quotas(1, 5)).0, 200);
    let fields = "X-Api-Key: alice\r\n";
    assert_eq!(get(gateway.public, "/many", fields).status, 204);
    for client in 0..5 {
        let (status, said) = set(&format!("c{client}"), quotas(6 + 5 * client, 5));
        assert_eq!(status, 200, "{said}");
    }
    let (status, said) = set("bob", quotas(40, 3));
    assert!(
        status == 400 && said.contains("33 different windows"),
        "{said}"
    );
}
