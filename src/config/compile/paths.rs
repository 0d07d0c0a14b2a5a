//! What routes do to paths before they are forwarded.

use super::route_mistakes::{in_pattern, is_incomplete};
use crate::config::file::{ForwardPath, RawRoute, Table};
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::request::route::{PathPattern, PathTemplate};
use crate::request::stripped_prefix::StrippedPrefix;
use crate::request::target::PathChange;
use crate::snapshot::EncodedSlash;

/// Compiles `strip_prefix`, `rewrite` or `forward_path`; a route may have only one of them.
pub(super) fn path_change(
    table: &Table<RawRoute>,
    path: Option<&PathPattern>,
    report: &mut Report,
) -> PathChange {
    let stripped = strip_prefix(table, report);
    let rewritten = rewrite(table, path, report);
    let as_sent = as_sent(table, report);
    stripped.or(rewritten).or(as_sent).unwrap_or_default()
}

/// Compiles `forward_path`: a path that is forwarded as it was sent can be neither changed nor refused for its `%2F`.
fn as_sent(table: &Table<RawRoute>, report: &mut Report) -> Option<PathChange> {
    if table.value.forward_path == ForwardPath::AsMatched {
        return None;
    }
    let place = table.place("forward_path").unwrap_or(&table.span);
    if let Some(other) = ["strip_prefix", "rewrite"]
        .into_iter()
        .find(|key| table.has(key))
    {
        let message = format!("`forward_path = \"as-sent\"` does not go with `{other}`");
        (report.mistake(place, message, "one of the two")).hint(format!(
            "remove one: `{other}` forwards another path than the one that was sent"
        ));
        return None;
    }
    let is_said = table.has("encoded_slash");
    if table.value.route.encoded_slash == EncodedSlash::Reject && (is_said || !is_incomplete(table))
    {
        let message = "`forward_path = \"as-sent\"` needs `encoded_slash = \"keep\"`";
        let hint = if is_said {
            "write `encoded_slash = \"keep\"`: paths are sent with `%2F` in them, too"
        } else {
            "add `encoded_slash = \"keep\"`: the default is `\"reject\"`, and paths are sent with `%2F` in them, too"
        };
        let place = table.place("encoded_slash").unwrap_or(place);
        (report.mistake(place, message, "a route that keeps encoded slashes")).hint(hint);
    }
    Some(PathChange::AsSent)
}

/// Compiles `rewrite`, a template that may use the parameters and the final `*` of the route's path.
fn rewrite(
    table: &Table<RawRoute>,
    path: Option<&PathPattern>,
    report: &mut Report,
) -> Option<PathChange> {
    let template = table.value.rewrite.as_ref()?;
    if table.has("strip_prefix") {
        let message = "`rewrite` does not go with `strip_prefix`";
        (report.mistake(&template.span, message, "one of the two"))
            .hint("remove `strip_prefix`: `rewrite` says the whole path");
        return None;
    }
    if table.value.path_regex.is_some() {
        let message = "`rewrite` needs `path`: a regular expression has no parameters";
        (report.mistake(&template.span, message, "a route with `path`"))
            .hint("match with `{name}` and a final `*` instead of `path_regex`");
        return None;
    }
    let (text, path) = (&template.value, path?);
    let error = match PathTemplate::parse(text, path) {
        Ok(template) => return Some(PathChange::Rewrite(template)),
        Err(error) => error,
    };
    let with_slash = format!("/{text}");
    let hint = match PathTemplate::parse(&with_slash, path) {
        Ok(_) => format!("did you mean `{with_slash}`?"),
        Err(_) => error.hint.clone().unwrap_or_else(|| HINT.to_owned()),
    };
    in_pattern(template, error, report).hint(hint);
    None
}

/// Compiles `strip_prefix`, which must be whole literal segments at the beginning of the path.
fn strip_prefix(table: &Table<RawRoute>, report: &mut Report) -> Option<PathChange> {
    let prefix = table.value.strip_prefix.as_ref()?;
    let stripped = prefix.value.trim_end_matches('/');
    let path = table.value.path.as_ref().map_or("", |path| &path.value);
    let literal: Vec<&str> = (path.split('/').skip(1))
        .take_while(|segment| !segment.is_empty() && *segment != "*" && !segment.contains('{'))
        .collect();
    let segments: Vec<&str> = stripped.split('/').skip(1).collect();
    let (message, hint) = if !stripped.starts_with('/') {
        let prefix = redacted(&prefix.value);
        (
            format!("`strip_prefix` of `{prefix}` strips no segment"),
            None,
        )
    } else if table.value.path.is_none() {
        if is_incomplete(table) {
            return None;
        }
        let why = "a regular expression has no literal segments";
        (format!("`strip_prefix` needs `path`: {why}"), None)
    } else if !literal.starts_with(&segments) {
        let hint = format!("`/{}` can be stripped", literal.join("/"));
        let message = format!("the path `{path}` does not begin with `{stripped}`");
        (message, (!literal.is_empty()).then_some(hint))
    } else {
        // If this is not a path, neither is `path`, and that is reported already.
        return StrippedPrefix::new(stripped).map(|prefix| PathChange::Strip(prefix.into()));
    };
    let expected = "the literal segments that the path begins with";
    (report.mistake(&prefix.span, message, expected)).maybe_hint(hint);
    None
}

const HINT: &str =
    "`rewrite` consists of literal segments, and of the `{name}`s and the final `*` of `path`";
