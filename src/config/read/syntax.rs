//! What is not TOML: the mistakes of a file's syntax, and the part of it that is sound.
//!
//! One slip can make a parser trip over all that follows it. So each statement that does not parse
//! is reported once, blanked out, and the rest parsed again: the next mistake found is one of its
//! own, and what stands in the rest can be judged. Places stay what they were.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use toml::de::{DeTable, Error};

use crate::config::report::{Mistake, Report};
use crate::config::value::nearest;

/// Returns `text` without the statements that do not parse, which are reported.
pub(super) fn sound_part<'t>(text: &'t str, report: &mut Report) -> Cow<'t, str> {
    let mut sound = Cow::Borrowed(text);
    for _ in 0..STATEMENTS_MAX {
        let (_, errors) = DeTable::parse_recoverable(&sound);
        // A key or a table that is there twice does not keep the rest from being read.
        let (doubled, broken): (Vec<_>, Vec<_>) =
            errors.iter().partition(|error| is_doubled(error));
        let Some(first) = broken.iter().min_by_key(|error| place(error, &sound).start) else {
            if !doubled.is_empty() {
                let first = first_lines(text);
                for error in doubled {
                    report.add(twice(text, place(error, text), &first));
                }
            }
            return sound;
        };
        report.tear();
        let (mistake, statement) = unsound(first, &sound);
        report.add(mistake);
        let mut rest = sound.into_owned();
        let blanks = blank(&rest[statement.clone()]);
        rest.replace_range(statement, &blanks);
        sound = Cow::Owned(rest);
    }
    // A file with that many slips is another kind of file: nothing in it can be judged.
    Cow::Borrowed("")
}

fn is_doubled(error: &Error) -> bool {
    error.message().starts_with("duplicate key") || error.message().starts_with("cannot extend")
}

/// A line's first byte, and its number.
type Line = (usize, usize);

/// Says where each line is written for the first time.
fn first_lines(text: &str) -> HashMap<&str, Line> {
    let mut first = HashMap::new();
    let mut start = 0;
    for (line, number) in text.split('\n').zip(1..) {
        first.entry(line.trim()).or_insert((start, number));
        start += line.len() + 1;
    }
    first
}

/// Describes a key or a table that is there already.
fn twice(text: &str, span: Range<usize>, first: &HashMap<&str, Line>) -> Mistake {
    let line = line_at(text, span.start);
    let header = text[line.clone()].trim();
    if !header.starts_with('[') {
        return Mistake::at(span.clone(), format!("`{}` is given twice", &text[span]))
            .expected("each key once in a table")
            .hint("leave one of the two out");
    }
    // The line itself may be the first that is written so: `[ a ]` after `[a]`.
    let hint = (first.get(header))
        .filter(|(start, _)| *start < line.start)
        .map(|(_, number)| format!("its first part is on line {number}; bring them together"));
    Mistake::at(span, format!("`{header}` is there already"))
        .expected("each table once")
        .maybe_hint(hint)
}

/// Describes an error, and finds the statement it spoils.
fn unsound(error: &Error, text: &str) -> (Mistake, Range<usize>) {
    let message = error.message();
    let at = place(error, text);
    if message.starts_with("invalid multi-line")
        && let Some(open) = text.rfind("\"\"\"").max(text.rfind("'''"))
    {
        let quotes = &text[open..open + 3];
        let mistake = Mistake::at(open..open + 3, "this string is not closed")
            .expected(format!("`{quotes}` after it"));
        return (mistake, statement_start(text, open)..text.len());
    }
    let line = line_at(text, at.start);
    let first = line.end - text[line.clone()].trim_start().len();
    let lead = &text[first..line.end];
    let in_list = message.contains("array elements")
        || message.contains("in array")
        || message.starts_with(UNQUOTED);
    if in_list && (is_header(lead) && at.start <= first + 2 || is_pair(lead) && at.start == first) {
        let end = text[..line.start].trim_end().len();
        let mistake = Mistake::at(end..end, "this list is not closed").expected("`]`");
        return (mistake, statement_start(text, end)..line.start);
    }
    let mistake = describe(message, text, at);
    if lead.starts_with('[') {
        // What follows would seem to belong to the table before.
        return (
            mistake,
            line.start..next_line(text, line.end, |line| line.trim_start().starts_with('[')),
        );
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
    (mistake, start..end)
}

/// Puts the parser's words into those of this gateway's other mistakes.
fn describe(message: &str, text: &str, at: Range<usize>) -> Mistake {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    match what {
        UNQUOTED | "invalid boolean" | "invalid float" | "invalid integer"
        | "invalid date-time" => no_value(text, at),
        "key with no value" => Mistake::at(at, "a key without a value").expected("`=` and a value"),
        "invalid basic string" | "invalid literal string" if at.is_empty() => {
            Mistake::at(at, "this string is not closed").expected(expected)
        }
        "unclosed table" | "unclosed array table" => {
            let spaced = text[at.start..].starts_with(' ');
            let hint =
                "a name with spaces stands in quotes: `[policies.\"per client\"]`".to_owned();
            Mistake::at(at, "this table's name is not closed")
                .expected(expected)
                .maybe_hint(spaced.then_some(hint))
        }
        "unexpected key or value" => {
            Mistake::at(at, "this line should have ended").expected("a new line")
        }
        _ => Mistake::at(at, what).expected(if expected == "nothing" { "" } else { expected }),
    }
}

/// Describes what stands where a value should.
fn no_value(text: &str, at: Range<usize>) -> Mistake {
    let ends = |c: char| c.is_whitespace() || matches!(c, '=' | '[' | '{' | ',');
    let start = text[..at.start].rfind(ends).map_or(0, |end| end + 1);
    let at = start.min(at.start)..at.end;
    let raw = text[at.clone()].trim();
    if raw.is_empty() {
        return Mistake::at(at.end..at.end, "a value is missing").expected("a value after `=`");
    }
    if raw.starts_with(['“', '”', '‘', '’', '`']) {
        return Mistake::at(at, "these are not the quotes of a string")
            .expected("a string in `\"`")
            .hint("typographic quotes and backticks do not delimit strings");
    }
    let boolean = match raw.to_lowercase().as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        other => nearest(other, ["true", "false"]),
    };
    let (expected, meant) = match boolean {
        Some(boolean) => (
            "`true`, `false`, or a string in quotes",
            Some(boolean.to_owned()),
        ),
        None if raw.contains(['"', '\\']) => ("a string in quotes", None),
        None => ("a string in quotes", Some(format!("\"{raw}\""))),
    };
    Mistake::at(at, format!("`{raw}` is not in quotes"))
        .expected(expected)
        .maybe_hint(meant.map(|meant| format!("did you mean `{meant}`?")))
}

/// Returns an error's place; what is wrong at the file's end is wrong after its last word.
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

/// Finds where the statement begins that `offset` is in: a value may span lines.
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

/// Finds the first line after `offset` that `begins` something; the end of the text if none does.
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
    let line = line.split('#').next().unwrap_or_default().trim();
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

/// Returns as many bytes of nothing in as many lines.
fn blank(text: &str) -> String {
    let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
    text.bytes().map(blank).collect()
}

const UNQUOTED: &str = "string values must be quoted";
/// Most statements that are looked past.
const STATEMENTS_MAX: usize = 64;
