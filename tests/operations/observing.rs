//! What an operator sees: one access-log line per request, metrics, health, and never a secret.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Client, Config, Metered, Process, Refusing, eventually, get, start};

/// Field lines full of what must not be seen.
const SECRETS: &str = "X-Api-Key: sk_live_SECRET_one\r\nAuthorization: Bearer SECRET\r\n\
                       Cookie: session=SECRET\r\nX-Forwarded-For: 203.0.113.9\r\n";

/// Two requests an hour for each key, on `/api/*`.
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

/// Returns every scalar of a record as text.
fn scalars(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(scalars).collect(),
        Value::Object(fields) => fields.values().flat_map(scalars).collect(),
        Value::String(text) => vec![text.clone()],
        Value::Null => vec![],
        other => vec![other.to_string()],
    }
}

/// Returns the status that a record tells.
fn status(record: &Value) -> Option<u64> {
    match record {
        Value::Object(fields) => match fields.get("status") {
            Some(status) => status.as_u64(),
            None => fields.values().find_map(status),
        },
        _ => None,
    }
}

/// Returns the runs of exactly eight hex digits in a text.
fn digests(text: &str) -> BTreeSet<String> {
    let runs = text.split(|c: char| !c.is_ascii_hexdigit());
    runs.filter(|run| run.len() == 8)
        .map(str::to_owned)
        .collect()
}

/// Returns the digest that follows those first four characters in one of a record's scalars.
fn digest_after(record: &Value, four: &str) -> Option<String> {
    scalars(record).iter().find_map(|text| {
        let (_, rest) = text.split_once(four)?;
        digests(rest).into_iter().next()
    })
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
    assert_eq!(records.len(), 4, "{records:#?}");
    for (record, status) in records.iter().zip([200, 200, 429, 404]) {
        let told = scalars(record);
        assert_eq!(self::status(record), Some(status), "{record}");
        for part in ["GET", "a.test"] {
            assert!(told.iter().any(|x| x == part), "no {part} in {record}");
        }
        assert!(
            told.iter().any(|x| x.starts_with("127.0.0.1")),
            "no address in {record}"
        );
    }
    let refused = scalars(&records[2]);
    assert!(
        refused.iter().any(|x| x.contains("keyed")),
        "{refused:?} does not name the policy"
    );
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
    let digests: Vec<_> = records.iter().map(|x| digest_after(x, "sk_l")).collect();
    assert!(digests.iter().all(Option::is_some), "{records:#?}");
    assert!(digests[0] == digests[2] && digests[0] == digests[3]);
    assert!(digests[0] != digests[1], "two keys, one digest");
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
    for (access, statuses) in [
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
        let records = process.wait_for_records(statuses.len());
        let told: Vec<_> = records.iter().filter_map(status).collect();
        assert_eq!(told, statuses, "{access}");
    }
}

#[test]
fn health_and_metrics_are_on_the_private_port() {
    let running = start(
        &Config::to("builtin:echo")
            .admin("127.0.0.1:0")
            .route("/", ""),
    );
    let admin = running.admin();
    for (target, status) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/nothing-there", 404),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        let answer = Client::connect(admin).ask(request);
        assert_eq!(answer.status, status, "{target}");
    }
    assert_eq!(get(running.public, "/", "").status, 200);
}

#[test]
fn metrics_are_well_formed_and_name_nothing_of_a_client() {
    let refusing = Refusing::new();
    let config = Config::to("builtin:echo")
        .admin("127.0.0.1:0")
        .policy(
            "keyed",
            "quota = '1 per hour'\npartition = ['header:x-api-key']",
        )
        .beside("down", &refusing.url(), "/down", "")
        .route("/*", "policies = ['keyed']");
    let running = start(&config);
    let admin = running.admin();
    let fields = "X-Api-Key: client-bytes\r\nUser-Agent: client-bytes\r\n";
    for target in [
        "/client-bytes",
        "/client-bytes?client-bytes",
        "/down",
        "/x%2fy",
    ] {
        get(running.public, target, fields);
    }
    Client::connect(running.public)
        .ask("CLIENTBYTES / HTTP/1.1\r\nHost: client-bytes.test\r\nContent-Length: 0\r\n\r\n");

    let answer = get(admin, "/metrics", "");
    let kind = answer.field("content-type").expect("a content type");
    assert!(
        kind.starts_with("text/plain") || kind.starts_with("application/openmetrics-text"),
        "{kind}"
    );
    let text = answer.text();
    assert!(
        !text.to_ascii_lowercase().contains("client-bytes"),
        "{text}"
    );
    assert!(!text.contains("CLIENTBYTES"), "{text}");
    assert!(text.contains("\"keyed\""), "no policy is named:\n{text}");
    for line in text
        .lines()
        .filter(|x| !x.starts_with('#') && !x.is_empty())
    {
        let (series, rest) = line
            .split_once("} ")
            .or_else(|| line.split_once(' '))
            .unwrap_or_else(|| panic!("not a sample: {line:?}"));
        let name = series.split('{').next().unwrap_or_default();
        assert!(
            name.starts_with("tollgate_") || name.starts_with("process_"),
            "{line}"
        );
        let value = rest.split(' ').next().unwrap_or_default();
        value
            .parse::<f64>()
            .unwrap_or_else(|_| panic!("not a number: {line:?}"));
    }
}

#[test]
fn metrics_count_what_was_admitted_and_refused() {
    let config = Config::limited("builtin:echo", "quota = '3 per hour'\npartition = []");
    let running = start(&config.admin("127.0.0.1:0"));
    let samples = || -> Vec<String> {
        let text = running.metrics();
        let lines = text.lines().filter(|x| x.contains("\"p\""));
        lines.map(str::to_owned).collect()
    };
    let mut client = Client::connect(running.public);
    for _ in 0..10 {
        client.get("/", "");
    }
    // Recording may follow the last byte of an answer by a moment.
    eventually("3 admitted and 7 refused by p", || {
        let samples = samples();
        let with = |value: &str| samples.iter().any(|x| x.ends_with(value));
        (with(" 3") && with(" 7")).then_some(())
    });
}
