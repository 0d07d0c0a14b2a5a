//! Recipes for plans: who may spend how much of what, and from when.

use std::fs;

use serde_json::json;
use tollgate::clock::Micros;

use super::{cook, count, folder, obedient, recipe, with_issuer};
use crate::stores::{on_each_store_text, redis};
use crate::support::gateway::start_text;
use crate::support::ratelimit::{item, remaining, state};
use crate::support::{
    Client, Flow, Gate, Origin, Recorded, Running, TOKEN, eventually, get, order, secs,
};

/// Returns a recipe that listens on a free port, with a built-in upstream.
fn built_in(name: &str) -> String {
    let text = fs::read_to_string(folder().join(format!("{name}.toml"))).expect("a recipe");
    let text = text.replace("127.0.0.1:8080", "127.0.0.1:0");
    let text = text.replace("http://127.0.0.1:9000", "builtin:status/200");
    format!("{text}\n[admin]\naddress = \"off\"\n")
}

/// The manual clock begins on 2023-11-15 at midnight UTC, which is 01:00 in Berlin.
#[test]
fn billing_day() {
    with_issuer(&built_in("billing-day"), |running, token| {
        let ask = |claims| {
            let fields = format!("Authorization: Bearer {}\r\n", token(claims));
            let answer = get(running.public, "/", &fields);
            assert_eq!(answer.status, 200);
            state(&answer)[0].clone()
        };
        for (claims, days) in [
            (json!({ "sub": "a", "billing_day": 20 }), 5),
            (json!({ "sub": "b", "billing_day": "31" }), 15),
            (json!({ "sub": "c" }), 16),
        ] {
            let wait = days * 86_400 - 3_600;
            assert_eq!(
                ask(claims),
                item("plan:month", &[("r", 19_999), ("t", wait)])
            );
        }
        let mut client = Client::connect(running.public);
        let fields = format!("Authorization: Bearer {}\r\n", token(json!({ "sub": "d" })));
        assert_eq!(count(&mut client, "/", &fields, 25, 200), 20);
        assert_eq!(get(running.public, "/", "").status, 401);
    });
}

#[test]
fn url_lists() {
    cook("url-lists", |running, _| {
        let mut client = Client::connect(running.public);
        assert_eq!(count(&mut client, "/search/a", "", 3, 200), 3);
        assert_eq!(count(&mut client, "/suggest", "", 3, 200), 2);
        // A client that goes on asking stays refused; after a second's pause it is admitted.
        for _ in 0..6 {
            running.clock.advance(Micros(500_000));
            assert_eq!(count(&mut client, "/search/b", "", 6, 200), 0);
        }
        running.clock.advance(secs(1));
        assert_eq!(count(&mut client, "/search/b", "", 1, 200), 1);
        assert_eq!(client.get("/other", "").status, 404);
    });
}

#[test]
fn user_addresses() {
    with_issuer(&built_in("user-addresses"), |running, token| {
        let fields = format!("Authorization: Bearer {}\r\n", token(json!({ "sub": "a" })));
        let passed = |last: u8, asked| {
            let mut client = Client::connect_from([127, 0, 0, last], running.public);
            count(&mut client, "/", &fields, asked, 200)
        };
        assert_eq!([passed(2, 50), passed(3, 50), passed(4, 39)], [40, 40, 39]);
        assert_eq!([passed(5, 50), passed(4, 1)], [1, 0]);
        assert_eq!(get(running.public, "/", "").status, 401);
    });
}

#[test]
fn application() {
    with_issuer(&built_in("application"), |running, token| {
        let ask = |sub: &str, application: &str| {
            let claims = json!({ "sub": sub, "azp": application });
            let fields = format!("Authorization: Bearer {}\r\n", token(claims));
            remaining(&get(running.public, "/", &fields), "application")
        };
        assert_eq!(
            [ask("a", "web"), ask("b", "web"), ask("a", "mobile")],
            [9999, 9998, 9999]
        );
        running.clock.advance(secs(15 * 60));
        assert_eq!(ask("a", "web"), 9997);
        running.clock.advance(secs(60));
        assert_eq!(ask("a", "web"), 9998);
        assert_eq!(get(running.public, "/", "").status, 401);
    });
}

#[test]
fn shaping() {
    cook("shaping", |running, _| {
        let waits: Vec<_> = (0..30)
            .map(|_| Client::asking(running.public, "/", ""))
            .collect();
        let mut statuses: Vec<u16> = Vec::new();
        let clock = running.clock.clone();
        let _flow = Flow::of(&clock, Micros(50_000));
        for mut client in waits {
            statuses.push(client.head().expect("an answer").status);
        }
        let passed = statuses.iter().filter(|status| **status == 200).count();
        let refused = statuses.iter().filter(|status| **status == 429).count();
        assert!(passed >= 21 && passed + refused == 30, "{statuses:?}");
    });
}

#[test]
fn live_and_test_keys() {
    let rows = tempfile::NamedTempFile::new().expect("a file");
    fs::write(
        rows.path(),
        "live_4f1c,5000 per hour\nlive_77ab,3 per hour\n",
    )
    .expect("it is writable");
    let origin = obedient();
    let text = recipe("live-and-test-keys", &origin);
    let path = rows.path().to_str().expect("text");
    let text = text.replace("/etc/tollgate/live-keys.csv", path);
    on_each_store_text(&text, |running| {
        let mut client = Client::connect(running.public);
        let before = origin.requests().len();
        let key = |key: &str| format!("X-Api-Key: {key}\r\n");
        assert_eq!(remaining(&client.get("/", &key("live_4f1c")), "keys"), 4999);
        assert_eq!(count(&mut client, "/", &key("live_77ab"), 4, 200), 3);
        assert_eq!(count(&mut client, "/", &key("test_1"), 11, 200), 10);
        let refused = client.get("/", &key("test_1"));
        assert_eq!(refused.field("content-type"), Some("application/json"));
        let body: serde_json::Value = serde_json::from_str(&refused.text()).expect("JSON");
        assert_eq!(
            (&body["error"], &body["policy"]),
            (&json!("rate_limited"), &json!("keys"))
        );
        assert!(
            body["retry_after"]
                .as_u64()
                .is_some_and(|secs| (1..=66).contains(&secs))
        );
        for (other, status) in [(key("live_none"), 403), (String::new(), 401)] {
            assert_eq!(client.get("/", &other).status, status);
        }
        let is_test = |request: &&Recorded| request.head.fields("tollgate-tier") == ["test_*"];
        let requests = origin.requests();
        assert_eq!(requests[before..].iter().filter(is_test).count(), 10);
    });
}

#[test]
fn allowance() {
    let text = built_in("allowance").replace("1000 per", "3 per");
    let text = text.replace(
        "address = \"off\"",
        &format!("address = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\""),
    );
    on_each_store_text(&text, |running| {
        let mut client = Client::connect(running.public);
        let key = "X-Api-Key: a\r\n";
        assert_eq!(count(&mut client, "/", key, 3, 200), 3);
        let refused = client.get("/", key);
        assert_eq!(refused.status, 402);
        assert!(refused.field("retry-after").is_some());
        let admin = running.gateway.admin_address().expect("an admin port");
        let grant = json!({ "policy": "bought", "value": "a", "credits": 2 });
        assert_eq!(order(admin, "grant", &grant).status, 200);
        let spilled = client.get("/", key);
        assert_eq!(spilled.status, 200);
        assert_eq!(
            (
                remaining(&spilled, "allowance"),
                remaining(&spilled, "bought")
            ),
            (0, 1)
        );
        assert_eq!(count(&mut client, "/", key, 2, 200), 1);
        assert_eq!(count(&mut client, "/", "X-Api-Key: b\r\n", 4, 200), 3);
        // The next month begins another quota, which is spent before what was bought.
        running.clock.advance(secs(16 * 86_400));
        assert_eq!(order(admin, "grant", &grant).status, 200);
        let of_month = get(running.public, "/", key);
        assert_eq!(
            (
                remaining(&of_month, "allowance"),
                remaining(&of_month, "bought")
            ),
            (2, 2)
        );
    });
}

#[test]
fn login_penalty() {
    cook("login-penalty", |running, _| {
        let login = |answer: &str| {
            let answer = Client::connect(running.public).ask(format!(
                "POST /login HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nX-Answer: {answer}\r\n\r\n"
            ));
            (
                answer.status,
                answer.field("retry-after").map(str::to_owned),
            )
        };
        let wait = |secs: &str| (429, Some(secs.to_owned()));
        // On Redis, the unit of a success may come back a little after the next request is decided.
        (0..3).for_each(|_| assert_eq!(login("200").0, 200));
        (0..5).for_each(|_| assert_eq!(login("401").0, 401));
        assert_eq!(login("200"), wait("900"));
        running.clock.advance(secs(900));
        (0..5).for_each(|_| assert_eq!(login("401").0, 401));
        assert_eq!(login("401"), wait("2700"));
        running.clock.advance(secs(2700));
        assert_eq!(login("200").0, 200);
    });
}

/// Begins this many requests with these fields, and leaves them in progress.
fn begin(running: &Running, target: &str, fields: &str, count: usize) -> Vec<Client> {
    let begun = (0..count).map(|_| Client::asking(running.public, target, fields));
    begun.collect()
}

#[test]
fn at_once() {
    on_each_gated("at-once", |running, origin, gate| {
        let (alice, bob) = ("X-Api-Key: alice\r\n", "X-Api-Key: bob\r\n");
        let mut held = begin(running, "/", alice, 20);
        origin.wait_for_requests(20);
        let mut client = Client::connect(running.public);
        for _ in 0..90 {
            let refused = client.get("/", alice);
            assert_eq!((refused.status, refused.field("retry-after")), (429, None));
            assert_eq!(refused.problem()["violated-policies"], json!(["at-once"]));
        }
        held.extend(begin(running, "/", bob, 1));
        origin.wait_for_requests(21);
        gate.open();
        for client in &mut held {
            assert_eq!(client.answer().status, 200);
        }
        // The requests that were refused did not count towards the hundred per minute.
        let last = eventually("a unit has come back", || {
            let answer = client.get("/", alice);
            (answer.status == 200).then_some(answer)
        });
        assert_eq!(remaining(&last, "rate"), 79);
        assert_eq!(client.get("/", "").status, 401);
    });
}

#[test]
fn busy_tenants() {
    on_each_store_text(&built_in("busy-tenants"), |running| {
        let tenant = "X-Tenant: a\r\n";
        let mut client = Client::connect(running.public);
        for spent in 1..=5 {
            let answer = client.get("/login", tenant);
            assert_eq!(
                (answer.status, remaining(&answer, "login")),
                (200, 5 - spent)
            );
        }
        let refused = client.get("/login", tenant);
        assert_eq!(refused.problem()["violated-policies"], json!(["login"]));
        (0..20).for_each(|_| assert_eq!(client.get("/", tenant).status, 200));
        // Requests that `login` refused did not count towards the tenant's quota.
        assert!(remaining(&client.get("/", tenant), "tenant") >= 3000 - 26);
    });
}

#[test]
fn regions() {
    on_each_store_text(&built_in("regions"), |running| {
        let key = "X-Api-Key: a\r\n";
        let mut client = Client::connect(running.public);
        for spent in 1..=20 {
            let answer = client.get("/", key);
            assert_eq!(
                (answer.status, remaining(&answer, "key")),
                (200, 600 - spent)
            );
        }
        for left in (0..10).rev() {
            let answer = client.get("/orders", key);
            assert_eq!((answer.status, remaining(&answer, "order")), (200, left));
        }
        let refused = client.get("/orders", key);
        assert_eq!(refused.problem()["violated-policies"], json!(["order"]));
        // The request that `order` refused did not count towards the key's quota.
        assert_eq!(remaining(&client.get("/", key), "key"), 569);
    });
}

#[test]
fn tenants_at_once() {
    on_each_gated("tenants-at-once", |running, origin, gate| {
        let fields = |user: &str| format!("X-Tenant: t\r\nX-User: {user}\r\n");
        let mut client = Client::connect(running.public);
        let mut refused = |target: &str, user: &str| {
            let answer = client.get(target, &fields(user));
            assert_eq!(answer.status, 429, "{user}");
            answer.problem()["violated-policies"].clone()
        };
        let mut held = begin(running, "/reports/1", &fields("a"), 1);
        origin.wait_for_requests(1);
        assert_eq!(refused("/reports/1", "a"), json!(["user"]));
        held.extend(begin(running, "/", &fields("a"), 1));
        origin.wait_for_requests(2);
        assert_eq!(refused("/", "a"), json!(["user"]));
        for (user, sent) in [("b", 7), ("c", 12), ("d", 17)] {
            held.extend(begin(running, "/", &fields(user), 5));
            origin.wait_for_requests(sent);
        }
        assert_eq!(refused("/", "e"), json!(["tenant"]));
        assert_eq!(refused("/", "d"), json!(["tenant", "user"]));
        held.extend(begin(running, "/", "X-Tenant: other\r\nX-User: a\r\n", 1));
        gate.open();
        for client in &mut held {
            assert_eq!(client.answer().status, 200);
        }
        eventually("the units have come back", || {
            (client.get("/reports/1", &fields("e")).status == 200).then_some(())
        });
    });
}

/// Tests a recipe on each store, with an origin that answers once the gate is open.
fn on_each_gated(name: &str, taste: impl Fn(&Running, &Origin, &Gate)) {
    for store in [String::new(), redis()] {
        println!("on {store:?}");
        let gate = Gate::default();
        let origin = Origin::behind(&gate);
        let text = format!("{}\n{store}", recipe(name, &origin));
        taste(&start_text(&text), &origin, &gate);
    }
}
