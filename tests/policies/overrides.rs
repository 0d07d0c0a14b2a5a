//! Overrides: single clients and tiers get something else, and changes to their file apply in full and at once.

use std::fs;

use super::stores::on_each_store;
use serde_json::{Value, json};

use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Issuer, Origin, Process, Running, get, jwks};

const POLICY: &str = "quota = '10 per hour'\nalgorithm = 'fixed-window'\n\
                      partition = ['header:x-api-key']\n";

/// Sends a request with this key; returns the status, what is left of the quota if anything was counted, and the
/// override that the upstream was told of.
fn ask(client: &mut Client, origin: &Origin, key: &str) -> (u16, Option<i64>, Option<String>) {
    let before = origin.requests().len();
    let fields = format!("X-Api-Key: {key}\r\nTollgate-Tier: forged\r\n");
    let answer = client.get("/", &fields);
    let left = answer.field("ratelimit").map(|_| remaining(&answer, "p"));
    let requests = origin.requests();
    let upstream = requests[before..].first().and_then(|request| {
        let tiers = request.head.fields("tollgate-tier");
        assert!(tiers.len() <= 1, "{tiers:?}");
        tiers.first().map(ToString::to_string)
    });
    (answer.status, left, upstream)
}

/// Replaces the digest after `~` by `#`.
fn without_digest(tier: &str) -> String {
    match tier.split_once('~') {
        Some((shown, digest)) if digest.len() == 8 => format!("{shown}~#"),
        _ => tier.to_owned(),
    }
}

#[test]
fn the_most_specific_override_decides_and_the_upstream_learns_which() {
    on_each_store(|start| {
        let origin = Origin::plain();
        let overrides = "overrides = { 'live_*' = '20 per hour', 'live_a*' = '5 per hour', 'live_ann' = 'unlimited', \
                         'live_abe' = 'blocked', 'live_many' = ['3 per hour', '7 per day'] }";
        let running = start(Config::limited(
            origin.url(),
            &format!("{POLICY}{overrides}"),
        ));
        let mut client = Client::connect(running.public);
        for (key, status, left, tier) in [
            ("test", 200, Some(9), None),
            ("live", 200, Some(9), None),
            ("live_b", 200, Some(19), Some("live_*")),
            ("live_al", 200, Some(4), Some("live_a*")),
            ("live_ann", 200, None, Some("live~#")),
            ("live_abe", 403, None, None),
        ] {
            let (got, has, upstream) = ask(&mut client, &origin, key);
            let upstream = upstream.as_deref().map(without_digest);
            assert_eq!(
                (got, has, upstream.as_deref()),
                (status, left, tier),
                "{key}"
            );
        }
        let mut many = || client.get("/", "X-Api-Key: live_many\r\n").status;
        assert_eq!([many(), many(), many(), many()], [200, 200, 200, 429]);
        // Each client has the override's quota to itself.
        assert_eq!(ask(&mut client, &origin, "live_b2").1, Some(19));
    });
}

#[test]
fn a_tier_chooses_the_quota_and_the_partition_says_whose_it_is() {
    on_each_store(|start| {
        let origin = Origin::plain();
        let tiers = "overrides_by = 'header:x-plan'\noverrides = { free = '20 per hour', '*' = '3 per hour' }";
        let running = start(Config::limited(origin.url(), &format!("{POLICY}{tiers}")));
        for (key, plan, left) in [
            ("a", "X-Plan: free\r\n", 19),
            ("b", "X-Plan: free\r\n", 19),
            ("a", "X-Plan: free\r\n", 18),
            ("c", "X-Plan: paid\r\n", 2),
            ("c", "", 8),
        ] {
            let answer = get(running.public, "/", &format!("X-Api-Key: {key}\r\n{plan}"));
            assert_eq!(remaining(&answer, "p"), left, "{key} {plan}");
        }
    });
}

#[test]
fn a_tier_is_in_clear_if_a_verified_claim_names_it_and_a_value_of_clients_never() {
    let issuer = Issuer::hmac([7; 32]);
    let folder = tempfile::tempdir().expect("a folder for keys");
    let keys = folder.path().join("keys");
    fs::write(&keys, jwks(&[(&issuer, json!({}))])).expect("a writable folder");
    let token = issuer.token(&json!({"sub": "customer-7", "plan": "enterprise"}));
    let claimed = format!("Authorization: Bearer {token}\r\n");
    let (headed, keyed) = ("X-Plan: enterprise\r\n", "X-Api-Key: enterprise\r\n");
    let by = |partition: &str, by: &str| {
        let by = if by.is_empty() {
            String::new()
        } else {
            format!("\noverrides_by = '{by}'")
        };
        format!("partition = ['{partition}']{by}")
    };
    for (chosen, fields, tier) in [
        (by("ip", "jwt:plan"), &*claimed, "enterprise"),
        (by("header:x-api-key", "jwt:plan"), &claimed, "enterprise"),
        (by("ip", "header:x-plan"), headed, "ente~#"),
        (
            by("ip", "header:x-plan | jwt:plan"),
            headed,
            "header:x-plan=ente~#",
        ),
        (
            by("ip", "header:x-plan | jwt:plan"),
            &claimed,
            "jwt:plan=ente~#",
        ),
        (by("header:x-api-key", ""), keyed, "ente~#"),
        (by("ip", "header:x-plan"), "X-Plan: entry\r\n", "ent*"),
        // What says whose quota it is, is redacted even if it is a verified claim.
        (by("jwt:sub", ""), &claimed, "cust~#"),
    ] {
        let (origin, file) = (Origin::plain(), keys.display());
        let overrides = if chosen.contains('|') {
            "{ 'header:x-plan=enterprise' = '5 per hour', 'jwt:plan=enterprise' = '5 per hour' }"
        } else {
            "{ enterprise = '5 per hour', customer-7 = '4 per hour', 'ent*' = '3 per hour' }"
        };
        let policy = format!("quota = '10 per hour'\n{chosen}\noverrides = {overrides}");
        let config = Config::limited(origin.url(), &policy);
        let process = Process::start(&config.with(&format!("[jwt]\nkeys = '{file}'")));
        assert_eq!(get(process.public, "/", fields).status, 200, "{chosen}");
        let request = origin.only_request();
        let told: Vec<_> = (request.head.fields("tollgate-tier").into_iter())
            .map(without_digest)
            .collect();
        assert_eq!(told, [tier], "upstream, {chosen}, {fields}");
        let record = process.wait_for_records(1).remove(0);
        let logged = record["tiers"].as_array().into_iter().flatten();
        let logged: Vec<_> = logged
            .filter_map(Value::as_str)
            .map(without_digest)
            .collect();
        assert_eq!(logged, [tier], "log, {chosen}, {fields}");
    }
}

#[test]
fn a_reload_reads_the_file_of_overrides_again_and_keeps_what_was_spent() {
    on_each_store(|start| {
        let origin = Origin::plain();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("overrides.csv");
        let write = |rows: &str| fs::write(&path, rows).expect("a writable folder");
        write("live_a,20 per hour\n");
        let policy = format!("{POLICY}overrides_file = '{}'", path.display());
        let config = Config::limited(origin.url(), &policy);
        let mut running = start(config.clone());
        let left = |key: &str, running: &Running| {
            ask(&mut Client::connect(running.public), &origin, key).1
        };
        assert_eq!(left("live_a", &running), Some(19));
        assert_eq!(left("live_b", &running), Some(9));
        write("live_a,30 per hour\nlive_b,unlimited\n");
        running.gateway.reload(&config.text()).expect("a good file");
        assert_eq!(left("live_a", &running), Some(28));
        assert_eq!(left("live_b", &running), None);
        write("live_a,5 per hour\nlive_b,lots\n");
        let report = running
            .gateway
            .reload(&config.text())
            .expect_err("a bad row");
        let lines = report.lines("gateway.toml", &config.text());
        assert!(
            lines[0].contains("overrides.csv:2:8: `lots` is not a quota"),
            "{lines:?}"
        );
        assert_eq!(left("live_a", &running), Some(27));
    });
}
