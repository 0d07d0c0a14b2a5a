//! The annotated `gateway.toml` at the root says what is true.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{ROUTE, STORE, TABLES, TOP};
use crate::config::changes::{Changes, changes};
use crate::config::{Loaded, load};
use crate::limit::plan::SeriesId;

const REFERENCE: &str = include_str!("../../../gateway.toml");

fn loaded(text: &str) -> Loaded {
    let loaded = load(text, &variable, &mut |_| SeriesId(0));
    loaded.unwrap_or_else(|report| panic!("{}", report.render("gateway.toml", text, false)))
}

/// Only what is commented out names variables.
fn variable(name: &str) -> Option<String> {
    REFERENCE
        .contains(&format!("= \"${{{name}}}\""))
        .then(|| "sixteen or more bytes".to_owned())
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

/// Returns the reference with everything in force: credentials and TLS are for Redis only.
fn uncommented() -> String {
    let lines = REFERENCE
        .lines()
        .map(|line| match (key(line), title(line)) {
            (None, None) => line,
            _ => line.trim_start_matches("# "),
        });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replace("memory:\"\n", "rediss+sentinel://10.0.0.1/main\"\n")
        .replace("\"/etc/tollgate/", "\"tests/config/tls/")
}

#[test]
fn the_reference_loads_as_it_is() {
    assert_eq!(loaded(REFERENCE).warnings, [""; 0]);
}

#[test]
fn what_is_commented_out_is_the_default_unless_the_reference_says_there_is_none() {
    let changes = changes(
        &loaded(REFERENCE).snapshot,
        &loaded(&uncommented()).snapshot,
    );
    let applied = [
        "store: key_secret set, counters start afresh",
        "log: format text on a terminal, else json → json",
        "log: file standard output → /var/log/tollgate.log",
        "listener public: max_body_bytes none → 16MiB",
        "route /* removed",
        "route /shaped/*: strip_prefix none → /shaped",
        "route GET,POST api.example.com/* [x-version, x-api-key] added",
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
    let mut title = TOP.title.to_owned();
    for line in REFERENCE.lines() {
        if let Some(key) = key(line) {
            found.entry(title.clone()).or_default().insert(key);
        } else if let Some(line) = self::title(line) {
            let mut parts = line.trim_matches(['[', ']']).split('.');
            let (table, name, inner) = (parts.next(), parts.next(), parts.next());
            title = match (table, inner) {
                (Some("routes"), _) => ROUTE.title.to_owned(),
                (Some("store"), _) => {
                    found
                        .entry(STORE.title.to_owned())
                        .or_default()
                        .extend(name);
                    format!("[{line}]")
                }
                (Some(table @ ("admin" | "log")), _) => format!("[{table}]"),
                (Some(table), None) => format!("[{table}.NAME]"),
                (table, Some(inner)) => {
                    let outer = format!("[{}.NAME]", table.unwrap_or_default());
                    found.entry(outer).or_default().insert(inner);
                    format!("[{}.NAME.{inner}]", table.unwrap_or_default())
                }
                (None, None) => unreachable!("split yields one part at least"),
            };
            found.entry(TOP.title.to_owned()).or_default().extend(table);
        }
    }
    let working = TABLES.map(|table| {
        let keys = table.working.iter().copied().collect::<BTreeSet<_>>();
        (table.title.to_owned(), keys)
    });
    assert_eq!(found, BTreeMap::from(working));
}
