//! Recognises lines in other languages than TOML; adjacent ones make a single mistake.

use std::ops::Range;

/// Adjacent lines in another language.
pub(super) struct OtherLines {
    /// Bytes of all these lines.
    pub(super) span: Range<usize>,
    /// Bytes of the first line that the report points at.
    pub(super) shown: Range<usize>,
    pub(super) message: &'static str,
    pub(super) expected: &'static str,
    pub(super) hint: Option<String>,
    /// Whether the lines may define tables.
    pub(super) may_have_tables: bool,
}

/// Syntax of a line that is not TOML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// `key: value`
    Colon,
    /// `key:`, `- item` or `---`
    Yaml,
    /// `{` at the beginning of the file, `"key": value`, `},`
    Json,
    /// `listen 80;`, `location / {`, `}`
    Braces,
    /// `bind *:80`
    Words,
    /// `; text`, `// text`
    Comment,
}

/// Returns the lines in another language that begin with the line at `offset`, or `None` if that line is not in one.
/// `redacted` is the text without its secrets.
pub(super) fn at(text: &str, redacted: &str, offset: usize) -> Option<OtherLines> {
    let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let first_line = text[start..].lines().next()?;
    let first = kind(first_line)?;
    let (mut end, mut at, mut kinds) = (start, start, Vec::new());
    for line in text[start..].split_inclusive('\n') {
        at += line.len();
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match kind(line) {
            Some(LineKind::Comment) if first != LineKind::Comment => {}
            // If the first line is a comment, it is reported alone.
            Some(kind) if kinds.is_empty() || first != LineKind::Comment => kinds.push(kind),
            _ => break,
        }
        end = at;
    }
    if first_line.trim() == "{" {
        end = text.len();
    }
    let margin = first_line.len() - first_line.trim_start().len();
    let shown = start + margin..start + first_line.trim_end().len();
    let span = start..end.max(start + first_line.len());
    let are = |kind| kinds.contains(&kind);
    let (message, expected, hint) = if first == LineKind::Comment {
        (
            "this is not a comment in TOML",
            "`#` before a comment",
            None,
        )
    } else if are(LineKind::Json) {
        (
            "this is JSON, and the file is TOML",
            LINES,
            Some(JSON.to_owned()),
        )
    } else if are(LineKind::Yaml) {
        (
            "this is YAML, and the file is TOML",
            LINES,
            Some(YAML.to_owned()),
        )
    } else if kinds.iter().all(|kind| *kind == LineKind::Colon) {
        return Some(colon(
            span,
            shown,
            &redacted[start..start + first_line.len()],
            kinds.len(),
        ));
    } else if are(LineKind::Braces) {
        let message = "this is the language of another program, and the file is TOML";
        (message, LINES, Some(JSON.to_owned()))
    } else if kinds.len() > 1 {
        ("these lines are not TOML", LINES, Some(JSON.to_owned()))
    } else {
        return None;
    };
    Some(OtherLines {
        span,
        shown,
        message,
        expected,
        hint,
        may_have_tables: first != LineKind::Comment,
    })
}

/// Describes lines that have `key: value` in place of `key = value`.
fn colon(span: Range<usize>, shown: Range<usize>, line: &str, count: usize) -> OtherLines {
    let at = line.find(':').unwrap_or_default();
    let (key, value) = (line[..at].trim(), line[at + 1..].trim());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_value = value.starts_with(['"', '\'', '[', '{'])
        || ["true", "false"].contains(&value)
        || value.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_value {
        value.to_owned()
    } else {
        format!("\"{value}\"")
    };
    let is_safe =
        key.chars().all(is_plain) && !line.contains(['~', '*']) && value.matches('"').count() <= 2;
    let more = if count > 1 {
        ", and so on the lines below"
    } else {
        ""
    };
    let at = span.start + at;
    OtherLines {
        span,
        shown: at.max(shown.start)..at + 1,
        message: "a key and its value are separated by `=`",
        expected: "`=`",
        hint: is_safe.then(|| format!("write `{key} = {value}`{more}")),
        may_have_tables: false,
    }
}

fn kind(line: &str) -> Option<LineKind> {
    let text = line.trim();
    let is_word = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.*/".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    if text.is_empty() || text.starts_with(['[', '#']) {
        return None;
    }
    if text.starts_with([';']) || text.starts_with("//") || text.starts_with("-- ") {
        return Some(LineKind::Comment);
    }
    let before_value = text.split('=').next().unwrap_or_default();
    if text == "---"
        || text.starts_with("- ")
        || (text.ends_with(':') && is_word(text.trim_end_matches(':')))
    {
        return Some(LineKind::Yaml);
    }
    if text == "{" || text == "}," || text == "]," {
        return Some(LineKind::Json);
    }
    if let Some((key, rest)) = before_value.split_once(':') {
        let is_quoted =
            key.trim().starts_with('"') && key.trim().ends_with('"') && key.trim().len() > 1;
        if is_quoted {
            return Some(LineKind::Json);
        }
        if is_word(key.trim())
            && (rest.is_empty() || rest.starts_with([' ', '\t', '"']))
            && !text.ends_with(';')
        {
            return Some(LineKind::Colon);
        }
    }
    if text == "}" || text.ends_with(';') || text.ends_with('{') || text.ends_with("; }") {
        // `key = "value";` is TOML except for its end.
        return (!before_value.contains(['"', '\'']) && !is_pair(text)).then_some(LineKind::Braces);
    }
    let mut words = text.split_whitespace();
    let is_command = words.next().is_some_and(|word| {
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c == '_' || c == '-')
    });
    (is_command && words.next().is_some() && !text.contains('=')).then_some(LineKind::Words)
}

/// Whether a line reads like `key = …`.
fn is_pair(text: &str) -> bool {
    let key = text.split_once('=').map(|(key, _)| key.trim());
    key.is_some_and(|key| !key.is_empty() && !key.contains(' '))
}

const LINES: &str = "tables such as `[listeners.public]`, and below them lines such as `address = \"127.0.0.1:8080\"`";
const YAML: &str = "a map is a table: `[upstreams.api]`; `key: value` is `key = \"value\"`; a list is `[\"a\", \"b\"]`; \
                    an item of `routes` begins with `[[routes]]`";
const JSON: &str = "an object is a table: `[upstreams.api]`; a member of it is a line `key = \"value\"`; a route begins \
                    with `[[routes]]`";
