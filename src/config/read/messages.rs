//! Reports unknown keys, and keys in places where tables with names belong.

use std::ops::Range;

use toml::de::DeValue;

use super::other_names;
use super::source::FileSource;
use crate::config::options::TableDoc;
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::{did_you_mean, nearest, one_of};

/// Reports a key that the table does not have, with a hint about what to do.
pub(super) fn unknown(
    report: &mut Report,
    source: FileSource<'_>,
    about: &TableDoc,
    (key, value): (&str, &DeValue<'_>),
    span: Range<usize>,
) {
    let hint = renamed(about, key)
        .or_else(|| other_names::hint(about.title, key).map(str::to_owned))
        .or_else(|| nearest_table(source.tables, about, (key, value)))
        .or_else(|| home_of(source.tables, about, key))
        .or_else(|| field_to_set(about, key))
        .or_else(|| did_you_mean(key, about.names()))
        .unwrap_or_else(|| {
            let working = about.keys.iter().map(|key| key.name);
            let working: Vec<_> = working.chain(about.tables.iter().copied()).collect();
            format!(
                "valid keys are {}",
                one_of(&working).replace(" or ", " and ")
            )
        });
    let message = format!("unknown key `{}`", redacted(key));
    let expected = format!("a key of {}", code(about.title));
    (report.mistake(&span, message, expected)).hint(hint);
}

/// Returns a hint if `key` is the name that a key of this table had before the first release.
fn renamed(about: &TableDoc, key: &str) -> Option<String> {
    let (_, name) = RENAMED.iter().find(|(old, _)| *old == key)?;
    let is_here = about.names().any(|known| known == *name);
    is_here.then(|| format!("it is now called `{name}`"))
}

/// Returns a hint if a header's name is used as a key: headers to set are in a table of their own.
fn field_to_set(here: &TableDoc, key: &str) -> Option<String> {
    let changes_headers =
        here.title.starts_with("[routes.") && here.names().any(|name| name == "set");
    (changes_headers && key.contains('-')).then(|| format!("did you mean `set = {{ {key} = … }}`?"))
}

/// Returns a hint that says how to write the table that a misspelled key at the top of the file may mean.
fn nearest_table(
    tables: &[&'static TableDoc],
    here: &TableDoc,
    (key, value): (&str, &DeValue<'_>),
) -> Option<String> {
    if here.title.starts_with('[') {
        return None;
    }
    let name = nearest(key, here.names())?;
    let is_it = |title: &str| title.trim_matches(['[', ']']).trim_end_matches(".NAME") == name;
    let title = tables
        .iter()
        .map(|table| table.title)
        .find(|title| is_it(title))?;
    let named = match value {
        DeValue::Table(entries) if entries.len() == 1 => entries.iter().next(),
        _ => None,
    };
    let named = named.filter(|(_, value)| value.get_ref().is_table());
    let title = named.map_or_else(
        || title.to_owned(),
        |(name, _)| title.replace("NAME", &redacted(name.get_ref())),
    );
    Some(format!("did you mean `{title}`?"))
}

/// Returns a hint that says which tables have a key that is unknown in the table `here`.
///
/// A table within another is suggested only inside that one, because elsewhere its keys mean something else. For keys
/// with common names, no other tables are suggested.
fn home_of(tables: &[&'static TableDoc], here: &TableDoc, key: &str) -> Option<String> {
    let homes: Vec<_> = (tables.iter())
        .filter(|table| table.outer(tables).is_none_or(|outer| outer == here.title))
        .filter(|table| table.names().any(|known| known == key))
        .filter(|table| !COMMON.contains(&key) || table.outer(tables) == Some(here.title))
        .map(|table| table.title)
        .collect();
    let (top, others): (Vec<_>, Vec<_>) =
        homes.into_iter().partition(|home| !home.starts_with('['));
    let at_top = "at the top of the file, before the first table";
    match (top.is_empty(), others.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("`{key}` belongs in {}", one_of(&others))),
        (false, true) => Some(format!("`{key}` belongs {at_top}")),
        (false, false) => Some(format!(
            "`{key}` belongs in {}, or {at_top}",
            one_of(&others)
        )),
    }
}

/// Reports a key where the name of a table belongs: in `[listeners]` instead of `[listeners.NAME]`.
pub(super) fn nameless(report: &mut Report, about: &TableDoc, key: &str, span: Range<usize>) {
    let is_key = about.names().any(|known| known == key);
    let title = code(about.title);
    let hint = is_key.then(|| format!("`{key}` belongs in {title}, with a name of your choice"));
    let message = format!("`{}` must be a table", redacted(key));
    (report.mistake(&span, message, title)).maybe_hint(hint);
}

fn code(title: &str) -> String {
    if title.starts_with('[') {
        format!("`{title}`")
    } else {
        title.to_owned()
    }
}

/// Keys that mean different things in different tables.
const COMMON: [&str; 32] = [
    "access",
    "address",
    "body",
    "clients",
    "failures",
    "file",
    "for",
    "format",
    "header",
    "host",
    "interval",
    "issuer",
    "key",
    "keys",
    "level",
    "max_connections",
    "name",
    "password",
    "prefix",
    "remove",
    "set",
    "status",
    "timeout",
    "token",
    "url",
    "username",
    "verify",
    "window",
    "algorithm",
    "unit",
    "mode",
    "weight",
];

/// Keys that had other names before the first release: the old name and the current one.
const RENAMED: [(&str, &str); 10] = [
    ("missing", "on_missing"),
    ("leaving", "oldest_bucket"),
    ("hash", "hash_by"),
    ("max_held", "max_delayed"),
    ("max_held_bytes", "max_buffered_bytes"),
    ("nodes_min", "min_nodes"),
    ("memory_max", "max_memory"),
    ("cost_min", "min_cost"),
    ("cost_max", "max_cost"),
    ("reserve_body_max", "max_reserve_body"),
];
