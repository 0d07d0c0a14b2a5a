//! Several quotas at once: lists, policies, costs and modes decide together or not at all.

use crate::support::client::statuses;
use crate::support::ratelimit::{item, remaining, state};
use crate::support::{Client, Config, get, secs, start};

#[test]
fn every_quota_of_a_list_must_admit() {
    let running = start(&Config::limited(
        "builtin:echo",
        "quota = ['3 per 2s', '5 per 10s']\nalgorithm = 'fixed-window'",
    ));
    let mut client = Client::connect(running.public);
    let mut steps = Vec::new();
    for wait in [0, 0, 0, 0, 2, 0, 0, 2, 6] {
        running.clock.advance(secs(wait));
        let answer = client.get("/", "");
        let left = ["p:2s", "p:10s"].map(|name| remaining(&answer, name));
        let retry = answer.field("retry-after").map(str::to_owned);
        steps.push((answer.status, left, retry));
    }
    let retry = |seconds: &str| Some(seconds.to_owned());
    assert_eq!(
        steps,
        [
            (200, [2, 4], None),
            (200, [1, 3], None),
            (200, [0, 2], None),
            (429, [0, 2], retry("2")),
            (200, [2, 1], None),
            (200, [1, 0], None),
            (429, [1, 0], retry("8")),
            (429, [3, 0], retry("6")),
            (200, [2, 4], None),
        ]
    );
}

#[test]
fn default_policies_apply_to_every_route_that_does_not_decline() {
    let config = Config::to("builtin:echo")
        .top("default_policies = ['all']")
        .policy("all", "quota = '100 per minute'\npartition = []")
        .policy("own", "quota = '50 per minute'\npartition = []")
        .route("/plain", "")
        .route("/both", "policies = ['own']")
        .route("/twice", "policies = ['own', 'all']")
        .route("/own", "policies = ['own']\ndefault_policies = false")
        .route("/free", "default_policies = false");
    let running = start(&config);
    let left = |target| -> Vec<(String, i64)> {
        let answer = get(running.public, target, "");
        let names = state(&answer).into_iter().map(|(name, _)| name);
        names
            .map(|name| (name.clone(), remaining(&answer, &name)))
            .collect()
    };
    let named = |name: &str, r| (name.to_owned(), r);
    assert_eq!(left("/plain"), [named("all", 99)]);
    assert_eq!(left("/both"), [named("all", 98), named("own", 49)]);
    assert_eq!(left("/twice"), [named("all", 97), named("own", 48)]);
    assert_eq!(left("/own"), [named("own", 47)]);
    assert_eq!(left("/free"), []);
}

#[test]
fn a_shadow_policy_counts_but_never_refuses_and_an_off_one_does_nothing() {
    for (mode, expected, shown) in [
        ("enforce", [200, 200, 429, 429], true),
        ("shadow", [200; 4], false),
        ("off", [200; 4], false),
    ] {
        let policy = format!("quota = '2 per minute'\nmode = '{mode}'");
        let running = start(&Config::limited("builtin:echo", &policy));
        let mut client = Client::connect(running.public);
        for status in expected {
            let answer = client.get("/", "");
            assert_eq!(answer.status, status, "{mode}");
            assert_eq!(!state(&answer).is_empty(), shown, "{mode}");
            assert_eq!(!answer.head.fields("ratelimit-policy").is_empty(), shown);
        }
    }
}

#[test]
fn a_shadow_beside_an_enforced_policy_leaves_its_verdict_alone() {
    let config = Config::to("builtin:echo")
        .policy("shadow", "quota = '1 per minute'\nmode = 'shadow'")
        .policy("real", "quota = '3 per minute'")
        .route("/*", "policies = ['shadow', 'real']");
    let running = start(&config);
    assert_eq!(statuses(running.public, "/", 4), [200, 200, 200, 429]);
    let shown: Vec<_> = state(&get(running.public, "/", ""))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(shown, ["real"]);
}

#[test]
fn what_is_unrouted_or_malformed_spends_nothing() {
    let config = Config::to("builtin:echo")
        .top("default_policies = ['all']")
        .policy("all", "quota = '10 per minute'\npartition = []")
        .route("/known", "methods = ['GET']");
    let running = start(&config);
    let host = "Host: a.test\r\n\r\n";
    for (request, status) in [
        (format!("GET /unknown HTTP/1.1\r\n{host}"), 404),
        (format!("DELETE /known HTTP/1.1\r\n{host}"), 404),
        (format!("get /known HTTP/1.1\r\n{host}"), 400),
        (format!("GET /known%zz HTTP/1.1\r\n{host}"), 400),
        ("GET /known HTTP/1.1\r\n\r\n".to_owned(), 400),
    ] {
        let answer = Client::connect(running.public).ask(&request);
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(state(&answer), [], "{request}");
    }
    let answer = get(running.public, "/known", "");
    assert_eq!(remaining(&answer, "all"), 9);
}

#[test]
fn a_reload_keeps_counters_under_a_changed_quota() {
    let with = |quota: &str| {
        let policy = format!("quota = '{quota}'\nalgorithm = 'fixed-window'");
        Config::limited("builtin:echo", &policy)
    };
    let mut running = start(&with("5 per minute"));
    assert_eq!(statuses(running.public, "/", 4), [200; 4]);
    let mut reload = |quota| running.gateway.reload(&with(quota).text());
    reload("10 per minute").expect("a good file");
    let answer = get(running.public, "/", "");
    assert_eq!(
        state(&answer),
        [item("p", &[("r", 5), ("t", 60)])],
        "five of ten are spent"
    );
    reload("3 per minute").expect("a good file");
    assert_eq!(get(running.public, "/", "").status, 429);
    reload("3 per fortnight").expect_err("no such unit");
    assert_eq!(get(running.public, "/", "").status, 429);
}
