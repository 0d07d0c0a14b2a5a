//! How other routers spell parts of a pattern. Each spelling is a mistake here, and its message says what to write.
//!
//! Taken as literal segments, they would match nothing, and requests would fall through to a broader route.

/// Returns what is wrong with a segment that means more than its characters to another router, and
/// how to write that here.
pub(super) fn of_segment(segment: &str) -> Option<(&'static str, String)> {
    if let Some(name) = segment.strip_prefix(':') {
        let hint = parameter(name);
        let hint = format!("{hint} A segment that begins with a colon is written `%3A…`");
        return Some(("a parameter is not written with a colon", hint));
    }
    let between = |open, close| segment.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = between('<', '>') {
        let name = inner.rsplit_once(':').map_or(inner, |(_, name)| name);
        let is_rest = inner.starts_with("path:") || inner.ends_with("..");
        let hint = if is_rest {
            REST.to_owned()
        } else {
            parameter(name)
        };
        let hint = format!("{hint} A literal `<` is written `%3C`");
        return Some(("a parameter is not written in `<>`", hint));
    }
    if let Some(inner) = between('[', ']').filter(|inner| is_word(inner.trim_start_matches('.'))) {
        let is_rest = inner.starts_with("...");
        let hint = if is_rest {
            REST.to_owned()
        } else {
            parameter(inner)
        };
        return Some(("a parameter is not written in `[]`", hint));
    }
    if let Some(inner) = between('{', '}') {
        return (!is_param_name(inner)).then(|| (NO_NAME, in_braces(inner)));
    }
    if is_expression(segment) {
        let message = "a regular expression is no segment of `path`";
        return Some((
            message,
            "did you mean `path_regex` instead of `path`?".to_owned(),
        ));
    }
    let star = segment.find('*')?;
    let hint = match (&segment[..star], segment[star..].trim_start_matches('*')) {
        ("", rest) if rest.is_empty() || is_word(rest) => REST.to_owned(),
        ("", end) => format!("for every path that ends with `{end}`: `path_regex`"),
        (start, "") => {
            format!(
                "did you mean `/{start}/*`? To match every path that begins like this, use `path_regex`"
            )
        }
        _ => return None,
    };
    Some(("`*` can only stand for all that follows a slash", hint))
}

/// Returns what is wrong with a segment of a template that another router would fill in, and how to write it here.
pub(super) fn of_template(segment: &str) -> Option<(&'static str, String)> {
    let is_filled = |at: usize, mark: char| {
        let name = &segment[at + mark.len_utf8()..];
        let is_variable = || VARIABLES.iter().any(|known| name.starts_with(known));
        name.starts_with(|c: char| c.is_ascii_digit()) || (mark == '$' && is_variable())
    };
    let mut marks = segment.match_indices(['$', '\\']);
    let is_capture = |(at, mark): (usize, &str)| mark.chars().any(|mark| is_filled(at, mark));
    if marks.any(is_capture) {
        let hint =
            "write the `{name}`s and the final `*` of `path`; a literal `$` is written `%24`";
        return Some((
            "`rewrite` has no variables and no captures",
            hint.to_owned(),
        ));
    }
    let is_parameter = segment.starts_with([':', '<', '[']) || segment.contains('*');
    (is_parameter && segment != "*")
        .then(|| of_segment(segment))
        .flatten()
}

/// Returns how to write a path that does not begin with a slash.
pub(super) fn of_path(text: &str) -> Option<String> {
    let quoted = |text: &str| -> Option<String> {
        let inner = text
            .split(['`', '"', '\'', '(', ')'])
            .find(|part| part.starts_with('/'))?;
        Some(inner.trim_end_matches('/').to_owned())
    };
    let (word, rest) = text.split_once([' ', '(']).unwrap_or((text, ""));
    Some(match word {
        "*" | "**" | "" => "did you mean `/*`?".to_owned(),
        "PathPrefix" => format!("did you mean `{}/*`?", quoted(rest)?),
        "Path" => format!("did you mean `{}`?", quoted(rest)?),
        "path_beg" | "path_dir" => {
            format!("did you mean `{}/*`?", rest.trim().trim_end_matches('/'))
        }
        "Host" => "the route's host is its `host`, its path is its `path`".to_owned(),
        "PathRegexp" | "path_reg" => EXPRESSION.to_owned(),
        "=" => format!(
            "did you mean `{}`? A path without `*` is exact",
            rest.trim()
        ),
        "^~" => format!("did you mean `{}/*`?", rest.trim().trim_end_matches('/')),
        _ if word.starts_with(['^', '~']) || is_expression(text) => EXPRESSION.to_owned(),
        _ if text.contains("://") => {
            "scheme and host are no part of `path`: a route's host is its `host`".to_owned()
        }
        _ if text.starts_with('*') => {
            "to match every path that ends like this, use `path_regex`".to_owned()
        }
        _ if text.contains([' ', '(', '`']) => return None,
        _ => format!("did you mean `/{text}`?"),
    })
}

/// Returns what to write for a text in braces that is not a parameter's name.
fn in_braces(inner: &str) -> String {
    let (name, rest) = inner.split_once([':', '=']).unwrap_or((inner, ""));
    let is_rest =
        name.starts_with('*') || inner.ends_with("..") || [".*", ".+", "**"].contains(&rest);
    match rest {
        _ if is_rest => REST.to_owned(),
        "" => parameter(name),
        _ => format!(
            "{} For a condition on it write `path_regex`",
            parameter(name)
        ),
    }
}

/// Suggests a parameter with as much of this name as is valid.
fn parameter(name: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '_');
    let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
    let name = name[..end].replace('-', "_");
    let name = if is_param_name(&name) { &name } else { "name" };
    format!("did you mean `{{{name}}}`?")
}

/// Whether a parameter of a pattern may have this name.
pub(super) fn is_param_name(name: &str) -> bool {
    let is_name = name.bytes().enumerate().all(|(index, byte)| {
        byte.is_ascii_alphabetic() || byte == b'_' || (index > 0 && byte.is_ascii_digit())
    });
    is_name && !name.is_empty()
}

fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_part)
}

/// Whether a text has characters that only expressions have. Paths may have parentheses, dollars and dots, too.
fn is_expression(text: &str) -> bool {
    let marks = [
        ".*", ".+", "(?", "[^", "[a-", "[A-", "[0-", "]+", "]*", "]{", ")+", ")*", ")?", "\\d",
        "\\w", "\\.", "\\s", "\\/",
    ];
    let is_choice = || text.contains('(') && text.contains('|');
    marks.iter().any(|mark| text.contains(mark))
        || text.starts_with('^')
        || (text.ends_with('$') && text.len() > 1)
        || is_choice()
}

pub(super) const NO_NAME: &str = "this is not a parameter's name";
const REST: &str =
    "did you mean a last segment `*`? It stands for the rest of the path, however long.";
const EXPRESSION: &str =
    "did you mean `path_regex` instead of `path`? It always matches the whole path";
/// Variables that nginx and Caddy fill in.
const VARIABLES: [&str; 8] = [
    "uri",
    "request_uri",
    "document_uri",
    "args",
    "is_args",
    "query_string",
    "host",
    "request_filename",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_another_router_says_what_to_write() {
        for (segment, hint) in [
            (":id", "did you mean `{id}`?"),
            (":user-id", "did you mean `{user_id}`?"),
            (":id(\\d+)", "did you mean `{id}`?"),
            (":", "did you mean `{name}`?"),
            ("<id>", "did you mean `{id}`?"),
            ("<int:id>", "did you mean `{id}`?"),
            ("<path:file>", REST),
            ("<file..>", REST),
            ("[slug]", "did you mean `{slug}`?"),
            ("[...slug]", REST),
            ("{id?}", "did you mean `{id}`?"),
            ("{user-id}", "did you mean `{user_id}`?"),
            ("{id:[0-9]+}", "did you mean `{id}`? For a condition"),
            ("{path:.*}", REST),
            ("{*path}", REST),
            ("{path...}", REST),
            ("{name=**}", REST),
            ("**", REST),
            ("*path", REST),
            ("*.php", "for every path that ends with `.php`"),
            ("api*", "did you mean `/api/*`?"),
            ("(.*)", "did you mean `path_regex`"),
            ("[0-9]+", "did you mean `path_regex`"),
            ("(a|b)", "did you mean `path_regex`"),
            ("users$", "did you mean `path_regex`"),
        ] {
            let (_, said) = of_segment(segment).expect(segment);
            assert!(said.starts_with(hint), "{segment}: {said}");
        }
    }

    #[test]
    fn what_paths_have_is_no_other_routers() {
        for segment in [
            "messages:send",
            "Products(1)",
            "$metadata",
            "a.b",
            "a,b",
            "~user",
            "@me",
            "a+b",
            "$",
            "{id}",
            "c++",
            "%3Aid",
            "[",
            "matrix;a=1",
        ] {
            assert_eq!(of_segment(segment), None, "{segment}");
            assert_eq!(of_template(segment), None, "{segment}");
        }
    }

    #[test]
    fn a_path_without_its_slash_says_what_to_write() {
        for (path, hint) in [
            ("*", "did you mean `/*`?"),
            ("v1/*", "did you mean `/v1/*`?"),
            ("^/v1/.*$", EXPRESSION),
            ("~* ^/api", EXPRESSION),
            ("~/users/\\d+$", EXPRESSION),
            (
                "= /exact",
                "did you mean `/exact`? A path without `*` is exact",
            ),
            ("^~ /static/", "did you mean `/static/*`?"),
            ("path_beg /api", "did you mean `/api/*`?"),
            ("PathPrefix(`/api`)", "did you mean `/api/*`?"),
            ("Path(`/api`)", "did you mean `/api`?"),
        ] {
            assert_eq!(of_path(path).as_deref(), Some(hint), "{path}");
        }
    }

    #[test]
    fn a_template_has_no_variables() {
        for segment in [
            "$1",
            "v2$1",
            "\\1",
            "$uri",
            "$request_uri",
            ":id",
            "<id>",
            "*path",
        ] {
            assert!(of_template(segment).is_some(), "{segment}");
        }
    }
}
