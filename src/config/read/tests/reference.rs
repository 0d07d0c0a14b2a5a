//! The annotated `gateway.toml` at the root is correct and complete.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::changes::{Changes, changes};
use crate::config::options::{Key, ROUTE, STORE, TABLES, TOP};
use crate::config::{Loaded, load};
use crate::limit::plan::SeriesId;

const REFERENCE: &str = include_str!("../../../../gateway.toml");

fn loaded(text: &str) -> Loaded {
    let loaded = load(text, &variable, &mut |_| SeriesId(0));
    loaded.unwrap_or_else(|report| panic!("{}", report.render("gateway.toml", text, false)))
}

/// Looks up a variable; only lines that are commented out name one.
fn variable(name: &str) -> Option<String> {
    REFERENCE
        .contains(&format!("= \"${{{name}}}\""))
        .then(|| "sixteen-or-more-bytes".to_owned())
}

/// Returns the title of a table, commented out or not.
fn title(line: &str) -> Option<&str> {
    let line = line.strip_prefix("# ").unwrap_or(line);
    line.strip_prefix('[')?.strip_suffix(']')
}

/// Returns the key that a line gives a value to, commented out or not.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.strip_prefix("# ").unwrap_or(line).split_once(" = ")?;
    let is_key = |char: char| matches!(char, 'a'..='z' | '0'..='9' | '_');
    key.chars().all(is_key).then_some(key)
}

/// Returns the reference with every line in force, and with Redis, because credentials and TLS need it.
fn uncommented() -> String {
    let lines = REFERENCE
        .lines()
        .map(|line| match (key(line), title(line)) {
            (None, None) => line,
            _ => line.trim_start_matches("# "),
        });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replace("memory:\"\n", "rediss+sentinel://10.0.0.1/main\"\n")
        .replace("origin-ca.pem", "other-ca.pem")
        .replace("\"/etc/tollgate/", "\"tests/config/tls/")
        .replace("\"conf.d/", "\"tests/config/good/parts/nothing.d/")
}

#[test]
fn the_reference_loads_as_it_is() {
    assert_eq!(loaded(REFERENCE).warnings, [""; 0]);
}

#[test]
fn what_is_commented_out_is_the_default_unless_the_reference_says_there_is_none() {
    let changes = changes(&loaded(REFERENCE).file, &loaded(&uncommented()).file);
    let applied = [
        "preflight_policies none → [per-client]",
        "include [] → [tests/config/good/parts/nothing.d/*.toml]",
        "debug_from [] → [127.0.0.1/32]",
        "admin: token set",
        "store: key_secret set, counters start afresh",
        "jwt: keys [] → [tests/config/tls/issuer.pem]",
        "jwt: issuer anybody → https://login.example.com/",
        "jwt: audience [] → [api.example.com]",
        "log: format text on a terminal, otherwise json → json",
        "log: file standard output → /var/log/tollgate.log",
        "log: access_file where events go → /var/log/tollgate-access.log",
        "listener public: max_connections_per_client none → 100",
        "listener public: max_body_bytes none → 16MiB",
        "listener public: tls.certificates [] → [tests/config/tls/public.pem]",
        "listener public: tls.client_ca none → tests/config/tls/clients-ca.pem",
        "upstream secure added",
        "upstream echo: max_requests none → 1000",
        "upstream echo: health.path none → /healthz",
        "upstream echo: health.host the endpoint's → api.example.com",
        "policy per-client: count_status [] → [401, 403]",
        "policy per-client: refund_on [] → [5xx, connect]",
        "policy per-client: penalty none → 5m, counters kept",
        "policy per-client: candidate [] → [10 per 10s]",
        "policy per-client: overrides 0 → 2",
        "policy per-client: overrides_file none → tests/config/tls/overrides.csv",
        "policy per-client: notify [] → [80%, 100%]",
        "policy per-client: refusal.body problem+json → Slow down.",
        "policy per-client: refusal.content_type text/plain → text/plain; charset=utf-8",
        "policy per-client: refusal.retry_jitter 0s, of calendar quotas 5m → 10%",
        "policy metered: min_cost 1, or 0 if a body reports the cost → 1",
        "policy metered: max_cost 1000, or 10000000 if a body reports the cost → 1000",
        "policy even: burst the quota → 10, counters kept",
        "policy even: overrides 0 → 1",
        "policy even: overrides_by the partition → header:x-plan",
        "policy monthly: anchor_day 1, of a week monday → 15, counters start afresh",
        "policy monthly: anchor_by none → jwt:billing_day, counters start afresh",
        "policy monthly: spill none → prepaid",
        "route /* removed",
        "route checkout added",
        "route POST /chat: stream_end none → message_stop",
        "route /shaped/*: strip_prefix none → /shaped",
        "route /v1/users/{id}/*: rewrite none → /users/{id}/*",
    ];
    let expected = Changes {
        applied: applied.map(str::to_owned).into(),
        needs_restart: vec![
            "workers one per core → 2".to_owned(),
            "store: url memory: → rediss+sentinel://10.0.0.1:26379/main".to_owned(),
        ],
    };
    assert_eq!(changes, expected);
}

#[test]
fn the_reference_has_every_key_that_works() {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut title = TOP.about.title.to_owned();
    for line in REFERENCE.lines() {
        if let Some(key) = key(line) {
            found.entry(title.clone()).or_default().insert(key);
        } else if let Some(line) = self::title(line) {
            let mut parts = line.trim_matches(['[', ']']).split('.');
            let (table, name, inner) = (parts.next(), parts.next(), parts.next());
            title = match (table, inner) {
                (Some("routes"), _) => {
                    let outer = ROUTE.about.title.to_owned();
                    found.entry(outer.clone()).or_default().extend(name);
                    name.map_or(outer, |_| format!("[{}]", line.trim_matches(['[', ']'])))
                }
                (Some("store"), _) => {
                    found
                        .entry(STORE.about.title.to_owned())
                        .or_default()
                        .extend(name);
                    format!("[{line}]")
                }
                (Some(table @ ("admin" | "jwt" | "log")), _) => format!("[{table}]"),
                (Some(table), None) => format!("[{table}.NAME]"),
                (table, Some(inner)) => {
                    let outer = format!("[{}.NAME]", table.unwrap_or_default());
                    found.entry(outer).or_default().insert(inner);
                    format!("[{}.NAME.{inner}]", table.unwrap_or_default())
                }
                (None, None) => unreachable!("split yields one part at least"),
            };
            found
                .entry(TOP.about.title.to_owned())
                .or_default()
                .extend(table);
        }
    }
    let working = TABLES.iter().map(|table| {
        let keys = table.keys.iter().map(|key| key.name);
        let keys = keys.chain(table.tables.iter().copied());
        (table.title.to_owned(), keys.collect::<BTreeSet<_>>())
    });
    assert_eq!(found, working.collect());
}

/// The comment above a key begins with the documentation of its option.
#[test]
fn the_reference_says_of_each_key_what_its_option_says() {
    let documented = |key: &Key| {
        let lines: Vec<&str> = REFERENCE.lines().collect();
        let places = (0..lines.len()).filter(|at| self::key(lines[*at]) == Some(key.name));
        places
            .map(|at| comment_above(&lines[..at]))
            .any(|comment| comment.starts_with(key.doc))
    };
    for table in TABLES.iter() {
        for key in &table.keys {
            assert!(
                !key.doc.is_empty(),
                "{} of {} has no doc",
                key.name,
                table.title
            );
            assert!(
                documented(key),
                "{} of {}: {}",
                key.name,
                table.title,
                key.doc
            );
        }
    }
}

/// The comment above one of a table's headers begins with the documentation of the table.
#[test]
fn the_reference_says_of_each_table_what_its_options_say() {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    for table in TABLES.iter().filter(|table| table.title.starts_with('[')) {
        assert!(!table.doc.is_empty(), "{} has no doc", table.title);
        let mut places = (0..lines.len()).filter(|at| self::title(lines[*at]).is_some());
        let is_documented = places.any(|at| comment_above(&lines[..at]).starts_with(table.doc));
        assert!(is_documented, "{}: {}", table.title, table.doc);
    }
}

/// Returns the comment that ends with the last of these lines, as one line.
fn comment_above(lines: &[&str]) -> String {
    let is_comment =
        |line: &&&str| line.starts_with("# ") && key(line).is_none() && title(line).is_none();
    let mut comment: Vec<&str> = lines
        .iter()
        .rev()
        .take_while(is_comment)
        .map(|line| &line[2..])
        .collect();
    comment.reverse();
    comment.join(" ")
}

/// The documented table of bounds agrees with the options.
#[test]
fn the_documented_bounds_are_those_of_the_options() {
    let document = include_str!("../../../../docs/configuration.md");
    for table in TABLES.iter() {
        for Key {
            name, path, bounds, ..
        } in &table.keys
        {
            let Some([least, most]) = bounds else {
                continue;
            };
            let row = |line: &&str| {
                let names = line.split('|').nth(1).unwrap_or_default();
                let of_store = names.starts_with(&format!(" `{} ", table.title));
                let is_timeout = name.ends_with("_timeout") && names.contains("`…_timeout`");
                let is_named =
                    names.contains(&format!("`{path}`")) || names.contains(&format!(" {path}`"));
                (is_named || is_timeout) && of_store == (table.title == "[store]")
            };
            let found = document
                .lines()
                .filter(|line| line.starts_with("| "))
                .find(row);
            let Some(line) = found else {
                panic!("{path} of {} has no bounds in the document", table.title)
            };
            let said: Vec<_> = line.split('|').map(str::trim).skip(2).take(2).collect();
            assert_eq!(said, [least, most], "{path} of {}", table.title);
        }
    }
}
