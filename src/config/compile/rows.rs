//! The rows of a file of overrides: CSV (RFC 4180), each field with its place.
//!
//! A row is a pattern, then its quotas. Space around a field is not part of it, unless it is within quotes. Empty
//! lines, lines that begin with `#`, empty fields at the end of a row and a first row `pattern,quota` are
//! ignored; a first row `pattern,quota,anchor_day` says that the third field is the client's own day.

use std::borrow::Cow;
use std::ops::Range;

use crate::config::report::Report;

/// The content of a file of overrides.
#[derive(Debug, Default)]
pub(super) struct Rows<'t> {
    pub(super) read: Vec<Row<'t>>,
    /// Whether the title names a column of days.
    pub(super) has_days: bool,
    /// Places of the rows that cannot be read, or have no quota.
    pub(super) unread: Vec<Range<usize>>,
}

/// A row: which clients, and what they may do.
#[derive(Debug, PartialEq)]
pub(super) struct Row<'t> {
    pub(super) pattern: CsvField<'t>,
    /// The quotas, at least one.
    pub(super) grant: Vec<CsvField<'t>>,
    /// The client's own day, in a file with such a column.
    pub(super) day: Option<CsvField<'t>>,
    /// The row as written, from the end of the pattern to the end of the last quota.
    pub(super) spelled: &'t str,
}

/// A field, and its place, which includes its quotes.
#[derive(Debug, PartialEq)]
pub(super) struct CsvField<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) place: Range<usize>,
}

/// Reads the rows of a file, and reports those that cannot be read.
pub(super) fn rows<'t>(text: &'t str, report: &mut Report) -> Rows<'t> {
    let (mut found, mut at, mut is_first) = (Rows::default(), 0, true);
    while at < text.len() {
        let start = at;
        let line_end = end_of_line(text, start);
        let line = text[start..line_end].trim();
        if line.is_empty() || line.starts_with('#') {
            at = line_end + 1;
            continue;
        }
        let unread = start..start + text[start..line_end].trim_end().len();
        let is_title = std::mem::take(&mut is_first);
        match fields(text, start) {
            Ok((fields, end)) => {
                at = end + 1;
                if is_title && let Some(title) = Title::of(&fields) {
                    found.has_days = title == Title::WithDays;
                    continue;
                }
                if let Some(row) = row(text, fields, found.has_days) {
                    found.read.push(row);
                    continue;
                }
                let hint = line
                    .contains([';', '\t'])
                    .then(|| "commas separate fields".to_owned());
                (report.mistake(
                    &unread,
                    "this row has no quota",
                    "a pattern, a comma and a quota",
                ))
                .maybe_hint(hint);
                found.unread.push(unread);
            }
            Err((place, message, expected)) => {
                at = line_end + 1;
                report.mistake(&place, message, expected);
                found.unread.push(unread);
            }
        }
    }
    found
}

/// Whether the title of a file names a column of days.
pub(super) fn has_days(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !(line.is_empty() || line.starts_with('#')));
    let title = lines.next().and_then(|line| fields(line, 0).ok());
    title.is_some_and(|(fields, _)| Title::of(&fields) == Some(Title::WithDays))
}

/// The columns that the first row names, if it is a title and not the row of a client.
#[derive(PartialEq)]
enum Title {
    Plain,
    WithDays,
}

impl Title {
    fn of(fields: &[CsvField<'_>]) -> Option<Self> {
        let is = |field: &CsvField<'_>, title| field.text.eq_ignore_ascii_case(title);
        let used = fields.iter().rposition(|field| !field.text.is_empty())?;
        match &fields[..=used] {
            [pattern, quota] if is(pattern, "pattern") && is(quota, "quota") => Some(Self::Plain),
            [pattern, quota, day]
                if is(pattern, "pattern") && is(quota, "quota") && is(day, "anchor_day") =>
            {
                Some(Self::WithDays)
            }
            _ => None,
        }
    }
}

/// Makes a row of its fields, the third of which is a day if the file has days; `None` if it has no quota.
fn row<'t>(text: &'t str, mut fields: Vec<CsvField<'t>>, has_days: bool) -> Option<Row<'t>> {
    let day = (has_days && fields.len() > 2).then(|| fields.remove(2));
    while fields.last().is_some_and(|field| field.text.is_empty()) {
        fields.pop();
    }
    let mut fields = fields.into_iter();
    let pattern = fields.next()?;
    let grant: Vec<CsvField<'t>> = fields.collect();
    let end = grant.last()?.place.end;
    Some(Row {
        spelled: &text[pattern.place.end..end],
        pattern,
        grant,
        day,
    })
}

/// Why a row cannot be read: where, what is wrong there, and what was expected.
type UnreadableRow = (Range<usize>, &'static str, &'static str);

/// Reads the row that begins at `at`; returns its fields, and where it ends.
fn fields(text: &str, mut at: usize) -> Result<(Vec<CsvField<'_>>, usize), UnreadableRow> {
    let mut fields = Vec::new();
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
        let (field, end) = if text[at..].starts_with('"') {
            quoted(text, at)?
        } else {
            let len = text[at..].find([',', '\n']).unwrap_or(text.len() - at);
            let field = text[at..at + len].trim_end();
            let place = at..at + field.len();
            let text = Cow::Borrowed(field);
            (CsvField { text, place }, at + len)
        };
        fields.push(field);
        if !text[end..].starts_with(',') {
            return Ok((fields, end));
        }
        at = end + 1;
    }
}

/// Reads a field in quotes; returns it, and where it is followed by a comma or the end of the row.
fn quoted(text: &str, start: usize) -> Result<(CsvField<'_>, usize), UnreadableRow> {
    let (inner, mut is_plain) = (start + 1, true);
    let mut from = inner;
    let close = loop {
        let Some(quote) = text[from..].find('"').map(|len| from + len) else {
            return Err((start..inner, "this field is not closed", "`\"` at its end"));
        };
        if !text[quote + 1..].starts_with('"') {
            break quote;
        }
        is_plain = false;
        from = quote + 2;
    };
    let after = &text[close + 1..];
    let rest = after.trim_start_matches([' ', '\t', '\r']);
    let end = close + 1 + after.len() - rest.len();
    if !(rest.is_empty() || rest.starts_with([',', '\n'])) {
        if text[start..end].contains('\n') {
            return Err((start..inner, "this field is not closed", "`\"` at its end"));
        }
        let place = end..end + rest.chars().next().map_or(0, char::len_utf8);
        return Err((
            place,
            "there is text after the end of the field",
            "a comma, or the end of the row",
        ));
    }
    let written = &text[inner..close];
    let field = CsvField {
        text: if is_plain {
            Cow::Borrowed(written)
        } else {
            Cow::Owned(written.replace("\"\"", "\""))
        },
        place: start..close + 1,
    };
    Ok((field, end))
}

fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |len| at + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_fields_between_commas() {
        for (text, expected) in [
            ("a,b", &[&["a", "b"][..]][..]),
            ("Pattern, Quota\r\n a b , c ,\r\n", &[&["a b", "c"]]),
            ("a,b\npattern,quota", &[&["a", "b"], &["pattern", "quota"]]),
            (
                "# x,y\n\n  \n\"a,\"\"\n\" , \"b \",c,,",
                &[&["a,\"\n", "b ", "c"]],
            ),
            ("a\"b,c", &[&["a\"b", "c"]]),
            ("a,,b", &[&["a", "", "b"]]),
            ("é,ß\n", &[&["é", "ß"]]),
        ] {
            let mut report = Report::default();
            let rows = rows(text, &mut report);
            let texts = rows.read.iter().map(|row| {
                let fields = [&row.pattern].into_iter().chain(&row.grant);
                fields.map(|field| &*field.text).collect::<Vec<_>>()
            });
            assert_eq!(texts.collect::<Vec<_>>(), expected, "{text}");
            assert!(report.is_empty(), "{text}");
        }
    }

    #[test]
    fn fields_are_where_they_are_written() {
        let text = " a , \"b\"\n";
        let rows = rows(text, &mut Report::default()).read;
        let places = [&rows[0].pattern, &rows[0].grant[0]].map(|field| &text[field.place.clone()]);
        assert_eq!(places, ["a", "\"b\""]);
        assert_eq!(rows[0].spelled, " , \"b\"");
    }
}
