//! Finds the mistakes in a file's syntax, and the part of the file that is valid TOML.
//!
//! One slip can make a parser stumble over everything after it. So each statement that does not parse is reported once
//! and blanked out, and the rest is parsed again: the next mistake found is a separate one, and the rest of the file
//! can be checked. Places do not change.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::HashMap;
use std::ops::Range;

use toml::de::{DeTable, Error};

use super::other_languages;
use crate::config::file::UnreadParts;
use crate::config::options::TOP;
use crate::config::report::Report;
use crate::config::secrets::{is_lead, overwritten};
use crate::config::value::nearest;

/// Returns `text` with blanks for the statements that do not parse, and the parts of the file that are lost with them.
/// Reports these statements.
pub(super) fn sound_part<'t>(text: &'t str, report: &mut Report) -> (Cow<'t, str>, UnreadParts) {
    let (mut sound, mut lost) = (Cow::Borrowed(text), UnreadParts::default());
    let redacted = LazyCell::new(|| overwritten(text));
    for _ in 0..STATEMENTS_MAX {
        let (_, errors) = DeTable::parse_recoverable(&sound);
        // A duplicate key or table does not keep the rest from being read.
        let (doubled, broken): (Vec<_>, Vec<_>) =
            errors.iter().partition(|error| is_doubled(error));
        let Some(first) = broken.iter().min_by_key(|error| place(error, &sound).start) else {
            if !doubled.is_empty() {
                let first = first_lines(&redacted);
                for error in doubled {
                    twice(report, &redacted, place(error, text), &first);
                }
            }
            return (sound, lost);
        };
        let statement = match other_languages::at(&sound, &redacted, place(first, &sound).start) {
            Some(lines) => {
                (report.mistake(&lines.shown, lines.message, lines.expected))
                    .maybe_hint(lines.hint);
                if lines.may_have_tables {
                    lost.headers.extend(NAMED);
                }
                lines.span
            }
            None => unsound(report, first, &sound, &redacted),
        };
        lose(&sound, &statement, &mut lost);
        let mut rest = sound.into_owned();
        let blanks = blank(&rest[statement.clone()]);
        rest.replace_range(statement, &blanks);
        sound = Cow::Owned(rest);
    }
    // A file with this many mistakes is probably not meant as TOML, so nothing in it is checked.
    lost.headers.extend(NAMED);
    (Cow::Borrowed(""), lost)
}

/// Notes what is lost with a statement: the tables whose headers are in it, and a part of the table that it belongs to.
fn lose(text: &str, statement: &Range<usize>, lost: &mut UnreadParts) {
    let mut above = text[..statement.start].split_inclusive('\n').rev();
    let mut start = statement.start;
    let header = above.find(|line| {
        start -= line.len();
        is_header(line)
    });
    for (at, line) in text[statement.clone()].lines().enumerate() {
        let is_key = at == 0 && header.is_none();
        let line = line.trim_start_matches(is_lead);
        if !is_key && !line.starts_with('[') {
            continue;
        }
        let name = line.trim_start_matches(['[', ' ', '\t', '"', '\'']);
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
        match nearest(name, NAMED) {
            Some(kind) => _ = lost.headers.insert(kind),
            // The table may be of any kind.
            None if !is_key && !TOP.about.names().any(|known| known == name) => {
                lost.headers.extend(NAMED);
            }
            None => {}
        }
    }
    if let Some(header) = header {
        lost.unreadable_headers.push(start..start + header.len());
    }
}

fn is_doubled(error: &Error) -> bool {
    error.message().starts_with("duplicate key") || error.message().starts_with("cannot extend")
}

/// Offset of a line's first byte, and the line's number.
type SourceLine = (usize, usize);

/// Returns where each line of the text occurs first.
fn first_lines(text: &str) -> HashMap<&str, SourceLine> {
    let mut first = HashMap::new();
    let mut start = 0;
    for (line, number) in text.split('\n').zip(1..) {
        first.entry(line.trim()).or_insert((start, number));
        start += line.len() + 1;
    }
    first
}

/// Reports a key or a table that already exists.
fn twice(report: &mut Report, text: &str, span: Range<usize>, first: &HashMap<&str, SourceLine>) {
    let line = line_at(text, span.start);
    let header = text[line.clone()].trim();
    if !header.starts_with('[') {
        let message = format!("`{}` is given twice", &text[span.clone()]);
        (report.mistake(&span, message, "each key once in a table"))
            .hint("leave one of the two out");
        return;
    }
    // This line itself may be the first with this spelling: `[ a ]` after `[a]`.
    let hint = (first.get(header))
        .filter(|(start, _)| *start < line.start)
        .map(|(_, number)| format!("it begins on line {number}: move these keys there"));
    let message = format!("`{header}` already exists");
    (report.mistake(&span, message, "each table once")).maybe_hint(hint);
}

/// Reports an error, and returns the statement that it spoils.
fn unsound(report: &mut Report, error: &Error, text: &str, redacted: &str) -> Range<usize> {
    let message = error.message();
    let at = place(error, text);
    if message.starts_with("invalid multi-line")
        && let Some(open) = text.rfind("\"\"\"").max(text.rfind("'''"))
    {
        let expected = format!("`{}` after it", &text[open..open + 3]);
        report.mistake(&(open..open + 3), "this string is not closed", expected);
        return statement_start(text, open)..text.len();
    }
    let line = line_at(text, at.start);
    let first = line.end - text[line.clone()].trim_start_matches(is_lead).len();
    let lead = &text[first..line.end];
    let in_list = message.contains("array elements")
        || message.contains("in array")
        || message.starts_with(UNQUOTED);
    if in_list && (is_header(lead) && at.start <= first + 2 || is_pair(lead) && at.start == first) {
        let end = text[..line.start].trim_end().len();
        report.mistake(&(end..end), "this list is not closed", "`]`");
        return statement_start(text, end)..line.start;
    }
    describe(report, message, redacted, at);
    if lead.starts_with('[') {
        // The lines below a broken header would otherwise belong to the table above.
        return line.start..next_line(text, line.end, |line| line.trim_start().starts_with('['));
    }
    let start = if message.starts_with("key with no value") {
        line.start
    } else {
        statement_start(text, line.start)
    };
    let depth = |open, close| {
        let so_far = &text[start..line.end];
        so_far.matches(open).count() > so_far.matches(close).count()
    };
    let end = if depth('[', ']') || depth('{', '}') {
        next_line(text, line.end, |line| is_header(line) || is_pair(line))
    } else {
        line.end
    };
    start..end
}

/// Reports an error of the parser in the words of this gateway's other mistakes.
fn describe(report: &mut Report, message: &str, text: &str, at: Range<usize>) {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let (message, expected, hint) = match what {
        UNQUOTED | "invalid boolean" | "invalid float" | "invalid integer"
        | "invalid date-time" => return no_value(report, text, at),
        "invalid basic string" | "invalid literal string" if at.is_empty() => {
            ("this string is not closed", expected, None)
        }
        "unclosed table" | "unclosed array table" => {
            let hint = "a name with spaces must be in quotes: `[policies.\"per client\"]`";
            let spaced = text[at.start..].starts_with(' ');
            let hint = spaced.then(|| hint.to_owned());
            ("this table's name is not closed", expected, hint)
        }
        "unexpected key or value" => {
            let mut rest = text[at.start..].lines().next().unwrap_or_default().chars();
            let hint = match (rest.next(), rest.next()) {
                (Some(';' | ','), None) => Some("leave the last character out".to_owned()),
                (Some(','), Some('0'..='9')) => Some("a number has no commas: `1_000`".to_owned()),
                _ => None,
            };
            (
                "unexpected text before the end of the line",
                "a new line",
                hint,
            )
        }
        "invalid unquoted key" | "key with no value"
            if let Some(key) = unquoted_key(text, at.start) =>
        {
            return no_key(report, text, key);
        }
        "key with no value" => ("a key without a value", "`=` and a value", None),
        _ => (what, expected.trim_start_matches("nothing"), None),
    };
    (report.mistake(&at, message, expected)).maybe_hint(hint);
}

/// Returns the place of the key that a mistake at `offset` is in.
fn unquoted_key(text: &str, offset: usize) -> Option<Range<usize>> {
    let line = line_at(text, offset);
    let key = text[line.clone()].split_once('=')?.0;
    let start = line.start + key.len() - key.trim_start().len();
    let end = line.start + key.trim_end().len();
    (start < end && offset < end).then_some(start..end)
}

/// Reports a key that is not in quotes but must be, or that follows a keyword of a shell.
fn no_key(report: &mut Report, text: &str, key: Range<usize>) {
    let raw = &text[key.clone()];
    let shell = ["export ", "set ", "let ", "local "]
        .iter()
        .find(|word| raw.starts_with(**word));
    let (message, hint) = match shell {
        Some(word) => (
            format!("`{}` cannot be part of a key", word.trim()),
            Some(format!("leave `{word}` out")),
        ),
        None if raw.contains(['"', '\'', '~', '{', '[']) => {
            ("this key is not in quotes".to_owned(), None)
        }
        None => (
            format!("the key `{raw}` is not in quotes"),
            Some(format!("write `\"{raw}\" = …`")),
        ),
    };
    let expected = "a key of letters, digits, `-` and `_`, or one in quotes";
    (report.mistake(&key, message, expected)).maybe_hint(hint);
}

/// Reports a missing value, or text that is not a value.
fn no_value(report: &mut Report, text: &str, at: Range<usize>) {
    let ends = |c: char| c.is_whitespace() || matches!(c, '=' | '[' | '{' | ',');
    let start = text[..at.start].rfind(ends).map_or(0, |end| end + 1);
    let at = start.min(at.start)..at.end;
    let raw = text[at.clone()].trim();
    let (unquoted, string) = (format!("`{raw}` is not in quotes"), "a string in quotes");
    let hint = |hint: &str| Some(hint.to_owned());
    let (message, expected, hint) = match raw {
        "" => ("a value is missing", "a value after `=`", None),
        // Asterisks may hide a secret.
        _ if raw.contains('*') => ("this value is not in quotes", string, None),
        _ if raw.starts_with(['“', '”', '‘', '’', '`']) => (
            "these quotes do not delimit a string",
            "a string in `\"`",
            hint("typographic quotes and backticks do not delimit strings"),
        ),
        _ => match boolean(raw) {
            Some(boolean) => {
                let hint = hint(&format!("did you mean `{boolean}`?"));
                (&*unquoted, "`true`, `false`, or a string in quotes", hint)
            }
            None if raw.contains(['"', '\\']) => (&*unquoted, string, None),
            None if matches!(raw, "~" | "null" | "nil" | "none" | "None" | "undefined") => {
                let leave = hint("leave the line out: each key has a default");
                (&*unquoted, string, leave)
            }
            None if raw.starts_with('$') && !raw.contains(['{', '(']) => {
                let variable = hint(&format!("did you mean `\"${{{}}}\"`?", &raw[1..]));
                (&*unquoted, string, variable)
            }
            None => (
                &*unquoted,
                string,
                hint(&format!("did you mean `\"{raw}\"`?")),
            ),
        },
    };
    let at = if raw.is_empty() { at.end..at.end } else { at };
    (report.mistake(&at, message, expected)).maybe_hint(hint);
}

/// Returns the boolean that a word may mean.
fn boolean(word: &str) -> Option<&'static str> {
    match word.to_lowercase().as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        other => nearest(other, ["true", "false"]),
    }
}

/// Returns the place of an error; one at the file's end is placed after the last word.
fn place(error: &Error, text: &str) -> Range<usize> {
    let end = text.trim_end().len();
    let span = error.span().unwrap_or(end..end);
    let start = text.floor_char_boundary(span.start.min(end));
    start..text.floor_char_boundary(span.end.min(end)).max(start)
}

fn line_at(text: &str, offset: usize) -> Range<usize> {
    let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[offset..]
        .find('\n')
        .map_or(text.len(), |newline| offset + newline);
    start..end
}

/// Returns the start of the statement that `offset` is in, whose value may span lines.
fn statement_start(text: &str, offset: usize) -> usize {
    let mut line = line_at(text, offset);
    loop {
        let lead = &text[line.clone()];
        if line.start == 0 || is_header(lead) || is_pair(lead) {
            return line.start;
        }
        line = line_at(text, line.start - 1);
    }
}

/// Returns the start of the first line after `offset` for which `begins` holds, or the end of the text.
fn next_line(text: &str, offset: usize, begins: impl Fn(&str) -> bool) -> usize {
    let mut start = offset;
    while let Some(newline) = text[start..].find('\n') {
        start += newline + 1;
        if begins(&text[line_at(text, start)]) {
            return start;
        }
    }
    text.len()
}

/// Whether a line reads like `[table]`.
fn is_header(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default();
    let line = line.trim_start_matches(is_lead).trim_end();
    let name = line.trim_start_matches('[').trim_start();
    line.starts_with('[')
        && line.ends_with(']')
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether a line reads like `key = …`.
fn is_pair(line: &str) -> bool {
    let key = line.split_once('=').map(|(key, _)| key.trim());
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    key.is_some_and(|key| !key.is_empty() && key.chars().all(part))
}

/// Returns blanks of as many bytes and lines as the text has.
fn blank(text: &str) -> String {
    let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
    text.bytes().map(blank).collect()
}

const UNQUOTED: &str = "string values must be quoted";
/// Most broken statements that are blanked out before the file is given up.
const STATEMENTS_MAX: usize = 64;

/// Kinds of tables of which a file may have any number, or that other tables may need.
pub(super) const NAMED: [&str; 5] = ["listeners", "upstreams", "policies", "routes", "jwt"];
