//! Merges several files into one: places are counted on from each file to the next, and keys and tables are joined.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::syntax;
use crate::config::file::UnreadParts;
use crate::config::report::{IncludedFile, Place, Report};
use crate::config::secrets::redacted;

/// Returns the text of the file and of those that it includes, with each byte at its place.
pub(super) fn text<'t>(main: &'t str, included: &[IncludedFile]) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(main);
    for file in included {
        let text = text.to_mut();
        text.push('\n');
        text.push_str(&file.text);
    }
    text
}

/// The part of an included file that parses, and the offset at which the file begins.
pub(super) struct ParsedPart<'t> {
    sound: Cow<'t, str>,
    start: usize,
}

/// Returns the part of each file that parses; reports the rest.
pub(super) fn parts<'t>(
    included: &'t [IncludedFile],
    report: &mut Report,
    lost: &mut UnreadParts,
) -> Vec<ParsedPart<'t>> {
    let parts = included.iter().map(|IncludedFile { text, start, .. }| {
        let mut of_part = Report::default();
        let (sound, lost_of_part) = syntax::sound_part(text, &mut of_part);
        report.absorb_part(of_part, *start);
        lost.headers.extend(lost_of_part.headers);
        let unreadable_headers = lost_of_part.unreadable_headers.into_iter();
        lost.unreadable_headers
            .extend(unreadable_headers.map(|span| moved(span, *start)));
        ParsedPart {
            sound,
            start: *start,
        }
    });
    parts.collect()
}

/// Adds the keys and tables of `parts` to those of the file that includes them; reports those that exist already.
pub(super) fn merged<'t>(
    main: DeTable<'t>,
    parts: &'t [ParsedPart<'t>],
    report: &mut Report,
) -> DeTable<'t> {
    let mut all = main;
    for ParsedPart { sound, start } in parts {
        let (part, _) = DeTable::parse_recoverable(sound);
        for (key, value) in moved_table(part.into_inner(), *start) {
            if key.get_ref() == "include" {
                let message = "an included file cannot include others";
                (report.mistake(&key.span(), message, "")).hint("name them in the first file");
                continue;
            }
            let first = all.get_key_value(&key).map(|(first, _)| first.span());
            match (first, all.get_mut(&key)) {
                (Some(first), Some(known)) => {
                    let added = (first, key.span(), value.into_inner());
                    merge(key.get_ref(), known, added, report);
                }
                _ => _ = all.insert(key, value),
            }
        }
    }
    all
}

/// Adds another file's value of a top-level key to the known one if these are routes or named tables; otherwise reports
/// that there are two.
fn merge<'t>(
    key: &str,
    known: &mut Spanned<DeValue<'t>>,
    (first, place, value): (Range<usize>, Range<usize>, DeValue<'t>),
    report: &mut Report,
) {
    match (known.get_mut(), value) {
        (DeValue::Array(list), DeValue::Array(more)) if key == "routes" => {
            for route in more {
                list.push(route);
            }
        }
        (DeValue::Table(tables), DeValue::Table(more)) if NAMED_TABLES.contains(&key) => {
            for (name, table) in more {
                match tables.get_key_value(&name) {
                    Some((first, _)) => {
                        let title = format!("[{key}.{}]", redacted(name.get_ref()));
                        twice(report, &title, first.span(), &name.span());
                    }
                    None => _ = tables.insert(name, table),
                }
            }
        }
        (_, DeValue::Table(_)) => twice(report, &format!("[{key}]"), first, &place),
        _ => twice(report, &redacted(key), first, &place),
    }
}

/// Reports that two files have the same key or table.
fn twice(report: &mut Report, what: &str, first: Range<usize>, place: &Range<usize>) {
    let expected = if what.starts_with('[') {
        "each table in one file"
    } else {
        "each key in one file"
    };
    let message = format!("`{what}` is in two files");
    report.mistake(place, message, expected).first(Place {
        file: None,
        span: first,
    });
}

fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    let entries = table.into_iter().map(|(key, value)| {
        let key = Spanned::new(moved(key.span(), by), key.into_inner());
        (key, moved_value(value, by))
    });
    entries.collect()
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = moved(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(array) => {
            let mut moved = DeArray::new();
            for item in array {
                moved.push(moved_value(item, by));
            }
            DeValue::Array(moved)
        }
        plain => plain,
    };
    Spanned::new(span, value)
}

fn moved(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

/// Keys that hold tables with names of the operator's choice, so that several files can add to them.
const NAMED_TABLES: [&str; 3] = ["listeners", "upstreams", "policies"];
