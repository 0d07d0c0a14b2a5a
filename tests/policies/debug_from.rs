//! `debug_from`: which clients are told in `Tollgate-Decision` how their requests were decided, and what it says.

use std::fmt::Write as _;

use sfv::{Dictionary, ListEntry, Parser};

use crate::support::{Client, Config, start};

#[test]
fn callers_of_the_networks_are_told_how_each_policy_decided_and_others_are_not() {
    let per_key = "quota = ['2 per minute', '10 per hour']\nalgorithm = 'fixed-window'\ncost = 1\n\
                   partition = ['header:x-key']\noverrides = { 'gold' = '5 per minute' }";
    let config = Config::to("builtin:status/204")
        .top("debug_from = ['203.0.113.0/24', '2001:db8::/32']")
        .listener("trusted_proxies = ['127.0.0.1']")
        .policy("per-key", per_key)
        .policy(
            "by-token",
            "quota = '1 per hour'\npartition = ['header:x-token']\non_missing = 'skip'",
        )
        .policy("tried", "quota = '9 per hour'\nmode = 'shadow'")
        .route("/a/{id}", "policies = ['per-key', 'by-token', 'tried']");
    let gateway = start(&config);
    let mut client = Client::connect(gateway.public);
    let mut told = |path: &str, from: &str, key: &str| {
        let fields =
            format!("X-Forwarded-For: {from}\r\nX-Key: {key}\r\nTollgate-Decision: mine\r\n");
        let answer = client.get(path, &fields);
        let told = answer.field("tollgate-decision").map(|told| {
            // The client's name has a digest, which differs from process to process.
            let parts = told.split_once("gold~");
            parts.map_or(told.to_owned(), |(before, after)| {
                format!("{before}gold{}", &after[8..])
            })
        });
        (answer.status, told)
    };
    let of_policies = |key: &str| {
        format!(
            r#"route="/a/{{id}}", policies=({key} "by-token";outcome=skipped;cost=0 "tried";outcome=admitted;cost=1)"#
        )
    };
    for (path, from, key, status, expected) in [
        (
            "/a/1",
            "203.0.113.9",
            "one",
            204,
            Some(of_policies(
                r#""per-key";outcome=admitted;cost=1;quota="2 per 1m";r=1;t=60 "per-key";outcome=admitted;cost=1;quota="10 per 1h";r=9;t=3600"#,
            )),
        ),
        ("/a/1", "198.51.100.1", "one", 204, None),
        (
            "/a/1",
            "2001:db8::7",
            "one",
            429,
            Some(of_policies(
                r#""per-key";outcome=refused;cost=1;quota="2 per 1m";r=0;t=60;retry=60 "per-key";outcome=refused;cost=1;quota="10 per 1h";r=8;t=3600"#,
            )),
        ),
        (
            "/a/1",
            "203.0.113.9",
            "gold",
            204,
            Some(of_policies(
                r#""per-key";outcome=admitted;cost=1;tier="gold";quota="5 per 1m";r=4;t=60"#,
            )),
        ),
        (
            "/b",
            "203.0.113.9",
            "one",
            404,
            Some("policies=()".to_owned()),
        ),
        ("/b", "127.0.0.1", "one", 404, None),
    ] {
        let answer = told(path, from, key);
        assert_eq!(answer, (status, expected), "{path} {from} {key}");
        if let Some(value) = answer.1 {
            let parsed = Parser::new(&value)
                .parse::<Dictionary>()
                .expect("a dictionary");
            assert!(matches!(parsed["policies"], ListEntry::InnerList(_)));
        }
    }
}

#[test]
fn a_field_that_grows_too_long_ends_early_and_says_so() {
    let quotas = (1..=60).fold(String::new(), |mut all, hours| {
        write!(all, "'100 per {hours}h',").expect("memory takes every byte");
        all
    });
    let name = "a-policy-with-a-name-that-takes-nearly-all-of-the-room-that-is";
    let config = Config::to("builtin:status/204")
        .top("debug_from = ['127.0.0.1']")
        .policy(
            name,
            &format!("quota = [{quotas}]\nalgorithm = 'fixed-window'"),
        )
        .route("/*", &format!("policies = ['{name}']"));
    let answer = Client::connect(start(&config).public).get("/", "");
    let value = answer.field("tollgate-decision").expect("it is told");
    assert!((4_096..4_500).contains(&value.len()), "{}", value.len());
    let parsed = Parser::new(value)
        .parse::<Dictionary>()
        .expect("a dictionary");
    let ListEntry::InnerList(policies) = &parsed["policies"] else {
        panic!("an inner list: {value}")
    };
    assert!(policies.params.contains_key("truncated"), "{value}");
}
