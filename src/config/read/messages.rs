//! The words for keys and names that stand in the wrong place.

use std::ops::Range;

use super::source::FileSource;
use crate::config::options::TableDoc;
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::{did_you_mean, one_of};

/// Says what to do about a key that a table does not have.
pub(super) fn unknown(
    report: &mut Report,
    source: FileSource<'_>,
    about: &TableDoc,
    key: &str,
    span: Range<usize>,
) {
    let hint = renamed(about, key)
        .or_else(|| home_of(source.tables, about, key))
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

/// Says what a key is called that had another name before the first release.
fn renamed(about: &TableDoc, key: &str) -> Option<String> {
    let (_, name) = RENAMED.iter().find(|(old, _)| *old == key)?;
    let is_here = about.names().any(|known| known == *name);
    is_here.then(|| format!("it is now called `{name}`"))
}

/// Says where a key that is unknown in the table `here` would be at home.
///
/// A table within another is looked for from there only: elsewhere its keys mean something else.
fn home_of(tables: &[&'static TableDoc], here: &TableDoc, key: &str) -> Option<String> {
    let homes: Vec<_> = (tables.iter())
        .filter(|table| table.outer(tables).is_none_or(|outer| outer == here.title))
        .filter(|table| table.names().any(|known| known == key))
        .map(|table| table.title)
        .collect();
    match homes[..] {
        [] => None,
        [home] if !home.starts_with('[') => Some(format!(
            "`{key}` belongs at the top of the file, before the first table"
        )),
        _ => Some(format!("`{key}` belongs in {}", one_of(&homes))),
    }
}

/// Says that a key stands where names do: `[listeners]` for `[listeners.NAME]`.
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

/// Keys that had other names before the first release.
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
