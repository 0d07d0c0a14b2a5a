//! What a line of the access log says of a request: how it came, what each policy made of it, and whose it was.

use serde_json::{Value, json};

use crate::support::process::free_address;
use crate::support::{Client, Config, Process, get};

/// Returns these fields of a record, with digests replaced by `#`.
fn fields(record: &Value, keys: &[&str]) -> Value {
    let fields = keys
        .iter()
        .filter_map(|key| Some((*key, without_digests(record.get(key)?))));
    fields.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn without_digests(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_digests).collect(),
        Value::String(text) => match text.split_once('~') {
            Some((four, rest)) => {
                let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
                json!(format!("{four}#{rest}"))
            }
            None => value.clone(),
        },
        value => value.clone(),
    }
}

#[test]
fn a_refused_request_says_which_quota_refused_its_limit_and_when_to_come_again() {
    let policy = "quota = ['2 per 1h', '100 per day']\ncandidate = '1 per hour'";
    let process = Process::start(&Config::limited("builtin:echo", policy).one_worker());
    let mut client = Client::connect(process.public);
    let refused = (0..3).map(|_| client.get("/", "")).last();
    let refused = refused.expect("an answer");
    let retry_after = refused.field("retry-after").expect("a field");
    let retry_after: u64 = retry_after.parse().expect("seconds");
    let records = process.wait_for_records(3);
    let keys = [
        "decision",
        "refused_by",
        "candidate_refused_by",
        "limit",
        "remaining",
        "retry_after",
        "costs",
        "charged",
        "client",
        "policies",
        "partitions",
    ];
    // A client that is counted by its address alone is named once.
    let admitted = json!({
        "decision": "admitted", "limit": 2, "remaining": 1, "costs": [1], "charged": [1],
        "client": "127.0.0.1", "policies": ["p"],
    });
    assert_eq!(fields(&records[0], &keys), admitted);
    let tried = &records[1]["candidate_refused_by"];
    assert_eq!(*tried, json!(["p: 1 per 1h"]));
    let refused = json!({
        "decision": "refused", "refused_by": ["p: 2 per 1h"],
        "candidate_refused_by": ["p: 1 per 1h"], "limit": 2, "remaining": 0,
        "retry_after": retry_after, "costs": [1], "charged": [0],
        "client": "127.0.0.1", "policies": ["p"],
    });
    assert_eq!(fields(&records[2], &keys), refused);
}

#[test]
fn each_policy_says_whose_it_was_its_override_and_its_cost_as_asked_and_as_charged() {
    let config = Config::to("builtin:echo")
        .one_worker()
        .policy(
            "keys",
            "quota = '9 per hour'\npartition = ['header:x-api-key']\n\
             overrides = { 'live_*' = '5 per hour', 'test_*' = 'unlimited' }",
        )
        .policy("trial", "quota = '4 per hour'\nmode = 'shadow'")
        .policy(
            "all",
            "quota = '50 per hour'\npartition = []\ncount = 'all'",
        )
        .policy(
            "tenants",
            "quota = '50 per hour'\npartition = ['header:x-tenant']",
        )
        .route(
            "/*",
            "policies = ['keys', 'trial', 'all', 'tenants']\ncost = 3",
        );
    let process = Process::start(&config);
    let mut client = Client::connect(process.public);
    for key in ["live_1", "live_1", "test_1", "other"] {
        client.get("/", &format!("X-Api-Key: {key}\r\nX-Tenant: acme-5678\r\n"));
    }
    client.get("/", "");
    let records = process.wait_for_records(5);
    let keys = [
        "partitions",
        "tiers",
        "costs",
        "charged",
        "refused_by",
        "shadow_refused_by",
    ];
    let told: Vec<_> = records.iter().map(|record| fields(record, &keys)).collect();
    let expected = json!([
        {
            "partitions": ["live#", "127.0.0.1", "all", "acme#"], "tiers": ["live_*", "", "", ""],
            "costs": [3, 3, 3, 3], "charged": [3, 3, 3, 3],
        },
        {
            "partitions": ["live#", "127.0.0.1", "all", "acme#"], "tiers": ["live_*", "", "", ""],
            "costs": [3, 3, 3, 3], "charged": [0, 0, 3, 0],
            "refused_by": ["keys: 5 per 1h"], "shadow_refused_by": ["trial: 4 per 1h"],
        },
        {
            "partitions": ["test#", "127.0.0.1", "all", "acme#"], "tiers": ["test_*", "", "", ""],
            "costs": [0, 3, 3, 3], "charged": [0, 0, 3, 3], "shadow_refused_by": ["trial: 4 per 1h"],
        },
        {
            "partitions": ["othe#", "127.0.0.1", "all", "acme#"],
            "costs": [3, 3, 3, 3], "charged": [3, 0, 3, 3], "shadow_refused_by": ["trial: 4 per 1h"],
        },
        {
            "partitions": ["no header:x-api-key", "127.0.0.1", "all", "no header:x-tenant"],
            "costs": [3, 3, 3, 3], "charged": [3, 0, 3, 3], "shadow_refused_by": ["trial: 4 per 1h"],
        },
    ]);
    assert_eq!(Value::from(told), expected);
}

#[test]
fn a_request_says_how_it_came_and_how_much_did() {
    let process = Process::start(&Config::to("builtin:echo").route("/*", "").one_worker());
    let mut client = Client::connect(process.public);
    client.post("/posted", "User-Agent: a \"b\"\r\n", "twelve bytes");
    client.ask("GET /chunks HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    client.ask("GET /old HTTP/1.0\r\nHost: a.test\r\n\r\n");
    let keys = ["protocol", "user_agent", "received_bytes", "tls_version"];
    for (path, expected) in [
        (
            "/posted",
            json!({"protocol": "HTTP/1.1", "user_agent": "a \"b\"", "received_bytes": 12}),
        ),
        (
            "/chunks",
            json!({"protocol": "HTTP/1.1", "received_bytes": 5}),
        ),
        ("/old", json!({"protocol": "HTTP/1.0", "received_bytes": 0})),
    ] {
        let line = process.wait_for_line(&[path]);
        let record: Value = serde_json::from_str(&line).expect("a log line is JSON");
        assert_eq!(fields(&record, &keys), expected, "{path}");
    }
}

#[test]
fn digests_of_two_processes_can_be_compared_if_and_only_if_they_share_a_secret() {
    let redis = format!("url = 'redis://{}'", free_address());
    let secret = "key_secret = 'sixteen bytes or more'";
    for (store, is_same) in [
        (String::new(), false),
        // In Redis, counters are shared even without a secret; the log's digests are not.
        (redis.clone(), false),
        (secret.to_owned(), true),
        (format!("{redis}\n{secret}"), true),
    ] {
        let policy = "quota = '9 per day'\npartition = ['header:x-api-key']\n\
                      on_store_failure = 'open'\noverrides = { 'alpha' = '8 per day' }";
        let config = Config::limited("builtin:echo", policy).with(&format!("[store]\n{store}"));
        let digests = || {
            let process = Process::start(&config);
            get(process.public, "/", "X-Api-Key: alpha\r\n");
            let record = &process.wait_for_records(1)[0];
            assert_eq!(record["partitions"], record["tiers"], "{record}");
            record["partitions"].clone()
        };
        assert_eq!(digests() == digests(), is_same, "{store}");
    }
}
