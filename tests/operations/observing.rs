//! What an operator sees: one access-log line per request, metrics, health, and never a secret.

use serde_json::Value;

use crate::support::{Client, Config, Metered, Process, get};

/// Field lines full of secrets, none of which may be shown.
const SECRETS: &str = "X-Api-Key: sk_live_SECRET_one\r\nAuthorization: Bearer SECRET\r\n\
                       Cookie: session=SECRET\r\nX-Forwarded-For: 203.0.113.9\r\n";

/// A file with a policy of two requests an hour for each key, on `/api/*`.
fn keyed(log: &str) -> Config {
    // One worker, so that lines come in the order of the requests.
    Config::to("builtin:echo")
        .one_worker()
        .policy(
            "keyed",
            "quota = '2 per hour'\npartition = ['header:x-api-key']",
        )
        .route("/api/*", "policies = ['keyed']")
        .with(&format!("[log]\n{log}"))
}

/// Returns the statuses of records.
fn statuses(records: &[Value]) -> Vec<Option<u64>> {
    let statuses = records.iter().map(|record| record["status"].as_u64());
    statuses.collect()
}

#[test]
fn every_request_is_one_line_that_says_what_became_of_it() {
    let process = Process::start(&keyed(""));
    let mut client = Client::connect(process.public);
    for _ in 0..3 {
        client.get("/api/a", "X-Api-Key: some-key\r\n");
    }
    client.get("/unrouted", "");
    let records = process.wait_for_records(4);
    assert_eq!(statuses(&records), [200, 200, 429, 404].map(Some));
    for record in &records {
        let told = ["method", "host", "client"].map(|field| record[field].as_str());
        assert_eq!(told, ["GET", "a.test", "127.0.0.1"].map(Some), "{record}");
        // The upstream is built in, so there is no endpoint and no attempt.
        let at_origin = ["endpoint", "attempts"].map(|field| record.get(field));
        assert_eq!(at_origin, [None; 2], "{record}");
    }
    assert_eq!(records[2]["refused_by"][0], "keyed: 2 per 1h");
}

#[test]
fn keys_are_seen_as_four_characters_and_a_digest_and_other_secrets_not_at_all() {
    let mut process = Process::start(&keyed("level = 'debug'"));
    let other = SECRETS.replace("one", "two");
    for (fields, target) in [
        (SECRETS, "/api/a?token=SECRET&b=SECRET"),
        (&other, "/api/a?token=SECRET"),
        (SECRETS, "/api/a"),
        (SECRETS, "/api/a"),
    ] {
        get(process.public, target, fields);
    }
    let records = process.wait_for_records(4);
    let keys = records
        .iter()
        .map(|record| record["partitions"][0].as_str());
    let keys: Vec<_> = keys.map(|key| key.expect("a partition")).collect();
    let is_shown = |key: &&str| {
        key.strip_prefix("sk_l~")
            .is_some_and(|rest| rest.len() == 8)
    };
    assert!(keys.iter().all(is_shown), "{keys:?}");
    assert!(keys[0] == keys[2] && keys[0] == keys[3]);
    assert!(keys[0] != keys[1], "two keys, one digest");
    let metrics = process.metrics();
    process.signal("TERM");
    process.wait();
    for line in metrics
        .lines()
        .chain(process.lines().iter().map(String::as_str))
    {
        assert!(!line.contains("SECRET"), "{line}");
        assert!(!line.contains("sk_live"), "{line}");
    }
}

#[test]
fn the_access_log_holds_what_the_file_asks_for() {
    for (access, expected) in [
        ("all", &[200, 200, 429][..]),
        ("refused", &[429]),
        ("off", &[]),
    ] {
        let mut process = Process::start(&keyed(&format!("access = '{access}'")));
        for _ in 0..3 {
            get(process.public, "/api/a", "X-Api-Key: key\r\n");
        }
        process.signal("TERM");
        process.wait();
        let records = process.wait_for_records(expected.len());
        let told: Vec<_> = statuses(&records).into_iter().flatten().collect();
        assert_eq!(told, expected, "{access}");
    }
}
